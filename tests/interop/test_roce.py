# SPDX-License-Identifier: Apache-2.0
"""The traffic of our client and our filer through RDMA devices (Linux' rxe, RoCE v2), checked by tshark: nothing is malformed or unknown
to it.

Two guests and a cable, because rxe's traffic to itself passes no interface. tshark does not know version 2 of RPC-over-RDMA; there it
checks the layers below.
"""

import os
import unittest

import dissect
import trees
from guest import CabledGuest
from harness.case import HOME, SystemCase
from inside import FilerInside, MountInside

MIB = 1 << 20
SERVER, CLIENT = "10.9.9.2", "10.9.9.3"
FIELDS = (*dissect.FIELDS, "infiniband.bth.opcode", "infiniband.bth.destqp", "data.data")
# InfiniBand Architecture Specification, volume 1, table 38: the last or only packet of a Send of a reliable
# connection.
SENDS = {2, 3, 4, 5, 22, 23}
FILE_HEADER = 24  # of a pcap
guests = []


def setUpModule():
    if not dissect.PROGRAM:
        raise unittest.SkipTest("needs tshark; scripts/setup installs it")
    guests.append(CabledGuest(SERVER).start())
    guests.append(CabledGuest(CLIENT, guests[0]).start())
    for guest in guests:
        guest.run("rdma_up")


def tearDownModule():
    for guest in reversed(guests):
        guest.end()


class Capture(SystemCase):
    LIMIT = 3000

    @classmethod
    def setUpClass(cls):
        cls.server = FilerInside(guests[0], SERVER)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def mount(self, version):
        mounted = MountInside(guests[1], f"{SERVER}:/memory", f"rdma_dev=rxe0,rdmavers={version},threads=1")
        self.mounted.append(mounted)
        return mounted

    def record(self, version):
        """Makes inline calls, chunks in both directions, and long calls and replies; returns their pcap."""
        tree, name, client = self.local("tree"), f"version{version}", guests[1]
        trees.small_files(tree, 60)
        begin = max(os.path.getsize(guests[0].pcap), FILE_HEADER)
        mounted = self.mount(version)
        client.run(f"""set -e; cd {mounted.path}; cp -r {tree} {name}; seq {MIB} | head -c {MIB + 1} >/run/odd; cp /run/odd {name}
            ln -s $(printf 'x%.0s' $(seq 1000)) {name}/link""")
        mounted.umount()
        mounted = self.mount(version)
        client.run(f"set -e; cd {mounted.path}/{name}; ls -lR >/dev/null; cmp odd /run/odd; [ $(readlink link | wc -c) = 1001 ]")
        self.assertEqual(mounted.rdma()["version"], version)
        mounted.umount()
        path = os.path.join(HOME, name + ".pcap")
        with open(guests[0].pcap, "rb") as whole, open(path, "wb") as part:
            part.write(whole.read(FILE_HEADER))
            whole.seek(begin)
            part.write(whole.read())
        return path

    def packets(self, frames):
        """[(operation, frame)] of the traffic between queue pairs, without the connection manager's queue pair 1."""
        return [(int(frame["infiniband.bth.opcode"][0]), frame) for frame in frames
                if frame["infiniband.bth.opcode"] and int(frame["infiniband.bth.destqp"][0], 16) != 1]

    def test_version_1(self):
        frames = dissect.dissect(self, self.record(1), FIELDS)
        dissect.check_version_1(self, frames, sum(operation in SENDS for operation, _ in self.packets(frames)))

    def test_version_2_below_its_header(self):
        frames = dissect.dissect(self, self.record(2), FIELDS, "--disable-protocol", "rpcordma")
        versions = {frame["data.data"][0][8:16] for operation, frame in self.packets(frames) if operation in SENDS}
        self.assertEqual(versions, {"00000002"})
        operations = {operation for operation, _ in self.packets(frames)}
        # Send, Send with Invalidate, RDMA Write, Read Request, Read Response, Acknowledge
        for wanted in ({4}, {23}, {6, 10}, {12}, {13, 16}, {17}):
            self.assertTrue(operations & wanted, (wanted, operations))


if __name__ == "__main__":
    unittest.main()
