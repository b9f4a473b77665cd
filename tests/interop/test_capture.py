# SPDX-License-Identifier: Apache-2.0
"""The traffic of software RDMA, checked by tshark: nothing is malformed or unknown to it.

The traffic is that of a mount of nfsrdma-filer, so both roles are seen. Debian 12's tshark (4.0) knows MPA, DDP, RDMAP, version 1 of
RPC-over-RDMA and NFSv4.1. It does not know version 2; there it checks the layers below.
"""

import os
import struct
import unittest

import dissect
import trees
from harness.case import HOME, SystemCase, needs_mount
from harness.filer import Filer
from harness.ports import free_port
from relay import CLIENT, SERVER, Relay, messages, write_pcap

MIB = 1 << 20
FIELDS = (*dissect.FIELDS, "iwarp_rdma.opcode")


@needs_mount()
@unittest.skipUnless(dissect.PROGRAM, "needs tshark; scripts/setup installs it")
class Capture(SystemCase):
    @classmethod
    def setUpClass(cls):
        rdma_port = free_port()
        cls.server = Filer(name=f"capture.{cls.__name__}", arguments=("--rdma", f"127.0.0.1:{rdma_port}")).start()
        cls.rdma_port = rdma_port

    def record(self, version):
        """Makes inline calls, chunks in both directions, and long calls and replies; returns the pcap and the messages sent."""
        relay = Relay("127.0.0.1", self.rdma_port)
        self.addCleanup(relay.close)
        options = f"rdmavers={version},threads=1"
        mounted = self.mount(options, port=relay.port, proto="rdma")
        tree = self.directory(mounted, f"version{version}")
        trees.small_files(tree, 60)
        data = os.urandom(MIB + 1)
        with open(os.path.join(tree, "odd"), "wb") as file:
            file.write(data)
        os.symlink("x" * 1000, os.path.join(tree, "link"))
        mounted.umount()
        mounted = self.mount(options, port=relay.port, proto="rdma")
        tree = os.path.join(mounted.path, f"version{version}")
        trees.describe(tree)
        with open(os.path.join(tree, "odd"), "rb") as file:
            self.assertEqual(file.read(), data)
        self.assertEqual(mounted.stats()["transports"][0]["rdma"]["version"], version)
        mounted.umount()
        path = os.path.join(HOME, f"version{version}.pcap")
        write_pcap(path, relay.connections)
        return path, [message for side in (CLIENT, SERVER) for connection in relay.connections
                      for message in messages(connection.stream(side))]

    def test_version_1(self):
        path, sent = self.record(1)
        dissect.check_version_1(self, dissect.dissect(self, path, FIELDS), len(sent))

    def test_version_2_below_its_header(self):
        path, sent = self.record(2)
        frames = dissect.dissect(self, path, FIELDS, "--disable-protocol", "rpcordma")
        operations = [int(operation, 16) for frame in frames for operation in frame["iwarp_rdma.opcode"]]
        self.assertEqual(sum(operation in (3, 4, 5, 6) for operation in operations), len(sent))
        self.assertEqual({struct.unpack_from(">I", message, 4)[0] for message in sent}, {2})
        # RDMA Write, Read Request, Read Response, Send, Send with Invalidate
        self.assertEqual(set(operations), {0, 1, 2, 3, 4})


if __name__ == "__main__":
    unittest.main()
