# SPDX-License-Identifier: Apache-2.0
"""A mount that is recorded for each boot or login once it works, and the removal of that record."""

import glob
import os
import shutil
import subprocess
import unittest

from harness.case import HOME, ServerForEach, SystemCase, needs_mount, needs_root, needs_user
from harness.filer import Filer
from harness.mount import HELPER, TOOL, daemons, is_mounted
from harness.ports import free_port

OTHERS = "# <file system> <mount point> ...\nUUID=1\t/\text4 errors=remount-ro 0  1\n\n/dev/sr0 /cdrom udf,iso9660 user,noauto 0 0"


def contents(path):
    with open(path, "rb") as file:
        return file.read()


class Persisting(ServerForEach, SystemCase):
    def setUp(self):
        super().setUp()
        self.server = Filer().start()
        self.addCleanup(self.server.kill)
        self.place = os.path.join(self.local("places"), "my files#1")
        os.mkdir(self.place)
        self.log = os.path.join(self.local("logs"), "a log")

    def options(self, *more):
        return ",".join((f"port={self.server.port}", "proto=tcp", f"log={self.log}", *more))

    def persist(self, *more, options=()):
        return self.run_program(TOOL, "mount", "--persist", *more, self.server.source(), self.place, "-o", self.options(*options))

    def gone(self):
        self.wait_until(lambda: not daemons() and not is_mounted(self.place), "mount and daemon are gone")

    def tearDown(self):
        if is_mounted(self.place):
            subprocess.run([TOOL, "umount", self.place], check=False, timeout=60)
        super().tearDown()


@needs_root()
@needs_mount()
class Fstab(Persisting):
    def setUp(self):
        super().setUp()
        self.fstab = os.path.join(self.local("etc"), "fstab")
        with open(self.fstab, "w") as file:
            file.write(OTHERS)
        os.environ["LIBMOUNT_FSTAB"] = self.fstab
        self.addCleanup(os.environ.pop, "LIBMOUNT_FSTAB")

    def test_written_used_and_taken_away(self):
        said = self.persist(options=["rsize=65536"])
        self.assertIn("umount --forget", said)
        self.assertTrue(is_mounted(self.place))
        added = contents(self.fstab).decode()[len(OTHERS):]
        fields = added.strip().split()
        self.assertEqual(fields[0], self.server.source())
        self.assertEqual(fields[1], self.place.replace(" ", "\\040").replace("#", "\\043"))
        self.assertEqual(fields[2], "nfsrdma-fuse")
        for option in ("rsize=65536", "_netdev", "nofail", "a\\040log"):
            self.assertIn(option, fields[3])
        once = contents(self.fstab)
        self.run_program(TOOL, "umount", self.place)
        self.gone()
        self.run_program("mount", self.place)
        self.assertTrue(is_mounted(self.place))
        os.listdir(self.place)
        self.assertTrue(os.path.exists(self.log))
        self.run_program(TOOL, "umount", self.place)
        self.gone()
        self.persist(options=["rsize=65536"])
        self.assertEqual(contents(self.fstab), once, "twice is once")
        self.run_program(TOOL, "umount", "--forget", self.place)
        self.gone()
        self.assertEqual(contents(self.fstab), OTHERS.encode())

    def test_nothing_is_written_of_a_mount_that_fails(self):
        done = subprocess.run([TOOL, "mount", "--persist", "127.0.0.1:/export", self.place, "-o", f"port={free_port()},proto=tcp,retry=0"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 32, done.stderr)
        self.assertEqual(contents(self.fstab), OTHERS.encode())

    def test_what_another_file_system_has_stays(self):
        with open(self.fstab, "w") as file:
            file.write(f"tmpfs {self.place.replace(' ', chr(92) + '040')} tmpfs defaults 0 0\n")
        before = contents(self.fstab)
        done = subprocess.run([TOOL, "mount", "--persist", self.server.source(), self.place, "-o", self.options()], capture_output=True,
                              text=True, timeout=60)
        self.assertEqual(done.returncode, 32)
        self.assertIn("mounted, but not written down", done.stderr)
        self.assertTrue(is_mounted(self.place))
        self.assertEqual(contents(self.fstab), before)

    def test_forgetting_what_is_not_mounted(self):
        self.persist()
        self.run_program(TOOL, "umount", self.place)
        self.gone()
        self.run_program(TOOL, "umount", "--forget", self.place)
        self.assertEqual(contents(self.fstab), OTHERS.encode())
        done = subprocess.run([TOOL, "umount", "--forget", self.place], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3, done.stderr)


@needs_user()
@needs_mount()
class Login(Persisting):
    def setUp(self):
        super().setUp()
        self.config, self.data = self.local("config"), self.local("data")
        for name, value in (("XDG_CONFIG_HOME", self.config), ("XDG_DATA_HOME", self.data)):
            os.environ[name] = value
            self.addCleanup(os.environ.pop, name)

    def files(self):
        found = glob.glob(self.config + "/**", recursive=True) + glob.glob(self.data + "/**", recursive=True)
        return {path: contents(path) for path in found if os.path.isfile(path)}

    def test_the_units_configuration_and_its_link(self):
        unit = os.path.join(self.data, "systemd/user/nfsrdma-fuse@.service")
        os.makedirs(os.path.dirname(unit))
        with open(unit, "w") as file:
            file.write("[Unit]\n")
        before = self.files()
        self.persist()
        (name,) = (path for path in self.files() if path.endswith(".conf"))
        self.assertEqual(name, os.path.join(self.config, "nfsrdma-fuse/my_files_1.conf"))
        link = os.path.join(self.config, "systemd/user/default.target.wants/nfsrdma-fuse@my_files_1.service")
        self.assertEqual(os.readlink(link), unit)
        # The shell parses these lines as systemd does.
        said = self.run_program("sh", "-c", '. "$1"; printf "%s|%s|%s" "$SOURCE" "$DIRECTORY" "$OPTIONS"', "sh", name)
        source, directory, options = said.split("|")
        self.run_program(TOOL, "umount", self.place)
        self.gone()
        self.run_program(TOOL, "mount", "-o", options, "--", source, directory)
        self.assertTrue(is_mounted(self.place))
        self.run_program(TOOL, "umount", "--forget", self.place)
        self.assertEqual(self.files(), before)
        self.assertFalse(os.path.lexists(link))

    @unittest.skipUnless(shutil.which("gio"), "needs gio (libglib2.0-bin), which starts what a desktop would")
    def test_the_desktop_mounts_it_where_there_is_no_unit(self):
        before = self.files()
        self.persist()
        (entry,) = (path for path in self.files() if path.endswith(".desktop"))
        self.run_program(TOOL, "umount", self.place)
        self.gone()
        self.run_program("gio", "launch", entry)
        self.wait_until(lambda: is_mounted(self.place), "the desktop has mounted it")
        self.wait_until(lambda: len(daemons()) == 1, "only the daemon is left")
        self.run_program(TOOL, "umount", "--forget", self.place)
        self.assertEqual(self.files(), before)

    def test_side_bars(self):
        bookmarks, places = os.path.join(self.config, "gtk-3.0/bookmarks"), os.path.join(self.data, "user-places.xbel")
        os.makedirs(os.path.dirname(bookmarks))
        with open(bookmarks, "w") as file:
            file.write("file:///tmp Scratch")
        with open(places, "w") as file:
            file.write('<?xml version="1.0"?>\n<xbel>\n</xbel>\n')
        before = self.files()
        self.run_program(TOOL, "mount", "--bookmark", "Ours & theirs", self.server.source(), self.place, "-o", self.options())
        self.assertIn("/my%20files%231 Ours & theirs", contents(bookmarks).decode())
        self.assertIn("<title>Ours &amp; theirs</title>", contents(places).decode())
        self.run_program(TOOL, "umount", "--forget", self.place)
        self.assertEqual(self.files(), before)


del Persisting
