"""What a mount need not ask the server for, counted at mounts of nfsrdma-filer, and that other mounts' doing is seen all the
same.

Every wait here is for something that must come; the cache times are long where a count must not depend on them.
"""

import os
import signal
import tempfile
import unittest

from harness.case import SystemCase, needs_mount
from harness.filer import Filer
from test_delegations import requests, since


@needs_mount()
class WhatIsMadeHere(SystemCase):
    """Directories that a program makes and fills."""

    @classmethod
    def setUpClass(cls):
        # In memory: what the server alone changes, it can tell apart (change_info4's atomic).
        cls.server = Filer(name="filer.requests", arguments=("--export", "/memory=memory")).start()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"

    LONG = "acdirmin=3600,acdirmax=3600,acregmin=3600,acregmax=3600"

    def archive(self, directories=4, files=25):
        source = tempfile.TemporaryDirectory()
        self.addCleanup(source.cleanup)
        for d in range(directories):
            os.makedirs(os.path.join(source.name, "tree", f"d{d}"))
            for f in range(files):
                with open(os.path.join(source.name, "tree", f"d{d}", f"f{f}"), "w") as file:
                    file.write(f"{d} {f}\n" * (1 + f))
        packed = os.path.join(source.name, "tree.tar")
        self.run_program("tar", "cf", packed, "-C", source.name, "tree")
        return source.name, packed

    def test_unpacking_asks_for_no_name_and_writes_with_the_times(self):
        mounted = self.mount(self.LONG, export="/memory")
        path = self.directory(mounted)
        source, packed = self.archive()
        before = requests(mounted)
        self.run_program("tar", "xf", packed, "-C", path)
        asked = since(mounted, before)
        self.assertEqual(asked["OPEN"], 100)
        self.assertLessEqual(asked.get("LOOKUP", 0), 1, "the first name of all")
        self.assertNotIn("WRITE", asked)
        self.assertNotIn("COMMIT", asked)
        self.run_program("diff", "-r", os.path.join(source, "tree"), os.path.join(path, "tree"))
        for d in range(4):
            for f in range(25):
                name = os.path.join("tree", f"d{d}", f"f{f}")
                packed_time = int(os.stat(os.path.join(source, name)).st_mtime)
                self.assertEqual(int(os.stat(os.path.join(path, name)).st_mtime), packed_time, name)

    def test_a_file_of_another_mount_is_seen_within_the_cache_times(self):
        one, two = self.mount("acdirmin=2,acdirmax=2", export="/memory"), self.mount(export="/memory")
        here = self.directory(one)
        there = os.path.join(two.path, os.path.basename(here))
        self.assertFalse(os.path.exists(os.path.join(here, "theirs")))
        with open(os.path.join(there, "theirs"), "w") as file:
            file.write("theirs")
        self.wait_until(lambda: os.path.exists(os.path.join(here, "theirs")), "the name appears", 90)

    def test_a_file_of_another_mount_is_seen_with_the_next_change_here(self):
        one, two = self.mount(self.LONG, export="/memory"), self.mount(export="/memory")
        here = self.directory(one)
        there = os.path.join(two.path, os.path.basename(here))
        for i in range(5):
            inner = os.path.join(here, f"inner{i}")
            os.mkdir(inner)
            with open(os.path.join(there, f"inner{i}", "theirs"), "w") as file:
                file.write("theirs")
            with open(os.path.join(inner, "ours"), "w") as file:
                file.write("ours")
            self.assertTrue(os.path.exists(os.path.join(inner, "theirs")), inner)

    def test_a_file_of_another_mount_is_seen_at_once_by_other_programs(self):
        """And by this one with lookupcache=pos."""
        for options in (self.LONG, self.LONG + ",lookupcache=pos"):
            one, two = self.mount(options, export="/memory"), self.mount(export="/memory")
            here = self.directory(one, f"{self.id().rsplit('.', 1)[1]}{len(options)}")
            with open(os.path.join(two.path, os.path.basename(here), "theirs"), "w") as file:
                file.write("theirs")
            if "lookupcache" in options:
                self.assertTrue(os.path.exists(os.path.join(here, "theirs")))
            self.run_program("cat", os.path.join(here, "theirs"))


if __name__ == "__main__":
    unittest.main()
