# SPDX-License-Identifier: Apache-2.0
"""nfsrdma-filer and clients that try to exhaust it: the resources that they can hold are limited, and other clients are served meanwhile.

Two ordinary users attack, a third one works. All are on loopback, so the server can only tell them apart by user.
"""

import os
import re
import signal
import socket
import struct
import subprocess
import sys
import unittest

from harness import nfs41
from harness.case import SystemCase, sanitized
from harness.filer import Filer
from harness.ports import free_port

MALLORY, TRUDY, ALICE = 3_000_101, 3_000_102, 3_000_103
ATTACKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "attacker.py")
MIB = 1 << 20


class Attacks(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.rdma_port = free_port()
        cls.server = Filer(name="filer.attacks", descriptors=4096,
                           arguments=("--rdma", f"127.0.0.1:{cls.rdma_port}")).start()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"

    def setUp(self):
        super().setUp()
        self.alice = nfs41.Client(self.server.port, uid=ALICE, gid=ALICE)
        self.addCleanup(self.alice.close)
        self.before = self.held()

    def held(self):
        """Resident bytes and descriptors of the server."""
        with open(f"/proc/{self.server.pid}/status") as file:
            resident = int(re.search(r"VmRSS:\s+(\d+) kB", file.read())[1]) << 10
        return resident, len(os.listdir(f"/proc/{self.server.pid}/fd"))

    def attack(self, uid, mode, port, count):
        process = self.start_program(sys.executable, ATTACKER, uid, mode, port, count, stdout=subprocess.PIPE)
        output = ""
        for line in process.stdout:
            if line == "ready\n":
                return process, output
            output += line
        self.fail(f"the attacker {mode} ended: {output}")

    def works(self):
        """Alice's connection still works, and she can connect again, over TCP and over software RDMA."""
        self.assertEqual(self.root_of(self.alice), 0)
        late = nfs41.Client(self.server.port, uid=ALICE, gid=ALICE)
        self.assertEqual(self.root_of(late), 0)
        late.close()
        with socket.create_connection(("127.0.0.1", self.rdma_port), 30) as s:
            s.sendall(b"MPA ID Req Frame" + struct.pack(">BBH", 0, 1, 0))
            self.assertEqual(s.recv(16, socket.MSG_WAITALL), b"MPA ID Rep Frame")

    @staticmethod
    def root_of(client):
        reader = client.compound(("PUTROOTFH", b""))
        reader.u32()
        return reader.u32()

    def both(self, mode, port, count, most_bytes, most_descriptors):
        attackers = [self.attack(uid, mode, port, count) for uid in (MALLORY, TRUDY)]
        self.works()
        resident, descriptors = self.held()
        print(f"{mode}: {(resident - self.before[0]) / MIB:.1f} MiB, {descriptors - self.before[1]} descriptors", flush=True)
        if not sanitized():
            self.assertLess(resident - self.before[0], most_bytes)
        self.assertLess(descriptors - self.before[1], most_descriptors)
        self.works()
        for process, _ in attackers:
            process.kill()
            process.wait()
            process.stdout.close()
        return [output for _, output in attackers]

    def test_idle_connections(self):
        self.both("idle", self.server.port, 700, 32 * MIB, 1100)

    def test_connections_that_never_begin_rdma(self):
        self.both("mpa", self.rdma_port, 200, 16 * MIB, 100)

    def test_announced_read_chunks(self):
        """20 connections took 1.3 GB when the server allocated the announced chunks in advance."""
        self.both("chunks", self.rdma_port, 100, 48 * MIB, 250)

    def test_more_calls_than_credits(self):
        self.both("calls", self.rdma_port, 100, 48 * MIB, 250)

    def test_records_that_are_never_whole(self):
        self.both("records", self.server.port, 100, 64 * MIB, 250)

    def test_client_ids(self):
        made = [int(output) for output in self.both("clients", self.server.port, 4096, 64 * MIB, 50)]
        self.assertLess(max(made), 4096 // 4)


if __name__ == "__main__":
    unittest.main()
