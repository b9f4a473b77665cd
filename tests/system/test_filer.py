# SPDX-License-Identifier: Apache-2.0
"""nfsrdma-filer with a directory of the host: the command, the tests of other modules against it, and files that nobody may reach."""

import fcntl
import filecmp
import os
import re
import signal
import subprocess
import sys
import time
import unittest

import test_files
import test_locks
import test_names
import test_posix
import test_random
import test_restart
import test_work
from harness import acl, nfs41, steward
from harness.case import HOME, SystemCase, needs_mount, needs_root, needs_user
from harness.filer import PROGRAM, Filer

# nfs41.py has names for the status codes of other tests; these are numbers from RFC 8881 section 15.1.
NOTDIR, SYMLINK, NO_NAME = "20", "10029", ("10040", "10041")  # BADCHAR, BADNAME


class OnFiler:
    """Runs the tests of the other base class with the filer as the server."""

    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name=f"filer.{cls.__name__}", **{k: v for k, v in cls.SERVER.items() if k in ("lease", "grace")}).start()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"


class Git(OnFiler, test_work.Git):
    pass


class Tar(OnFiler, test_work.Tar):
    pass


class Sqlite(OnFiler, test_work.Sqlite):
    pass


class Files(OnFiler, test_files.Files):
    if os.getuid() != 0:  # as in Posix below
        MODES = (0o000, 0o400, 0o644, 0o755, 0o1777)


class Names(OnFiler, test_names.Names):
    pass


class Large(OnFiler, test_names.Large):
    pass


class Posix(OnFiler, test_posix.AnyUser):
    REFUSES_LISTS = False
    if os.getuid() != 0:  # set-ID bits are not kept where every caller is the server's user (strangers.Strangers)
        MODES = (0o777, 0o644, 0o151, 0o1777, 0)
        NEW_MODES = (0o111, 0o755, 0o1777, 0)


class PosixUsers(OnFiler, test_posix.ManyUsers):
    REFUSES_LISTS = False

    @unittest.skip("REMOVE and RENAME have no NFS4ERR_PERM (RFC 8881 section 15.2): a sticky directory is EACCES")
    def test_sticky_directories(self):
        pass


class Locks(OnFiler, test_locks.Locks):
    FAIR = False


class HandedOn(OnFiler, test_locks.HandedOn):
    pass


class Random(OnFiler, test_random.Quiet):
    SEEDS = range(1, 2)
    STEPS = test_random.scaled(10000)


class Restart(OnFiler, test_restart.Restart):
    pass


@needs_mount()
class Confined(OnFiler, SystemCase):
    """Nothing outside of the export can be reached, whatever the export contains."""

    SERVER = {}

    def client(self):
        client = nfs41.Client(self.server.port, uid=os.getuid(), gid=os.getgid())
        self.addCleanup(client.close)
        return client

    def test_symbolic_links_lead_where_the_client_is(self):
        """As always in NFS, the client follows a symbolic link. The server never does."""
        secret = os.path.join(self.server.root, "secret")
        with open(secret, "w") as file:
            file.write("secret")
        for name, target in (("absolute", secret), ("relative", "../secret"), ("directory", self.server.root)):
            os.symlink(target, os.path.join(self.server.path(), name))
        client = self.client()
        for names in (["absolute"], ["relative"]):
            with self.assertRaises(nfs41.Status) as raised:
                client.open(["export", *names])
            self.assertEqual(raised.exception.name, SYMLINK)
        with self.assertRaises(nfs41.Status) as raised:
            client.open(["export", "directory", "secret"])
        self.assertIn(raised.exception.name, (SYMLINK, NOTDIR))
        mounted = self.mount()
        self.assertEqual(os.readlink(os.path.join(mounted.path, "relative")), "../secret")

    def test_names_that_lead_out(self):
        client = self.client()
        for name in ("..", ".", "../secret", "/etc/passwd", "a/../../secret", "secret\0"):
            with self.assertRaises(nfs41.Status) as raised:
                client.open(["export", name])
            self.assertIn(raised.exception.name, NO_NAME)

    def test_the_host_and_the_mount_show_the_same(self):
        mounted = self.mount("noac")
        path = self.directory(mounted)
        host = self.on_server(path)
        with open(os.path.join(path, "a"), "w") as file:
            file.write("from the mount")
        with open(os.path.join(host, "b"), "w") as file:
            file.write("from the host")
        os.link(os.path.join(path, "a"), os.path.join(path, "c"))
        with open(os.path.join(path, "b")) as file:
            self.assertEqual(file.read(), "from the host")
        self.assertTrue(filecmp.cmp(os.path.join(host, "a"), os.path.join(path, "c"), shallow=False))
        self.assertEqual(sorted(os.listdir(host)), sorted(os.listdir(path)))
        self.assertEqual(os.stat(os.path.join(host, "a")).st_ino, os.stat(os.path.join(path, "a")).st_ino)

    @needs_user()
    def test_an_acl_of_a_file_that_is_somebody_elses(self):
        """The mode does not show all permissions, also where every caller acts as the server's user."""
        name = os.path.join(self.server.path(), "of-root")
        steward.write_file(name, "text", 0o600)
        program = "import os, sys; os.setxattr(sys.argv[1], 'system.posix_acl_access', bytes.fromhex(sys.argv[2]))"
        status, said = steward.run([sys.executable, "-c", program, name, acl.letting_in(os.getuid()).hex()], check=False)
        if status != 0:
            self.skipTest(f"the file system has no ACLs: {said}")
        mounted = self.mount()
        with open(os.path.join(mounted.path, "of-root"), "r+") as file:
            self.assertEqual(file.read(), "text")
            file.write(" and more")
        with open(name) as file:
            self.assertEqual(file.read(), "text and more")

    def test_handles_outlive_the_server(self):
        """A working directory and an open file in the mount stay usable after the server was killed and restarted."""
        path = self.directory(self.mount())
        os.makedirs(os.path.join(path, "d"))
        with open(os.path.join(path, "d", "f"), "w+") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            file.write("before ")
            file.flush()
            os.rename(os.path.join(path, "d"), os.path.join(path, "e"))
            self.server.restart()
            file.write("after")
            file.flush()
            os.fsync(file.fileno())
        with open(os.path.join(self.on_server(path), "e", "f")) as file:
            self.assertEqual(file.read(), "before after")


class Program(OnFiler, SystemCase):
    """The command itself."""

    SERVER = {}

    def refused(self, *arguments, status):
        done = subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        return done.stderr

    def test_help_and_version(self):
        self.assertIn("--rdma-versions", self.run_program(PROGRAM, "--help"))
        self.assertRegex(self.run_program(PROGRAM, "--version"), r"^nfsrdma-filer \d")

    def test_errors_say_what_is_wrong(self):
        self.assertIn("nothing is exported", self.refused(status=2))
        self.assertIn("--nonsense", self.refused("--nonsense", status=2))
        self.assertIn("/no/such", self.refused("--export", "/no/such", status=1))
        self.assertIn("ADDR:PORT", self.refused("--export", "memory", "--listen", "127.0.0.1:x", status=2))
        self.assertIn("1,2", self.refused("--export", "memory", "--rdma-versions", "3", status=2))
        self.assertIn("no action", self.refused("--export", "memory", "--fault", "reply READ: explode", status=2))
        used = self.refused("--export", "memory", "--listen", f"127.0.0.1:{self.server.port}", status=1)
        self.assertIn("in use", used)
        state = os.path.join(self.server.root, "state")
        self.assertIn("another server", self.refused("--export", "memory", "--listen", ":0", "--state-dir", state, status=1))

    def test_it_says_where_it_listens_and_ends_when_told(self):
        process = self.start_program(PROGRAM, "--export", "memory:64M", "--listen", "127.0.0.1:0", "--rdma",
                                     "127.0.0.1:0", stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        line = process.stdout.readline()
        ports = re.fullmatch(r"listening tcp 127\.0\.0\.1:(\d+) rdma 127\.0\.0\.1:(\d+)\n", line)
        self.assertIsNotNone(ports, line)
        mounted = self.mount(port=int(ports[1]), export="/memory")
        with open(os.path.join(mounted.path, "f"), "w") as file:
            file.write("x" * 100000)
        self.assertLess(os.statvfs(mounted.path).f_blocks * os.statvfs(mounted.path).f_frsize, 65 << 20)
        mounted.umount()
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(20), 0)
        process.stdout.close()

    def test_faults_from_a_file(self):
        plan = os.path.join(HOME, "plan")
        with open(plan, "w") as file:
            file.write("# the third WRITE is lost with its connection\nrequest WRITE nth 3: cut\nreply OPEN always: delay 20\n")
        filer = Filer(name="filer.faults", arguments=("--fault-plan", plan)).start()
        self.addCleanup(filer.kill)
        mounted = self.mount(port=filer.port)
        begin = time.monotonic()
        for number in range(5):
            with open(os.path.join(mounted.path, f"f{number}"), "w") as file:
                file.write(f"content {number}")
        self.assertGreater(time.monotonic() - begin, 0.1)
        for number in range(5):
            with open(os.path.join(filer.path(), f"f{number}")) as file:
                self.assertEqual(file.read(), f"content {number}")
        mounted.umount()

    def test_read_only(self):
        filer = Filer(name="filer.ro", arguments=("--read-only",))
        with open(os.path.join(filer.path(), "f"), "w") as file:
            file.write("kept")
        filer.start()
        self.addCleanup(filer.kill)
        mounted = self.mount(port=filer.port)
        with open(os.path.join(mounted.path, "f")) as file:
            self.assertEqual(file.read(), "kept")
        with self.assertRaises(OSError):
            os.mkdir(os.path.join(mounted.path, "d"))
        mounted.umount()

    @needs_root()
    def test_root_is_squashed_unless_told_otherwise(self):
        filer = Filer(name="filer.squash")
        filer.argv.remove("--no-root-squash")
        filer.start()
        self.addCleanup(filer.kill)
        mounted = self.mount(port=filer.port)
        os.mkdir(os.path.join(mounted.path, "d"))
        self.assertEqual(os.stat(os.path.join(filer.path(), "d")).st_uid, 65534)
        mounted.umount()
