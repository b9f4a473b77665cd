# SPDX-License-Identifier: Apache-2.0
"""The cost of programs that look at many files: expired attributes are fetched by directory (READDIR).

A mount of nfsrdma-filer whose attributes are valid for a second. On a slow machine some may expire in between, so orders of magnitude are
compared, not exact numbers.
"""

import os
import time

from harness.case import SystemCase, needs_mount
from harness.filer import Filer
from test_delegations import requests, since

DIRECTORIES, FILES = 6, 40


@needs_mount()
class Requests(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name=f"filer.{cls.__name__}").start()

    def setUp(self):
        super().setUp()
        made = self.mount()
        path = self.directory(made)
        for d in range(DIRECTORIES):
            os.mkdir(os.path.join(path, f"d{d}"))
            for f in range(FILES):
                with open(os.path.join(path, f"d{d}", f"f{f}"), "w") as file:
                    file.write("x" * f)
        made.umount()
        self.at = self.mount("acregmin=1,acregmax=1,acdirmin=60,acdirmax=60")
        self.path = os.path.join(self.at.path, os.path.basename(path))

    def grow_old(self):
        time.sleep(1.5)

    def sizes(self):
        return {(d, f): os.lstat(f"{self.path}/d{d}/f{f}").st_size for d in range(DIRECTORIES) for f in range(FILES)}

    def test_listing_with_attributes_costs_a_request_a_directory(self):
        before = requests(self.at)
        first = self.run_program("ls", "-lR", self.path)
        cold = since(self.at, before)
        self.assertLessEqual(sum(cold.values()), 3 * DIRECTORIES, f"the opening brings the listing: {cold}")
        for turn in range(3):
            self.grow_old()
            before = requests(self.at)
            self.assertEqual(self.run_program("ls", "-lR", self.path), first)
            asked = since(self.at, before)
            self.assertLessEqual(sum(asked.values()), 3 * DIRECTORIES, f"turn {turn}: {asked}")
            self.assertIn("READDIR", asked)

    def test_looking_at_files_one_by_one_costs_a_few_requests_a_directory(self):
        expected = {(d, f): f for d in range(DIRECTORIES) for f in range(FILES)}
        self.assertEqual(self.sizes(), expected)
        self.grow_old()
        before = requests(self.at)
        self.assertEqual(self.sizes(), expected)
        asked = since(self.at, before)
        self.assertIn("READDIR", asked)
        self.assertLessEqual(sum(asked.values()), 6 * DIRECTORIES, asked)

    def test_what_others_change_is_seen_when_attributes_are_old(self):
        self.sizes()
        other = self.mount()
        there = os.path.join(other.path, os.path.basename(self.path))
        for f in range(FILES):
            os.truncate(f"{there}/d0/f{f}", 1000 + f)
        os.unlink(f"{there}/d1/f0")
        self.grow_old()
        self.assertEqual([os.lstat(f"{self.path}/d0/f{f}").st_size for f in range(FILES)], [1000 + f for f in range(FILES)])
        self.assertNotIn("f0", os.listdir(f"{self.path}/d1"))
        self.run_program("ls", "-l", f"{self.path}/d1")

    def test_removing_a_tree_reads_a_directory_no_more_than_it_is_opened(self):
        """rm opens each directory twice, and reads its beginning each time. If several users share the mount, the
        search permission of the directory above is requested once."""
        before = requests(self.at)
        self.run_program("rm", "-r", self.path)
        asked = since(self.at, before)
        self.assertEqual(asked["REMOVE"], DIRECTORIES * (FILES + 1) + 1)
        self.assertLessEqual(asked.get("READDIR", 0), 2 * (DIRECTORIES + 1), asked)
        self.assertLessEqual(asked.get("ACCESS", 0), 1, asked)
