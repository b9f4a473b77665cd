"""scripts/bench works: bench.py runs through with tiny sizes, and its table and JSON hold what they are for.

usage: bench_test.py BUILDDIR     What is measured here means nothing.
"""

import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
FABRICS = ["fabrics: " + metric for metric in ("read", "read, O_DIRECT", "one READ in flight", "write", "write, O_DIRECT",
                                               "random read, depth 1", "random read, depth 32")]
METRICS = ["read", "read, O_DIRECT", "write", "write, O_DIRECT", "write new file", "random read, depth 1", "random read, depth 32",
           "stat, depth 1", "stat, depth 16", "create, depth 1", "create, depth 16", "small file read, depth 1", "small file read, depth 16"]


class Bench(unittest.TestCase):
    def test_runs_through(self):
        with tempfile.TemporaryDirectory() as out:
            done = subprocess.run(["setpriv", "--pdeathsig", "TERM", sys.executable, os.path.join(HERE, "../system/run.py"), "--build", BUILD, "--as", "root", "--timeout",
                                   "250", "--out", out, "--script", os.path.join(HERE, "bench.py"), "--size", "8", "--repeats", "1",
                                   "--files", "50", "--no-touch", "--only", "transfers,metadata,rpc_counts,fabrics"], capture_output=True, text=True)
            if done.returncode == SKIPPED:
                print(done.stderr)
                sys.exit(SKIPPED)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            with open(os.path.join(out, "bench.json")) as file:
                document = json.load(file)
            with open(os.path.join(out, "bench.txt")) as file:
                self.assertEqual(file.read(), done.stdout)
        self.assertEqual(set(document["medians"]), set(METRICS + FABRICS))
        for metric in FABRICS:
            self.assertEqual(set(document["medians"][metric]), {"RDMA 2", "RDMA 1", "TCP"}, metric)
        for metric in METRICS:
            contenders = document["medians"][metric]
            self.assertIn("mount", contenders, metric)
            if metric.split(",")[0] in ("read", "write", "random read"):
                self.assertIn("relay", contenders, metric)
            key = "ops_per_s" if "depth" in metric else "mib_per_s"
            for name, figures in contenders.items():
                self.assertGreater(figures[key]["median"], 0, (metric, name))
        self.assertNotIn("failed", document["extra"])
        for workload in ("git clone", "tar x", "ls -lR", "rm -r"):
            counts = [c for name, c in document["extra"]["rpc_counts"].items() if name.startswith(workload)]
            self.assertTrue(counts and all(c["compounds"] > 0 for c in counts), workload)
        self.assertGreaterEqual(len(document["targets"]), 4 + 20)
        lines = done.stdout.splitlines()
        for metric in METRICS + FABRICS:
            self.assertTrue(any(line.startswith(metric + ("/s" if "depth" in metric else " MiB/s")) for line in lines), metric)
        for target in document["targets"]:
            self.assertTrue(any(target["what"] in line for line in lines), target)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
