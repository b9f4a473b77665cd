# SPDX-License-Identifier: Apache-2.0
"""In a guest: runs the tests of tests/system/test_coherence.py with two existing mounts of a delayed server.

usage: coherence.py ONE TWO [unittest's words]
"""

import sys
import unittest

import alone  # noqa: F401, before the harness
import test_coherence
from harness.case import ServerForEach
from harness.mount import Mount

PATHS = [sys.argv.pop(1) for _ in range(2)]


class There(Mount):
    """An existing mount, which stays mounted."""

    def __init__(self, path):
        self.path, self.control = path, False


class ReadAhead(ServerForEach, test_coherence.ReadAhead):
    LIMIT = 1800  # the guest has one emulated processor, and the machine may have other work
    test_o_direct_reads_are_the_servers = None  # only clients can reach the server's files
    # The useful distance depends on the speed of the guest's one processor: with other work it is less than a run.
    test_long_reads_far_apart_are_foretold_and_what_lies_between_is_left_alone = None

    def setUp(self):
        self.free = list(PATHS)
        super().setUp()

    def mount(self, *_, **__):
        mounted = There(self.free.pop(0))
        mounted.keep_kernel_from_reading_ahead()
        return mounted

    def tearDown(self):
        self.watchdog.cancel()


if __name__ == "__main__":
    unittest.main()
