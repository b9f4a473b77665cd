# SPDX-License-Identifier: Apache-2.0
"""Checks a capture with tshark. Debian 12's (4.0) knows version 1 of RPC-over-RDMA and NFSv4.1, over iWARP and RoCE v2."""

import shutil
import subprocess

PROGRAM = shutil.which("tshark")
PI_WARN = 0x600000  # the severity of an expert warning; errors and "malformed" are higher
# tshark reports it for every reply of CLOSE, whatever it contains.
KNOWN_WARNING = "State ID deprecated in CLOSE responses [RFC7530 16.2.5]"
FIELDS = ("_ws.expert.severity", "_ws.expert.message", "rpcordma.version", "rpcordma.msg_type", "rpcordma.reads_count",
          "rpcordma.writes_count", "rpcordma.reply_count", "nfs.opcode", "nfs.data")
READ, READDIR, WRITE, SEQUENCE = "25", "26", "38", "53"


def tshark(test, path, *arguments):
    done = subprocess.run([PROGRAM, "-n", "-r", path, *arguments], capture_output=True, text=True, timeout=150)
    test.assertEqual(done.returncode, 0, done.stderr)
    return done.stdout.splitlines()


def dissect(test, path, fields, *options):
    """A dictionary of lists of values for each frame; fails if a frame is malformed or something is unknown."""
    lines = tshark(test, path, *options, "-T", "fields", *(f"-e{name}" for name in fields))
    frames = [dict(zip(fields, (value.split(",") if value else [] for value in line.split("\t")))) for line in lines]
    wrong = [frame for frame in frames if frame["_ws.expert.severity"] and max(map(int, frame["_ws.expert.severity"])) >= PI_WARN
             and set(frame["_ws.expert.message"]) != {KNOWN_WARNING}
             # tshark dissects the reply of a READ with a Write list twice, first without the data; Linux' replies as
             # well.
             and not (READ in frame["nfs.opcode"] and frame["rpcordma.writes_count"] == ["1"] and frame["nfs.data"])]
    test.assertEqual(wrong, [])
    unknown = {line.strip() for line in tshark(test, path, *options, "-V") if "unknown" in line.lower()}
    test.assertEqual([line for line in unknown if "Name: Unknown" not in line], [])  # the type of a mode4, which has none
    return frames


def check_version_1(test, frames, sends):
    """Checks that there are so many messages of RPC-over-RDMA 1, with every kind of chunk and NFS in them."""
    headers = [frame for frame in frames if frame["rpcordma.version"]]
    test.assertEqual(len(headers), sends, "every Send is a message of RPC-over-RDMA")
    test.assertEqual({frame["rpcordma.version"][0] for frame in headers}, {"1"})
    test.assertEqual({frame["rpcordma.msg_type"][0] for frame in headers}, {"0", "1"}, "RDMA_MSG and RDMA_NOMSG")
    for chunk in ("rpcordma.reads_count", "rpcordma.writes_count", "rpcordma.reply_count"):
        test.assertIn(["1"], [frame[chunk] for frame in headers], chunk)
    for operation in (READ, WRITE, READDIR, SEQUENCE):
        test.assertTrue(any(operation in frame["nfs.opcode"] for frame in frames), operation)
