#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""scripts/test, scripts/demo and scripts/profile interrupted: they end at once, and leave no process, mount or changed system file.

usage: scripts_test.py --build BUILDDIR

The scripts themselves run, in a folder whose setup, cmake and ctest are stand-ins that can be made to run for ever. The demo, and the work
that is recorded, are real, with the built programs.
"""

import argparse
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from leftovers import LeftoverCase

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SKIPPED = 77
STATUS = 130  # of a program that a signal has ended
# Logs its call. At the step named in the file stop-at it says so and runs until the file go exists, with a child
# process, as compilers and tests have.
STAND_IN = """\
#!/bin/sh
step="$(basename "$0") ${1-}"
echo "$step" >>"$TREE/called"
echo "$*" >>"$TREE/arguments"
case "$step" in
  "$(cat "$TREE/stop-at")"*)
    env --default-signal=INT sleep 1000 &  # a shell without jobs has it ignore SIGINT
    beside=$!
    echo reached >"$TREE/reached"
    while [ ! -e "$TREE/go" ]; do sleep 0.05; done
    kill $beside
    ;;
esac
exit "$(cat "$TREE/status")"
"""
arguments = None


class ScriptCase(LeftoverCase):
    def setUp(self):
        super().setUp()
        self.tree = tempfile.mkdtemp(prefix="nfsrdma-scripts.")
        self.addCleanup(shutil.rmtree, self.tree)
        for folder in ("scripts", "bin", "build"):
            os.mkdir(os.path.join(self.tree, folder))
        for name in ("lib.sh", "test", "demo", "profile", "gdb"):
            os.symlink(os.path.join(ROOT, "scripts", name), os.path.join(self.tree, "scripts", name))
        for name in ("tests", "docs", "packaging", "README.md", "CONTRIBUTING.md"):  # the sources that a test's world contains
            os.symlink(os.path.join(ROOT, name), os.path.join(self.tree, name))
        for name in ("release", "parts", "profiled"):
            os.symlink(os.path.abspath(arguments.build), os.path.join(self.tree, "build", name))
        for name in ("scripts/setup", "bin/cmake", "bin/ctest"):
            self.put(name, STAND_IN)
            os.chmod(os.path.join(self.tree, name), 0o755)
        self.put("stop-at", "nowhere")
        self.put("status", "0")
        self.put("called", "")
        os.mkfifo(os.path.join(self.tree, "reached"))

    def put(self, name, text):
        with open(os.path.join(self.tree, name), "w") as file:
            file.write(text)

    def text(self, name):
        with open(os.path.join(self.tree, name)) as file:
            return file.read()

    def start(self, script, *argv):
        name, mark = self.mark.split("=")
        env = {**os.environ, name: mark, "TREE": self.tree, "PATH": os.path.join(self.tree, "bin") + ":" + os.environ["PATH"]}

        def as_from_a_terminal():  # our caller may have ignored SIGINT, and bash then ignores it, too
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(signum, signal.SIG_DFL)

        process = subprocess.Popen([os.path.join(self.tree, "scripts", script), *argv], env=env, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, start_new_session=True,
                                   preexec_fn=as_from_a_terminal)
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.terminate()
            process.wait(60)
        process.stdout.close()

    def start_and_stop_at(self, step, script, *argv):
        self.put("stop-at", step)
        process = self.start(script, *argv)
        self.assertEqual(self.text("reached"), "reached\n")  # waits for it
        self.assertTrue(self.processes(), "the mark is seen")
        return process

    def called(self):
        return [line.strip() for line in self.text("called").splitlines()]


class Test(ScriptCase):
    STEPS = ["setup --guests", "cmake --preset", "cmake --build", "ctest --test-dir"]

    def test_to_its_end(self):
        process = self.start("test", "release")
        self.assertEqual(process.wait(60), 0, process.stdout.read())
        self.assertEqual(self.called(), self.STEPS)
        self.nothing_left()

    def test_what_it_tests_when_nothing_is_said(self):
        process = self.start("test")
        self.assertEqual(process.wait(60), 0, process.stdout.read())
        self.assertEqual(self.called(), self.STEPS[:3] + self.STEPS[1:])
        self.assertEqual(re.findall("--preset ([a-z]+)", self.text("arguments")), ["release", "parts"])
        self.nothing_left()

    def test_a_step_that_fails_is_the_last_one(self):
        self.put("status", "3")
        self.assertEqual(self.start("test").wait(60), 3)
        self.assertEqual(self.called(), self.STEPS[:1])
        self.nothing_left()

    def test_what_a_failed_test_printed_comes_last(self):
        results = """<testsuite><testcase name="holds" status="run"><system-out>fine</system-out></testcase>
            <testcase name="fails" status="fail"><system-out>before\n%s\nthe cause</system-out></testcase></testsuite>"""
        self.put("results", results % "\n".join(["between"] * 29))
        self.put("bin/ctest", """#!/bin/sh
            while [ "$1" != --output-junit ]; do shift; done
            cp "$TREE/results" "$2"; exit 8""")
        process = self.start("test", "release")
        self.assertEqual(process.wait(60), 8)
        printed = process.stdout.read().splitlines()
        self.assertEqual(printed[-33:-30], ["== fails, its last lines", "between", "between"])
        self.assertEqual(printed[-3:], ["the cause", "", "1 failed: fails"])
        self.nothing_left()

    def test_signals_end_it_at_each_step(self):
        for number, step in enumerate(self.STEPS[1:], 2):
            for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                with self.subTest(step=step, signal=signum.name):
                    self.put("called", "")
                    process = self.start_and_stop_at(step, "test", "release")
                    process.send_signal(signum)
                    self.assertEqual(process.wait(30), STATUS)
                    self.assertEqual(self.called(), self.STEPS[:number])
                    self.nothing_left(within=10)

    def test_control_c_reaches_every_process_of_the_terminal(self):
        for step in self.STEPS:
            with self.subTest(step=step):
                process = self.start_and_stop_at(step, "test", "release")
                os.killpg(process.pid, signal.SIGINT)
                self.assertEqual(process.wait(30), STATUS)
                self.nothing_left(within=10)

    def test_an_installation_comes_to_its_end_first(self):
        """The script lets dpkg finish, because a broken installation needs repair. It starts nothing after it."""
        process = self.start_and_stop_at("setup", "test")
        process.send_signal(signal.SIGTERM)
        self.put("go", "")
        self.assertEqual(process.wait(30), STATUS)
        self.assertEqual(self.called(), self.STEPS[:1])
        self.nothing_left(within=10)


class Demo(ScriptCase):
    def asked(self):
        """The targets that the demo builds."""
        process = self.start_and_stop_at("cmake --build", "demo")
        self.end(process)
        return re.search("--target (.*)", self.text("arguments")).group(1).split()

    def only(self, targets):
        """A build tree that contains only these programs and their other names, as in a clone where the demo runs first."""
        tree = os.path.join(self.tree, "build", "release")
        os.unlink(tree)
        os.makedirs(os.path.join(tree, "cli"))
        os.symlink(os.path.join(os.path.abspath(arguments.build), "CMakeCache.txt"), os.path.join(tree, "CMakeCache.txt"))
        for path in glob.glob(os.path.join(arguments.build, "cli", "*")):
            if os.path.isfile(path) and os.path.basename(os.path.realpath(path)) in targets:
                shutil.copy(path, os.path.join(tree, "cli"), follow_symlinks=False)

    def test_what_it_builds_is_all_that_it_needs(self):
        self.only(self.asked())
        self.put("stop-at", "nowhere")
        process = self.start("demo", "--size", "16")
        said = process.communicate(timeout=240)[0]
        if process.returncode == SKIPPED:
            self.skipTest("needs root, or sudo that does not ask")
        self.assertEqual(process.returncode, 0, said)

    def test_what_it_builds_can_be_installed(self):
        with open(os.path.join(arguments.build, "cli", "cmake_install.cmake")) as rules:
            installed = set(re.findall(r'TYPE EXECUTABLE FILES "[^"]*/cli/([^"/]+)"', rules.read()))
        self.assertGreaterEqual(installed, {"nfsrdma-fuse", "nfsrdma-filer"})
        self.assertLessEqual(installed, set(self.asked()))

    def test_what_it_builds_can_be_built(self):
        asked = self.asked()
        known = subprocess.run(["cmake", "--build", arguments.build, "--target", "help"], capture_output=True, text=True, check=True)
        for target in asked:
            self.assertRegex(known.stdout, rf"(?m)^(\.\.\. )?{re.escape(target)}(:|$)")

    def test_signals_end_it_at_work(self):
        for signum in (signal.SIGINT, signal.SIGTERM):
            with self.subTest(signal=signum.name):
                process = self.start("demo", "--size", "16")
                said = []
                for line in process.stdout:
                    said.append(line)
                    if "Small files" in line:
                        break
                else:
                    if process.wait(30) == SKIPPED:
                        self.skipTest("needs root, or sudo that does not ask")
                    self.fail("the demo ended early:\n" + "".join(said))
                self.assertTrue(self.processes(), "the mark is seen while the demo runs")
                process.send_signal(signum)
                self.assertEqual(process.wait(60), STATUS)
                self.nothing_left(within=30)


class Build(ScriptCase):
    """The text that scripts/lib.sh prints for ninja's output without a terminal."""

    NINJA = "[0/2] Re-checking globbed directories...\n[1/3] Building CXX object a.o\na.cc:1: warning: odd\n[2/3] Linking b\n" \
            "FAILED: b\nld: nothing\n"

    def said(self, command, **more):
        done = subprocess.run(["bash", "-c", f'. "{ROOT}/scripts/lib.sh"; {command}'], capture_output=True, text=True, timeout=60, **more)
        self.assertEqual(done.stderr, "")
        return done.returncode, done.stdout

    def test_between_two_lines_a_minute_passes(self):
        self.assertEqual(self.said("progress 60", input=self.NINJA), (0, "a.cc:1: warning: odd\nFAILED: b\nld: nothing\n"))

    def test_a_line_says_how_far_it_is_and_what_is_left(self):
        self.assertEqual(self.said("progress 0", input=self.NINJA),
                         (0, "[1/3], less than a minute left\na.cc:1: warning: odd\n[2/3], less than a minute left\nFAILED: b\nld: nothing\n"))

    def test_minutes(self):
        self.assertEqual(self.said("minutes 29; minutes 30; minutes 960"), (0, "less than a minute\nabout a minute\nabout 16 minutes\n"))

    def test_steps_are_counted_without_a_new_configuration(self):
        os.makedirs(os.path.join(self.tree, "build", "made"))
        self.put("build/made/build.ninja", "rule RERUN_CMAKE\n  command = false\n  generator = 1\nrule touch\n  command = touch $out\n"
                 "build build.ninja: RERUN_CMAKE | absent\n  pool = console\n\nbuild absent: phony\nbuild a: touch\nbuild b: touch a\n"
                 "build c: touch\n")
        self.assertEqual(self.said(f'cd "{self.tree}"; steps made b; steps made'), (0, "2\n3\n"))

    def test_a_build_that_fails_is_the_last_step(self):
        process = self.start_and_stop_at("cmake --build", "test")
        self.put("status", "3")
        self.put("go", "")
        self.assertEqual(process.wait(60), 3)
        self.assertEqual(self.called(), Test.STEPS[:3])
        self.nothing_left(within=10)


class Profile(ScriptCase):
    def setUp(self):
        super().setUp()
        if not os.access("/dev/fuse", os.W_OK):
            self.skipTest("/dev/fuse is not there, or not for this user")

    def at_work(self):
        """Whether the bench has begun: its directory is in a new mount."""
        mounts = [line.split()[4] for line in self.surroundings()[0] if line not in self.before[0]]
        return any(glob.glob(path + "/.nfsrdma-bench-*/*") for path in mounts)

    def test_records_at_work_and_compiles_again(self):
        process = self.start("profile")
        said = process.communicate(timeout=120)[0]
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(self.called(), ["setup"] + 2 * ["cmake --preset", "cmake --preset", "cmake --build"])
        self.assertEqual(re.findall("NFSRDMA_PROFILE=([a-z]+)", self.text("arguments")), ["generate", "use"])
        self.nothing_left(within=10)

    def test_signals_end_it_at_work(self):
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(signal=signum.name):
                process = self.start("profile")
                while not self.at_work():
                    self.assertIsNone(process.poll(), "it ended early")
                    time.sleep(0.01)
                os.killpg(process.pid, signum)  # as a terminal does
                self.assertEqual(process.wait(30), STATUS)
                self.nothing_left()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    arguments = parser.parse_args()
    if os.getuid() != 0 and subprocess.call(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) != 0:
        print("skipped: needs root, or sudo that does not ask", file=sys.stderr)
        sys.exit(SKIPPED)
    unittest.main(argv=sys.argv[:1])
