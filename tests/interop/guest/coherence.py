"""In a guest: tests/system/test_coherence.py's tests with two mounts that are there, and whose server is far away.

usage: coherence.py ONE TWO [unittest's words]
"""

import os
import socket
import sys
import unittest

# Nobody answers, for nothing is asked: what tests/system/harness finds in its own world.
steward, _ = socket.socketpair()
os.environ.update(NFSRDMA_STEWARD=str(steward.fileno()), HOME="/run")
import test_coherence  # noqa: E402
from harness.case import ServerForEach  # noqa: E402
from harness.mount import Mount  # noqa: E402

PATHS = [sys.argv.pop(1) for _ in range(2)]


class There(Mount):
    """It stays mounted."""

    def __init__(self, path):
        self.path, self.control = path, False


class ReadAhead(ServerForEach, test_coherence.ReadAhead):
    test_o_direct_reads_are_the_servers = None  # nobody but clients reaches the server's files

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
