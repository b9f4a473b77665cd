"""The bare client of tests/bench, which the benchmark measures beside a mount: it does what a file system is asked for."""

import mmap
import os
import shutil
import sys
import unittest

from harness.case import WORK, SystemCase, needs_mount
from harness.filer import Filer

sys.path.insert(0, os.path.join(WORK, "src/bench"))
from ceilings import Bare  # noqa: E402

LARGE, BLOCK = (3 << 20) + 4099, 1 << 20


@unittest.skipUnless(os.path.exists(os.path.join(WORK, "build/tests/bench/barefs")), "built without NFSRDMA_BENCH")
@needs_mount()
class Ceilings(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="ceilings").start()

    def test_the_bare_client_reads_and_writes_what_is_there(self):
        """Data that is spliced and data that is not, an end of file amidst a page, and a file that another client reads behind it."""
        content = os.urandom(LARGE)
        with open(os.path.join(self.server.path(), "data"), "wb") as file:
            file.write(content)
        shutil.copyfile(os.path.join(self.server.path(), "data"), os.path.join(self.server.path(), "target"))
        bare = Bare(self.server.port, "/export")
        self.addCleanup(bare.umount)
        with open(bare.path + "/data", "rb") as file:
            self.assertEqual(file.read(), content)
        descriptor = os.open(bare.path + "/data", os.O_RDONLY | os.O_DIRECT)
        self.addCleanup(os.close, descriptor)
        self.assertEqual(os.preadv(descriptor, [page := bytearray(4096)], 1 << 20), 4096)
        self.assertEqual(page, content[1 << 20:(1 << 20) + 4096])
        changed = os.urandom(2 * BLOCK)
        with open(bare.path + "/target", "r+b", buffering=0) as file:
            file.write(changed[:BLOCK])
        direct = os.open(bare.path + "/target", os.O_WRONLY | os.O_DIRECT)
        with open(os.path.join(self.server.path(), "target"), "rb") as file:
            self.assertEqual(file.read(), changed[:BLOCK] + content[BLOCK:])  # close(2) has waited
            os.pwrite(direct, self.aligned(changed[BLOCK:]), BLOCK)
            file.seek(0)
            self.assertEqual(file.read(), changed + content[2 * BLOCK:])
        os.close(direct)

    @staticmethod
    def aligned(data):
        memory = mmap.mmap(-1, len(data))
        memory.write(data)
        return memory

    def test_the_bare_client_finds_makes_and_reads_small_files(self):
        for name in ("one", "two"):
            with open(os.path.join(self.server.path(), name), "w") as file:
                file.write(name * 100)
        bare = Bare(self.server.port, "/export", small=True)
        self.addCleanup(bare.umount)
        for name in ("one", "two"):
            self.assertEqual(os.stat(f"{bare.path}/{name}").st_size, 300)
            with open(f"{bare.path}/{name}") as file:
                self.assertEqual(file.read(), name * 100)
        self.assertFalse(os.path.exists(bare.path + "/three"))
        with open(bare.path + "/three", "w") as file:
            file.write("three")
        with open(os.path.join(self.server.path(), "three")) as file:
            self.assertEqual(file.read(), "three")
