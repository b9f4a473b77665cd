# SPDX-License-Identifier: Apache-2.0
"""Desktop notices: a private session bus, and the calls on it while the server is silent, full, or has forgotten its clients."""

import fcntl
import os
import shutil
import subprocess
import time
import unittest

from harness.case import HOME, ServerForEach, SystemCase, needs_mount, needs_root, needs_user, steward
from harness.filer import Filer
from harness.mount import TOOL
from harness.pausing import pause, resume

SILENT, BACK, FULL, LOST = "does not answer", "answers again", "no room left", "Locks on files were lost"


@needs_mount()
@unittest.skipUnless(shutil.which("dbus-daemon") and shutil.which("dbus-monitor"), "needs dbus-daemon and dbus-monitor")
class OnABus(ServerForEach, SystemCase):
    LIMIT = 120

    def setUp(self):
        super().setUp()
        self.server = Filer()
        self.addCleanup(self.server.kill)
        address = "unix:path=" + os.path.join(self.local("bus"), "socket")
        self.bus = self.start_program("dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={address}", stderr=subprocess.DEVNULL)
        self.wait_until(lambda: os.path.exists(address.partition("=")[2]), "the bus listens")
        os.environ["DBUS_SESSION_BUS_ADDRESS"] = address
        self.addCleanup(os.environ.pop, "DBUS_SESSION_BUS_ADDRESS")
        self.record = os.path.join(self.local("record"), "calls")
        with open(self.record, "w") as out:
            self.start_program("dbus-monitor", "--address", address, "interface=org.freedesktop.Notifications", stdout=out, stderr=out)
        self.wait_until(lambda: "NameLost" in self.heard() or "NameAcquired" in self.heard(), "the recorder listens")

    def heard(self):
        with open(self.record, errors="replace") as file:
            return file.read()

    def fill(self, mounted):
        """Writes more than fits; close reports the error."""
        with self.assertRaises(OSError):
            with open(os.path.join(mounted.path, "large"), "wb") as file:
                file.write(bytes(8 << 20))
                os.fsync(file.fileno())

    def start_small_server(self):
        steward.run(["mount", "-t", "tmpfs", "-o", "size=1m,mode=1777", "tmpfs", self.server.export])
        self.addCleanup(steward.run, ["umount", "-l", self.server.export])
        self.server.start()

    def stop_server(self):
        self.server.pause()
        self.addCleanup(lambda: self.server.pid and self.server.resume())


@needs_user()
class Notices(OnABus):
    def test_a_silent_server_and_its_return(self):
        self.server.start()
        mounted = self.mount("actimeo=0")
        os.listdir(mounted.path)
        self.stop_server()
        self.start_program("ls", mounted.path, stdout=subprocess.DEVNULL)
        self.wait_until(lambda: SILENT in self.heard(), "the user is told", timeout=40)
        self.assertIn(mounted.path, self.heard())
        self.assertIn(self.server.source(), self.heard())
        time.sleep(4)  # the daemon checks again
        self.server.resume()
        self.wait_until(lambda: BACK in self.heard(), "the user is told")
        self.assertEqual(self.heard().count(SILENT), 1)

    def test_a_full_server(self):
        self.start_small_server()
        self.fill(self.mount())
        self.wait_until(lambda: FULL in self.heard(), "the user is told")

    def test_lost_locks(self):
        self.server.start()
        mounted = self.mount()
        with open(os.path.join(mounted.path, "locked"), "w") as file:
            fcntl.lockf(file, fcntl.LOCK_EX)
            self.server.restart(forget=True)
            os.stat(mounted.path)
            self.wait_until(lambda: LOST in self.heard(), "the user is told", timeout=60)

    def test_nobody_who_turned_it_off_is_told(self):
        self.start_small_server()
        self.fill(self.mount("notify=none"))
        time.sleep(5)
        self.assertNotIn(FULL, self.heard())

    def test_a_bus_that_hangs_holds_up_nothing(self):
        self.start_small_server()
        mounted = self.mount()
        pause(self.bus.pid)
        try:
            self.fill(mounted)
            time.sleep(4)
            self.run_program(TOOL, "status", mounted.path, timeout=5)
            begin = time.monotonic()
            mounted.umount(timeout=20)
            self.assertLess(time.monotonic() - begin, 10)
        finally:
            resume(self.bus.pid)


@needs_root()
class Root(OnABus):
    def test_roots_mounts_are_nobodys(self):
        self.start_small_server()
        self.fill(self.mount())
        time.sleep(5)
        self.assertNotIn(FULL, self.heard())


del OnABus
