# SPDX-License-Identifier: Apache-2.0
"""Two mounts of one export, and changes at the server: close-to-open, attribute times, and the effects of options.

Every wait here is for an event that must come; no test depends on a time that has passed.
"""

import errno
import os
import subprocess
import sys
import threading
import unittest

from harness import nfs41
from harness.case import HOME, Export, SystemCase, needs_mount


@needs_mount()
class CloseToOpen(SystemCase):
    def setUp(self):
        super().setUp()
        self.one, self.two = self.mount(self.FIRST), self.mount(self.SECOND)
        self.here = self.directory(self.one)
        self.there = os.path.join(self.two.path, os.path.basename(self.here))

    FIRST = SECOND = "acdirmin=2,acdirmax=2"  # new and removed names must be seen after this time

    def put(self, directory, name, data):
        with open(os.path.join(directory, name), "wb") as file:
            file.write(data)

    def get(self, directory, name):
        with open(os.path.join(directory, name), "rb") as file:
            return file.read()

    def test_open_sees_what_close_wrote(self):
        for i in range(60):
            data = b"%d " % i * (1 + i * 37 % 5000)
            writer, reader = (self.here, self.there) if i % 2 else (self.there, self.here)
            self.put(writer, "file", data)
            self.assertEqual(self.get(reader, "file"), data, f"round {i}")

    def test_same_size_same_second(self):
        """Size and mtime (in seconds) stay the same: only the change attribute shows the change."""
        for i in range(100):
            data = b"%08d" % i * 1000
            self.put(self.here, "file", data)
            self.assertEqual(self.get(self.there, "file"), data)

    def test_appenders_of_two_clients_in_turn(self):
        """The kernel's end of the file is from before the other client's append, and a shell does not ask for it."""
        self.put(self.here, "log", b"")
        for i in range(30):
            self.run_program("sh", "-c", f"echo line {i} >>log", cwd=(self.here, self.there)[i % 2])
        for directory in (self.here, self.there):
            self.assertEqual(self.get(directory, "log"), b"".join(b"line %d\n" % i for i in range(30)))

    def test_appenders_under_a_lock(self):
        import fcntl
        self.put(self.here, "mbox", b"")
        fds = [os.open(os.path.join(d, "mbox"), os.O_WRONLY | os.O_APPEND) for d in (self.here, self.there)]
        for i in range(60):
            fd = fds[i * 7 // 3 % 2]
            fcntl.lockf(fd, fcntl.LOCK_EX)
            os.write(fd, b"%d " % i * (1 + i * 97 % 3000))
            fcntl.lockf(fd, fcntl.LOCK_UN)
        for fd in fds:
            os.close(fd)
        for directory in (self.here, self.there):
            self.assertEqual(self.get(directory, "mbox"), b"".join(b"%d " % i * (1 + i * 97 % 3000) for i in range(60)))

    def test_pages_of_a_mapping_follow(self):
        import mmap
        self.put(self.here, "mapped", b"1" * 8192)
        for i in range(2, 9):
            with open(os.path.join(self.there, "mapped"), "rb") as file:
                with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapping:
                    self.assertEqual(mapping[:], b"%d" % (i - 1) * 8192)
            self.put(self.here, "mapped", b"%d" % i * 8192)

    def test_a_mapping_reaches_what_another_client_has_written(self):
        """A page fault does not fetch the size, and beyond the size that the kernel knows it raises SIGBUS."""
        program = ("import ctypes,os,sys\nsize=int(sys.argv[2])\nfd=os.open(sys.argv[1],os.O_RDONLY)\n"
                   "libc=ctypes.CDLL(None)\nlibc.mmap.restype=ctypes.c_void_p\n"
                   "at=libc.mmap(None,ctypes.c_size_t(size),1,1,fd,ctypes.c_long(0))\n"
                   "assert ctypes.string_at(at+size-1,1)==b'y'\n")
        self.put(self.here, "grown", b"x" * 10)
        for i in range(1, 9):
            self.get(self.there, "grown")
            self.put(self.here, "grown", b"y" * 20000 * i)
            self.run_program(sys.executable, "-c", program, os.path.join(self.there, "grown"), 20000 * i)

    def test_files_that_are_replaced_all_the_time_can_be_opened(self):
        """open(2) must not fail with ESTALE (POSIX): each name always leads to a file. There are so many names that
        no file stays open meanwhile."""
        names = [f"replaced{i}" for i in range(32)]
        failed, done = [], threading.Event()
        for name in names:
            self.put(self.here, name, b"first")

        def open_them():
            while not done.is_set():
                for name in names:
                    try:
                        os.close(os.open(os.path.join(self.there, name), os.O_RDONLY))
                    except OSError as error:
                        failed.append(errno.errorcode[error.errno])

        reader = threading.Thread(target=open_them)
        reader.start()
        try:
            for i in range(2000):
                self.put(self.here, "new", b"next")
                os.rename(os.path.join(self.here, "new"), os.path.join(self.here, names[i % len(names)]))
        finally:
            done.set()
            reader.join()
        self.assertEqual(failed, [])

    def test_names_to_be_made_in_a_directory_that_another_client_removed(self):
        """The kernel does not repeat the path walk for these calls."""
        self.put(self.here, "file", b"x")
        for i, make in enumerate((os.mkdir, lambda path: os.link(os.path.join(self.there, "file"), path),
                                  lambda path: os.symlink("target", path), os.mkfifo)):
            os.mkdir(os.path.join(self.here, f"d{i}"))
            os.stat(os.path.join(self.there, f"d{i}"))
            os.rmdir(os.path.join(self.here, f"d{i}"))
            with self.assertRaises(FileNotFoundError):
                make(os.path.join(self.there, f"d{i}", "name"))

    def test_fsync_is_enough_for_a_new_open(self):
        with open(os.path.join(self.here, "synced"), "wb", buffering=0) as file:
            for i in range(10):
                file.write(b"%d" % i * 5000)
                os.fsync(file.fileno())
                self.assertEqual(len(self.get(self.there, "synced")), 5000 * (i + 1))

    def test_fstat_after_open_is_fresh(self):
        self.put(self.here, "stat", b"")
        for size in (10, 5, 70000):
            self.put(self.here, "stat", b"x" * size)
            fd = os.open(os.path.join(self.there, "stat"), os.O_RDONLY)
            self.assertEqual(os.fstat(fd).st_size, size)
            os.close(fd)

    def test_replaced_by_rename(self):
        """The usual way to update a configuration file."""
        self.put(self.here, "config", b"0")
        self.assertEqual(self.get(self.there, "config"), b"0")
        for i in range(1, 20):
            self.put(self.here, "config.new", b"%d" % i)
            os.rename(os.path.join(self.here, "config.new"), os.path.join(self.here, "config"))
            self.wait_until(lambda i=i: self.get(self.there, "config") == b"%d" % i, "the new file is opened", 90)

    def test_names_come_and_go_within_the_cache_times(self):
        name = os.path.join(self.there, "name")
        self.assertFalse(os.path.exists(name))
        self.put(self.here, "name", b"x")
        self.wait_until(lambda: os.path.exists(name), "the name appears", 90)
        os.unlink(os.path.join(self.here, "name"))
        self.wait_until(lambda: not os.path.exists(name), "the name goes", 90)

    def test_attributes_follow_within_the_cache_times(self):
        """For a file that is not opened again on this mount."""
        self.put(self.here, "grows", b"1")
        name = os.path.join(self.there, "grows")
        self.assertEqual(os.stat(name).st_size, 1)
        self.put(self.here, "grows", b"22")
        self.wait_until(lambda: os.stat(name).st_size == 2, "the size follows", 90)
        os.chmod(os.path.join(self.here, "grows"), 0o600)
        self.wait_until(lambda: os.stat(name).st_mode & 0o777 == 0o600, "and the mode", 90)

    def may_look_at(self, name):
        """Whether an ordinary user may stat the file; root always may."""
        program = "import os,sys\ntry: os.stat(sys.argv[1])\nexcept PermissionError: sys.exit(3)"
        ids = {"user": 1 << 20, "group": 1 << 20, "extra_groups": []} if os.getuid() == 0 else {}
        status = subprocess.run([sys.executable, "-c", program, name], timeout=60, **ids).returncode
        self.assertIn(status, (0, 3))
        return status == 0

    def test_a_directory_that_another_client_closes_is_closed_here_within_the_cache_times(self):
        os.chmod(HOME, 0o755)
        os.chmod(self.here, 0o755)
        os.mkdir(os.path.join(self.here, "closed"), 0o755)
        self.put(os.path.join(self.here, "closed"), "name", b"")
        name = os.path.join(self.there, "closed", "name")
        self.wait_until(lambda: self.may_look_at(name), "the name is seen", 90)
        os.chmod(os.path.join(self.here, "closed"), 0o600)
        self.wait_until(lambda: not self.may_look_at(name), "it is out of reach", 90)

    def test_many_openers_at_once(self):
        """An open that begins after a close sees the written data, whatever other opens are in progress."""
        self.put(self.here, "count", b"%08d" % 0)
        closed, stop, problems = [0], threading.Event(), []

        def read():
            while not stop.is_set():
                least = closed[0]
                try:
                    number = int(self.get(self.there, "count"))
                except (OSError, ValueError) as error:
                    problems.append(str(error))
                    continue
                if number < least:
                    problems.append(f"{number} after {least} was closed")

        readers = [threading.Thread(target=read) for _ in range(3)]
        for reader in readers:
            reader.start()
        for i in range(1, 150):
            with open(os.path.join(self.here, "count"), "r+b", buffering=0) as file:
                file.write(b"%08d" % i)
            closed[0] = i
        stop.set()
        for reader in readers:
            reader.join()
        self.assertEqual(problems, [])

    def test_readers_and_writers_at_once(self):
        """Each read returns one whole version that was written, and never an older one than the previous read."""
        self.put(self.here, "version", b"%010d" % 0 * 500)
        stop, problems = threading.Event(), []

        def read():
            last = 0
            while not stop.is_set():
                try:
                    data = self.get(self.there, "version.link")
                except OSError as error:
                    # The file was replaced between LOOKUP and OPEN, and once more during the kernel's second attempt.
                    if error.errno != errno.ESTALE:
                        problems.append(str(error))
                    continue
                number = int(data[:10])
                if data != b"%010d" % number * 500:
                    problems.append("mixed versions")
                if number < last:
                    problems.append(f"{number} after {last}")
                last = number

        os.link(os.path.join(self.here, "version"), os.path.join(self.here, "version.link"))
        reader = threading.Thread(target=read)
        reader.start()
        for i in range(1, 200):
            self.put(self.here, "version.new", b"%010d" % i * 500)
            os.rename(os.path.join(self.here, "version.new"), os.path.join(self.here, "version.link"))
        stop.set()
        reader.join()
        self.assertEqual(problems, [])


class ReadAhead(CloseToOpen):
    """Like CloseToOpen, with a delayed server, so that the daemon reads ahead: its cached data is never stale."""

    SIZE = 4 << 20

    def far_away(self):
        """The port of the delaying proxy."""
        proxy = self.proxy()
        proxy.command("delay 3")
        return proxy.port

    def mount(self, options="", export=None, port=None, **more):
        mounted = super().mount(options, export, port or self.far_away(), **more)
        mounted.keep_kernel_from_reading_ahead()
        return mounted

    def kept(self, mounted):
        return mounted.stats()["cache"]

    def test_what_is_read_ahead_is_used_and_never_old(self):
        for version in range(6):
            data = b"%08d" % version * (self.SIZE // 8)
            self.put(self.here, "large", data)
            self.assertEqual(self.get(self.there, "large"), data, f"version {version}")
        cache = self.kept(self.two)
        self.assertGreater(cache["ahead_bytes"], self.SIZE)
        self.assertGreater(cache["data_hit_bytes"], self.SIZE)
        self.assertLessEqual(cache["data_bytes"], cache["data_limit_bytes"])

    def test_long_reads_far_apart_are_foretold_and_what_lies_between_is_left_alone(self):
        length, stride, count = 512 << 10, 3 << 20, 24
        with open(os.path.join(self.here, "strided"), "wb") as file:
            file.truncate(stride * count)
            for i in range(count):
                os.pwrite(file.fileno(), b"%08d" % i * (length // 8), i * stride)
        with open(os.path.join(self.there, "strided"), "rb", buffering=0) as file:
            before = self.kept(self.two)
            for i in range(count):
                self.assertEqual(os.pread(file.fileno(), length, i * stride), b"%08d" % i * (length // 8), f"run {i}")
            after = self.kept(self.two)
        ahead, hits = (after[key] - before[key] for key in ("ahead_bytes", "data_hit_bytes"))
        self.assertGreater(hits, length * count // 2)
        self.assertLess(ahead, length * count * 3 // 2)

    def test_a_write_of_ones_own_into_what_was_read_ahead(self):
        self.put(self.here, "mixed", b"a" * self.SIZE)
        with open(os.path.join(self.there, "mixed"), "r+b", buffering=0) as file:
            for at in range(0, self.SIZE, 1 << 18):
                self.assertEqual(file.read(4096), b"a" * 4096, f"at {at}")
                os.pwrite(file.fileno(), b"b" * 8192, at + (1 << 17))
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                self.assertEqual(os.pread(file.fileno(), 8192, at + (1 << 17)), b"b" * 8192)
                file.seek(at + (1 << 18))

    def test_another_clients_write_is_seen_under_a_lock(self):
        import fcntl
        self.put(self.here, "locked", b"a" * self.SIZE)
        with open(os.path.join(self.there, "locked"), "rb", buffering=0) as reader:
            self.assertEqual(reader.read(1 << 20), b"a" * (1 << 20))
            with open(os.path.join(self.here, "locked"), "r+b", buffering=0) as writer:
                fcntl.lockf(writer, fcntl.LOCK_EX)
                os.pwrite(writer.fileno(), b"b" * self.SIZE, 0)
                fcntl.lockf(writer, fcntl.LOCK_UN)
            fcntl.lockf(reader, fcntl.LOCK_SH)
            rest = b""
            while len(rest) < self.SIZE - (1 << 20):
                rest += reader.read(1 << 20)
            self.assertEqual(rest, b"b" * len(rest))

    def test_o_direct_reads_are_the_servers(self):
        import mmap
        self.put(self.here, "direct", b"a" * self.SIZE)
        with open(os.path.join(self.there, "direct"), "rb", buffering=0) as reader:
            self.assertEqual(reader.read(1 << 20), b"a" * (1 << 20))
            with open(self.on_server(os.path.join(self.there, "direct")), "r+b", buffering=0) as behind:
                behind.seek(0)
                behind.write(b"b" * self.SIZE)
            fd = os.open(os.path.join(self.there, "direct"), os.O_RDONLY | os.O_DIRECT)
            try:
                page = mmap.mmap(-1, 1 << 20)
                self.assertEqual(os.preadv(fd, [page], 1 << 20), 1 << 20)
                self.assertEqual(page[:], b"b" * (1 << 20))
            finally:
                os.close(fd)


class WithoutAttributeCache(CloseToOpen):
    FIRST = SECOND = "noac"

    def test_everything_is_seen_at_once(self):
        for i in range(30):
            self.put(self.here, f"n{i}", b"x" * i)
            self.assertEqual(os.stat(os.path.join(self.there, f"n{i}")).st_size, i)
            os.unlink(os.path.join(self.here, f"n{i}"))
            self.assertFalse(os.path.exists(os.path.join(self.there, f"n{i}")))

    def test_writes_are_seen_by_open_readers(self):
        self.put(self.here, "open", b"0" * 100)
        with open(os.path.join(self.there, "open"), "rb", buffering=0) as reader:
            with open(os.path.join(self.here, "open"), "r+b", buffering=0) as writer:
                for i in range(20):
                    os.pwrite(writer.fileno(), b"%03d" % i, 0)
                    self.assertEqual(os.pread(reader.fileno(), 3, 0), b"%03d" % i)


@needs_mount()
class OpenDirectories(SystemCase):
    def test_rewinddir_shows_what_the_directory_is_now(self):
        """As opendir(3) would: a program that keeps a directory open sees other clients' changes within the cache times."""
        one, two = self.mount("acdirmin=2,acdirmax=2"), self.mount()
        here = self.directory(one)
        there = os.path.join(two.path, os.path.basename(here))
        with open(os.path.join(here, "first"), "w"):
            pass
        program = """
import ctypes, sys, time
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = ctypes.c_void_p
class Dirent(ctypes.Structure):
    _fields_ = [('ino', ctypes.c_uint64), ('off', ctypes.c_int64), ('reclen', ctypes.c_ushort), ('type', ctypes.c_ubyte), ('name', ctypes.c_char * 256)]
libc.readdir.restype = ctypes.POINTER(Dirent)
d = ctypes.c_void_p(libc.opendir(sys.argv[1].encode()))
def names():
    libc.rewinddir(d)
    return {e.contents.name for e in iter(lambda: libc.readdir(d) or None, None)}
for _ in range(3): assert b'first' in names()
for name in sys.argv[3:]:
    open(sys.argv[2] + '/' + name, 'w').close()
    while name.encode() not in names(): time.sleep(0.05)
"""
        self.run_program(sys.executable, "-c", program, here, there, "second", "third")


class OneCachesTheOtherNot(CloseToOpen):
    FIRST, SECOND = "threads=4", "actimeo=0,lookupcache=none"

    def test_reads_follow_a_log(self):
        """As tail -f without stat(2): another mount appends to the file, which is empty at first."""
        self.put(self.here, "log", b"")
        with open(os.path.join(self.there, "log"), "rb", buffering=0) as reader:
            for i in range(20):
                with open(os.path.join(self.here, "log"), "ab", buffering=0) as writer:
                    writer.write(b"%03d\n" % i)
                # One read may return nothing: docs/known-issues.md, 38.
                self.assertEqual(reader.read(100) or reader.read(100), b"%03d\n" % i)
                self.assertEqual(os.pread(reader.fileno(), 1000, 0), b"".join(b"%03d\n" % j for j in range(i + 1)))


@needs_mount()
class Delegations(SystemCase):
    """With delegations the server recalls them when another client opens the file: nobody hangs, and nobody reads stale data."""

    SERVER = {"delegations": True, "lease": 20, "grace": 5}

    def test_two_mounts_take_turns(self):
        one, two = self.mount(), self.mount()
        here = self.directory(one)
        there = os.path.join(two.path, os.path.basename(here))
        for i in range(30):
            writer, reader = (here, there) if i % 2 else (there, here)
            with open(os.path.join(writer, "turn"), "wb") as file:
                file.write(b"%d" % i)
            with open(os.path.join(reader, "turn"), "rb") as file:
                self.assertEqual(file.read(), b"%d" % i)

    def test_another_client_writes_while_a_file_is_held_open(self):
        mounted = self.mount()
        path = self.directory(mounted)
        name = os.path.join(path, "held")
        with open(name, "wb") as file:
            file.write(b"before")
        with open(name, "rb") as held:
            self.assertEqual(held.read(), b"before")
            client = nfs41.Client(self.server.port, uid=os.getuid(), gid=os.getgid())
            self.addCleanup(client.close)
            names = ["export", *os.path.relpath(name, self.mounted[0].path).split("/")]
            opened = []

            def other_opens():
                try:
                    opened.append(client.open(names))
                except nfs41.Status as status:
                    if status.name != "DELAY":
                        raise
                return bool(opened)

            self.wait_until(other_opens, "the delegation is returned", 60)
            stateid, handle = opened[0]
            client.write(handle, stateid, 0, b"AFTER!")
            client.close_file(handle, stateid)
            if mounted.stats()["delegations"]["recalled"]:
                self.assertEqual(os.pread(held.fileno(), 5, 0), b"AFTER")
        with open(name, "rb") as again:
            self.assertEqual(again.read(), b"AFTER!")


@needs_mount()
class UnansweredRead(SystemCase):
    """A page waits for a READ that the server does not answer. The kernel, told to drop the page, waits for it."""

    def test_holds_up_no_open_of_another_file(self):
        proxy = self.proxy()
        # Without read-ahead, because the daemon would read that data again once the file has changed.
        mounted, other = self.mount("timeo=6000,cache_mem=0", port=proxy.port), self.mount()
        here = self.directory(mounted)
        there = os.path.join(other.path, os.path.basename(here))
        self.change(there, b"a")
        self.assertEqual(self.run_program("cat", os.path.join(here, "second")), "a" * self.SIZE)
        proxy.command("on reply READ 1 drop")
        reader = self.cat(here, "first")
        proxy.wait_triggered()
        self.change(there, b"b")
        before = mounted.stats()["fuse"]["invalidations"]
        opener = self.cat(here, "first")
        self.wait_until(lambda: mounted.stats()["fuse"]["invalidations"] > before, "the kernel is told to drop it")
        self.assertEqual(self.run_program("cat", os.path.join(here, "second"), timeout=90), "b" * self.SIZE)
        self.assertEqual([reader.poll(), opener.poll()], [None, None], "the READ was answered")
        proxy.command("cut")
        self.assertEqual([reader.wait(60), opener.wait(60)], [0, 0])

    SIZE = 1 << 20  # larger than the data that comes with an OPEN

    def change(self, directory, byte):
        for name in ("first", "second"):
            with open(os.path.join(directory, name), "wb") as file:
                file.write(byte * self.SIZE)

    def cat(self, directory, name):
        return self.start_program("cat", os.path.join(directory, name), stdout=subprocess.DEVNULL)


@needs_mount()
class ServerSide(SystemCase):
    """The next open sees changes made at the server itself, once the server has noticed them."""

    SERVER = {"exports": [Export("/export", options="Attr_Expiration_Time = 0;")]}

    def test_contents_and_names(self):
        path = self.directory(self.mount())
        served = self.on_server(path)
        name = os.path.join(path, "file")
        with open(name, "w") as file:
            file.write("client")
        for i in range(5):
            with open(os.path.join(served, "file"), "w") as file:
                file.write(f"server {i}")
            self.wait_until(lambda i=i: self.text(name) == f"server {i}", "the server's write is seen", 90)

    @staticmethod
    def text(name):
        with open(name) as file:
            return file.read()


if __name__ == "__main__":
    unittest.main()
