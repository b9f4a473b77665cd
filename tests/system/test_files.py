# SPDX-License-Identifier: Apache-2.0
"""The behaviour of files that programs rely on, call by call (docs/conformance names these tests)."""

import ctypes
import errno
import fcntl
import mmap
import os
import re
import stat
import subprocess
import sys
import threading
import time
import unittest

from harness.case import SystemCase, needs_mount, scaled

libc = ctypes.CDLL(None, use_errno=True)
AT_FDCWD = -100
RENAME_NOREPLACE, RENAME_EXCHANGE, RENAME_WHITEOUT = 1, 2, 4
GIB = 1 << 30


class Files(SystemCase):
    MODES = (0o000, 0o400, 0o644, 0o4755, 0o2755, 0o1777)

    def setUp(self):
        super().setUp()
        self.path = self.directory(self.mount())

    def at(self, name):
        return os.path.join(self.path, name)

    def write(self, name, data=b""):
        with open(self.at(name), "wb") as file:
            file.write(data)
        return self.at(name)

    def read(self, name):
        with open(self.at(name), "rb") as file:
            return file.read()

    def served(self, name):
        with open(self.on_server(self.at(name)), "rb") as file:
            return file.read()

    def fails(self, number, call, *args):
        with self.assertRaises(OSError) as failed:
            call(*args)
        self.assertEqual(errno.errorcode[failed.exception.errno], errno.errorcode[number])

    # Contents

    def test_sparse_beyond_four_gib(self):
        fd = os.open(self.at("sparse"), os.O_CREAT | os.O_RDWR)
        places = [0, 2 * GIB - 3, 4 * GIB - 3, 4 * GIB + 50, 100 * GIB, 1 << 42]
        for place in places:
            os.pwrite(fd, b"at %d" % place, place)
        os.fsync(fd)
        self.assertEqual(os.fstat(fd).st_size, places[-1] + len("at %d" % places[-1]))
        for place in places:
            self.assertEqual(os.pread(fd, 40, place).rstrip(b"\0"), b"at %d" % place)
            self.assertEqual(os.pread(fd, 100, place + 100), b"\0" * 100 if place != places[-1] else b"")
        self.assertLess(os.fstat(fd).st_blocks * 512, 1 << 20)
        os.ftruncate(fd, 4 * GIB + 1)
        self.assertEqual(os.stat(self.on_server(self.at("sparse"))).st_size, 4 * GIB + 1)
        os.close(fd)

    def test_directories_that_are_gone_have_no_links(self):
        """fstat(2) of an open directory that was removed, or replaced by rename(2)."""
        for name in ("removed", "replaced", "new"):
            os.mkdir(self.at(name))
        fds = [os.open(self.at(name), os.O_RDONLY) for name in ("removed", "replaced")]
        os.rmdir(self.at("removed"))
        os.rename(self.at("new"), self.at("replaced"))
        self.assertEqual([os.fstat(fd).st_nlink for fd in fds], [0, 0])
        self.assertGreater(os.stat(self.at("replaced")).st_nlink, 0)
        for fd in fds:
            os.close(fd)

    def test_the_largest_offsets(self):
        fd = os.open(self.at("far"), os.O_CREAT | os.O_RDWR)
        for place in ((1 << 63) - 1, 1 << 63):
            try:
                os.pwrite(fd, b"x", place)
                self.fail("written where no file reaches")
            except (OSError, OverflowError) as error:
                self.assertIn(getattr(error, "errno", errno.EFBIG), (errno.EFBIG, errno.EINVAL))
        os.close(fd)

    def test_two_processes_append(self):
        path = self.write("log")
        program = ("import os,sys\nfd=os.open(sys.argv[1],os.O_WRONLY|os.O_APPEND)\n"
                   "for i in range(int(sys.argv[3])): os.write(fd,b'%s %06d %s\\n'%(sys.argv[2].encode(),i,b'.'*(i%90)))\n")
        count = scaled(1000, 10000)
        writers = [self.start_program(sys.executable, "-c", program, path, name, count) for name in ("one", "two")]
        for writer in writers:
            self.assertEqual(writer.wait(300), 0)
        lines = self.read("log").decode().splitlines()
        for name in ("one", "two"):
            mine = [line for line in lines if line.startswith(name)]
            self.assertEqual(mine, [f"{name} {i:06} {'.' * (i % 90)}" for i in range(count)])
        self.assertEqual(len(lines), 2 * count)

    def test_shared_mapping_between_processes(self):
        path = self.write("shared", b"\0" * 20000)
        program = ("import mmap,os,sys,time\nfd=os.open(sys.argv[1],os.O_RDWR)\nm=mmap.mmap(fd,20000)\n"
                   "while m[0:1]!=b'g': time.sleep(0.01)\nm[5000:5005]=b'there'\nm[1:2]=b'd'\n")
        other = self.start_program(sys.executable, "-c", program, path)
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 20000) as mapping:
            mapping[0:1] = b"g"
            self.wait_until(lambda: mapping[1:2] == b"d", "the other process sees the mapping change")
            self.assertEqual(mapping[5000:5005], b"there")
            self.assertEqual(os.pread(file.fileno(), 5, 5000), b"there")
            mapping.flush()
            self.assertEqual(self.served("shared")[5000:5005], b"there")
        self.assertEqual(other.wait(30), 0)

    def test_mapped_pages_reach_the_server_at_fsync_and_close(self):
        path = self.write("mapped", b"a" * 10000)
        with open(path, "r+b") as file:
            with mmap.mmap(file.fileno(), 10000) as mapping:
                mapping[9000:9004] = b"sync"
                os.fsync(file.fileno())
                self.assertEqual(self.served("mapped")[9000:9004], b"sync")
                mapping[9000:9005] = b"close"
        self.assertEqual(self.served("mapped")[9000:9005], b"close")

    def test_a_mapping_outlives_its_descriptor(self):
        path = self.write("mapped", b"a" * 10000)
        fd = os.open(path, os.O_RDWR)
        mapping = mmap.mmap(fd, 10000)
        os.close(fd)
        mapping[9000:9004] = b"late"
        mapping.flush()
        mapping.close()
        self.assertEqual(self.served("mapped")[9000:9004], b"late")

    def lost_behind_a_mapping(self, name, synced):
        """Makes 400 writes, each from the middle of the last page to beyond the end of the file; a mapping has changed that page, and
        another thread writes it out meanwhile. Returns how many writes have lost bytes."""
        fd, done, lost = os.open(self.write(name, b"a" * 39), os.O_RDWR), threading.Event(), 0

        def write_out():
            SYNC_FILE_RANGE_WRITE = 2
            while not done.is_set():
                libc.sync_file_range(fd, ctypes.c_int64(0), ctypes.c_int64(0), SYNC_FILE_RANGE_WRITE)

        thread = threading.Thread(target=write_out)
        with mmap.mmap(fd, 39) as mapping:
            thread.start()
            for turn in range(400):
                os.ftruncate(fd, 39)
                mapping[0] = turn % 256
                if synced:
                    mapping.flush()
                os.pwrite(fd, b"x" * 98, 39)
                lost += os.pread(fd, 98, 39) != b"x" * 98
            done.set()
            thread.join()
        os.close(fd)
        return lost

    def test_a_write_from_the_page_on_that_a_mapping_has_changed(self):
        """At least Linux 6.17 and 6.18 lose such a write, on every FUSE file system, if the page is written back
        meanwhile. Not after msync."""
        self.assertEqual(self.lost_behind_a_mapping("synced", True), 0)
        lost, release = self.lost_behind_a_mapping("changed", False), os.uname().release
        if lost and tuple(map(int, re.findall(r"\d+", release)[:2])) >= (6, 17):
            self.skipTest(f"{lost} of 400 lost: Linux {release} zeroes what lies in a page beyond the file's size as it writes it out")
        self.assertEqual(lost, 0)

    def test_times_set_after_msync_outlive_a_mapping(self):
        path = self.write("mapped", b"a" * 10000)
        fd = os.open(path, os.O_RDWR)
        with mmap.mmap(fd, 10000) as mapping:
            mapping[0:4] = b"text"
            mapping.flush()
            os.utime(fd, (200, 200))
        os.close(fd)
        self.assertEqual(os.stat(path).st_mtime, 200)

    def test_private_mapping_does_not_write(self):
        path = self.write("private", b"b" * 5000)
        with open(path, "r+b") as file, mmap.mmap(file.fileno(), 0, flags=mmap.MAP_PRIVATE) as mapping:
            mapping[0:3] = b"xyz"
        self.assertEqual(self.served("private"), b"b" * 5000)

    def test_unlinked_but_open(self):
        path = self.write("unlinked", b"first")
        fd = os.open(path, os.O_RDWR)
        os.unlink(path)
        self.assertFalse(os.path.exists(path))
        os.pwrite(fd, b" second", 5)
        os.fsync(fd)
        self.assertEqual(os.pread(fd, 100, 0), b"first second")
        os.ftruncate(fd, 3)
        self.assertEqual(os.fstat(fd).st_size, 3)
        os.fchmod(fd, 0o600)
        self.write("unlinked", b"another")  # the name is free again
        self.assertEqual(os.pread(fd, 100, 0), b"fir")
        os.close(fd)
        self.assertEqual(self.read("unlinked"), b"another")
        os.unlink(path)
        self.wait_until(lambda: os.listdir(self.on_server(self.path)) == [], "nothing stays behind on the server")

    def test_renamed_over_while_open(self):
        fd = os.open(self.write("old", b"old"), os.O_RDWR)
        self.write("new", b"new")
        os.rename(self.at("new"), self.at("old"))
        self.assertEqual(os.pread(fd, 10, 0), b"old")
        self.assertEqual(self.read("old"), b"new")
        os.pwrite(fd, b"OLD", 0)
        os.close(fd)
        self.assertEqual(self.read("old"), b"new")
        self.wait_until(lambda: os.listdir(self.on_server(self.path)) == ["old"], "nothing stays behind on the server")

    def test_directory_of_an_open_unlinked_file_can_be_removed_after_close(self):
        """close(2) returns before the hidden name is removed: rmdir waits for that."""
        for turn in range(20):
            os.mkdir(self.at("dir"))
            fd = os.open(self.at("dir/file"), os.O_CREAT | os.O_RDWR)
            os.unlink(self.at("dir/file"))
            self.assertEqual([n for n in os.listdir(self.at("dir")) if not n.startswith(".nfs")], [])
            self.fails(errno.ENOTEMPTY, os.rmdir, self.at("dir"))
            os.close(fd)
            os.rmdir(self.at("dir"))

    def test_directory_of_a_hidden_name_that_went_is_seen_as_it_is(self):
        os.mkdir(self.at("dir"))
        fd = os.open(self.at("dir/file"), os.O_CREAT | os.O_RDWR)
        os.unlink(self.at("dir/file"))
        hidden = os.listdir(self.at("dir"))
        os.stat(self.at("dir"))
        time.sleep(0.05)
        os.close(fd)
        self.wait_until(lambda: not os.listdir(self.on_server(self.at("dir"))), "the last close removes it")
        there = os.stat(self.on_server(self.at("dir"))).st_mtime_ns
        self.wait_until(lambda: os.stat(self.at("dir")).st_mtime_ns == there, "the time of its removal is seen", timeout=10)
        for name in hidden:
            self.assertFalse(os.path.lexists(self.at(f"dir/{name}")))

    def test_times_of_a_file_that_is_listed_while_it_is_written(self):
        os.mkdir(self.at("listed"))
        path = self.write("listed/file", b"x" * 100)
        time.sleep(0.05)
        before = os.lstat(path).st_mtime_ns
        fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        os.write(fd, b"y" * 100)
        os.listdir(self.at("listed"))  # also caches attributes from before the write
        os.close(fd)
        found, there = os.lstat(path), os.stat(self.on_server(path))
        self.assertEqual((found.st_size, found.st_mtime_ns), (200, there.st_mtime_ns))
        self.assertGreater(found.st_mtime_ns, before)

    def test_direct_io(self):
        size = 1 << 20
        buffer = mmap.mmap(-1, size)
        buffer[:] = os.urandom(size)
        fd = os.open(self.at("direct"), os.O_CREAT | os.O_RDWR | os.O_DIRECT, 0o644)
        self.assertEqual(os.writev(fd, [buffer]), size)
        self.assertEqual(self.served("direct"), buffer[:])  # without fsync the data is at the server
        again = mmap.mmap(-1, size)
        self.assertEqual(os.preadv(fd, [again], 0), size)
        self.assertEqual(again[:], buffer[:])
        with open(self.at("direct"), "r+b") as cached:
            cached.write(b"through the cache")
            cached.flush()
            os.preadv(fd, [again], 0)
            self.assertEqual(again[:17], b"through the cache")
        os.close(fd)

    def test_sync_writes_are_on_the_server_when_they_return(self):
        for flag in (os.O_SYNC, os.O_DSYNC):
            fd = os.open(self.at("sync"), os.O_CREAT | os.O_TRUNC | os.O_WRONLY | flag)
            os.write(fd, b"synchronous")
            self.assertEqual(self.served("sync"), b"synchronous")
            os.close(fd)

    @needs_mount()
    def test_every_write_is_on_the_server_when_it_returns_with_sync_and_noac(self):
        for options in ("sync", "noac"):
            path = os.path.join(self.mount(options).path, options)
            fd = os.open(path, os.O_CREAT | os.O_WRONLY)
            for text in (b"synchronous", b"again"):
                os.write(fd, text)
                with open(self.on_server(path), "rb") as truth:
                    self.assertTrue(truth.read().endswith(text))
            os.close(fd)

    def test_close_and_fsync_bring_data_to_the_server(self):
        with open(self.at("flushed"), "wb", buffering=0) as file:
            file.write(b"1" * 3_000_000)
            os.fsync(file.fileno())
            self.assertEqual(len(self.served("flushed")), 3_000_000)
            file.write(b"2" * 3_000_000)
        self.assertEqual(self.served("flushed"), b"1" * 3_000_000 + b"2" * 3_000_000)

    def test_truncate_and_grow(self):
        path = self.write("size", b"abcdefgh" * 1000)
        os.truncate(path, 5)
        os.truncate(path, 5000)
        self.assertEqual(self.read("size"), b"abcde" + b"\0" * 4995)
        with open(path, "r+b") as file:
            file.truncate(3)
            file.seek(10)
            file.write(b"x")
        self.assertEqual(self.served("size"), b"abc" + b"\0" * 7 + b"x")

    def test_copy_file_range_and_sendfile(self):
        data = os.urandom(500000)
        self.write("from", data)
        with open(self.at("from"), "rb") as source, open(self.at("to"), "w+b") as target:
            done = 0
            while done < len(data):
                done += os.copy_file_range(source.fileno(), target.fileno(), len(data) - done)
            self.assertEqual(os.sendfile(target.fileno(), source.fileno(), 0, 1000), 1000)
        self.assertEqual(self.served("to"), data + data[:1000])

    def test_seek_data_and_hole(self):
        fd = os.open(self.at("holes"), os.O_CREAT | os.O_RDWR)
        os.pwrite(fd, b"x" * 4096, 1 << 20)
        os.ftruncate(fd, 3 << 20)
        data = os.lseek(fd, 0, os.SEEK_DATA)
        self.assertLessEqual(data, 1 << 20)
        hole = os.lseek(fd, 1 << 20, os.SEEK_HOLE)
        self.assertGreater(hole, 1 << 20)
        self.assertLessEqual(hole, 3 << 20)
        self.fails(errno.ENXIO, os.lseek, fd, 3 << 20, os.SEEK_DATA)
        os.close(fd)

    @needs_mount()
    def test_holes_are_not_told_from_data(self):
        """NFSv4.1 has no SEEK."""
        fd = os.open(self.at("sparse"), os.O_CREAT | os.O_RDWR)
        os.ftruncate(fd, 3 << 20)
        for offset in (0, 1 << 20, (3 << 20) - 1):
            self.assertEqual(os.lseek(fd, offset, os.SEEK_DATA), offset)
            self.assertEqual(os.lseek(fd, offset, os.SEEK_HOLE), 3 << 20)
        self.fails(errno.ENXIO, os.lseek, fd, 3 << 20, os.SEEK_HOLE)
        os.close(fd)

    # Names

    def renameat2(self, old, new, flags):
        result = libc.renameat2(AT_FDCWD, self.at(old).encode(), AT_FDCWD, self.at(new).encode(), flags)
        return 0 if result == 0 else ctypes.get_errno()

    @needs_mount()
    def test_rename_flags(self):
        """RENAME_NOREPLACE works where it can be atomic, otherwise EINVAL; the other flags have no NFS operation."""
        self.write("a", b"a")
        self.write("b", b"b")
        self.assertIn(self.renameat2("a", "b", RENAME_NOREPLACE), (errno.EEXIST, errno.EINVAL))
        self.assertEqual(self.renameat2("a", "b", RENAME_EXCHANGE), errno.EINVAL)
        self.assertIn(self.renameat2("a", "b", RENAME_WHITEOUT), (errno.EINVAL, errno.EPERM))
        # A check followed by a rename would not be atomic: another client may make the name in between.
        self.assertEqual(self.renameat2("a", "absent", RENAME_NOREPLACE), errno.EINVAL)
        self.fails(errno.ENOENT, os.stat, self.at("absent"))
        self.assertEqual((self.read("a"), self.read("b")), (b"a", b"b"))
        self.assertEqual(self.renameat2("a", "b", 0), 0)
        self.assertEqual(self.served("b"), b"a")

    def test_errors_of_names(self):
        self.write("file")
        os.mkdir(self.at("dir"))
        self.write("dir/inside")
        self.fails(errno.ENOENT, os.stat, self.at("missing"))
        self.fails(errno.ENOTDIR, os.stat, self.at("file/below"))
        self.fails(errno.EEXIST, os.mkdir, self.at("file"))
        self.fails(errno.EEXIST, os.mkdir, self.at("dir"))
        self.fails(errno.ENOTEMPTY, os.rmdir, self.at("dir"))
        self.fails(errno.ENOTDIR, os.rmdir, self.at("file"))
        self.fails(errno.EISDIR, os.unlink, self.at("dir"))
        self.fails(errno.EISDIR, os.open, self.at("dir"), os.O_WRONLY)
        self.fails(errno.EISDIR, os.rename, self.at("file"), self.at("dir"))
        self.fails(errno.ENOTDIR, os.rename, self.at("dir"), self.at("file"))
        self.fails(errno.EINVAL, os.rename, self.at("dir"), self.at("dir/below"))
        self.fails(errno.EEXIST, os.link, self.at("file"), self.at("dir"))
        self.fails(errno.EPERM, os.link, self.at("dir"), self.at("hard"))
        self.fails(errno.EEXIST, os.open, self.at("file"), os.O_CREAT | os.O_EXCL)
        self.fails(errno.EEXIST, os.symlink, "x", self.at("file"))
        self.fails(errno.EINVAL, os.readlink, self.at("file"))
        self.fails(errno.ENOTEMPTY, os.rename, self.write("plain") and self.at("dir"), self.nonempty())

    def nonempty(self):
        os.mkdir(self.at("other"))
        self.write("other/inside")
        return self.at("other")

    def test_negative_names_are_not_stuck(self):
        for _ in range(3):
            self.assertFalse(os.path.exists(self.at("soon")))
            self.write("soon")
            self.assertTrue(os.path.exists(self.at("soon")))
            os.unlink(self.at("soon"))

    # Attributes

    def test_times(self):
        path = self.write("times", b"x")
        os.utime(path, ns=(1234567890_123456789, 1600000000_987654321))
        self.assertEqual(os.stat(path).st_mtime_ns, 1600000000_987654321)
        self.assertEqual(os.stat(path).st_atime_ns, 1234567890_123456789)
        self.assertEqual(os.stat(self.on_server(path)).st_mtime_ns, 1600000000_987654321)
        before = time.time()
        os.utime(path)
        self.assertLess(abs(os.stat(path).st_mtime - before), 5)
        with open(path, "ab") as file:
            os.utime(path, ns=(1, 2_000_000_000_000_000_000))
            file.write(b"y")
        self.assertLess(abs(os.stat(path).st_mtime - time.time()), 5)

    def test_times_of_a_file_created_exclusively_are_of_now(self):
        """The server stores the verifier of the create in the times; the client has to set them (RFC 8881 section 18.16.4)."""
        fd = os.open(self.at("exclusive"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
        found_both = os.fstat(fd), os.stat(self.on_server(self.at("exclusive")))
        os.close(fd)
        for found in found_both:
            self.assertLess(abs(found.st_mtime - time.time()), 60)
            self.assertLess(abs(found.st_atime - time.time()), 60)
            self.assertEqual(stat.S_IMODE(found.st_mode), 0o640)

    def test_written_then_timed_keeps_its_time(self):
        """As cp -p does: write, set the time, close. Data that is written later must not change the time."""
        with open(self.at("kept"), "wb", buffering=0) as file:
            file.write(b"z" * 2_000_000)
            os.utime(file.fileno(), ns=(10**18, 10**18))
        self.assertEqual(os.stat(self.at("kept")).st_mtime_ns, 10**18)
        self.assertEqual(os.stat(self.on_server(self.at("kept"))).st_mtime_ns, 10**18)

    def test_modes(self):
        path = self.write("mode")
        for mode in self.MODES:
            os.chmod(path, mode)
            self.assertEqual(stat.S_IMODE(os.stat(path).st_mode), mode)
            self.assertEqual(stat.S_IMODE(os.stat(self.on_server(path)).st_mode), mode)
        for umask, want in ((0o022, 0o644), (0o077, 0o600), (0, 0o666)):
            old = os.umask(umask)
            try:
                fd = os.open(self.at(f"umask{umask}"), os.O_CREAT | os.O_WRONLY, 0o666)
                os.mkdir(self.at(f"dir{umask}"), 0o777)
            finally:
                os.umask(old)
            self.assertEqual(stat.S_IMODE(os.fstat(fd).st_mode), want)
            self.assertEqual(stat.S_IMODE(os.stat(self.at(f"dir{umask}")).st_mode), 0o777 & ~umask)
            os.close(fd)

    def test_a_file_created_without_write_permission_can_be_written(self):
        """open(2): the mode only applies to later accesses."""
        fd = os.open(self.at("readonly"), os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o444)
        os.write(fd, b"git does this")
        os.close(fd)
        self.assertEqual(self.read("readonly"), b"git does this")

    def test_statfs(self):
        here, there = os.statvfs(self.path), os.statvfs(self.server.path())
        self.assertEqual(here.f_namemax, 255)
        self.assertAlmostEqual(here.f_blocks * here.f_frsize, there.f_blocks * there.f_frsize, delta=1 << 20)
        self.assertGreater(here.f_bavail, 0)

    def test_running_a_program(self):
        self.run_program("cp", "/bin/true", self.at("program"))
        self.run_program(self.at("program"))
        with open(self.at("script"), "w") as file:
            file.write("#!/bin/sh\nexit 7\n")
        os.chmod(self.at("script"), 0o755)
        self.run_program(self.at("script"), status=7)

    @needs_mount()
    def test_what_the_protocol_lacks(self):
        """NFSv4.1 has no such operations; the kernel's client returns EOPNOTSUPP."""
        fd = os.open(self.write("lacking"), os.O_RDWR)
        result = libc.fallocate(fd, 0, ctypes.c_long(0), ctypes.c_long(100))
        self.assertEqual((result, ctypes.get_errno()), (-1, errno.EOPNOTSUPP))
        self.fails(errno.EOPNOTSUPP, os.setxattr, self.at("lacking"), "user.name", b"value")
        self.fails(errno.EOPNOTSUPP, os.getxattr, self.at("lacking"), "user.name")
        with self.assertRaises(OSError) as failed:
            fcntl.ioctl(fd, 0x5421 + 1000)
        self.assertEqual(failed.exception.errno, errno.ENOTTY)
        os.close(fd)

    def test_many_open_files(self):
        descriptors = [os.open(self.at(f"open{i}"), os.O_CREAT | os.O_RDWR) for i in range(800)]
        for i, fd in enumerate(descriptors):
            os.write(fd, b"%d" % i)
        for fd in descriptors:
            os.close(fd)
        self.assertEqual(self.served("open799"), b"799")

    def test_one_file_opened_in_every_mode(self):
        path = self.write("modes", b"0123456789")
        reading = os.open(path, os.O_RDONLY)
        writing = os.open(path, os.O_WRONLY)
        both = os.open(path, os.O_RDWR)
        os.pwrite(writing, b"W", 0)
        os.pwrite(both, b"B", 1)
        os.close(both)
        self.assertEqual(os.pread(reading, 3, 0), b"WB2")
        os.close(reading)
        os.pwrite(writing, b"w", 2)
        self.fails(errno.EBADF, os.pread, writing, 1, 0)
        os.close(writing)
        self.assertEqual(self.served("modes"), b"WBw3456789")


if __name__ == "__main__":
    unittest.main()
