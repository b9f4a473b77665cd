# SPDX-License-Identifier: Apache-2.0
"""Names, directories and exports: long names, every type of file, large directories, crossing from one export to another."""

import os
import socket
import stat
import subprocess
import sys
import threading
import unittest

from harness.case import Export, SystemCase, needs_mount, needs_root, scaled, steward


class Names(SystemCase):
    LONGEST_LINK = 4095

    def test_names_of_255_bytes(self):
        path = self.directory(self.mount())
        names = ["a" * 255, "\u00e4" * 127 + "x", "\u20ac" * 85, "\U0001f427" * 63 + "end", " ", "..a", "a\nb", "\\", "-rf", "%n%s",
                 "e\u0301", "\u00e9"]
        for name in names:
            with open(os.path.join(path, name), "w") as file:
                file.write(name)
        self.assertEqual(sorted(os.listdir(path)), sorted(names))
        self.assertEqual(sorted(os.listdir(self.on_server(path))), sorted(names))
        for name in names:
            with open(os.path.join(path, name)) as file:
                self.assertEqual(file.read(), name)
        for bad in ("b" * 256, "\u20ac" * 86):
            with self.assertRaises(OSError) as failed:
                open(os.path.join(path, bad), "w")
            self.assertEqual(failed.exception.errno, 36)  # ENAMETOOLONG
        for name in names:
            os.rename(os.path.join(path, name), os.path.join(path, "moved"))
            os.unlink(os.path.join(path, "moved"))
        self.assertEqual(os.listdir(path), [])

    def test_symbolic_links(self):
        path = self.directory(self.mount())
        for length in sorted({1, 255, 1023, self.LONGEST_LINK}):
            target = ("0123456789/" * 400)[:length]
            name = os.path.join(path, f"link{length}")
            os.symlink(target, name)
            self.assertEqual(os.readlink(name), target)
            self.assertEqual(os.lstat(name).st_size, length)
            self.assertEqual(os.readlink(self.on_server(name)), target)
        os.symlink("loop", os.path.join(path, "loop"))
        with self.assertRaises(OSError) as failed:
            open(os.path.join(path, "loop"))
        self.assertEqual(failed.exception.errno, 40)  # ELOOP

    def test_fifo_and_socket_work_here(self):
        path = self.directory(self.mount())
        fifo = os.path.join(path, "fifo")
        os.mkfifo(fifo, 0o640)
        self.assertTrue(stat.S_ISFIFO(os.stat(self.on_server(fifo)).st_mode))
        reader = self.start_program("cat", fifo, stdout=subprocess.PIPE)
        with open(fifo, "w") as writer:
            writer.write("through")
        self.assertEqual(reader.communicate(timeout=30)[0], "through")
        os.chdir(path)
        try:
            with socket.socket(socket.AF_UNIX) as server, socket.socket(socket.AF_UNIX) as client:
                server.bind("socket")
                server.listen()
                client.connect("socket")
            self.assertTrue(stat.S_ISSOCK(os.stat("socket").st_mode))
        finally:
            os.chdir("/")

    @needs_root("root to make devices")
    def test_devices(self):
        path = self.directory(self.mount())
        for name, mode, device in (("null", stat.S_IFCHR, os.makedev(1, 3)), ("big", stat.S_IFCHR, os.makedev(300, 70000)),
                                   ("disk", stat.S_IFBLK, os.makedev(7, 200))):
            full = os.path.join(path, name)
            os.mknod(full, mode | 0o640, device)
            for seen in (os.stat(full), os.stat(self.on_server(full))):
                self.assertEqual(stat.S_IFMT(seen.st_mode), mode)
                self.assertEqual(seen.st_rdev, device)
                self.assertEqual(stat.S_IMODE(seen.st_mode), 0o640)

    def test_mknod_makes_regular_files(self):
        full = os.path.join(self.directory(self.mount()), "plain")
        os.mknod(full, stat.S_IFREG | 0o604)
        self.assertEqual(os.stat(self.on_server(full)).st_mode, stat.S_IFREG | 0o604)

    def test_hard_links_share_everything(self):
        path = self.directory(self.mount())
        one, two = os.path.join(path, "one"), os.path.join(path, "two")
        with open(one, "w") as file:
            file.write("x")
        os.link(one, two)
        with open(two, "a") as file:
            file.write("y")
        self.assertEqual(os.stat(one).st_ino, os.stat(two).st_ino)
        self.assertEqual((os.stat(one).st_nlink, os.stat(one).st_size), (2, 2))
        os.unlink(one)
        self.assertEqual(os.stat(two).st_nlink, 1)

    def test_inode_numbers_are_the_servers(self):
        path = self.directory(self.mount())
        for name in ("a", "b"):
            open(os.path.join(path, name), "w").close()
        for entry in os.scandir(path):
            self.assertEqual(entry.inode(), os.stat(self.on_server(entry.path)).st_ino)
            self.assertEqual(entry.stat().st_ino, entry.inode())

    def test_dots_lead_home(self):
        mounted = self.mount()
        deep = os.path.join(mounted.path, "a/b/c")
        os.makedirs(deep)
        self.assertEqual(os.stat(os.path.join(deep, "../../..")).st_ino, os.stat(mounted.path).st_ino)
        os.chdir(deep)
        try:
            os.rename(os.path.join(mounted.path, "a"), os.path.join(mounted.path, "z"))
            self.assertEqual(os.getcwd(), os.path.join(mounted.path, "z/b/c"))
            self.assertEqual(os.stat("..").st_ino, os.stat(os.path.join(mounted.path, "z/b")).st_ino)
        finally:
            os.chdir("/")


class Large(SystemCase):
    LIMIT = 600

    COUNT = 100000

    def fill(self, name, count):
        """Makes the files on the server: the test is about listing."""
        path = os.path.join(self.server.path(), name)
        script = f"import os; os.mkdir({path!r}, 0o777); os.chmod({path!r}, 0o777); os.chown({path!r}, {os.getuid()}, {os.getgid()}); os.chdir({path!r})\n" \
                 f"for i in range({count}): os.close(os.open(f'entry {{i}}', os.O_CREAT, 0o666))"
        steward.run(["/usr/bin/python3", "-c", script])

    def test_hundred_thousand_entries(self):
        self.fill("large", self.COUNT)
        mounted = self.mount()
        path = os.path.join(mounted.path, "large")
        want = {f"entry {i}" for i in range(self.COUNT)}
        with os.scandir(path) as entries:
            got = [entry.name for entry in entries]
        self.assertEqual(len(got), self.COUNT, "entries twice or missing")
        self.assertEqual(set(got), want)
        listing = self.run_program("ls", "-lR", path)
        self.assertEqual(listing.count(" entry "), self.COUNT)
        self.run_program("rm", "-r", path)
        self.assertNotIn("large", os.listdir(self.server.path()))

    def test_cookies_survive_concurrent_changes(self):
        """An entry that exists all the time is listed exactly once, whatever else is created and removed."""
        count = scaled(5000, 30000)
        self.fill("busy", count)
        one, two = self.mount(), self.mount()
        path, stop, enough = os.path.join(two.path, "busy"), threading.Event(), threading.Event()

        def churn():
            i = 0
            while not stop.is_set():
                name = os.path.join(path, f"new {i}")
                open(name, "w").close()
                if i % 3:
                    os.unlink(name)
                if i < count // 2:
                    os.unlink(os.path.join(path, f"entry {2 * i}"))  # the even ones go
                i += 1
                if i == count // 8:
                    enough.set()

        thread = threading.Thread(target=churn)
        thread.start()
        try:
            want = {f"entry {i}" for i in range(1, count, 2)}
            rounds = 0
            while rounds < 4 or (thread.is_alive() and not enough.is_set()):
                got = [name for name in os.listdir(os.path.join(one.path, "busy")) if name in want]
                self.assertEqual(len(got), len(set(got)), "entries listed twice")
                self.assertEqual(set(got), want)
                rounds += 1
            self.assertTrue(enough.is_set(), "the directory did not change meanwhile")
        finally:
            stop.set()
            thread.join()

    def test_remove_while_reading(self):
        """As rm -r does: one directory stream, and entries are removed as they are read."""
        self.fill("shrinking", 10000)
        path = os.path.join(self.mount().path, "shrinking")
        removed = 0
        with os.scandir(path) as entries:
            for entry in entries:
                os.unlink(entry.path)
                removed += 1
        self.assertEqual(removed, 10000)
        self.assertEqual(os.listdir(self.on_server(path)), [])

    def test_seekdir_comes_back(self):
        self.fill("seek", 3000)
        path = os.path.join(self.mount().path, "seek")
        program = """
import ctypes, sys
libc = ctypes.CDLL(None, use_errno=True)
libc.opendir.restype = ctypes.c_void_p
libc.telldir.restype = ctypes.c_long
class Dirent(ctypes.Structure):
    _fields_ = [('ino', ctypes.c_uint64), ('off', ctypes.c_int64), ('reclen', ctypes.c_ushort), ('type', ctypes.c_ubyte), ('name', ctypes.c_char * 256)]
libc.readdir.restype = ctypes.POINTER(Dirent)
d = ctypes.c_void_p(libc.opendir(sys.argv[1].encode()))
names, places = [], []
while True:
    places.append(libc.telldir(d))
    e = libc.readdir(d)
    if not e: break
    names.append(e.contents.name)
for i in range(0, len(names), 97):
    libc.seekdir(d, ctypes.c_long(places[i]))
    assert libc.readdir(d).contents.name == names[i], i
libc.rewinddir(d)
again = []
while True:
    e = libc.readdir(d)
    if not e: break
    again.append(e.contents.name)
assert again == names
assert len(set(names)) == 3002
"""
        self.run_program(sys.executable, "-c", program, path)


@needs_mount()
class Exports(SystemCase):
    """The pseudo file system above the exports, and the way from one export to another."""

    SERVER = {"exports": [Export("/one"), Export("/deep/down/two"), Export("/one/three"), Export("/closed", access="None")]}

    def root(self):
        from harness.mount import Mount
        mounted = Mount("127.0.0.1:/", self.server.port)
        self.mounted.append(mounted)
        return mounted.path

    def test_the_root_shows_the_exports(self):
        root = self.root()
        self.assertLessEqual({"one", "deep"}, set(os.listdir(root)))
        self.assertEqual(os.listdir(os.path.join(root, "deep")), ["down"])
        with self.assertRaises(OSError):
            os.mkdir(os.path.join(root, "new"))  # the pseudo file system is read-only

    def test_each_export_is_its_own(self):
        root = self.root()
        for number, name in enumerate(("one", "deep/down/two", "one/three")):
            with open(os.path.join(root, name, "file"), "w") as file:
                file.write(name)
            with open(os.path.join(self.server.path(self.server.exports[number]), "file")) as file:
                self.assertEqual(file.read(), name)
        for name in ("one", "deep/down/two", "one/three"):
            with open(os.path.join(root, name, "file")) as file:
                self.assertEqual(file.read(), name)
            self.assertGreater(os.statvfs(os.path.join(root, name)).f_blocks, 0)
        self.assertIn("three", os.listdir(os.path.join(root, "one")))

    def test_inode_numbers_say_which_export_a_file_is_of(self):
        """A mount has one device number, and the server's file IDs may be the same in two of its file systems."""
        root = self.root()
        differ = set()
        for number, name in enumerate(("one", "deep/down/two", "one/three")):
            path = os.path.join(root, name, "numbered")
            open(path, "w").close()
            seen = os.stat(path).st_ino
            truth = os.stat(os.path.join(self.server.path(self.server.exports[number]), "numbered")).st_ino
            self.assertEqual(seen >> 63, 1, hex(seen))
            self.assertEqual(seen & 0xffffffff, truth & 0xffffffff, "the server's, but for the upper half")
            differ.add(seen ^ truth)
            entry, = [entry for entry in os.scandir(os.path.dirname(path)) if entry.name == "numbered"]
            self.assertEqual(entry.inode(), seen)
        self.assertEqual(len(differ), 3, "each export has a mark of its own")

    def test_rename_and_link_do_not_cross(self):
        root = self.root()
        with open(os.path.join(root, "one/stay"), "w"):
            pass
        for call in (os.rename, os.link):
            with self.assertRaises(OSError) as failed:
                call(os.path.join(root, "one/stay"), os.path.join(root, "deep/down/two/stay"))
            self.assertEqual(failed.exception.errno, 18)  # EXDEV

    def test_a_nested_export_by_its_own_path(self):
        mounted = self.mount(export=self.server.exports[2])
        with open(os.path.join(mounted.path, "nested"), "w"):
            pass
        self.assertIn("nested", os.listdir(self.server.path(self.server.exports[2])))

    def test_a_directory_below_an_export(self):
        steward.run(["mkdir", "-p", "-m", "777", os.path.join(self.server.path(), "sub/dir")])
        from harness.mount import Mount
        mounted = Mount("127.0.0.1:/one/sub/dir", self.server.port)
        self.mounted.append(mounted)
        with open(os.path.join(mounted.path, "below"), "w"):
            pass
        self.assertEqual(os.listdir(os.path.join(self.server.path(), "sub/dir")), ["below"])


if __name__ == "__main__":
    unittest.main()
