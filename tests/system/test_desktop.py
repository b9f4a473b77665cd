# SPDX-License-Identifier: Apache-2.0
"""Questions of file managers while the server is silent: a program that looks at a mount point, and not into it, gets an answer at once."""

import os
import shutil
import stat
import subprocess
import sys
import time
import unittest

from harness.case import ServerForEach, SystemCase, WORK, needs_mount, needs_user
from harness.filer import Filer
from harness.mount import TOOL

DESKTOP = os.path.join(WORK, "desktop")
# The calls of Nautilus, Thunar and Dolphin for an entry of the side bar and for the parent's listing.
LOOK = """\
import os, sys
point = sys.argv[1]
with os.scandir(os.path.dirname(point)) as entries:
    for entry in entries:
        entry.is_dir(), entry.stat()
os.lstat(point), os.statvfs(point)
for mode in (os.R_OK, os.W_OK, os.X_OK):
    assert os.access(point, mode), mode
try:
    os.listxattr(point)
except OSError:
    pass
"""


@needs_mount()
class SilentServer(ServerForEach, SystemCase):
    AT_ONCE = 8  # seconds: the first question of each kind finds out that the server is silent, which takes one second

    def setUp(self):
        super().setUp()
        self.server = Filer().start()
        self.addCleanup(self.server.kill)
        self.files = self.mount("actimeo=1", path=os.path.join(self.local("home"), "files"))
        self.look()
        self.run_program("df", self.files.path)
        time.sleep(1.5)  # all cached attributes have expired
        self.server.pause()
        self.stopped = True
        self.addCleanup(self.wake)

    def tearDown(self):
        self.wake()
        super().tearDown()

    def wake(self):
        if self.stopped:
            self.server.resume()
            self.stopped = False

    def look(self, **more):
        self.run_program(sys.executable, "-c", LOOK, self.files.path, **more)

    def at_once(self, *argv, status=0):
        begin = time.monotonic()
        try:
            said = self.run_program(*argv, timeout=30, status=status)
        except subprocess.TimeoutExpired:
            self.wake()
            self.fail(f"{' '.join(argv)} hangs")
        self.assertLess(time.monotonic() - begin, self.AT_ONCE, argv)
        return said

    def test_a_file_managers_questions(self):
        self.at_once(sys.executable, "-c", LOOK, self.files.path)
        begin = time.monotonic()
        for _ in range(20):
            os.lstat(self.files.path), os.statvfs(self.files.path)
        self.assertLess(time.monotonic() - begin, 2, "that it is silent is known by now")

    def test_commands(self):
        parent = os.path.dirname(self.files.path)
        self.assertIn("files", self.at_once("ls", "-l", parent))
        self.assertIn(self.files.path, self.at_once("df", self.files.path))
        self.at_once("df")
        self.at_once("stat", "-f", self.files.path)
        self.at_once("stat", self.files.path)

    @unittest.skipUnless(shutil.which("gio"), "needs gio (libglib2.0-bin)")
    def test_gio(self):
        self.assertIn("directory", self.at_once("gio", "info", self.files.path))
        self.at_once("gio", "info", "--filesystem", self.files.path)
        self.assertIn("files", self.at_once("gio", "list", "-l", os.path.dirname(self.files.path)))
        self.at_once("gio", "mount", "-l")

    def test_what_is_old_goes_with_the_silence(self):
        os.lstat(self.files.path), os.statvfs(self.files.path)
        os.chmod(self.server.path(), 0o1770)
        self.wake()
        self.wait_until(lambda: stat.S_IMODE(os.lstat(self.files.path).st_mode) == 0o1770, "the server's answer counts again")

    def test_inside_it_is_waited_for(self):
        """Requests below the root wait for the server: they must not get old answers."""
        process = self.start_program("ls", self.files.path, stdout=subprocess.PIPE)
        time.sleep(4)
        self.assertIsNone(process.poll())
        self.wake()
        self.assertEqual(process.wait(30), 0)
        process.stdout.close()

    def test_unmounting_does_not_wait_for_old_questions(self):
        os.lstat(self.files.path), os.statvfs(self.files.path)
        begin = time.monotonic()
        subprocess.run([TOOL, "umount", "--force", self.files.path], timeout=60, check=False, capture_output=True)
        self.assertLess(time.monotonic() - begin, 30)


@needs_user()
@needs_mount()
class Dialog(ServerForEach, SystemCase):
    """What the dialog does with a person's answers. zenity draws its window; here a program answers in its place."""

    def setUp(self):
        super().setUp()
        self.server = Filer().start()
        self.addCleanup(self.server.kill)
        self.home, self.tools = self.local("home"), self.local("tools")
        self.said = os.path.join(self.tools, "said")
        self.environment = {**os.environ, "HOME": self.home, "XDG_CONFIG_HOME": self.home + "/.config", "XDG_DATA_HOME": self.home + "/.local/share",
                            "NFSRDMA_FUSE": TOOL, "PATH": self.tools + ":" + os.environ["PATH"]}
        # The dialog mounts from NFS's own port, and this server has another one.
        self.conf = os.path.join(self.tools, "nfsrdma-fuse")
        with open(self.conf, "w") as file:
            file.write(f'#!/bin/sh\nverb=$1; shift\nexec {TOOL} "$verb" -o port={self.server.port},proto=tcp "$@"\n')
        os.chmod(self.conf, 0o755)
        self.environment["NFSRDMA_FUSE"] = self.conf

    def answer(self, *lines, status=0):
        answers = os.path.join(self.tools, "answers")
        with open(answers, "w") as file:
            file.write("\n".join(lines) + "\n")
        with open(os.path.join(self.tools, "zenity"), "w") as file:
            file.write(f'#!/bin/sh\ncase "$*" in *--forms*) cat {answers} ;; *) printf "%s\\n" "$@" >{self.said} ;; esac\n')
        os.chmod(file.name, 0o755)
        self.run_program(os.path.join(DESKTOP, "nfsrdma-fuse-connect"), env=self.environment, status=status)
        with open(self.said) as file:
            return file.read()

    def test_a_folder_with_a_name_at_each_login(self):
        said = self.answer("127.0.0.1", "export", "~/our files", "Ours", "now and at each login")
        place = os.path.join(self.home, "our files")
        self.assertIn("--info", said)
        os.listdir(place)
        with open(os.path.join(self.home, ".config/gtk-3.0/bookmarks")) as file:
            self.assertIn("our%20files Ours", file.read())
        self.assertTrue(os.path.exists(os.path.join(self.home, ".config/nfsrdma-fuse/our_files.conf")))
        self.run_program(TOOL, "umount", "--forget", place, env=self.environment)

    def test_a_server_that_does_not_have_it(self):
        said = self.answer("127.0.0.1", "/absent", "files", "", "now", status=32)
        self.assertIn("--error", said)
        self.assertIn("NOENT", said)

    def test_nothing_named(self):
        self.assertIn("must be named", self.answer("", "", "", "", "now", status=1))
