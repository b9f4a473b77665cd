# SPDX-License-Identifier: Apache-2.0
"""In a guest: runs the tests of two mounts from tests/system/test_delegations.py over the guest's RDMA device.

usage: delegated.py SOURCE OPTIONS EXPORT [unittest's words]
SOURCE grants delegations, and has its files in the directory EXPORT. Each test makes its own mounts.
"""

import sys
import unittest

import alone  # noqa: F401, before the harness
import test_delegations
from harness.case import ServerForEach

SOURCE, OPTIONS, EXPORT = (sys.argv.pop(1) for _ in range(3))


class Server:
    """An existing server, which keeps running."""

    port = 20049
    log = "the server's log"

    def source(self, _=None):
        return SOURCE

    def path(self, _=None):
        return EXPORT

    def log_text(self):
        return ""


class Coherence(ServerForEach, test_delegations.Coherence):
    OPTIONS = OPTIONS
    LIMIT = 1800
    server = Server()

    def mount(self, options="", export=None, port=None, **more):
        return super().mount(options, export, port, proto="rdma", timeout=300, **more)


if __name__ == "__main__":
    unittest.main()
