# SPDX-License-Identifier: Apache-2.0
"""POSIX locks and flock: within a mount, between two mounts of one export, and kept local by local_lock=."""

import fcntl
import itertools
import os
import signal
import struct
import subprocess
import sys
import time
import unittest

from harness.case import HOME, SystemCase, needs_mount, scaled, tool
from harness.ganesha import version

TRY = """\
import fcntl, sys
kind, path = sys.argv[1:3]
with open(path, 'r+b') as file:
    try:
        if kind == 'posix': fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        else: fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError: sys.exit(1)
"""


class Locks(SystemCase):
    LIMIT = 600
    FAIR = version() >= (5, 0)  # nfs-ganesha 6 refuses a lock while another owner waits for a conflicting one

    def locktest(self, mode, *directories, **options):
        flat = [part for name, value in options.items() for part in (f"--{name}", value)]
        if self.FAIR and mode != "counter":
            flat += ["--fair", 1]
        print(self.run_program(tool("locktest"), mode, *flat, *directories, timeout=900).strip(), file=sys.stderr)

    def two(self, options=""):
        one, two = self.mount(options), self.mount(options)
        path = self.directory(one)
        return path, os.path.join(two.path, os.path.basename(path))

    def test_posix_one_mount(self):
        path = self.directory(self.mount())
        for seed in (1, 2):
            self.locktest("posix", path, "--isolate-eof", 1, seed=seed, steps=scaled(1000, 10000))

    def test_posix_two_mounts(self):
        for seed in (3, 4):
            pair = self.two() if seed == 3 else pair
            self.locktest("posix", *pair, "--isolate-eof", 1, seed=seed, steps=scaled(500, 5000))

    def test_flock_one_mount(self):
        self.locktest("flock", self.directory(self.mount()), seed=5, steps=scaled(500, 5000))

    def test_flock_two_mounts(self):
        self.locktest("flock", *self.two(), seed=6, steps=scaled(300, 3000))

    def test_counting_under_a_lock_one_mount(self):
        self.locktest("counter", self.directory(self.mount()), rounds=200)

    def test_counting_under_a_lock_two_mounts(self):
        self.locktest("counter", *self.two(), rounds=scaled(100, 1000))

    def test_counting_with_four_loops(self):
        self.locktest("counter", *self.two("threads=4"), rounds=100)

    def try_lock(self, kind, path):
        return subprocess.run([sys.executable, "-c", TRY, kind, path], timeout=60).returncode == 0

    @needs_mount()
    def test_local_locks_stay_here(self):
        for local, seen in (("all", ()), ("posix", ("flock",)), ("flock", ("posix",)), ("none", ("posix", "flock"))):
            one, two = self.mount(f"local_lock={local}"), self.mount("local_lock=none")
            for kind in ("posix", "flock"):
                name = f"{local}.{kind}"
                with open(os.path.join(one.path, name), "w+b") as file:
                    (fcntl.lockf if kind == "posix" else fcntl.flock)(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    self.assertFalse(self.try_lock(kind, os.path.join(one.path, name)), "within the mount it holds anyway")
                    self.assertEqual(self.try_lock(kind, os.path.join(two.path, name)), kind not in seen, name)
            one.umount()
            two.umount()

    def test_open_file_description_locks(self):
        path = os.path.join(self.directory(self.mount()), "ofd")
        with open(path, "w+b") as one, open(path, "r+b") as two:
            whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
            fcntl.fcntl(one, fcntl.F_OFD_SETLK, whole)
            with self.assertRaises(OSError):
                fcntl.fcntl(two, fcntl.F_OFD_SETLK, whole)
            one.close()
            fcntl.fcntl(two, fcntl.F_OFD_SETLK, whole)
            for _ in range(100):  # must be free at once, although the kernel sends FLUSH or RELEASE only after close(2) has returned
                with open(path, "r+b") as other:
                    with self.assertRaises(OSError):
                        fcntl.fcntl(other, fcntl.F_OFD_SETLK, whole)
                    two.close()
                    fcntl.fcntl(other, fcntl.F_OFD_SETLK, whole)
                    two = os.fdopen(os.dup(other.fileno()), "r+b")
            two.close()

    def test_open_file_description_locks_two_mounts(self):
        one, two = self.two()
        whole = struct.pack("hhqqi4x", fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
        none = struct.pack("hhqqi4x", fcntl.F_UNLCK, os.SEEK_SET, 0, 0, 0)
        with open(os.path.join(one, "ofd"), "w+b") as here, open(os.path.join(two, "ofd"), "r+b") as there:
            fcntl.fcntl(here, fcntl.F_OFD_SETLK, whole)
            with self.assertRaises(OSError):
                fcntl.fcntl(there, fcntl.F_OFD_SETLK, whole)
            with self.assertRaises(OSError):
                fcntl.lockf(there, fcntl.LOCK_EX | fcntl.LOCK_NB)
            fcntl.fcntl(here, fcntl.F_OFD_SETLK, none)
            fcntl.fcntl(there, fcntl.F_OFD_SETLK, whole)

    def test_who_gives_up_waiting_is_in_nobodys_way(self):
        """A waiting process is interrupted or killed. nfs-ganesha 6 keeps a list of waiting owners; this one must not stay on it."""
        program = "import fcntl, sys\nwith open(sys.argv[1], 'r+b') as f:\n fcntl.{0}(f, fcntl.LOCK_EX)"
        one, two = self.two()
        for call, sent in itertools.product(("lockf", "flock"), (signal.SIGINT, signal.SIGKILL)):
            with open(os.path.join(one, "given.up"), "w+b") as holder:
                getattr(fcntl, call)(holder, fcntl.LOCK_SH)
                waiter = self.start_program(sys.executable, "-c", program.format(call), os.path.join(one, "given.up"),
                                            stderr=subprocess.DEVNULL)
                time.sleep(1)  # so that it waits for the lock
                waiter.send_signal(sent)
                waiter.wait(60)
                with open(os.path.join(two, "given.up"), "r+b") as reader:
                    def locked():
                        try:
                            getattr(fcntl, call)(reader, fcntl.LOCK_SH | fcntl.LOCK_NB)
                            return True
                        except OSError:
                            return False
                    self.wait_until(locked, f"{call}: a lock that is shared", timeout=5)  # a killed process gets EINTR at once

    def test_every_waiter_gets_its_turn(self):
        one, two = self.two()
        path = os.path.join(one, "turn")
        program = ("import fcntl,sys\nwith open(sys.argv[1],'r+b') as f:\n fcntl.lockf(f,fcntl.LOCK_EX)\n"
                   " f.seek(0,2); f.write(b'x'); f.flush()\n fcntl.lockf(f,fcntl.LOCK_UN)\n")
        with open(path, "w+b") as holder:
            fcntl.lockf(holder, fcntl.LOCK_EX)
            waiters = [self.start_program(sys.executable, "-c", program, os.path.join(d, "turn")) for d in (one, two) * 3]
            time.sleep(2)
            self.assertTrue(all(waiter.poll() is None for waiter in waiters))
            fcntl.lockf(holder, fcntl.LOCK_UN)
            for waiter in waiters:
                self.assertEqual(waiter.wait(120), 0)
        self.assertEqual(os.stat(self.on_server(path)).st_size, 6)

    def test_two_that_wait_for_each_other(self):
        """fcntl(2): the second of two processes that wait for each other gets EDEADLK, and the first gets the lock."""
        directory = self.directory(self.mount())
        program = ("import errno,fcntl,os,sys\n"
                   "mine, other = (open(name, 'r+b') for name in sys.argv[1:])\n"
                   "fcntl.lockf(mine, fcntl.LOCK_EX)\nprint('locked', flush=True)\nsys.stdin.readline()\n"
                   "try: fcntl.lockf(other, fcntl.LOCK_EX); print('granted', flush=True)\n"
                   "except OSError as e: print('deadlock' if e.errno == errno.EDEADLK else e, flush=True)\n")
        names = [os.path.join(directory, name) for name in ("a", "b")]
        for name in names:
            open(name, "wb").close()
        processes = [subprocess.Popen([sys.executable, "-c", program, *order], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
                     for order in (names, names[::-1])]
        try:
            for process in processes:
                self.assertEqual(process.stdout.readline(), "locked\n")
            for process in processes:
                print(file=process.stdin, flush=True)
            # The refused process ends, and its locks with it.
            self.assertEqual(sorted(process.communicate(timeout=60)[0] for process in processes), ["deadlock\n", "granted\n"])
        finally:
            for process in processes:
                process.kill()
                process.wait()

    def test_a_read_only_descriptor_cannot_lock_for_writing(self):
        path = os.path.join(self.directory(self.mount()), "mode")
        open(path, "w").close()
        with open(path, "rb") as file:
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            with self.assertRaises(OSError):
                fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


# Each file of the directory has a name that says how it is treated: a process takes a lock and releases it by
# close(2), by its end, or by being killed. The next one, the same process or another, takes the lock at once and
# holds it until our standard input ends. Prints the files whose lock could not be taken at once.
NEXT = """\
import fcntl, os, signal, struct, sys
directory = sys.argv[1]

def take(kind, fd, lock, wait=False):
    if kind == 'flock':
        operation = {fcntl.F_WRLCK: fcntl.LOCK_EX, fcntl.F_RDLCK: fcntl.LOCK_SH}[lock]
        return fcntl.flock(fd, operation | (0 if wait else fcntl.LOCK_NB))
    command = {'posix': (fcntl.F_SETLK, fcntl.F_SETLKW), 'ofd': (fcntl.F_OFD_SETLK, fcntl.F_OFD_SETLKW)}[kind][wait]
    fcntl.fcntl(fd, command, struct.pack('hhqqi4x', lock, os.SEEK_SET, 0, 0, 0))

def opened_as(uid, path):
    if os.getuid() == 0: os.seteuid(int(uid))
    try: return os.open(path, os.O_RDWR)
    finally:
        if os.getuid() == 0: os.seteuid(0)

def first(kind, uid, path, way):
    fd = opened_as(uid, path)
    take(kind, fd, fcntl.F_WRLCK if way == 'straight' else fcntl.F_RDLCK, True)
    if way == 'changing':
        take(kind, fd, fcntl.F_WRLCK)
        take(kind, fd, fcntl.F_RDLCK)
    return fd

refused, kept, holders = [], [], []
for name in sorted(os.listdir(directory), key=lambda n: int(n.split()[-1])):
    kind, how, who, former, latter, way, _ = name.split()
    path = os.path.join(directory, name)
    if how == 'close':
        os.close(first(kind, former, path, way))
    else:
        child = os.fork()
        if child == 0:
            first(kind, former, path, way)
            os._exit(0) if how == 'exit' else os.kill(os.getpid(), signal.SIGKILL)
        os.waitpid(child, 0)
    if who == 'another':
        ready, told = os.pipe()
        child = os.fork()
        if child != 0:
            os.close(told)
            if os.read(ready, 1) != b'+': refused.append(name)
            os.close(ready)
            holders.append(child)
            continue
    try:
        fd = opened_as(latter, path)
        kept.append(fd)
        if way == 'changing': take(kind, fd, fcntl.F_RDLCK)
        take(kind, fd, fcntl.F_WRLCK)
        granted = True
    except OSError:
        granted = False
    if who == 'another':
        os.write(told, b'+' if granted else b'-')
        os.close(told)
        os.read(0, 1)
        os._exit(0)
    if not granted: refused.append(name)
print(refused, flush=True)
os.read(0, 1)
for child in holders: os.waitpid(child, 0)
"""

# Counts how often the lock is still visible after the close(2) of its only holder has returned.
TESTED = """\
import fcntl, os, struct, sys
directory, kind, rounds = sys.argv[1], sys.argv[2], int(sys.argv[3])
path = os.path.join(directory, 'tested')
open(path, 'w').close()
whole = struct.pack('hhqqi4x', fcntl.F_WRLCK, os.SEEK_SET, 0, 0, 0)
seen = 0
for n in range(rounds):
    tester = os.open(path, os.O_RDWR)
    if kind == 'posix':
        child = os.fork()
        if child == 0:
            fcntl.fcntl(os.open(path, os.O_RDWR), fcntl.F_SETLK, whole)
            os._exit(0)
        os.waitpid(child, 0)
    else:
        holder = os.open(path, os.O_RDWR)
        if kind == 'ofd': fcntl.fcntl(holder, fcntl.F_OFD_SETLK, whole)
        else: fcntl.flock(holder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        os.close(holder)
    command = fcntl.F_GETLK if kind != 'ofd' or n % 2 else fcntl.F_OFD_GETLK
    seen += struct.unpack('hhqqi4x', fcntl.fcntl(tester, command, whole))[0] != fcntl.F_UNLCK
    os.close(tester)
print(seen)
"""


@needs_mount()
class HandedOn(SystemCase):
    """When a process has locked and closed a file, the next one gets the lock at once and keeps it: processes of one mount and of several;
    other clients are refused."""

    LIMIT = 1800
    EACH = scaled(1, 10)  # repetitions
    PAUSE = 0.5  # longer than a CLOSE is delayed

    def setUp(self):
        super().setUp()
        os.chmod(HOME, 0o755)
        self.users = ("1048576 0", "0 1048576", "0 0") if os.getuid() == 0 else ("0 0",)

    def hand_on(self, options=""):
        one, two = self.mount(options), self.mount()
        here = self.directory(one)
        there = os.path.join(two.path, os.path.basename(here))
        os.chmod(here, 0o777)
        names = [f"{kind} {how} {who} {users} {way}" for kind in ("flock", "ofd", "posix") for how in ("close", "exit", "kill")
                 for who in ("this", "another") for users in self.users for way in ("straight", "changing")]
        names = [f"{name} {n}" for n, name in enumerate(names * self.EACH)]
        for name in names:
            open(os.path.join(here, name), "w").close()
            os.chmod(os.path.join(here, name), 0o666)
        lost = []
        with subprocess.Popen([sys.executable, "-c", NEXT, here], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
            refused = holder.stdout.readline()
            time.sleep(self.PAUSE)
            for name in names:
                with open(os.path.join(there, name), "r+b") as file:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        lost.append(name)
                    except BlockingIOError:
                        pass
        print(f"{len(names)} locks were handed on, {len(lost)} were lost", file=sys.stderr)
        self.assertEqual(refused, "[]\n", "not to be had at once")
        self.assertEqual(lost, [])

    def test_to_the_next(self):
        self.hand_on()

    def test_to_the_next_with_four_loops(self):
        self.hand_on("threads=4")

    def test_what_was_closed_is_seen_by_nobody(self):
        for options in ("", "threads=4"):
            path = self.directory(self.mount(options), f"seen{options}")
            for kind in ("flock", "ofd", "posix"):
                seen = self.run_program(sys.executable, "-c", TESTED, path, kind, scaled(50, 1000))
                self.assertEqual(seen, "0\n", (kind, options))


if __name__ == "__main__":
    unittest.main()
