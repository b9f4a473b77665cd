# SPDX-License-Identifier: Apache-2.0
"""The server restarts, forgets its clients, or is away for a while: the effects on opens, locks and waiting processes."""

import errno
import fcntl
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

from harness import nfs41
from harness.case import HOME, Mount, SystemCase, daemons, needs_mount, steward

LOCK_NOW = fcntl.LOCK_EX | fcntl.LOCK_NB


@needs_mount()
class Restart(SystemCase):
    SERVER = {"lease": 6, "grace": 6}
    OPTIONS = "timeo=50"

    def thief(self, path):
        """Another client that will try to lock the file at `path` (a path in the mount)."""
        client = nfs41.Client(self.server.port, uid=os.getuid(), gid=os.getgid())
        self.addCleanup(client.close)
        relative = os.path.relpath(path, self.mounted[0].path)
        return client, ["export", *relative.split("/")]

    def try_to_steal(self, client, path, timeout=40):
        """The status of a LOCK by another client after the server's grace period."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                stateid, handle = client.open(path)
                lock = client.lock(handle, stateid)
                return "taken", (handle, stateid, lock)
            except nfs41.Status as status:
                if status.name not in ("GRACE", "DELAY") or time.monotonic() > deadline:
                    return status.name, None
            time.sleep(0.1)

    def test_opens_and_locks_are_reclaimed(self):
        path = self.directory(self.mount())
        file = open(os.path.join(path, "kept"), "w+b", buffering=0)
        fcntl.lockf(file, LOCK_NOW)
        reader = open(os.path.join(path, "kept"), "rb", buffering=0)
        file.write(b"before")
        self.server.restart()
        file.write(b" after")
        os.fsync(file.fileno())
        reader.seek(0)
        self.assertEqual(reader.read(), b"before after")
        client, names = self.thief(file.name)
        self.assertEqual(self.try_to_steal(client, names)[0], "DENIED")
        fcntl.lockf(file, fcntl.LOCK_UN)
        self.assertEqual(self.try_to_steal(client, names)[0], "taken")
        file.close()
        reader.close()

    def test_an_idle_client_reclaims_within_the_grace_period(self):
        """No process uses the mount: the lease renewal must notice the restart, or the lock is lost."""
        path = self.directory(self.mount())
        file = open(os.path.join(path, "idle"), "w+b", buffering=0)
        fcntl.lockf(file, LOCK_NOW)
        self.server.restart()
        client, names = self.thief(file.name)
        self.assertEqual(self.try_to_steal(client, names)[0], "DENIED")
        file.close()

    def test_an_idle_mount_keeps_its_lease(self):
        """RFC 8881 section 8.3: state is kept as long as the lease is renewed, also without requests."""
        path = self.directory(self.mount())
        with open(os.path.join(path, "idle"), "w+b", buffering=0) as file:
            fcntl.lockf(file, LOCK_NOW)
            time.sleep(2.5 * self.SERVER["lease"])
            client, names = self.thief(file.name)
            self.assertEqual(self.try_to_steal(client, names)[0], "DENIED")

    def test_many_opens_and_locks(self):
        path = self.directory(self.mount())
        files = []
        for i in range(200):
            file = open(os.path.join(path, f"f{i}"), "w+b", buffering=0)
            file.write(b"%d" % i)
            fcntl.lockf(file, LOCK_NOW, 10, i)
            fcntl.lockf(file, fcntl.LOCK_SH | fcntl.LOCK_NB, 5, 1 << 40)
            files.append(file)
        for _ in range(2):
            self.server.restart()
            for i, file in enumerate(files):
                file.seek(0)
                self.assertEqual(file.read(), b"%d" % i)
        client, names = self.thief(files[100].name)
        self.assertEqual(self.try_to_steal(client, names)[0], "DENIED")
        for file in files:
            file.close()

    def test_unlinked_but_open_survives_a_restart(self):
        path = self.directory(self.mount())
        file = open(os.path.join(path, "unlinked"), "w+b", buffering=0)
        file.write(b"still here")
        os.unlink(file.name)
        self.server.restart()
        file.seek(0)
        self.assertEqual(file.read(), b"still here")
        file.write(b", and more")
        file.close()
        self.wait_until(lambda: os.listdir(path) == [], "the file goes with its last close")

    def test_replaced_while_open_survives_a_restart(self):
        path = self.directory(self.mount())
        file = open(os.path.join(path, "replaced"), "w+b", buffering=0)
        file.write(b"the old one")
        with open(os.path.join(path, "new"), "wb") as new:
            new.write(b"the new one")
        os.rename(new.name, file.name)
        self.server.restart()
        file.seek(0)
        self.assertEqual(file.read(), b"the old one")
        file.write(b", written to")
        file.close()
        with open(os.path.join(path, "replaced"), "rb") as replaced:
            self.assertEqual(replaced.read(), b"the new one")
        self.wait_until(lambda: os.listdir(path) == ["replaced"], "the old file goes with its last close")

    def test_a_waiting_lock_is_granted_after_a_restart(self):
        path = self.directory(self.mount())
        holder = open(os.path.join(path, "awaited"), "w+b")
        fcntl.lockf(holder, LOCK_NOW)
        program = "import fcntl,sys; f=open(sys.argv[1],'r+b'); fcntl.lockf(f, fcntl.LOCK_EX); print('granted')"
        waiter = self.start_program(sys.executable, "-c", program, holder.name)
        time.sleep(1)
        self.server.restart()
        time.sleep(1)
        self.assertIsNone(waiter.poll(), "the lock is still held")
        holder.close()
        self.assertEqual(waiter.wait(90), 0)

    def test_work_goes_on_after_ten_seconds_without_a_server(self):
        path = self.directory(self.mount())
        self.server.kill()
        results = []

        def work(number):
            name = os.path.join(path, f"while-away{number}")
            with open(name, "w") as file:
                file.write("x" * 100000)
            results.append(os.stat(name).st_size)

        threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
        for thread in threads:
            thread.start()
        time.sleep(10)
        self.assertEqual(results, [])
        self.server.start()
        for thread in threads:
            thread.join(60)
        self.assertEqual(results, [100000] * 8)


@needs_mount()
class Lost(SystemCase):
    """A lock that cannot be reclaimed: I/O under it fails with EIO, so that it cannot mix with the new owner's."""

    SERVER = {"lease": 6, "grace": 6}
    OPTIONS = "timeo=50"
    try_to_steal = Restart.try_to_steal
    thief = Restart.thief

    def expect_eio(self, action, timeout=60):
        """The next request or lease renewal detects the loss; from then on nothing succeeds."""
        deadline = time.monotonic() + timeout
        while True:
            try:
                action()
            except OSError as error:
                self.assertEqual(error.errno, errno.EIO)
                break
            self.assertLess(time.monotonic(), deadline, "I/O under a lost lock still succeeds")
            time.sleep(0.2)
        for _ in range(3):
            with self.assertRaises(OSError) as failed:
                action()
            self.assertEqual(failed.exception.errno, errno.EIO)

    def check_after_loss(self, file, bystander, stolen, client):
        handle, stateid, _ = stolen
        client.write(handle, stateid, 0, b"THEIRS")
        self.expect_eio(lambda: (file.seek(0), file.write(b"ours"), os.fsync(file.fileno())))
        # The lock belongs to the process, for all its descriptors. Other processes have not relied on it.
        for _ in range(2):
            with self.assertRaises(OSError) as failed:
                self.twin.seek(0), self.twin.write(b"ours"), os.fsync(self.twin.fileno())
            self.assertEqual(failed.exception.errno, errno.EIO)
        with open(self.on_server(file.name), "rb") as truth:
            self.assertEqual(truth.read(6), b"THEIRS")
        argv = ["dd", f"of={file.name}", "seek=10", "bs=1", "conv=notrunc,fsync"]
        self.assertEqual(subprocess.run(argv, input=b"!", capture_output=True, check=False, timeout=60).returncode, 0)
        bystander.write(b"fine")
        os.fsync(bystander.fileno())
        lost = [line for line in self.mounted[0].log_text().splitlines() if "are lost" in line]
        self.assertEqual(len(lost), 1, f"reported once in the log: {lost}")
        self.assertIn(f"run 'nfsrdma-fuse status {self.mounted[0].path}'", self.mounted[0].log_text())
        for descriptor in (file, self.twin):
            try:
                descriptor.close()
            except OSError:
                pass
        with open(file.name, "rb") as again:  # a new open works again
            self.assertEqual(again.read(6), b"THEIRS")

    def open_two(self, path):
        file = open(os.path.join(path, "lost"), "w+b", buffering=0)
        bystander = open(os.path.join(path, "other"), "w+b", buffering=0)
        self.twin = open(file.name, "r+b", buffering=0)
        fcntl.lockf(file, LOCK_NOW)
        file.write(b"before")
        os.fsync(file.fileno())
        return file, bystander

    def test_the_server_forgot_its_clients(self):
        file, bystander = self.open_two(self.directory(self.mount()))
        self.server.kill()
        name = file.name
        self.server.restart(forget=True)
        client, names = self.thief(name)
        outcome, stolen = self.try_to_steal(client, names)
        self.assertEqual(outcome, "taken")
        self.check_after_loss(file, bystander, stolen, client)
        bystander.close()

    def test_the_lease_ran_out_behind_a_broken_network(self):
        chaos = self.proxy()
        file, bystander = self.open_two(self.directory(self.mount(port=chaos.port)))
        chaos.command("stall")
        client, names = self.thief(file.name)
        self.wait_until(lambda: self.took(client, names), "the server gives the lock away", 60)
        chaos.command("unstall")
        self.check_after_loss(file, bystander, self.stolen, client)
        bystander.close()

    def took(self, client, names):
        outcome, self.stolen = self.try_to_steal(client, names)
        client.compound(("PUTROOTFH", b""))
        return outcome == "taken"


@needs_mount()
class Moved(SystemCase):
    """The name has another address when the server comes back: it is resolved for every connection."""

    SERVER = {"lease": 6, "grace": 6, "bind": "0.0.0.0"}
    HOSTS = os.path.join(HOME, "hosts")

    def name_means(self, *addresses):
        with open(self.HOSTS, "w") as file:
            file.writelines(f"{address} moving.test\n" for address in addresses)

    def mount(self, options="", export=None, port=None, **more):
        mounted = Mount(self.server.source(export, "moving.test"), port or self.server.port, options,
                        control_path=self.server.path(export), **more)
        self.mounted.append(mounted)
        return mounted

    def port(self):
        return self.server.port

    def peers(self):
        """The addresses to which the daemon has connections (to the server's port)."""
        with open("/proc/net/tcp") as table:
            rows = [line.split() for line in table][1:]
        found = [row[2].split(":") for row in rows if row[3] == "01"]
        return sorted(".".join(str(b) for b in reversed(bytes.fromhex(address))) for address, port in found
                      if int(port, 16) == self.port())

    def test_work_goes_on_where_the_server_went(self):
        self.name_means("127.0.0.1")
        steward.run(["mount", "--bind", self.HOSTS, "/etc/hosts"])
        self.addCleanup(steward.run, ["umount", "/etc/hosts"])
        mounted = self.mount("timeo=50,threads=3")
        path = self.directory(mounted)
        self.assertEqual(self.peers(), ["127.0.0.1"] * 3)
        with open(os.path.join(path, "kept"), "w+b", buffering=0) as file:
            fcntl.lockf(file, LOCK_NOW)
            self.server.kill()
            self.name_means("127.0.0.2", "127.0.0.3")
            self.server.start()
            file.write(b"after")
            os.fsync(file.fileno())
            # Whoever comes before the server listens is refused at the first address, and perhaps not at the second. The server listens at
            # its old address, too, so a connection that is made before the name is looked up again may stay there.
            try:
                self.wait_until(lambda: len(self.peers()) == 3 and self.peers() != ["127.0.0.1"] * 3, "three connections, to a new address", 60)
            except AssertionError as error:
                self.fail(f"{error}: {self.peers()}")
            self.assertEqual(os.stat(file.name).st_size, 5)
        self.assertRegex(mounted.log_text(), "now at 127[.]0[.]0[.][23]:")


ASKS_AGAIN = """
import fcntl, os, signal, sys, time
signal.signal(signal.SIGHUP, lambda *_: None)
name, said = sys.argv[1:]
def say(word, text=""):
    with open(f"{said}.{word}.new", "w") as file:
        file.write(text)
    os.rename(f"{said}.{word}.new", f"{said}.{word}")
def wait_for(word):
    while not os.path.exists(f"{said}.{word}"):
        time.sleep(0.02)
file = os.open(name, os.O_RDWR)
"""


@needs_mount()
class Interrupted(SystemCase):
    """A program gets EINTR while the server is away, and repeats its call."""

    SERVER = {"lease": 6, "grace": 6}
    OPTIONS = "timeo=10,retrans=1"  # "not responding" after a second
    try_to_steal = Restart.try_to_steal
    thief = Restart.thief

    def start(self, program):
        """Starts the program and waits until it prints "ready"."""
        self.name = os.path.join(self.directory(self.mount()), "file")
        with open(self.name, "w") as file:
            file.write("x")
        self.said = os.path.join(self.local("said"), "it")
        process = self.start_program(sys.executable, "-c", ASKS_AGAIN + program, self.name, self.said)
        self.wait_until(lambda: os.path.exists(self.said + ".ready"), "it begins")
        return process

    def tell(self, word):
        with open(f"{self.said}.{word}", "w"):
            pass

    def interrupt(self, process):
        """The server is down: a waiting call gets EINTR, and is repeated."""
        time.sleep(3)
        process.send_signal(signal.SIGHUP)
        time.sleep(2)

    def check_lock(self, call):
        process = self.start(f"say('ready'); wait_for('go'); {call}; say('locked'); time.sleep(60)")
        self.server.kill()
        self.tell("go")
        self.interrupt(process)
        self.server.start()
        self.wait_until(lambda: os.path.exists(self.said + ".locked"), "the lock is granted", 60)
        client, names = self.thief(self.name)
        self.assertEqual(self.try_to_steal(client, names)[0], "DENIED", "the program has the lock that it was given")

    def test_lock_without_waiting(self):
        self.check_lock("fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)")

    def test_lock_with_waiting(self):
        self.check_lock("fcntl.lockf(file, fcntl.LOCK_EX)")

    def test_flock(self):
        self.check_lock("fcntl.flock(file, fcntl.LOCK_EX)")

    def test_fsync_of_data_that_is_lost(self):
        process = self.start("""
fcntl.lockf(file, fcntl.LOCK_EX)
say('ready')
wait_for('go')
os.write(file, b'under a lock that is lost')
try:
    os.fsync(file)
    say('result', 'written')
except OSError as error:
    say('result', str(error.errno))
""")
        self.server.kill()
        self.tell("go")
        self.interrupt(process)
        self.server.restart(forget=True)
        self.wait_until(lambda: os.path.exists(self.said + ".result"), "fsync returns", 60)
        with open(self.said + ".result") as file:
            self.assertEqual(file.read(), str(errno.EIO), "the first answer was not heard, so the second one says it")

    def test_writer_whose_open_was_lost_and_a_reader_who_came_first(self):
        self.name = os.path.join(self.directory(self.mount()), "file")
        writer = open(self.name, "w+b", buffering=0)
        writer.write(b"before")
        os.fsync(writer.fileno())
        self.server.kill()
        reader = self.start_program(sys.executable, "-c", "import sys; print(open(sys.argv[1]).read())", self.name)
        time.sleep(2)
        self.server.restart(forget=True)
        self.assertEqual(reader.wait(60), 0)
        writer.write(b" and after")
        os.fsync(writer.fileno())
        with open(self.on_server(self.name), "rb") as truth:
            self.assertEqual(truth.read(), b"before and after")
        writer.close()


@needs_mount()
class Waiting(SystemCase):
    """Processes that wait for a server that does not answer."""

    # name: (statements before the server goes away, the statement that then waits)
    PROGRAMS = {
        "stat": ("", "os.stat(path)"),
        "statfs": ("", "os.statvfs(path)"),
        "read": ("", "fd=os.open(path,os.O_RDONLY); os.read(fd,100000)"),
        "direct": ("fd=os.open(path,os.O_RDONLY|os.O_DIRECT)", "os.preadv(fd,[mmap.mmap(-1,4096)],0)"),
        "mapped": ("fd=os.open(path,os.O_RDONLY); m=mmap.mmap(fd,7,prot=mmap.PROT_READ)", "m[0]"),
        "write": ("", "fd=os.open(path,os.O_WRONLY|os.O_SYNC); os.write(fd,b'x'*10)"),
        "fsync": ("fd=os.open(path,os.O_WRONLY)", "os.write(fd,b'content'); os.fsync(fd)"),
        "close": ("fd=os.open(path,os.O_WRONLY)", "os.write(fd,b'content'); os.close(fd)"),
        "lock": ("fd=os.open(path,os.O_RDWR)", "fcntl.lockf(fd,fcntl.LOCK_EX)"),
        "flock": ("fd=os.open(path,os.O_RDWR)", "fcntl.flock(fd,fcntl.LOCK_EX)"),
        "list": ("", "os.listdir(os.path.dirname(path))"),
        "create": ("", "os.open(path+'.new',os.O_CREAT|os.O_WRONLY)"),
        "rename": ("", "os.rename(path,path+'.renamed')"),
        "unlink": ("", "os.unlink(path)"),
    }
    # Restores the signal's default action, which ends the process; Python's own handler would not.
    PROGRAM = """\
import fcntl, mmap, os, signal, sys, time
signal.signal(signal.SIGINT, signal.SIG_DFL)
path, ready, go = sys.argv[1:]
{}
open(ready, 'w').close()
while not os.path.exists(go): time.sleep(0.02)
{}
"""

    def end_those_who_wait(self, signum):
        """Every kind of call waits, and ends when the process gets the signal; then the server comes back."""
        chaos = self.proxy()
        path = self.directory(self.mount("timeo=600,actimeo=0,lookupcache=none", port=chaos.port))
        for name in self.PROGRAMS:
            with open(os.path.join(path, name), "w") as file:
                file.write("content")
        here = self.local("signals")
        go = os.path.join(here, "go")
        waiting = {}
        for name, (before, program) in self.PROGRAMS.items():
            waiting[name] = self.start_program(sys.executable, "-c", self.PROGRAM.format(before, program),
                                               os.path.join(path, name), os.path.join(here, name), go)
        self.wait_until(lambda: len(os.listdir(here)) == len(waiting), "all have opened what they need")
        chaos.command("stall")
        open(go, "w").close()
        time.sleep(2)
        for name, process in waiting.items():
            self.assertIsNone(process.poll(), f"{name} did not wait")
            process.send_signal(signum)
        for name, process in waiting.items():
            self.assertEqual(process.wait(30), -signum, name)
        chaos.command("unstall")
        with open(os.path.join(path, "read")) as file:
            self.assertEqual(file.read(), "content")
        moved = {"rename", "unlink"}  # these may or may not have been executed
        self.assertEqual({n for n in os.listdir(path) if "." not in n} - moved, set(self.PROGRAMS) - moved)

    def test_interrupted(self):
        self.end_those_who_wait(signal.SIGINT)

    def test_killed(self):
        self.end_those_who_wait(signal.SIGKILL)

    def test_soft_gives_up(self):
        chaos = self.proxy()
        path = self.directory(self.mount("soft,timeo=10,retrans=1,actimeo=0", port=chaos.port))
        chaos.command("stall")
        begin = time.monotonic()
        with self.assertRaises(OSError) as failed:
            os.stat(os.path.join(path, "name"))
        self.assertEqual(failed.exception.errno, errno.EIO)
        self.assertLess(time.monotonic() - begin, 30)
        chaos.command("unstall")
        self.wait_until(lambda: self.creates(path), "the mount works again")

    @staticmethod
    def creates(path):
        try:
            os.mkdir(os.path.join(path, "again"))
        except FileExistsError:
            return True
        except OSError:
            return False
        return True

    def test_unmount_with_a_dead_server(self):
        mounted = self.mount("timeo=600")
        self.server.kill()
        self.run_program("fusermount3", "-uz", mounted.path)
        self.server.start()
        self.wait_until(lambda: not daemons(), "the daemon ends")


if __name__ == "__main__":
    unittest.main()
