# SPDX-License-Identifier: Apache-2.0
"""The daemon's memory is limited, however much is read and written, and by however many processes at once.

The working set is ten times `cache_mem`. The server is slow, so that the daemon reads ahead and caches data. The kernel's pages are
dropped after each piece, so that everything is requested again.
"""

import concurrent.futures
import os
import resource
import unittest

import test_recalls
from harness.case import SystemCase, needs_mount, needs_root
from harness.memory import ControlGroup

MIB = 1 << 20
CACHE = 16 * MIB
FILES = 10
PIECE = MIB
# The buffer pool keeps 64 MiB of free buffers (transport/memory/buffer.h); requests in progress and code take the
# rest.
BESIDE_THE_CACHE = 112 * MIB


def piece_of(number, round_number):
    return bytes([number + 16 * round_number]) * PIECE


class MemoryCase(test_recalls.OverTcp, SystemCase):
    FAULTS = ("reply READ always: delay 2",)
    CACHE, BESIDE_THE_CACHE = CACHE, BESIDE_THE_CACHE

    # Root's kernel reads ahead by itself, and on a fast machine nothing would be left for the daemon.
    def mount(self, *arguments, **more):
        mounted = super().mount(*arguments, **more)
        mounted.keep_kernel_from_reading_ahead(16)
        return mounted

    def check(self, mounted, start):
        stats = mounted.stats()
        cache, memory = stats["cache"], stats["memory"]
        self.assertGreater(memory["resident_bytes"], cache["data_bytes"], memory)
        self.assertEqual(cache["data_limit_bytes"], self.CACHE)
        self.assertLessEqual(cache["data_bytes"], self.CACHE)
        self.assertLessEqual(mounted.resident_bytes() - start, self.CACHE + self.BESIDE_THE_CACHE)

    def read_pieces(self, path, places, piece):
        """Reads pieces, compares each with piece(place), and drops the kernel's pages."""
        with open(path, "rb", buffering=0) as file:
            for at in places:
                self.assertEqual(os.pread(file.fileno(), PIECE, at), piece(at))
                os.posix_fadvise(file.fileno(), at, PIECE, os.POSIX_FADV_DONTNEED)

    @staticmethod
    def write_pieces(path, places, piece):
        with open(path, "wb", buffering=0) as file:
            for at in places:
                os.pwrite(file.fileno(), piece(at), at)


@needs_mount()
class Ceiling(MemoryCase):
    def read(self, path, number, round_number):
        places = range(0, CACHE, PIECE)
        self.read_pieces(path, reversed(places) if number % 4 == 3 else places, lambda _: piece_of(number, round_number))

    def write(self, path, number, round_number):
        self.write_pieces(path, range(0, CACHE, PIECE), lambda _: piece_of(number, round_number))

    def test_a_working_set_of_ten_times_the_cache(self):
        # The client does not read ahead in a file while it has unwritten data of it, so one mount writes and the
        # other reads.
        writer, reader = (self.mount("cache_mem=16M,read_ahead_kb=8192") for _ in range(2))
        name = os.path.basename(self.directory(writer))
        starts = {mounted: mounted.resident_bytes() for mounted in (writer, reader)}

        def each(pool, work, mounted, *arguments):
            paths = (os.path.join(mounted.path, name, str(number)) for number in range(FILES))
            running = [pool.submit(work, path, number, *arguments) for number, path in enumerate(paths)]
            for done in concurrent.futures.as_completed(running):
                done.result()
                self.check(mounted, starts[mounted])

        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for round_number in range(2):
                each(pool, self.write, writer, round_number)
                each(pool, self.read, reader, round_number)
        self.assertGreater(reader.stats()["cache"]["ahead_bytes"], 2 * CACHE, "the cache was used")


class CeilingRdma(Ceiling):
    PROTO = "rdma"


@needs_mount()
class SmallFiles(MemoryCase):
    """Small files whose data comes with their OPEN, of one size and then of another, and finally large ones. Some stay open and are read
    again and again. They must not hold memory of files that were cached beside them and are gone."""

    CACHE = 128 * MIB
    SIZES = (16 << 10, 32 << 10, 60 << 10)  # each size fills the cache, one after the other
    LARGE = 7  # files as large as the cache, for the rest of a working set of ten times its size
    READERS = 4
    PAGE = 4096
    # Names and attributes of so many files take somewhat more than 2 KiB each.
    BESIDE_THE_CACHE = BESIDE_THE_CACHE + 32 * MIB

    def make(self, directory):
        """Makes the files on the server."""
        for size in self.SIZES:
            for number in range(self.CACHE // size):
                with open(os.path.join(directory, f"{size}.{number}"), "wb") as file:
                    file.write(self.small(size, number))
        for number in range(self.LARGE):
            with open(os.path.join(directory, f"large.{number}"), "wb") as file:
                file.write(bytes([number]) * self.CACHE)

    def small(self, size, number):
        return f"{number:08}".encode() * (size // 8)

    def page_of_small(self, file, size, number):
        """The first page of a file; the rest stays cached, because nobody has read it."""
        self.assertEqual(os.pread(file.fileno(), self.PAGE, 0), self.small(size, number)[:self.PAGE])
        os.posix_fadvise(file.fileno(), 0, self.PAGE, os.POSIX_FADV_DONTNEED)

    def read_small(self, path, size, numbers, kept):
        # Two of the buffers that a slab holds at first (transport/memory/buffer.h), so that most slabs have one that
        # stays.
        stays = (2 << 20) // (size + 4096) // 2
        for count, number in enumerate(numbers):
            file = open(os.path.join(path, f"{size}.{number}"), "rb", buffering=0)
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_RANDOM)
            self.page_of_small(file, size, number)
            if count % stays == 0:
                kept.append((file, size, number))
            else:
                file.close()
            if count % 4 == 0:
                self.page_of_small(*kept[count // 4 % len(kept)])

    def read_large(self, path, places, kept):
        for count, place in enumerate(places):
            number, at = divmod(place * PIECE, self.CACHE)
            with open(os.path.join(path, f"large.{number}"), "rb", buffering=0) as file:
                self.assertEqual(os.pread(file.fileno(), PIECE, at), bytes([number]) * PIECE)
                os.posix_fadvise(file.fileno(), at, PIECE, os.POSIX_FADV_DONTNEED)
            for i in range(10):
                self.page_of_small(*kept[(10 * count + i) % len(kept)])

    def read(self, path, part, kept):
        """The work of one reader."""
        for size in self.SIZES:
            self.read_small(path, size, self.part_of(self.CACHE // size, part), kept)
        self.read_large(path, self.part_of(self.LARGE * self.CACHE // PIECE, part), kept)

    def part_of(self, count, part):
        return range(count * part // self.READERS, count * (part + 1) // self.READERS)

    def test_a_working_set_of_ten_times_the_cache(self):
        mounted = self.mount(f"cache_mem={self.CACHE},read_ahead_kb=8192,nodelegations")
        path = self.directory(mounted)
        self.make(self.on_server(path))
        start, kept = mounted.resident_bytes(), [[] for _ in range(self.READERS)]
        with concurrent.futures.ThreadPoolExecutor(self.READERS) as pool:
            running = [pool.submit(self.read, path, part, kept[part]) for part in range(self.READERS)]
            while concurrent.futures.wait(running, 0.5).not_done:
                self.check(mounted, start)
            for done in running:
                done.result()
        self.check(mounted, start)
        cache = mounted.stats()["cache"]
        self.assertGreater(cache["data_bytes"], self.CACHE // 2, "what came was kept")
        self.assertGreater(cache["evicted_bytes"], 5 * self.CACHE, "until there was no room for it")
        for file, _, _ in sum(kept, []):
            file.close()


class SmallFilesRdma(SmallFiles):
    PROTO = "rdma"


@needs_mount()
class Pressure(MemoryCase):
    """The daemon is in a control group with far less memory than cache_mem. Its cache shrinks to the available memory, the daemon is not
    killed, and no answer is lost."""

    CACHE = 384 * MIB
    GROUP = 192 * MIB
    SIZE = 2 * GROUP

    def test_a_group_that_is_smaller_than_the_cache(self):
        group = ControlGroup("nfsrdma-pressure")
        self.addCleanup(group.remove)
        mounted = self.mount(f"cache_mem={self.CACHE},read_ahead_kb=8192")
        self.addCleanup(mounted.umount)
        path = self.directory(mounted)
        places = range(0, self.SIZE, PIECE)
        self.write_pieces(os.path.join(self.on_server(path), "file"), places, self.piece)
        self.assertEqual(mounted.stats()["cache"]["data_limit_bytes"], self.CACHE)
        group.limit(self.GROUP)
        group.put("cgroup.procs", mounted.pid)
        for _ in range(2):
            self.read_pieces(os.path.join(path, "file"), places, self.piece)
        self.write_pieces(os.path.join(path, "written"), places, self.piece)
        self.wait_until(lambda: mounted.stats()["cache"]["data_limit_bytes"] < self.GROUP, "what may be kept is less than the group has")
        self.read_pieces(os.path.join(path, "written"), places, self.piece)
        self.assertGreater(mounted.stats()["cache"]["ahead_bytes"], self.GROUP, "the cache was used")
        self.assertLess(mounted.resident_bytes(), self.GROUP)
        group.limit(None)
        self.wait_until(lambda: mounted.stats()["cache"]["data_limit_bytes"] == self.CACHE, "it may be all again once there is memory")

    @staticmethod
    def piece(at):
        return f"{at:016}".encode() * (PIECE // 16)


class PressureRdma(Pressure):
    PROTO = "rdma"


class FiveWriters(SystemCase):
    WRITERS = 5
    PIECES = 32

    def write_files(self, mounted):
        path = self.directory(mounted)

        def write(number):
            with open(os.path.join(path, str(number)), "wb", buffering=0) as file:
                for at in range(self.PIECES):
                    file.write(piece_of(number, at % 8))
                os.fsync(file.fileno())

        with concurrent.futures.ThreadPoolExecutor(self.WRITERS) as pool:
            list(pool.map(write, range(self.WRITERS)))
        for number in range(self.WRITERS):
            with open(self.on_server(os.path.join(path, str(number))), "rb") as file:
                for at in range(self.PIECES):
                    self.assertEqual(file.read(PIECE), piece_of(number, at % 8))
        return path

    def read_files(self, path):
        def read(number):
            with open(os.path.join(path, str(number)), "rb", buffering=0) as file:
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
                for at in range(self.PIECES):
                    self.assertEqual(file.read(PIECE), piece_of(number, at % 8))

        with concurrent.futures.ThreadPoolExecutor(self.WRITERS) as pool:
            list(pool.map(read, range(self.WRITERS)))


@needs_mount()
@needs_root("root, who makes a control group")
class SmallControlGroup(FiveWriters):
    def test_a_small_one_holds_the_daemon_under_five_writers_and_readers(self):
        group = ControlGroup("nfsrdma-small")
        self.addCleanup(group.remove)
        group.limit(24 * MIB)
        with group:
            mounted = self.mount()
        self.assertIn(str(mounted.pid), group.processes())
        path = self.write_files(mounted)
        self.read_files(path)
        self.assertEqual(group.killed(), 0)
        mounted.umount()
        self.wait_until(lambda: not group.processes(), "the daemon's end")


@needs_mount()
class ProcessLimits(FiveWriters):
    def limited(self, kind, field, more):
        """A mount whose daemon may have `more` bytes than it has now."""
        mounted = self.mount()
        with open(f"/proc/{mounted.pid}/status") as status:
            size = next(int(line.split()[1]) for line in status if line.startswith(field)) * 1024
        before = resource.prlimit(mounted.pid, kind)
        resource.prlimit(mounted.pid, kind, (size + more, before[1]))
        return mounted, before

    def test_address_space_bounds_what_is_kept(self):
        mounted, _ = self.limited(resource.RLIMIT_AS, "VmSize:", 3 * MIB)
        self.read_files(self.write_files(mounted))

    def test_who_is_refused_memory_commits_at_once_and_says_so(self):
        # Not enough for another slab of 2 MiB, which must be aligned to 2 MiB.
        mounted, before = self.limited(resource.RLIMIT_DATA, "VmData:", MIB)
        path = self.write_files(mounted)
        log = mounted.log_text()
        self.assertIn("no memory for requests", log)
        self.assertLessEqual(log.count("no memory for requests") - log.count("there is memory for requests again"), 1)
        resource.prlimit(mounted.pid, resource.RLIMIT_DATA, before)
        self.wait_until(lambda: "there is memory for requests again" in mounted.log_text(), "a line in the log")
        self.read_files(path)


if __name__ == "__main__":
    unittest.main()
