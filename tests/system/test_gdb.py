# SPDX-License-Identifier: Apache-2.0
"""scripts/gdb/nfsrdma.py at a live daemon: what its coroutines wait for, and its Nodes."""

import mmap
import os
import shutil
import subprocess
import threading
import unittest

from harness.case import ServerForEach, SystemCase, needs_mount
from harness.filer import Filer
from harness.steward import WORK

GDB = shutil.which("gdb")
SCRIPT = os.path.join(WORK, "gdb", "nfsrdma.py")


@needs_mount()
@unittest.skipUnless(GDB, "gdb is not installed; scripts/setup installs it")
class Gdb(ServerForEach, SystemCase):
    def setUp(self):
        super().setUp()
        self.server = Filer().start()
        self.addCleanup(self.server.kill)
        self.one = self.mount()

    def ask(self, command):
        done = subprocess.run([GDB, "-q", "-batch", "-nx", "-p", str(self.one.pid), "-x", SCRIPT, "-ex", command],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        if "ptrace: Operation not permitted" in done.stderr:
            self.skipTest("this machine lets nobody trace a process (kernel.yama.ptrace_scope)")
        self.assertNotIn("Traceback", done.stderr)
        self.assertNotIn("Error", done.stderr)
        return done.stdout

    def test_nodes_are_those_that_the_kernel_knows(self):
        path = os.path.join(self.one.path, "seven")
        with open(path, "wb") as file:
            file.write(b"7 bytes")
        os.stat(path)
        said = self.ask("nfsrdma nodes")
        self.assertRegex(said, rf"file 0644, fileid {os.stat(path).st_ino}, 7 bytes, change \d+\n  \d+ references, [1-9]\d* kernel lookups")
        self.assertIn(f"directory 1777, fileid {os.stat(self.one.path).st_ino}", said)
        self.assertRegex(said, r"(?m)^2 Nodes$")

    def test_a_read_that_waits_is_a_chain_of_coroutines(self):
        path = os.path.join(self.one.path, "file")
        with open(path, "wb") as file:
            file.write(b"x" * (1 << 20))
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.server.pause()
        self.addCleanup(self.server.resume)
        read = []
        reader = threading.Thread(target=lambda: read.append(os.preadv(descriptor, [mmap.mmap(-1, 65536)], 0)), daemon=True)
        reader.start()
        asked = []

        def waits():
            asked[:] = [chain for chain in self.ask("nfsrdma coroutines").split("suspended:") if "Session::" in chain and "::read" in chain]
            return asked
        self.wait_until(waits, "the READ waits for its answer", 120)
        names = [line.split()[1] for line in asked[0].splitlines() if line.startswith("  #")]
        self.assertEqual(names[0], "nfsrdma::rpc::ClientTransport::call", names)
        self.assertTrue(any(name.startswith("nfsrdma::fuse::") for name in names), names)
        self.assertEqual(names[-1], "nfsrdma::{anonymous}::run_detached", names)
        self.server.resume()
        reader.join(60)
        os.close(descriptor)
        self.assertEqual(read, [65536])
