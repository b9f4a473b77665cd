# SPDX-License-Identifier: Apache-2.0
"""NFSv3 (client/nfs3) with a Ganesha that serves nothing else: the tests of the other modules with vers=3, and the differences.

The client does not send locks to the server with NFSv3, so tests of locks between mounts are left out.
"""

import fcntl
import errno
import os
import subprocess
import unittest

import test_coherence
import test_files
import test_names
import test_posix
import test_random
import test_users
import test_work
from harness.case import SystemCase, needs_root
from harness.mount import HELPER, TOOL, is_mounted


class Only3:
    """Runs the tests of the other base class with vers=3."""

    def __init_subclass__(cls):
        cls.SERVER = {**cls.SERVER, "v3": "only"}
        cls.OPTIONS = ",".join(part for part in ("vers=3", cls.OPTIONS) if part)


class Git(Only3, test_work.Git):
    pass


class Copy(Only3, test_work.Copy):
    pass


class Tar(Only3, test_work.Tar):
    pass


class Build(Only3, test_work.Build):
    pass


class Sqlite(Only3, test_work.Sqlite):
    test_two_processes_two_mounts = None  # needs locks between mounts


class Random(Only3, test_random.Quiet):
    pass


class RandomOptions(Only3, test_random.Options):
    pass


class Files(Only3, test_files.Files):
    pass


class Names(Only3, test_names.Names):
    LONGEST_LINK = 1023

    def test_a_link_longer_than_libnfs_can_send(self):
        """A target that libnfs 4.0 cannot encode is refused as a whole."""
        directory = self.directory(self.mount())
        os.symlink("x" * 3072, os.path.join(directory, "fits"))
        self.assertEqual(os.readlink(os.path.join(directory, "fits")), "x" * 3072)
        with self.assertRaises(OSError) as failed:
            os.symlink("x" * 4095, os.path.join(directory, "long"))
        self.assertEqual(failed.exception.errno, errno.ENAMETOOLONG)
        os.symlink("x" * 4095, os.path.join(self.on_server(directory), "there"))
        self.assertEqual(os.readlink(os.path.join(directory, "there")), "x" * 4095)


class Large(Only3, test_names.Large):
    pass


class Posix(Only3, test_posix.AnyUser):
    REFUSES_LISTS = False
    LINK_LENGTHS = (1023, 4096)
    LATEST = (1 << 32) - 1  # nfstime3 has 32 bits


class PosixUsers(Only3, test_posix.ManyUsers):
    REFUSES_LISTS = False


class Users(Only3, test_users.ManyUsers):
    pass


class CloseToOpen(Only3, test_coherence.CloseToOpen):
    # nfs-ganesha 6 drops a request if it is out of memory (seen 2026-11-29), and with timeo=600 it would be sent again after 180 s.
    FIRST = SECOND = test_coherence.CloseToOpen.FIRST + ",timeo=50"
    test_appenders_under_a_lock = None  # locks work only between the processes of one mount here


class Version3(SystemCase):
    SERVER = {"v3": "only", "lease": 5, "grace": 5}
    OPTIONS = "vers=3"

    def status(self, mounted):
        return self.run_program(TOOL, "status", mounted.path)

    def test_status_says_what_the_mount_is(self):
        mounted = self.mount("mountport=%d" % self.server.mount_port)
        text = self.status(mounted)
        for wanted in ("vers=3", "proto=tcp", "local_lock=all", f"mountport={self.server.mount_port}",
                       "locks exclude programs of this machine only"):
            self.assertIn(wanted, text)
        self.assertNotIn("session", text)
        operations = {o["name"] for o in mounted.stats()["operations"]}
        self.assertLessEqual({"NULL", "GETATTR", "FSINFO", "PATHCONF"}, operations)

    def test_nothing_is_kept_of_what_was_read(self):
        """ctime is no change attribute: two changes within its tick look like one, so stale cached data could not be detected."""
        proxy = self.proxy()
        proxy.command("delay 3")  # with a change attribute this would make the daemon read ahead (test_coherence.ReadAhead)
        mounted = self.mount("cache_mem=64M,read_ahead_kb=8192", port=proxy.port)
        mounted.keep_kernel_from_reading_ahead()
        data = os.urandom(8 << 20)
        path = os.path.join(self.directory(mounted), "file")
        with open(self.on_server(path), "wb") as file:
            file.write(data)
        for _ in range(2):
            with open(path, "rb", buffering=0) as file:
                self.assertEqual(b"".join(iter(lambda: file.read(1 << 18), b"")), data)
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        cache = mounted.stats()["cache"]
        for key in ("data_limit_bytes", "data_bytes", "data_hits", "ahead_bytes", "evicted_bytes"):
            self.assertEqual(cache[key], 0, cache)

    def test_locks_stay_here_and_the_mount_says_so(self):
        one, two = self.mount(), self.mount("nolock")
        self.assertIn("locks exclude programs of this machine only", one.log_text())
        directory = self.directory(one)
        paths = [os.path.join(directory, "file"), os.path.join(two.path, os.path.basename(directory), "file")]
        files = [open(path, "w") for path in (paths[0], paths[0], paths[1])]
        try:
            for lock in (fcntl.flock, fcntl.lockf):
                lock(files[0], fcntl.LOCK_EX | fcntl.LOCK_NB)
                lock(files[2], fcntl.LOCK_EX | fcntl.LOCK_NB)  # another mount does not see the lock
            with self.assertRaises(BlockingIOError):
                fcntl.flock(files[1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            for file in files:
                file.close()

    def test_an_open_file_that_is_removed_keeps_its_data(self):
        directory = self.directory(self.mount())
        path = os.path.join(directory, "file")
        with open(path, "w+") as file:
            file.write("still here")
            file.flush()
            os.unlink(path)
            hidden = os.listdir(self.on_server(directory))
            self.assertEqual(len(hidden), 1)
            self.assertTrue(hidden[0].startswith(".nfs"), hidden)
            file.seek(0)
            self.assertEqual(file.read(), "still here")
        self.wait_until(lambda: os.listdir(self.on_server(directory)) == [], "the hidden name is gone")

    def test_times_that_the_version_has_no_room_for(self):
        # nfstime3 has unsigned 32 bits.
        path = os.path.join(self.directory(self.mount()), "file")
        open(path, "w").close()
        os.utime(path, ns=(1_234_567_890_123_456_789,) * 2)
        self.assertEqual(os.stat(path).st_mtime_ns, 1_234_567_890_123_456_789)
        os.utime(path, (-5, -5))
        self.assertEqual(os.stat(path).st_mtime, 0)

    def test_written_data_outlives_a_restart_of_the_server(self):
        path = os.path.join(self.directory(self.mount("timeo=20")), "file")
        data = os.urandom(8 << 20)
        with open(path, "wb", buffering=0) as file:
            for at in range(0, len(data), 1 << 20):
                file.write(data[at:at + (1 << 20)])
                if at == 4 << 20:
                    self.server.restart()
            os.fsync(file.fileno())
        with open(self.on_server(path), "rb") as file:
            self.assertEqual(file.read(), data)

    def test_a_cut_connection_is_made_again(self):
        proxy = self.proxy()
        mounted = self.mount("mountport=%d" % self.server.mount_port, port=proxy.port)
        directory = self.directory(mounted)
        for number in range(5):
            with open(os.path.join(directory, f"file{number}"), "w") as file:
                file.write("x" * 100000)
            proxy.command("cut")
            self.assertEqual(len(os.listdir(directory)), number + 1)
        self.assertGreaterEqual(mounted.stats()["transports"][0]["connects"], 3)

    def test_soft_gives_up_and_the_server_comes_back(self):
        mounted = self.mount("softerr,timeo=5,retrans=1")
        directory = self.directory(mounted)
        self.server.pause()
        try:
            with self.assertRaises(TimeoutError):
                os.mkdir(os.path.join(directory, "new"))
            self.wait_until(lambda: "not responding" in mounted.log_text(), "it is said")
        finally:
            self.server.resume()
        self.wait_until(lambda: os.listdir(mounted.path) != [], "it answers again")

    def fails(self, wanted, options, source=None):
        path = self.local("failing")
        argv = [HELPER, source or self.server.source(), path, "-o", f"retry=0,log={path}.log,{options}"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120)
        self.assertNotEqual(done.returncode, 0, argv)
        self.assertFalse(is_mounted(path))
        self.assertRegex(done.stderr, wanted)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.returncode

    def test_what_cannot_be_mounted(self):
        port, mount_port = f"port={self.server.port}", f"mountport={self.server.mount_port}"
        self.assertEqual(self.fails("no such|MNT", f"vers=3,{port}", "127.0.0.1:/nothing"), 32)
        self.assertEqual(self.fails("refused", f"vers=3,{port},mountport=1"), 32)
        self.assertEqual(self.fails("no NFS version 4.1", f"vers=4.1,{port}"), 32)
        self.assertEqual(self.fails("belongs to NFSv3", f"vers=4.1,{port},{mount_port}"), 1)
        self.assertEqual(self.fails("use nolock", f"vers=3,lock,{port}"), 1)
        self.assertEqual(self.fails("local_lock=all", f"vers=3,local_lock=none,{port}"), 1)

    def test_no_version_given_steps_down_and_says_why(self):
        self.OPTIONS = ""
        mounted = self.mount()
        self.assertIn("vers=3", self.status(mounted))
        self.assertRegex(self.status(mounted), "notice.*no NFS version 4.1.*MISMATCH")
        said = [line for line in mounted.log_text().splitlines() if "the server has no NFS version 4.1" in line]
        self.assertEqual(len(said), 1, mounted.log_text())
        with open(os.path.join(self.directory(mounted), "file"), "w") as file:
            file.write("x")

    def test_the_portmapper_is_asked_for_both_ports(self):
        path = self.local("ported")
        self.run_program(HELPER, self.server.source(), path, "-o", f"vers=3,log={path}.log")
        self.addCleanup(lambda: is_mounted(path) and subprocess.run(["umount", path], check=False))
        text = self.run_program(TOOL, "status", path)
        self.assertIn(f"127.0.0.1:{self.server.port}", text)
        self.run_program(TOOL, "umount", path)

    @needs_root()
    def test_a_supplementary_group_counts(self):
        directory = self.directory(self.mount())
        os.chown(directory, 0, 4242)
        os.chmod(directory, 0o770)
        script = f"import os; os.setgroups([4242]); os.setgid(65534); os.setuid(65534); open('{directory}/made', 'w')"
        self.run_program("python3", "-c", script)
        self.assertEqual(os.stat(os.path.join(directory, "made")).st_uid, 65534)


class Both(SystemCase):
    """A server with both versions: the client takes the newer one."""

    SERVER = {"v3": True}

    def test_the_newer_version_is_taken(self):
        text = self.run_program(TOOL, "status", self.mount().path)
        self.assertIn("vers=4.1", text)
        self.assertNotIn("notice", text)

    def test_both_see_the_same(self):
        new, old = self.mount(), self.mount("vers=3")
        directory = self.directory(new)
        with open(os.path.join(directory, "file"), "w") as file:
            file.write("four")
        path = os.path.join(old.path, os.path.basename(directory), "file")
        with open(path) as file:
            self.assertEqual(file.read(), "four")
        with open(path, "w") as file:
            file.write("three")
        with open(os.path.join(directory, "file")) as file:
            self.assertEqual(file.read(), "three")


if __name__ == "__main__":
    unittest.main()
