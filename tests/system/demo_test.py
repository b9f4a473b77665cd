#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The demo runs to its end with status 0, and however it ends it leaves no process and no mount behind.

usage: demo_test.py --build BUILDDIR --as root|user

It runs outside of the demo's world, as scripts/demo does.
"""

import argparse
import os
import signal
import subprocess
import sys
import unittest

from leftovers import LeftoverCase

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
arguments = None


class Demo(LeftoverCase):
    def command(self, *more):
        return ["env", self.mark, sys.executable, os.path.join(HERE, "run.py"), "--build", arguments.build, "--as", arguments.identity,
                "--timeout", "200", "--script", os.path.join(HERE, "demo.py"), "--size", "16", *more]

    def run_demo(self, *more):
        done = subprocess.run(self.command(*more), stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240)
        if done.returncode == SKIPPED:
            self.skipTest(done.stderr.strip())
        return done

    def test_to_its_end(self):
        done = self.run_demo()
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertIn("Everything was as it should be.", done.stdout.splitlines()[-1])
        for word in ("RPCs", "MiB/s", "Summary"):
            self.assertIn(word, done.stdout)
        self.nothing_left()

    def test_a_step_that_fails(self):
        done = self.run_demo("--options", "no-such-option")
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertIn("no-such-option", done.stderr)
        self.nothing_left()

    def ended_by(self, end, argv):
        """Starts the demo, calls `end` when the mount is in use, and returns the demo's status."""
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        for line in process.stdout:
            if "Small files" in line:
                break
        else:
            if process.wait(10) == SKIPPED:
                self.skipTest("needs root, or sudo that does not ask")
            self.fail("the demo ended early")
        self.assertTrue(self.processes(), "the mark is seen while the demo runs")
        end(process)
        return process.wait(30)

    def test_interrupted(self):
        status = self.ended_by(lambda process: process.send_signal(signal.SIGINT), self.command())
        self.assertEqual(status, 130)
        self.nothing_left()

    def test_killed(self):
        self.ended_by(lambda process: process.kill(), self.command())
        self.nothing_left(within=30)

    def test_its_caller_is_killed(self):
        self.ended_by(lambda process: process.kill(), ["sh", "-c", '"$@"; exit $?', "sh", *self.command()])
        self.nothing_left(within=30)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--as", dest="identity", choices=["root", "user"], default="root")
    arguments = parser.parse_args()
    unittest.main(argv=sys.argv[:1])
