# SPDX-License-Identifier: Apache-2.0
"""Protection if a server or a client takes over one of the programs: how they were built, and the privileges that root's daemon dropped."""

import os
import re
import subprocess
import sys
import unittest

from harness.case import HOME, SystemCase, WORK, needs_mount, needs_root, needs_user
from harness.filer import Filer
from harness.mount import HELPER, TOOL, daemons

PROGRAMS = ("nfsrdma-fuse", "nfsrdma-filer")
# Numbers from linux/capability.h.
NET_BIND_SERVICE, IPC_LOCK, SYS_PTRACE, SYS_ADMIN, DAC_READ_SEARCH = 10, 14, 19, 21, 2
ALICE, TEAM, OTHERS = 1 << 20, 3_000_000, 3_000_001


def bits(*capabilities):
    return sum(1 << number for number in capabilities)


def readelf(*argv):
    return subprocess.run(["readelf", "-W", *argv], capture_output=True, text=True, check=True).stdout


def status_of(task):
    with open(f"{task}/status") as file:
        return dict(line.rstrip("\n").split(":\t", 1) for line in file if ":\t" in line)


def tasks_of(pid):
    return [f"/proc/{pid}/task/{tid}" for tid in os.listdir(f"/proc/{pid}/task")]


def limit_of(pid, name):
    with open(f"/proc/{pid}/limits") as file:
        return next(line[len(name):].split()[0] for line in file if line.startswith(name))


class Programs(unittest.TestCase):
    """The hardening of cmake/Nfsrdma.cmake (NFSRDMA_HARDENING), read from the binaries."""

    def each(self, check):
        for name in PROGRAMS:
            with self.subTest(program=name):
                check(os.path.join(WORK, "bin", name))

    def test_they_are_loaded_anywhere(self):
        def check(path):
            self.assertRegex(readelf("-h", path), r"Type:\s+DYN")
            self.assertRegex(readelf("-d", path), r"FLAGS_1.*\bPIE\b")
        self.each(check)

    def test_their_tables_are_read_only_after_loading(self):
        def check(path):
            self.assertIn("GNU_RELRO", readelf("-l", path))
            self.assertRegex(readelf("-d", path), r"\(FLAGS_1\).*\bNOW\b|\(BIND_NOW\)|\(FLAGS\).*BIND_NOW")
        self.each(check)

    def test_their_stacks_are_not_executed(self):
        def check(path):
            stack = re.search(r"GNU_STACK\s.*", readelf("-l", path))
            self.assertIsNotNone(stack)
            self.assertRegex(stack.group(), r"\sRW\s")
        self.each(check)

    def test_their_stacks_are_guarded(self):
        self.each(lambda path: self.assertIn("__stack_chk_fail", readelf("--dyn-syms", path)))

    def test_libc_checks_bounds(self):
        with open(os.path.join(WORK, "build/CMakeCache.txt")) as cache:
            if "CMAKE_BUILD_TYPE:STRING=Debug" in cache.read():
                self.skipTest("a debug build: _FORTIFY_SOURCE needs the optimiser")
        self.each(lambda path: self.assertRegex(readelf("--dyn-syms", path), r"__\w+_chk\b"))

    def test_branches_are_marked(self):
        """The linker marks a program only if each of its parts is marked, including the C library's start file."""
        if os.uname().machine != "x86_64":
            self.skipTest("is about x86-64: IBT and SHSTK")
        for part in ("Scrt1.o", "crti.o", "crtbeginS.o", "crtendS.o", "crtn.o"):
            path = subprocess.run(["c++", f"-print-file-name={part}"], capture_output=True, text=True, check=True).stdout.strip()
            if "IBT, SHSTK" not in readelf("-n", path):
                self.skipTest(f"{path} is not marked for IBT and SHSTK, so no program is")
        self.each(lambda path: self.assertIn("IBT, SHSTK", readelf("-n", path)))


@needs_mount()
class Daemon(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="filer.hardening").start()

    def assert_confined(self, pid, *more):
        """Each thread has the capabilities of the table in cli/mount/confinement.h that we have ourselves, and no others."""
        kept = bits(SYS_ADMIN, NET_BIND_SERVICE, DAC_READ_SEARCH, *more)
        if limit_of(pid, "Max locked memory") != "unlimited":
            kept |= bits(IPC_LOCK)
        kept &= int(status_of("/proc/self")["CapPrm"], 16)
        tasks = tasks_of(pid)
        self.assertGreater(len(tasks), 1)
        for task in tasks:
            status = status_of(task)
            with self.subTest(thread=status["Name"]):
                found = {name: int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")}
                self.assertEqual(found, {"CapInh": 0, "CapPrm": kept, "CapEff": kept, "CapBnd": kept, "CapAmb": 0})
                self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("1", "2"))

    @needs_root("root, who has something to give up")
    def test_roots_daemon_keeps_what_it_needs(self):
        mounted = self.mount()
        with open(os.path.join(mounted.path, "file"), "w") as file:
            file.write("text")
        self.assert_confined(mounted.pid)
        self.assertNotIn("not confined", mounted.log_text())

    @needs_root("root, who has something to give up")
    def test_a_thread_in_another_namespace_keeps_no_more(self):
        place = self.local("place")
        owner = self.start_program("unshare", "--mount", "--propagation", "private", "sh", "-c", "echo ready; exec sleep 1000",
                                   stdout=subprocess.PIPE)
        self.addCleanup(owner.stdout.close)
        self.assertEqual(owner.stdout.readline(), "ready\n")
        self.run_program(HELPER, self.server.source(), place, "-N", owner.pid, "-o",
                         f"port={self.server.port},proto=tcp,log={HOME}/other.log")
        pid = daemons(place)[0]
        names = [status_of(task)["Name"] for task in tasks_of(pid)]
        self.assertIn("mount-namespace", names)
        self.assert_confined(pid)
        self.run_program(os.path.join(os.path.dirname(TOOL), "umount.fuse.rpcrdma"), place, "-N", owner.pid)
        self.wait_until(lambda: not daemons(), "the daemon ends")

    @needs_root("root, who has something to give up")
    def test_the_guard_of_auto_unmount_keeps_no_more(self):
        mounted = self.mount("auto_unmount")
        serving = max(daemons(mounted.path), key=lambda pid: len(tasks_of(pid)))
        guard = next(pid for pid in daemons(mounted.path) if pid != serving)
        kept = bits(SYS_ADMIN, NET_BIND_SERVICE, DAC_READ_SEARCH) & int(status_of("/proc/self")["CapPrm"], 16)
        found = status_of(f"/proc/{guard}")
        self.assertEqual([int(found[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb")],
                         [0, kept, kept, kept, 0])
        self.assertEqual(found["NoNewPrivs"], "1")
        os.kill(serving, 9)
        self.wait_until(lambda: not os.path.ismount(mounted.path) and not daemons(), "the guard takes the mount away")

    @needs_root("root, who mounts /proc anew")
    def test_callers_are_seen_where_processes_are_hidden(self):
        """Group permission of a directory needs the caller's groups, which are in /proc. By default members of group 0 see all of /proc."""
        os.chmod(HOME, 0o755)
        self.addCleanup(self.run_program, "mount", "-o", "remount,hidepid=off,gid=0", "/proc")
        for options, more in (("hidepid=invisible,gid=0", ()), (f"hidepid=invisible,gid={TEAM}", (SYS_PTRACE,)),
                              ("hidepid=ptraceable", (SYS_PTRACE,))):
            with self.subTest(proc=options):
                self.run_program("mount", "-o", f"remount,{options}", "/proc")
                mounted = self.mount()
                path = self.directory(mounted, options.translate({ord("="): "_", ord(","): "_"}))
                os.chown(path, 0, TEAM)
                os.chmod(path, 0o770)
                done = subprocess.run([sys.executable, "-c", "import os,sys; os.mkdir(sys.argv[1] + '/new')", path], user=ALICE,
                                      group=OTHERS, extra_groups=[TEAM], capture_output=True, text=True, timeout=60)
                self.assertEqual((done.returncode, done.stderr), (0, ""))
                self.assert_confined(mounted.pid, *more)

    @needs_root("root, who may mount in others' directories")
    def test_a_mount_below_anothers_private_directory(self):
        private = self.local("private")
        os.mkdir(os.path.join(private, "mnt"))
        os.chown(private, ALICE, TEAM)
        os.chmod(private, 0o700)
        mounted = self.mount(path=os.path.join(private, "mnt"))
        pid = mounted.pid
        os.kill(pid, 15)
        self.wait_until(lambda: not daemons(), "the daemon unmounts")
        self.assertFalse(os.path.ismount(mounted.path))

    @needs_root("root, who may write to others' directories")
    def test_a_log_in_anothers_directory_stays_when_it_cannot_be_opened_anew(self):
        logs = self.local("logs")
        os.chown(logs, ALICE, TEAM)
        log = os.path.join(logs, "log")
        mounted = self.mount(f"log={log}")

        def said(name, text):
            with open(os.path.join(logs, name)) as file:
                return file.read().count(f"{text}: log={log}: Permission denied; root's daemon writes")

        self.assertEqual(said("log", "will fail"), 1)
        os.rename(log, log + ".1")
        os.kill(mounted.pid, 1)
        self.wait_until(lambda: said("log.1", "reload") == 1, "the log says why it is not opened anew")

    @needs_root("root, who may have its log anywhere")
    def test_a_log_of_roots_own_is_opened_anew(self):
        mounted = self.mount()
        os.rename(mounted.log, mounted.log + ".1")
        os.kill(mounted.pid, 1)
        self.wait_until(lambda: "reloaded" in mounted.log_text(), "the log is opened anew")
        with open(mounted.log + ".1") as file:
            self.assertNotIn("will fail", file.read())

    @needs_user()
    def test_a_users_daemon_has_nothing_to_give_up(self):
        mounted = self.mount()
        for task in tasks_of(mounted.pid):
            status = status_of(task)
            self.assertEqual([int(status[name], 16) for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")], [0] * 4)
            self.assertEqual((status["NoNewPrivs"], status["Seccomp"]), ("0", status_of("/proc/self")["Seccomp"]))

    def test_file_data_is_in_no_core_dump(self):
        """The test finds the data in the daemon's memory, only in mappings whose VmFlags contain "dd" (proc_pid_smaps(5))."""
        mounted = self.mount()
        marker = os.urandom(16)
        with open(os.path.join(mounted.path, "file"), "wb", buffering=0) as file:
            file.write((marker + bytes(48)) * 16384)
            found = self.flags_of_memory_with(mounted.pid, marker)
        self.assertTrue(found)
        self.assertEqual([flags for flags in found if "dd" not in flags], [])

    def flags_of_memory_with(self, pid, marker):
        """The VmFlags of each mapping that contains the marker."""
        found = []
        with open(f"/proc/{pid}/smaps") as smaps, open(f"/proc/{pid}/mem", "rb", buffering=0) as memory:
            for line in smaps.read().splitlines():
                if match := re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line):
                    area = [int(part, 16) for part in match.groups()]
                elif re.match(r"[0-9a-f]+-[0-9a-f]+ ", line):
                    area = None
                elif area and line.startswith("VmFlags:") and self.is_in(memory, *area, marker):
                    found.append(line.split()[1:])
        return found

    @staticmethod
    def is_in(memory, begin, end, marker):
        step = 1 << 20
        for at in range(begin, end, step):
            try:
                memory.seek(at)
                if marker in memory.read(min(step, end - at)):
                    return True
            except (OSError, ValueError):
                pass  # a mapping of the kernel's
        return False


if __name__ == "__main__":
    unittest.main()
