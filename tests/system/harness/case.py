# SPDX-License-Identifier: Apache-2.0
"""The base of every system test: a server per class, mounts per test, and checks for leftovers at the end."""

import faulthandler
import glob
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from . import steward
from .ganesha import Export, Ganesha
from .mount import CONTROL, Mount, daemons, is_mounted
from .proxy import ChaosProxy
from .steward import WORK

HOME = os.environ["HOME"]
SANITIZER = os.path.join(HOME, "sanitizer")
# Root's daemons write here each system call that cli/mount/system_call_filter.cc does not allow; tearDown reads it.
FORBIDDEN = os.environ.setdefault("NFSRDMA_FORBIDDEN_CALLS", os.path.join(HOME, "forbidden_calls"))
# A sanitized daemon writes its findings here; tearDown reads them.
os.environ.setdefault("ASAN_OPTIONS", f"log_path={SANITIZER}:detect_leaks=1:abort_on_error=0")
os.environ.setdefault("UBSAN_OPTIONS", f"log_path={SANITIZER}:print_stacktrace=1")
os.environ.setdefault("TSAN_OPTIONS", f"log_path={SANITIZER}:halt_on_error=0")


def full_size():
    """NFSRDMA_TEST_FULL=1: full sizes, too slow for every run."""
    return os.environ.get("NFSRDMA_TEST_FULL") == "1"


def sanitized():
    """Whether the programs under test are built with a sanitizer, and so several times slower (run.py finds out)."""
    return os.environ.get("NFSRDMA_TEST_SANITIZED") == "1"


def scaled(small, full=None):
    """A number of steps: `small` normally, `full` in full size, a fifth of `small` under a sanitizer."""
    if full_size() and full:
        return full
    return max(1, small // 5) if sanitized() else small


def seconds(small, full):
    """How long a test whose timing is random should run."""
    return full if full_size() else small


def tool(name):
    """A program built from tests/system."""
    return os.path.join(WORK, "build/tests/system", name)


def needs_root(what="root"):
    return unittest.skipUnless(os.getuid() == 0, f"needs {what}; runs in the root variant of this test")


def needs_user():
    return unittest.skipUnless(os.getuid() != 0, "is about an ordinary user; runs in the user variant of this test")


def needs_mount():
    return unittest.skipIf(CONTROL, "is about a mount; there is none with NFSRDMA_TEST_CONTROL")


class SystemCase(unittest.TestCase):
    SERVER = {}  # arguments for Ganesha
    OPTIONS = ""  # mount options of every mount of the class
    LIMIT = 180  # seconds a test may take before it counts as stuck
    maxDiff = 2000

    @classmethod
    def setUpClass(cls):
        cls.server = Ganesha(name=f"server.{cls.__name__}", **cls.SERVER).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def setUp(self):
        self.started = []
        self.mounted = []
        self.stuck = False
        self.begin = time.monotonic()
        self.watchdog = threading.Timer(self.limit(), self.end_stuck)
        self.watchdog.daemon = True
        self.watchdog.start()
        print(f"{self.id()} as uid {os.getuid()}", file=sys.stderr, flush=True)

    def limit(self):
        return self.LIMIT * 3 if sanitized() else self.LIMIT

    def end_stuck(self):
        """Prints where the test hangs, and ends what it may wait for: the programs it started and the daemons."""
        self.stuck = True
        print(f"STUCK: {self.id()} has not ended within {self.limit()} s", file=sys.stderr)
        faulthandler.dump_traceback(all_threads=True)
        for process in self.started:
            process.kill()
        for pid in daemons():
            os.kill(pid, signal.SIGKILL)

    def mount(self, options="", export=None, port=None, **more):
        joined = ",".join(part for part in (self.OPTIONS, options) if part)
        mounted = Mount(self.server.source(export), port or self.server.port, joined,
                        control_path=self.server.path(export), **more)
        self.mounted.append(mounted)
        return mounted

    def proxy(self):
        proxy = ChaosProxy(self.server.port)
        self.addCleanup(proxy.close)
        return proxy

    def directory(self, mounted, name=None):
        """A new directory in a mount."""
        path = os.path.join(mounted.path, name or self.id().rsplit(".", 1)[1])
        os.mkdir(path)
        return path

    def on_server(self, path):
        """The path of the same file on the server (of the first export)."""
        mounted = next(m for m in self.mounted if path == m.path or path.startswith(m.path + "/"))
        return os.path.join(self.server.path(), os.path.relpath(path, mounted.path))

    def local(self, name):
        """A new directory outside of the mounts."""
        path = tempfile.mkdtemp(prefix=f"{name}.", dir=HOME)
        self.addCleanup(shutil.rmtree, path, ignore_errors=True)
        return path

    def run_program(self, *argv, timeout=600, status=0, **more):
        """Runs a program to its end and checks the exit status; returns standard output."""
        done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              errors="replace", timeout=timeout, **more)
        if status is not None and done.returncode != status:
            self.fail(f"{' '.join(map(str, argv))}: status {done.returncode}\n{done.stdout[-4000:]}\n{done.stderr[-8000:]}")
        return done.stdout

    def start_program(self, *argv, **more):
        process = subprocess.Popen([str(a) for a in argv], stdin=subprocess.DEVNULL, text=True, **more)
        self.started.append(process)
        return process

    def wait_until(self, condition, what, timeout=30):
        deadline = time.monotonic() + timeout
        while not condition():
            if time.monotonic() > deadline:
                self.fail(f"not within {timeout} s: {what}")
            time.sleep(0.02)

    def tearDown(self):
        self.watchdog.cancel()
        for process in self.started:
            if process.poll() is None:
                process.kill()
            process.wait(60)
        problems = [f"stuck for {self.limit()} s"] if self.stuck else []
        result = self._outcome.result
        failed = any(test is self for test, _ in result.failures + result.errors)
        for mounted in self.mounted:
            try:
                mounted.umount(timeout=2 if failed else 60)  # a failed test leaves files open
            except (RuntimeError, subprocess.TimeoutExpired, steward.StewardError) as problem:
                if not failed:
                    problems.append(str(problem))
                steward.run(["umount", "-l", mounted.path], check=False)
        for pid in daemons():
            if not failed:
                problems.append(f"daemon {pid} is still running")
            os.kill(pid, signal.SIGKILL)
        for report in glob.glob(SANITIZER + ".*"):
            with open(report, errors="replace") as file:
                problems.append(file.read()[:8000])
            os.unlink(report)
        if os.path.exists(FORBIDDEN):
            with open(FORBIDDEN) as file:
                problems += [f"a daemon called {name.strip()}, which its filter forbids" for name in file]
            os.unlink(FORBIDDEN)
        if problems or failed:
            for mounted in self.mounted:
                print(f"--- {mounted.log}\n{mounted.log_text()[-6000:]}", file=sys.stderr)
            server = [line for line in self.server.log_text().splitlines() if ":DBUS :" not in line]
            print(f"--- {self.server.log}", *server[-15:], sep="\n", file=sys.stderr)
        print(f"{self.id()}: {time.monotonic() - self.begin:.1f} s", file=sys.stderr)
        if problems:
            self.fail("\n".join(problems))


__all__ = ["CONTROL", "ChaosProxy", "Export", "Ganesha", "HOME", "Mount", "SystemCase", "WORK", "daemons", "full_size",
           "is_mounted", "needs_mount", "needs_root", "needs_user", "sanitized", "scaled", "seconds", "steward", "tool"]


class ServerForEach:
    """A mixin for a case whose class has one server for all of its tests: with it each test starts its own, or another class has started
    it."""

    @classmethod
    def setUpClass(cls):
        pass

    @classmethod
    def tearDownClass(cls):
        pass
