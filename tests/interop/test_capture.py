"""What software RDMA sends, read by tshark: nothing is malformed or unknown to it.

The traffic is that of a mount of nfsrdma-filer, so both roles are seen. Debian 12's tshark (4.0) knows MPA, DDP, RDMAP, version 1
of RPC-over-RDMA and NFSv4.1. Version 2 it does not: there it judges what is below.
"""

import os
import shutil
import struct
import subprocess
import unittest

import trees
from harness.case import HOME, SystemCase, needs_mount
from harness.filer import Filer
from harness.ganesha import free_port
from relay import CLIENT, SERVER, Relay, messages, write_pcap

MIB = 1 << 20
PI_WARN = 0x600000  # severity of an expert's warning; errors, and "malformed", are above
# It says so of every reply of CLOSE, whatever is in it.
KNOWN_WARNING = "State ID deprecated in CLOSE responses [RFC7530 16.2.5]"
FIELDS = ("_ws.expert.severity", "_ws.expert.message", "iwarp_rdma.opcode", "rpcordma.version", "rpcordma.msg_type",
          "rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count", "nfs.opcode", "nfs.data")
READ, READDIR, WRITE = "25", "26", "38"


@needs_mount()
@unittest.skipUnless(shutil.which("tshark"), "needs tshark; scripts/setup installs it")
class Capture(SystemCase):
    @classmethod
    def setUpClass(cls):
        rdma_port = free_port()
        cls.server = Filer(name=f"capture.{cls.__name__}", arguments=("--rdma", f"127.0.0.1:{rdma_port}")).start()
        cls.rdma_port = rdma_port

    def record(self, version):
        """Inline calls, chunks of either direction, long calls and replies; returns the pcap and the messages that were sent."""
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

    def tshark(self, path, *arguments):
        done = subprocess.run(["tshark", "-n", "-r", path, *arguments], capture_output=True, text=True, timeout=150)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout.splitlines()

    def dissect(self, path, *options):
        """A dictionary per frame, of lists of values; fails if a frame is malformed or something is unknown."""
        lines = self.tshark(path, *options, "-T", "fields", *(f"-e{name}" for name in FIELDS))
        frames = [dict(zip(FIELDS, (value.split(",") if value else [] for value in line.split("\t")))) for line in lines]
        wrong = [frame for frame in frames if frame["_ws.expert.severity"] and max(map(int, frame["_ws.expert.severity"])) >= PI_WARN
                 and frame["_ws.expert.message"] != [KNOWN_WARNING]
                 # It reads the reply of a READ whose data was placed twice, first without the data; Linux' own as well.
                 and not (READ in frame["nfs.opcode"] and frame["rpcordma.writes_count"] == ["1"] and frame["nfs.data"])]
        self.assertEqual(wrong, [])
        unknown = {line.strip() for line in self.tshark(path, *options, "-V") if "unknown" in line.lower()}
        self.assertEqual([line for line in unknown if "Name: Unknown" not in line], [])  # the type of a mode4, which has none
        return frames

    def test_version_1(self):
        path, sent = self.record(1)
        frames = self.dissect(path)
        headers = [frame for frame in frames if frame["rpcordma.version"]]
        self.assertEqual(len(headers), len(sent), "every Send is a message of RPC-over-RDMA")
        self.assertEqual({frame["rpcordma.version"][0] for frame in headers}, {"1"})
        self.assertEqual({frame["rpcordma.msg_type"][0] for frame in headers}, {"0", "1"}, "RDMA_MSG and RDMA_NOMSG")
        for chunk in ("rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count"):
            self.assertIn(["1"], [frame[chunk] for frame in headers], chunk)
        for operation in (READ, WRITE, READDIR, "53"):
            self.assertTrue(any(operation in frame["nfs.opcode"] for frame in frames), operation)

    def test_version_2_below_its_header(self):
        path, sent = self.record(2)
        frames = self.dissect(path, "--disable-protocol", "rpcordma")
        operations = [int(operation, 16) for frame in frames for operation in frame["iwarp_rdma.opcode"]]
        self.assertEqual(sum(operation in (3, 4, 5, 6) for operation in operations), len(sent))
        self.assertEqual({struct.unpack_from(">I", message, 4)[0] for message in sent}, {2})
        # RDMA Write, Read Request, Read Response, Send, Send with Invalidate
        self.assertEqual(set(operations), {0, 1, 2, 3, 4})


if __name__ == "__main__":
    unittest.main()
