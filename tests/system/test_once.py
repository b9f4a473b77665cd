# SPDX-License-Identifier: Apache-2.0
"""Exactly once: an operation that the server executed before the connection was cut is not executed a second time.

chaosproxy drops the reply to the N-th such operation and resets the connection. The caller sees its call succeed, once.
"""

import os
import stat
import unittest

from harness.case import SystemCase, needs_mount


@needs_mount()
class ExactlyOnce(SystemCase):
    """The reply is lost after the server executed the operation."""

    OPTIONS = "timeo=50"

    def setUp(self):
        super().setUp()
        self.chaos = self.proxy()
        self.path = self.directory(self.mount(port=self.chaos.port))

    def at(self, name):
        return os.path.join(self.path, name)

    def make(self, name, data=b""):
        with open(self.at(name), "wb") as file:
            file.write(data)
        return self.at(name)

    def names(self):
        return sorted(os.listdir(self.on_server(self.path)))

    def strike(self, operation, action, direction="reply", times=1):
        """Calls action() while the fault is applied `times` times in a row: during action(), or shortly after it for operations that
        another client, which does not use the proxy, causes."""
        before = self.chaos.stats()["triggered"]
        for _ in range(times):
            self.chaos.command(f"on {direction} {operation} 1 cut")
        result = action()
        self.wait_until(lambda: self.chaos.stats()["triggered"] - before == times, f"{operation} was struck")
        self.chaos.command("reset")
        return result

    def test_rename(self):
        self.make("old", b"content")
        self.strike("RENAME", lambda: os.rename(self.at("old"), self.at("new")))
        self.assertEqual(self.names(), ["new"])

    def test_rename_cut_three_times(self):
        self.make("old")
        self.strike("RENAME", lambda: os.rename(self.at("old"), self.at("new")), times=3)
        self.assertEqual(self.names(), ["new"])

    def test_rename_back_and_forth(self):
        self.make("a")
        for _ in range(5):
            self.strike("RENAME", lambda: os.rename(self.at("a"), self.at("b")))
            self.strike("RENAME", lambda: os.rename(self.at("b"), self.at("a")))
        self.assertEqual(self.names(), ["a"])

    def test_exclusive_create(self):
        flags = os.O_CREAT | os.O_EXCL | os.O_RDWR
        fd = self.strike("OPEN", lambda: os.open(self.at("new"), flags, 0o640))
        os.write(fd, b"mine")
        os.close(fd)
        self.assertEqual(stat.S_IMODE(os.stat(self.on_server(self.at("new"))).st_mode), 0o640)
        with self.assertRaises(FileExistsError):
            os.open(self.at("new"), flags)

    def test_mkdir(self):
        self.strike("CREATE", lambda: os.mkdir(self.at("new")))
        self.assertEqual(self.names(), ["new"])
        with self.assertRaises(FileExistsError):
            os.mkdir(self.at("new"))

    def test_symlink(self):
        self.strike("CREATE", lambda: os.symlink("target", self.at("new")))
        self.assertEqual(os.readlink(self.on_server(self.at("new"))), "target")

    def test_mkfifo(self):
        self.strike("CREATE", lambda: os.mkfifo(self.at("new")))
        self.assertTrue(stat.S_ISFIFO(os.stat(self.on_server(self.at("new"))).st_mode))

    def test_link(self):
        self.make("one", b"x")
        self.strike("LINK", lambda: os.link(self.at("one"), self.at("two")))
        self.assertEqual(os.stat(self.on_server(self.at("one"))).st_nlink, 2)

    def test_unlink(self):
        self.make("gone")
        self.strike("REMOVE", lambda: os.unlink(self.at("gone")))
        self.assertEqual(self.names(), [])

    def test_rmdir(self):
        os.mkdir(self.at("gone"))
        self.strike("REMOVE", lambda: os.rmdir(self.at("gone")))
        self.assertEqual(self.names(), [])

    def test_append(self):
        path = self.make("log", b"first\n")
        fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_SYNC)
        self.strike("WRITE", lambda: os.write(fd, b"second\n"))
        self.strike("WRITE", lambda: os.write(fd, b"third\n"), times=2)
        os.close(fd)
        with open(self.on_server(path), "rb") as file:
            self.assertEqual(file.read(), b"first\nsecond\nthird\n")

    def test_truncate(self):
        path = self.make("long", b"x" * 10000)
        self.strike("SETATTR", lambda: os.truncate(path, 10))
        self.assertEqual(os.stat(self.on_server(path)).st_size, 10)

    def test_lock_and_unlock(self):
        import fcntl
        with open(self.make("locked"), "r+b") as file:
            self.strike("LOCK", lambda: fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB))
            self.strike("LOCKU", lambda: fcntl.lockf(file, fcntl.LOCK_UN))
            other = self.mount()  # not through the proxy
            with open(os.path.join(other.path, os.path.basename(self.path), "locked"), "r+b") as theirs:
                fcntl.lockf(theirs, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_fsync(self):
        fd = os.open(self.at("synced"), os.O_CREAT | os.O_WRONLY)
        os.write(fd, b"y" * 300000)
        before = self.chaos.stats()["operations"].get("COMMIT", 0)
        os.fsync(fd)
        os.write(fd, b"z" * 300000)
        if self.chaos.stats()["operations"].get("COMMIT", 0) > before:  # the client does not write FILE_SYNC
            self.strike("COMMIT", lambda: os.fsync(fd))
        os.close(fd)
        self.assertEqual(os.stat(self.on_server(self.at("synced"))).st_size, 600000)

    def test_close(self):
        fd = os.open(self.make("closed"), os.O_RDWR)
        os.write(fd, b"q")
        self.strike("CLOSE", lambda: (os.close(fd), os.listdir(self.path), self.chaos.wait_triggered()))
        with open(self.at("closed"), "rb") as file:
            self.assertEqual(file.read(), b"q")


class NotYet(ExactlyOnce):
    """The call itself is lost, so it must be sent again."""

    def strike(self, operation, action, direction="call", times=1):
        return super().strike(operation, action, "call", times)


@needs_mount()
class Dropped(SystemCase):
    """A reply is lost while the connection stays: after timeo the client sends the call again on a new connection."""

    OPTIONS = "timeo=20,retrans=1"

    def test_lost_reply_of_a_rename(self):
        chaos = self.proxy()
        path = self.directory(self.mount(port=chaos.port))
        with open(os.path.join(path, "old"), "w"):
            pass
        chaos.command("on reply RENAME 1 drop")
        os.rename(os.path.join(path, "old"), os.path.join(path, "new"))
        self.assertEqual(chaos.stats()["triggered"], 1)
        self.assertEqual(os.listdir(self.on_server(path)), ["new"])

    def test_lost_call_of_a_mkdir(self):
        chaos = self.proxy()
        path = self.directory(self.mount(port=chaos.port))
        chaos.command("on call CREATE 1 drop")
        os.mkdir(os.path.join(path, "new"))
        self.assertEqual(os.listdir(self.on_server(path)), ["new"])


if __name__ == "__main__":
    unittest.main()
