# SPDX-License-Identifier: Apache-2.0
"""scripts/bench works: bench.py runs with tiny sizes, and its results and report are complete.

usage: bench_test.py BUILDDIR     The measured values mean nothing.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
LARGE = ["read", "re-read", "read, O_DIRECT", "write", "write, O_DIRECT"]
OURS, FILER, CEILINGS = "mount of Ganesha", ["TCP", "RDMA 2", "RDMA 1"], ["empty FUSE", "relay"]
BARE, DUTIES = "bare client", "bare client with duties"
SCALE = {"inodes": ("stat among cached inodes", "lookup beside cached inodes", "entry of a listing beside cached inodes"),
         "held": ("create beside open files", "recalled delegation beside delegations", "lock beside locks", "lock at the server beside locks")}
COUNTS = (100, 300)
BESIDE = ["relay, beside the filer", "empty FUSE, beside the filer"]
LATE = ["TCP, late answers", "RDMA 2, late answers", "cache_mem=0, late answers", "bare client, late answers", "relay, beside late answers"]
FRAMED = "framed relay, beside the filer"
DEPTHS, BLOCKS, AHEAD = [1, 2, 4, 8, 16, 32], [512 << n for n in range(12)], [0, 1, 2, 4, 8, 16]


def expected():
    """The {(metric, contender, point)} that must be there."""
    found = {(metric, who, ()) for metric in LARGE for who in [OURS, BARE, *FILER, *CEILINGS, *BESIDE]}
    found |= {(metric, FRAMED, ()) for metric in ("read", "read, O_DIRECT")}
    found |= {("4 KiB read, one at a time", who, ()) for who in [*FILER, *BESIDE, f"{BARE}, beside the filer", "loopback round trip"]}
    found |= {(metric, who, ()) for metric, tool in (("read with cat", "nfs-cat"), ("write a new file", "nfs-cp")) for who in (OURS, tool)}
    found |= {("read", f"libnfs, NFSv{version}, {depth} at once", ()) for version in (3, 4) for depth in (1, 4, 8)}
    found |= {("write", f"libnfs, NFSv3, {depth} at once", ()) for depth in (1, 4, 8)}
    found |= {("random read", who, (("depth", depth),)) for depth in DEPTHS for who in [OURS, *FILER, *CEILINGS, BESIDE[0], BARE, "libnfs, NFSv3", "libnfs, NFSv4"]}
    found |= {("read, 256 KiB at a time", who, (("depth", depth),)) for depth in DEPTHS[:5] for who in [OURS, *CEILINGS, BARE, "libnfs, NFSv3", "libnfs, NFSv4"]}
    found |= {(metric, who, (("depth", depth),)) for metric in ("stat", "small file read", "create") for depth in (1, 16)
              for who in [OURS, "empty FUSE", BARE, "libnfs, NFSv3", "libnfs, NFSv4"]}
    found |= {("write", DUTIES, ()), ("write, O_DIRECT", DUTIES, ())} | {("small file read", DUTIES, (("depth", depth),)) for depth in (1, 16)}
    found |= {("read in order", who, (("ahead", ahead), ("block", block))) for who in [*FILER, *BESIDE, FRAMED] for block in BLOCKS for ahead in AHEAD}
    found |= {(metric, who, (("delay_ms", delay),)) for metric in ("read, late answers, a user's mount", "read, late answers, root's mount") for delay in (1, 4, 16)
              for who in LATE}
    found |= {("read again, late answers", who, (("delay_ms", delay),)) for delay in (1, 4, 16) for who in LATE[:-1]}
    found |= {("stat that the daemon answers", who, ()) for who in ("one mount", "empty FUSE")}
    found.add(("stat that the daemon answers, beyond empty FUSE", "one mount", ()))
    found |= {(metric, "one mount", ((key, count),)) for key, metrics in SCALE.items() for metric in metrics for count in COUNTS}
    found |= {("cached inodes", who, (("inodes", count),)) for who in ("one mount", "empty FUSE") for count in COUNTS}
    found |= {(f"{what} of a sparse file", "one mount", (("file_gib", size),)) for size in (1, 100)
              for what in ("random read", "random read through the page cache", "random write")}
    return found | {(work, "one mount", ()) for work in ("git clone", "tar x", "ls -lR", "ls -lR again", "grep -r", "grep -r again", "rm -r")}


def read(path):
    with open(path) as file:
        return file.read()


class Documents(unittest.TestCase):
    def test_who_was_not_measured_is_left_out_of_what_is_drawn(self):
        with tempfile.TemporaryDirectory() as work:
            os.symlink(BUILD, os.path.join(work, "build"))
            os.environ["NFSRDMA_WORK"] = work
            from results import Results, write_report  # imported here: they look for the tool when they are imported
            results = Results()
            for name in ("mount", "tool that failed"):
                results.contender(name, "ours", "")
            results.add("read", "mount", {"mib_per_s": 1.0}, {"block": 4096, "ahead": 0})
            pair = [("mount", "tool that failed")]
            for kind, who in (("grid", ["mount", "tool that failed"]), ("grid", ["tool that failed"]), ("map", ["mount"])):
                results.plot(kind, f"{kind} of {len(who)}", "read", "mib_per_s", pair, x="block", along="ahead", contenders=who)
            document = results.document("a test", [])
            where = dict(document["conditions"])
            self.assertEqual((where["host"], where["kernel"]), (os.uname().nodename, "Linux " + os.uname().release))
            self.assertRegex(where["program"], r"^nfsrdma-fuse \d+\.\d+\.\d+$")
            self.assertRegex(where["libfuse"], r"^3\.\d+")
            self.assertEqual([plot["title"] for plot in document["plots"]], ["grid of 2"])
            self.assertIn("grid of 2", write_report(document, work, "bench"))


class Bench(unittest.TestCase):
    def test_runs_through(self):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run(["setpriv", "--pdeathsig", "TERM", sys.executable, os.path.join(HERE, "../system/run.py"), "--build", BUILD,
                                   "--as", "root", "--timeout", "540", "--out", out, "--script", os.path.join(HERE, "bench.py"), "--size", "8",
                                   "--repeats", "1", "--grid-repeats", "1", "--seconds", "0.01", "--files", "50", "--counts", ",".join(map(str, COUNTS)), "--commit", "0123abc"],
                                  capture_output=True, text=True)
            if done.returncode == SKIPPED:
                self.skipTest(done.stderr.strip())
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            document, text, page = (read(os.path.join(out, name)) for name in ("bench.json", "bench.txt", "report.html"))
        document = json.loads(document)
        self.assertEqual(text, done.stdout)
        measured = {(m["metric"], m["contender"], tuple(sorted(m.get("at", {}).items()))): m for m in document["measurements"]}
        self.assertEqual(set(measured), expected())
        for key, m in measured.items():
            self.assertEqual(len(m["runs"]), 9 if re.search("beside cached|among|beside (open|delegations|locks)|sparse", key[0]) else 1, key)
            for run in m["runs"]:
                value = max(run.get(quantity, 0) for quantity in ("rpcs", "mib_per_s", "ops_per_s", "p50_us", "cpu_us_per_op", "resident_mib"))
                if "beyond" not in key[0]:  # a difference, which may be almost zero here
                    self.assertGreater(value, 0, key)
        self.assertEqual(document["notes"], [])
        self.assertRegex(dict(document["conditions"])["server"], r"^nfs-ganesha \d+\.\d+; nfsrdma-filer \d")
        self.assertIn("of commit 0123abc", dict(document["conditions"])["programs"])
        self.assertGreaterEqual(len(document["targets"]), 50)
        for entry in document["targets"]:
            self.assertIn(entry["what"] + ":", text)
        for plot in document["plots"]:
            self.assertIn(plot["title"], text)
        embedded = json.loads(re.search(r'id="document">(.*?)</script>', page, re.S).group(1))
        self.assertEqual(embedded["measurements"], document["measurements"])


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    result = unittest.main(exit=False).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if result.skipped else 0)
