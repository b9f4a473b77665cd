# SPDX-License-Identifier: Apache-2.0
"""`nfsrdma-fuse bench` on a real mount, compared with a plain directory: its metrics, its leftovers, its end. Not its speed."""

import json
import os
import re
import signal
import subprocess

from harness.case import SystemCase, needs_mount
from harness.filer import Filer
from harness.mount import TOOL
from harness.ports import free_port

QUICK = ("--size", "4M", "--time", "0.05", "--repeats", "2", "--files", "20")


def values(document, metric, contender, key, at=None):
    found, = [m for m in document["measurements"] if (m["metric"], m["contender"], m.get("at", {})) == (metric, contender, at or {})]
    return [run.get(key) for run in found["runs"]]


@needs_mount()
class Bench(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.rdma_port = free_port()
        cls.server = Filer(name="bench", arguments=("--rdma", f"127.0.0.1:{cls.rdma_port}")).start()

    def test_a_mount_beside_a_directory(self):
        mounted, plain, out = self.mount(port=self.rdma_port, proto="rdma"), self.local("plain"), self.local("out")
        run, page = os.path.join(out, "run.json"), os.path.join(out, "page.html")
        text = self.run_program(TOOL, "bench", mounted.path, plain, *QUICK, "--json", run, "--html", page)
        self.assertEqual((os.listdir(mounted.path), os.listdir(plain)), ([], []))
        self.assertEqual(os.listdir(self.server.path()), [])
        with open(run) as file:
            document = json.load(file)
        about = {c["name"]: c for c in document["contenders"]}
        self.assertEqual(about[mounted.path]["role"], "ours")
        self.assertRegex(about[mounted.path]["about"], r"nfsrdma-fuse, 127\.0\.0\.1:/export, rdma 2 \(")
        self.assertEqual(about[plain]["role"], "peer")
        for metric in ("write a new file", "read", "read, O_DIRECT"):
            self.assertTrue(all(v > 0 for v in values(document, metric, mounted.path, "mib_per_s")), metric)
            self.assertTrue(all(v > 0 for v in values(document, metric, mounted.path, "cpu_per_gib")), metric)
            # Calls of the daemon: at least one for each MiB that is written, or read without cached data.
            self.assertTrue(all(v >= 1 for v in values(document, metric, mounted.path, "rpcs_per_op")), metric)
        self.assertTrue(all(v < 1 for v in values(document, "read again", mounted.path, "rpcs_per_op")))
        self.assertTrue(all(v >= 1 for v in values(document, "create", mounted.path, "rpcs_per_op", {"depth": 1})))
        self.assertEqual(values(document, "read", plain, "rpcs_per_op"), [None, None])
        self.assertIn("4 KiB random reads", text)
        # Two rounds are enough to compare counts only; the text says so.
        self.assertRegex(text, rf"2 rounds are too few to be sure; so far {re.escape(mounted.path)} is .* than {re.escape(plain)}")
        where = dict(document["conditions"])
        self.assertEqual((where["host"], where["kernel"]), (os.uname().nodename, "Linux " + os.uname().release))
        self.assertIn(where["program"], self.run_program(TOOL, "--version"))
        self.assertRegex(where["libfuse"], r"^3\.\d+")
        self.assertRegex(where["server"], r"^nfsrdma-filer \d+\.\d+")
        # The page contains this document, and can be made from it again, byte for byte.
        with open(page) as file:
            html = file.read()
        embedded = re.search(r'id="document">(.*?)</script>', html, re.S).group(1)
        self.assertEqual(json.loads(embedded), document)
        again = os.path.join(out, "again.html")
        self.assertEqual(self.run_program(TOOL, "bench", "--report", run, again), text)
        with open(again) as file:
            self.assertEqual(file.read(), html)

    def test_results_are_kept_when_nobody_reads_the_text(self):
        plain, out = self.local("unread"), self.local("unread_out")
        run = os.path.join(out, "run.json")
        process = self.start_program(TOOL, "bench", plain, *QUICK, "--json", run, stdout=subprocess.PIPE)
        process.stdout.close()
        process.wait(60)
        with open(run) as file:
            self.assertEqual([c["name"] for c in json.load(file)["contenders"]], [plain])

    def test_a_signal_ends_it_and_leaves_nothing(self):
        mounted = self.mount()
        for signum in (signal.SIGINT, signal.SIGTERM):
            process = self.start_program(TOOL, "bench", mounted.path, "--size", "8M", "--repeats", "1000", stderr=subprocess.PIPE,
                                         stdout=subprocess.PIPE)
            self.wait_until(lambda: any(os.listdir(os.path.join(mounted.path, name)) for name in os.listdir(mounted.path)), "it works")
            process.send_signal(signum)
            out, err = process.communicate(timeout=60)
            self.assertEqual(process.returncode, 128 + signum, err)
            self.assertEqual(out, "")
            self.assertIn("stopped", err)
            self.assertEqual(os.listdir(mounted.path), [])

    def test_what_cannot_be_measured_is_said(self):
        mounted = self.mount()
        huge = subprocess.run([TOOL, "bench", mounted.path, "--size", "900000G"], capture_output=True, text=True)
        self.assertEqual(huge.returncode, 1)
        self.assertRegex(huge.stderr, r"^nfsrdma-fuse: \S+: \d+ MiB are free, \d+ MiB are needed; [^\n]*\n$")
        read_only = self.mount("ro")
        refused = subprocess.run([TOOL, "bench", read_only.path], capture_output=True, text=True)
        self.assertEqual(refused.returncode, 1)
        self.assertIn("Read-only file system", refused.stderr)
        self.assertEqual(os.listdir(mounted.path), [])
