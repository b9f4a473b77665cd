# SPDX-License-Identifier: Apache-2.0
"""Permissions: requests carry the caller's uid, gid and groups; the server decides."""

import os
import socket
import stat
import subprocess
import sys
import unittest

from harness import acl
from harness.case import Export, HOME, SystemCase, needs_mount, needs_root, needs_user, steward
from harness.filer import Filer

# Any IDs will do: only the numbers matter here.
ALICE, BOB = 1 << 20, (1 << 20) + 1
TEAM, OTHERS = 3_000_000, 3_000_001


def as_user(program, *args, uid=ALICE, gid=TEAM, groups=()):
    """Runs Python code as this user; returns (status, output)."""
    done = subprocess.run([sys.executable, "-c", "import os,sys\n" + program, *args], user=uid, group=gid,
                          extra_groups=list(groups), capture_output=True, text=True, timeout=60)
    return done.returncode, (done.stdout + done.stderr).strip()


@needs_mount()
@needs_root("root, who serves every user of the machine with one mount")
class ManyUsers(SystemCase):
    def setUp(self):
        super().setUp()
        os.chmod(HOME, 0o755)
        self.path = self.directory(self.mount())
        os.chmod(self.path, 0o1777)

    def test_files_belong_to_their_creator(self):
        for uid, gid in ((ALICE, TEAM), (BOB, OTHERS), (0, 0), (ALICE, OTHERS)):
            name = os.path.join(self.path, f"{uid}.{gid}")
            self.assertEqual(as_user("open(sys.argv[1],'x').write('x'); os.mkdir(sys.argv[1]+'.d'); os.symlink('t',sys.argv[1]+'.l')",
                                     name, uid=uid, gid=gid), (0, ""))
            for suffix in ("", ".d", ".l"):
                for seen in (os.lstat(name + suffix), os.lstat(self.on_server(name + suffix))):
                    self.assertEqual((seen.st_uid, seen.st_gid), (uid, gid))

    def test_the_server_refuses_by_mode(self):
        secret = os.path.join(self.path, "secret")
        as_user("fd=os.open(sys.argv[1],os.O_CREAT|os.O_WRONLY,0o640); os.write(fd,b'text')", secret)
        reads = "sys.exit(0 if open(sys.argv[1]).read()=='text' else 1)"
        self.assertEqual(as_user(reads, secret)[0], 0)
        self.assertEqual(as_user(reads, secret, uid=BOB, gid=TEAM)[0], 0)
        self.assertIn("PermissionError", as_user(reads, secret, uid=BOB, gid=OTHERS)[1])
        self.assertIn("PermissionError", as_user("open(sys.argv[1],'a')", secret, uid=BOB, gid=TEAM)[1])
        self.assertIn("PermissionError", as_user("os.chmod(sys.argv[1],0o777)", secret, uid=BOB, gid=TEAM)[1])
        self.assertIn("PermissionError", as_user("os.unlink(sys.argv[1])", secret, uid=BOB, gid=OTHERS)[1])  # sticky

    def test_a_refused_lookup_costs_the_name_until_it_is_looked_up_again(self):
        """When a lookup fails, the kernel drops the name for all users; FUSE has no other reply."""
        private = os.path.join(self.path, "private")
        here = os.path.join(private, "here")
        as_user("os.mkdir(sys.argv[1], 0o700); os.mkdir(sys.argv[2])", private, here)
        program = ("import os, sys; os.chdir(sys.argv[1]); print('there', flush=True); sys.stdin.readline()\n"
                   "try: os.getcwd()\nexcept FileNotFoundError: pass\n"
                   "os.stat(sys.argv[1]); print(os.getcwd())")
        alice = subprocess.Popen([sys.executable, "-c", program, here], user=ALICE, group=TEAM, extra_groups=[], text=True,
                                 stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.assertEqual(alice.stdout.readline(), "there\n")
        self.assertIn("PermissionError", as_user("os.stat(sys.argv[1])", here, uid=BOB, gid=OTHERS)[1])
        self.assertEqual(alice.communicate("on\n", timeout=30)[0], here + "\n")
        self.assertEqual(alice.returncode, 0)

    def test_what_one_user_has_cached_another_may_not_read(self):
        secret = os.path.join(self.path, "cached")
        as_user("fd=os.open(sys.argv[1],os.O_CREAT|os.O_WRONLY,0o600); os.write(fd,b'text'*1000)", secret)
        for _ in range(2):
            self.assertEqual(as_user("open(sys.argv[1]).read()", secret)[0], 0)
            self.assertIn("PermissionError", as_user("open(sys.argv[1]).read()", secret, uid=BOB)[1])
        closed = os.path.join(self.path, "closed")
        as_user("os.mkdir(sys.argv[1],0o700); open(sys.argv[1]+'/inside','w').write('x')", closed)
        for _ in range(2):
            self.assertEqual(as_user("os.listdir(sys.argv[1]); open(sys.argv[1]+'/inside')", closed)[0], 0)
            self.assertIn("PermissionError", as_user("os.listdir(sys.argv[1])", closed, uid=BOB)[1])
            self.assertIn("PermissionError", as_user("open(sys.argv[1]+'/inside')", closed, uid=BOB)[1])

    def test_supplementary_groups_count(self):
        shared = os.path.join(self.path, "shared")
        os.mkdir(shared)
        os.chown(shared, 0, OTHERS)
        os.chmod(shared, 0o2770)
        writes = "open(sys.argv[1]+'/by-group','w').write('x')"
        self.assertIn("PermissionError", as_user(writes, shared)[1])
        self.assertEqual(as_user(writes, shared, groups=(5_000_000, OTHERS))[0], 0)
        self.assertEqual(os.stat(self.on_server(os.path.join(shared, "by-group"))).st_gid, OTHERS)  # setgid directory
        fifteen = tuple(range(4_000_000, 4_000_014)) + (OTHERS,)  # AUTH_SYS carries 16 groups
        self.assertEqual(as_user(writes.replace("by-group", "sixteen"), shared, groups=fifteen)[0], 0)

    def test_access_is_the_servers_answer(self):
        name = os.path.join(self.path, "access")
        as_user("fd=os.open(sys.argv[1],os.O_CREAT|os.O_WRONLY,0o640)", name)
        asks = "print(*[int(os.access(sys.argv[1],m)) for m in (os.F_OK,os.R_OK,os.W_OK,os.X_OK)])"
        self.assertEqual(as_user(asks, name), (0, "1 1 1 0"))
        self.assertEqual(as_user(asks, name, uid=BOB, gid=TEAM), (0, "1 1 0 0"))
        self.assertEqual(as_user(asks, name, uid=BOB, gid=OTHERS), (0, "1 0 0 0"))

    def test_root_gives_files_away(self):
        name = os.path.join(self.path, "given")
        open(name, "w").close()
        os.chown(name, ALICE, TEAM)
        seen = os.stat(self.on_server(name))
        self.assertEqual((seen.st_uid, seen.st_gid), (ALICE, TEAM))
        self.assertIn("PermissionError", as_user("os.chown(sys.argv[1],0,0)", name)[1])
        os.chown(name, -1, OTHERS)
        self.assertEqual(os.stat(name).st_uid, ALICE)

    def test_data_of_many_users_is_written_with_their_rights(self):
        """Write-back happens after the write: each WRITE must use its writer's credential."""
        for uid in range(ALICE, ALICE + 5):
            name = os.path.join(self.path, f"mine{uid}")
            program = "fd=os.open(sys.argv[1],os.O_CREAT|os.O_RDWR,0o600); os.write(fd,b'x'*3000000); os.fsync(fd); os.close(fd)"
            self.assertEqual(as_user(program, name, uid=uid)[0], 0)
            self.assertEqual(os.stat(self.on_server(name)).st_size, 3000000)


@needs_mount()
@needs_root("root, who serves every user of the machine with one mount")
class Acls(SystemCase):
    """nfsrdma-filer obeys the host's ACLs and shows none."""

    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="filer.acls").start()

    def setUp(self):
        super().setUp()
        os.chmod(HOME, 0o755)
        self.closed = os.path.join(self.server.path(), "closed")
        os.mkdir(self.closed)
        os.chmod(self.closed, 0o755)
        for name in ("file", "other"):
            with open(os.path.join(self.closed, name), "w") as file:
                file.write("x")
        try:
            os.setxattr(self.closed, "system.posix_acl_access", acl.shutting_out(BOB))
        except OSError as error:
            self.skipTest(f"the file system has no ACLs: {error}")
        self.path = os.path.join(self.mount().path, "closed")

    def test_whom_only_an_acl_shuts_out_stays_out(self):
        for _ in range(8):
            self.assertEqual(as_user("os.stat(sys.argv[1]+'/file'); os.listdir(sys.argv[1])", self.path)[0], 0)
            for name in ("file", "other", "none"):
                denied = as_user("os.stat(sys.argv[1])", os.path.join(self.path, name), uid=BOB)
                self.assertIn("PermissionError", denied[1])


@needs_mount()
class Squashed(SystemCase):
    """Root is squashed to nobody on this server: writes to a file that was opened still succeed, everything else is refused."""

    SERVER = {"exports": [Export("/export", squash="Root_Squash", mode=0o755)]}

    @needs_root("root to be squashed")
    def test_root_is_nobody(self):
        mounted = self.mount()
        with self.assertRaises(PermissionError):
            os.mkdir(os.path.join(mounted.path, "new"))
        steward.call("chmod", self.server.path(), 0o1777)
        name = os.path.join(mounted.path, "new")
        open(name, "w").close()
        self.assertNotEqual(os.stat(self.on_server(name)).st_uid, 0)


@needs_mount()
class OneUser(SystemCase):
    @needs_user()
    def test_a_users_mount_is_the_users(self):
        path = self.directory(self.mount())
        open(os.path.join(path, "mine"), "w").close()
        self.assertEqual(os.stat(self.on_server(os.path.join(path, "mine"))).st_uid, os.getuid())
        status, output = steward.run(["ls", path], check=False)
        self.assertNotEqual(status, 0, f"root may look into a user's mount: {output}")

    @needs_user()
    def test_allow_other_needs_the_administrator(self):
        with self.assertRaises(RuntimeError) as refused:
            self.mount("allow_other")
        self.assertIn("user_allow_other", str(refused.exception))


@needs_mount()
@needs_root("root, whose mount may have devices")
class SpecialFiles(SystemCase):
    """FUSE sends no request before such a file is opened; with default_permissions, which the option dev implies, the kernel checks the
    mode."""

    OPENS = ("try: os.close(os.open(sys.argv[1], os.O_RDWR | os.O_NONBLOCK))\n"
             "except PermissionError: sys.exit(13)\n"
             "except OSError: pass")  # nothing behind it; the permission was granted
    CONNECTS = ("import socket\ns = socket.socket(socket.AF_UNIX)\n"
                "try: s.connect(sys.argv[1])\n"
                "except PermissionError: sys.exit(13)")
    CLASSES = {"owner": (ALICE, OTHERS), "group": (BOB, TEAM), "others": (BOB, OTHERS)}
    # The users that each mode permits.
    MODES = {0o600: {"owner"}, 0o060: {"group"}, 0o006: {"others"}, 0o660: {"owner", "group"}, 0o666: set(CLASSES)}

    def check(self, path, program):
        os.chown(path, ALICE, TEAM)
        for mode, expected in self.MODES.items():
            os.chmod(path, mode)
            allowed = {name for name, (uid, gid) in self.CLASSES.items()
                       if as_user(program, path, uid=uid, gid=gid) == (0, "")}
            self.assertEqual(allowed, expected, f"{path}, {mode:o}")

    def test_each_type_is_opened_by_whom_its_mode_lets(self):
        os.chmod(HOME, 0o755)
        mounted = self.mount("dev")
        directory = self.directory(mounted)
        os.chmod(directory, 0o755)
        for name, kind, device in (("fifo", stat.S_IFIFO, 0), ("character", stat.S_IFCHR, os.makedev(1, 3)),
                                   ("block", stat.S_IFBLK, os.makedev(7, 250))):
            path = os.path.join(directory, name)
            os.mknod(path, kind | 0o600, device)
            self.check(path, self.OPENS)
        here = os.getcwd()
        os.chdir(directory)  # a socket address holds a path of 108 bytes only
        self.addCleanup(os.chdir, here)
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind("socket")
            listening.listen(64)
            self.check("socket", self.CONNECTS)
        os.chdir(here)


@needs_mount()
class ReadOnly(SystemCase):
    SERVER = {"exports": [Export("/export"), Export("/readonly", access="RO")]}

    def test_an_export_that_is_read_only(self):
        steward.write_file(os.path.join(self.server.path(self.server.exports[1]), "given"), "text")
        path = self.mount(export=self.server.exports[1]).path
        with open(os.path.join(path, "given")) as file:
            self.assertEqual(file.read(), "text")
        for call in (lambda: os.mkdir(os.path.join(path, "new")), lambda: open(os.path.join(path, "new"), "w"),
                     lambda: os.unlink(os.path.join(path, "given"))):
            with self.assertRaises(OSError) as failed:
                call()
            self.assertIn(failed.exception.errno, (30, 13, 1))  # EROFS; or EACCES or EPERM if the mode is checked first

    def test_a_mount_that_is_read_only(self):
        path = self.mount("ro").path
        with self.assertRaises(OSError) as failed:
            os.mkdir(os.path.join(path, "new"))
        self.assertEqual(failed.exception.errno, 30)
        self.assertTrue(os.statvfs(path).f_flag & os.ST_RDONLY)


if __name__ == "__main__":
    unittest.main()
