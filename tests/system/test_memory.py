"""What the daemon keeps has a ceiling, however much is read and written, and by however many at once.

The working set is ten times `cache_mem`. The server takes its time, so that the daemon reads ahead and keeps; the kernel's
pages are dropped after each piece, so that everything is asked for again.
"""

import concurrent.futures
import os
import unittest

import test_recalls
from harness.case import SystemCase, needs_mount

MIB = 1 << 20
CACHE = 16 * MIB
FILES = 10
PIECE = MIB
# The pool of buffers keeps 64 MiB that are free (transport/memory/buffer.h); requests under way and code take the rest.
BESIDE_THE_CACHE = 112 * MIB


def content(number, round_number):
    return bytes([number + 16 * round_number]) * CACHE


@needs_mount()
class Ceiling(test_recalls.OverTcp, SystemCase):
    FAULTS = ("reply READ always: delay 2",)

    def read(self, path, number, round_number):
        places = range(0, CACHE, PIECE)
        with open(path, "rb", buffering=0) as file:
            for at in reversed(places) if number % 4 == 3 else places:
                self.assertEqual(os.pread(file.fileno(), PIECE, at), content(number, round_number)[:PIECE])
                os.posix_fadvise(file.fileno(), at, PIECE, os.POSIX_FADV_DONTNEED)

    def write(self, path, number, round_number):
        with open(path, "wb", buffering=0) as file:
            for at in range(0, CACHE, PIECE):
                os.pwrite(file.fileno(), content(number, round_number)[:PIECE], at)

    def check(self, mounted, start):
        cache = mounted.stats()["cache"]
        self.assertEqual(cache["data_limit_bytes"], CACHE)
        self.assertLessEqual(cache["data_bytes"], CACHE)
        self.assertLessEqual(mounted.resident_bytes() - start, CACHE + BESIDE_THE_CACHE)

    def test_a_working_set_of_ten_times_the_cache(self):
        # Who writes does not read ahead in what is still its own: one mount does the one, one the other.
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


if __name__ == "__main__":
    unittest.main()
