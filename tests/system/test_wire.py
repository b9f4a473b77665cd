# SPDX-License-Identifier: Apache-2.0
"""The effects of mount options on the wire and in the kernel: transfer sizes, requests that are not sent, permissions of other users."""

import os
import stat
import unittest

from harness.case import HOME, SystemCase, needs_mount, steward
from harness.mount import mounts


class WireCase(SystemCase):
    def setUp(self):
        super().setUp()
        self.chaos = self.proxy()

    def through_proxy(self, options):
        return self.mount(options, port=self.chaos.port)

    def sent_by(self, action):
        """{operation: number} that action() makes the mount send, without SEQUENCE alone, which renews the lease."""
        self.chaos.command("zero")
        action()
        counts = self.chaos.stats()["operations"]
        return {name: count for name, count in counts.items() if name != "SEQUENCE"}


def content(path):
    with open(path, "rb") as file:
        return file.read()


@needs_mount()
class Sizes(WireCase):
    # {requested size: size on the wire}. nfs(5): below 1024 it is 4096, else rounded down to a multiple of 1024. The
    # last one is not a multiple of a page, and large enough for data to go through a pipe.
    SIZES = {1: 4096, 1023: 4096, 1024: 1024, 3000: 2048, 5120: 5120, 65536: 65536, 66560: 66560}

    def test_no_write_is_larger_than_wsize(self):
        data = os.urandom(200_001)
        for asked, most in self.SIZES.items():
            with self.subTest(wsize=asked):
                mounted = self.through_proxy(f"wsize={asked}")
                self.chaos.command("zero")
                name = os.path.join(mounted.path, f"written.{asked}")
                with open(name, "wb", buffering=0) as file:
                    self.assertEqual(file.write(data), len(data))
                self.assertEqual(self.chaos.stats()["largest_write"], most)
                self.assertEqual(content(self.on_server(name)), data)

    def test_no_read_is_larger_than_rsize(self):
        data = os.urandom(200_001)
        with open(os.path.join(self.mount().path, "read.by"), "wb") as file:
            file.write(data)
        for asked, most in self.SIZES.items():
            with self.subTest(rsize=asked):
                mounted = self.through_proxy(f"rsize={asked}")
                self.chaos.command("zero")
                self.assertEqual(content(os.path.join(mounted.path, "read.by")), data)
                self.assertEqual(self.chaos.stats()["largest_read"], most)


@needs_mount()
class Questions(WireCase):
    LONG = "acregmin=600,acregmax=600,acdirmin=600,acdirmax=600"

    def listed_again(self, options):
        path = self.directory(self.through_proxy(f"{self.LONG},{options}"), options)
        open(os.path.join(path, "entry"), "w").close()
        self.assertEqual(os.listdir(path), ["entry"])
        asked = self.sent_by(lambda: self.assertEqual(os.listdir(path), ["entry"]))
        return asked

    def test_cto_asks_before_a_directory_is_read(self):
        self.assertEqual(self.listed_again("cto").get("ACCESS"), 1)

    def test_nocto_reads_a_known_directory_without_asking(self):
        self.assertEqual(self.listed_again("nocto"), {})

    def test_an_open_of_a_file_asks_the_server_with_nocto_too(self):
        """The server must know who has a file open, and the attributes in its reply are used."""
        for options in ("cto", "nocto"):
            with self.subTest(options):
                path = self.directory(self.through_proxy(f"{self.LONG},{options}"), f"files.{options}")
                name, other = os.path.join(path, "file"), self.mount()
                with open(name, "wb") as file:
                    file.write(b"first")
                self.assertEqual(content(name), b"first")
                asked = self.sent_by(lambda: self.assertEqual(content(name), b"first"))
                self.assertEqual((asked.get("OPEN"), asked.get("READ")), (1, None))
                with open(os.path.join(other.path, os.path.basename(path), "file"), "wb") as file:
                    file.write(b"other")
                asked = self.sent_by(lambda: self.assertEqual(content(name), b"other"))
                self.assertEqual((asked.get("OPEN"), asked.get("READ")), (1, 1))


@needs_mount()
class Kernel(WireCase):
    def test_dirsync_is_set_and_changes_of_directories_are_on_the_server_at_once(self):
        for options in ("dirsync", ""):
            with self.subTest(options):
                mounted = self.mount(options)
                shown, = [m[3].split(",") for m in mounts() if m[1] == mounted.path]
                self.assertEqual("dirsync" in shown, bool(options))
                path = self.directory(mounted, f"directory.{options}")
                served = self.on_server(path)
                self.assertTrue(stat.S_ISDIR(os.stat(served).st_mode))
                fd = os.open(os.path.join(path, "file"), os.O_CREAT | os.O_WRONLY)
                self.assertEqual(os.listdir(served), ["file"])
                os.rename(os.path.join(path, "file"), os.path.join(path, "renamed"))
                self.assertEqual(os.listdir(served), ["renamed"])
                os.close(fd)
                os.unlink(os.path.join(path, "renamed"))
                self.assertEqual(os.listdir(served), [])

    def look_in(self, path, uid):
        """Whether this user may stat the path."""
        status, said = steward.run(["setpriv", f"--reuid={uid}", "--regid=65534", "--clear-groups", "stat", path], check=False)
        if status != 0:
            self.assertIn("Permission denied", said)
        return status == 0

    def test_allow_root_lets_root_in_and_nobody_else(self):
        os.chmod(HOME, 0o755)
        conf = os.path.join(HOME, "fuse.conf")
        with open(conf, "w") as file:
            file.write("user_allow_other\n")
        steward.call("chown", conf, 0, 0)
        if not os.path.exists("/etc/fuse.conf"):
            self.skipTest("there is no /etc/fuse.conf that could be covered")
        steward.run(["mount", "--bind", conf, "/etc/fuse.conf"])
        self.addCleanup(steward.run, ["umount", "/etc/fuse.conf"])
        path = self.directory(self.mount("allow_root"))
        os.chmod(path, 0o755)
        name = os.path.join(path, "file")
        open(name, "w").close()
        for known in (os.path.dirname(path), path, name):  # the kernel has all of these cached by now
            os.stat(known)
            self.assertTrue(self.look_in(known, 0))
            self.assertFalse(self.look_in(known, 1 << 20), f"{known} is seen by everybody")


if __name__ == "__main__":
    unittest.main()
