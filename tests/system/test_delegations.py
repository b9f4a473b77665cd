# SPDX-License-Identifier: Apache-2.0
"""Delegations: the answers that a mount gives without the server, and that nobody sees stale data because of them.

Two mounts of nfsrdma-filer, which grants read and write delegations, and of nfs-ganesha, which grants read delegations. Every wait here is
for an event that must come.
"""

import mmap
import os
import signal
import unittest

import test_coherence
from harness.case import ServerForEach, SystemCase, needs_mount
from harness.filer import Filer


def requests(mounted):
    """The COMPOUNDs answered so far, by the operation they were for, without lease renewals."""
    return {o["name"]: o["requests"] for o in mounted.stats()["operations"] if o["requests"] and o["name"] != "SEQUENCE"}


def since(mounted, before):
    return {name: n - before.get(name, 0) for name, n in requests(mounted).items() if n != before.get(name, 0)}


def held(mounted):
    numbers = mounted.stats()["delegations"]
    return numbers["held_read"], numbers["held_write"]


class OnDelegatingFiler:
    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name=f"filer.{cls.__name__}", arguments=("--delegations", "write")).start()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"


@needs_mount()
class Requests(OnDelegatingFiler, SystemCase):
    def tree(self, path, directories=4, files=25):
        for d in range(directories):
            os.mkdir(os.path.join(path, f"d{d}"))
            for f in range(files):
                with open(os.path.join(path, f"d{d}", f"f{f}"), "w") as file:
                    file.write(f"line one\nneedle {d} {f}\n")

    def test_second_grep_asks_next_to_nothing(self):
        made = self.mount()
        name = os.path.basename(self.directory(made))
        self.tree(os.path.join(made.path, name))
        made.umount()
        mounted = self.mount()
        path = os.path.join(mounted.path, name)
        first = requests(mounted)
        found = self.run_program("grep", "-r", "needle", path)
        cold = sum(since(mounted, first).values())
        self.assertEqual(len(found.splitlines()), 100)
        self.assertEqual(held(mounted), (100, 0))
        second = requests(mounted)
        self.assertEqual(self.run_program("grep", "-r", "needle", path), found)
        warm = since(mounted, second)
        self.assertNotIn("OPEN", warm)
        self.assertNotIn("CLOSE", warm)
        self.assertNotIn("READ", warm, "the kernel has kept the pages")
        self.assertLessEqual(sum(warm.values()), cold // 10, f"{warm} after {cold}")

    def test_files_made_here_are_read_without_an_open(self):
        mounted = self.mount()
        path = self.directory(mounted)
        self.tree(path, 1)
        self.assertEqual(held(mounted), (0, 25))
        before = requests(mounted)
        for f in range(25):
            with open(os.path.join(path, "d0", f"f{f}")) as file:
                self.assertIn(f"needle 0 {f}", file.read())
        self.assertNotIn("OPEN", since(mounted, before))

    def test_nodelegations_holds_none(self):
        mounted = self.mount("nodelegations")
        path = self.directory(mounted)
        self.tree(path, 1, 5)
        self.run_program("grep", "-r", "needle", path)
        self.assertEqual(held(mounted), (0, 0))
        self.assertEqual(mounted.stats()["delegations"]["granted"], 0)


@needs_mount()
class Coherence(OnDelegatingFiler, test_coherence.CloseToOpen):
    """The guarantees between two mounts hold with delegations, some of them immediately."""

    def test_the_second_mount_recalls(self):
        with open(os.path.join(self.here, "file"), "w") as file:
            file.write("first")
        self.assertEqual(held(self.one), (0, 1))
        with open(os.path.join(self.there, "file"), "r+") as file:
            self.assertEqual(file.read(), "first")
            file.seek(0)
            file.write("SECOND")
        numbers = self.one.stats()["delegations"]
        self.assertEqual((numbers["recalled"], numbers["returned"], numbers["held_write"]), (1, 1, 0))
        with open(os.path.join(self.here, "file")) as file:
            self.assertEqual(file.read(), "SECOND")

    def test_stat_of_the_second_mount_sees_what_is_written(self):
        """By CB_GETATTR: the size is the writer's, and the delegation stays."""
        with open(os.path.join(self.here, "grows"), "wb", buffering=0) as file:
            for i in range(1, 6):
                file.write(b"x" * 100)
                os.fsync(file.fileno())
                self.wait_until(lambda i=i: os.stat(os.path.join(self.there, "grows")).st_size == i * 100,
                                f"{i * 100} bytes are seen")
        self.assertEqual(held(self.one), (0, 1))
        self.assertEqual(self.one.stats()["delegations"]["recalled"], 0)

    def test_stat_of_the_second_mount_sees_what_only_the_writer_has(self):
        """RFC 8881 section 10.4.3: "the client holding the OPEN_DELEGATE_WRITE delegation may have modified the data, and the
        server needs to reflect this change to the second client that submitted the GETATTR. Therefore, the client holding the
        OPEN_DELEGATE_WRITE delegation needs to be interrogated." """
        proven = files = 0
        while proven < 3 and files < 60:
            files += 1
            name = f"new{files}"
            with open(os.path.join(self.here, name), "wb", buffering=0) as file:
                file.write(b"x" * 100 * files)
                # The second mount looks at this file for the first time.
                self.assertEqual(os.stat(os.path.join(self.there, name)).st_size, 100 * files)
                # A small write waits for its neighbours. If the server still has nothing of it, the server must have
                # asked the writer for the size (CB_GETATTR).
                proven += os.stat(os.path.join(self.on_server(self.here), name)).st_size == 0
        self.assertEqual(proven, 3, "every write was at the server before anybody asked")
        self.assertEqual(held(self.one), (0, files))
        self.assertEqual(self.one.stats()["delegations"]["recalled"], 0)

    def reads_on(self, name, old, new):
        """A descriptor and a mapping stay open here while the other mount writes the file and closes it."""
        with open(os.path.join(self.here, name), "rb", buffering=0) as file:
            with mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as mapping:
                self.assertEqual(os.pread(file.fileno(), len(old) // 2, 0), old[:len(old) // 2])
                self.assertEqual(mapping[:], old)
                self.assertEqual(sum(held(self.one)), 1)
                with open(os.path.join(self.there, name), "r+b", buffering=0) as other:
                    other.write(new)
                # Within the size that the kernel knows: beyond it the kernel would ask for attributes first.
                self.assertEqual(os.pread(file.fileno(), len(new) // 2, 0), new[:len(new) // 2])
                self.assertEqual(mapping[:], new)

    def test_who_reads_on_sees_what_another_wrote_after_a_recall(self):
        """The reader does no open, lock or stat(2), and the size stays the same."""
        for i in range(5):
            old, new = b"%d" % i * 20000, b"%c" % (ord("a") + i) * 20000
            self.put(self.on_server(self.here), f"read{i}", old)
            self.reads_on(f"read{i}", old, new)
            self.put(self.here, f"written{i}", old)
            self.reads_on(f"written{i}", old, new)
        numbers = self.one.stats()["delegations"]
        self.assertEqual((numbers["held_read"], numbers["held_write"], numbers["revoked"]), (0, 0, 0))
        self.assertGreaterEqual(numbers["recalled"], 10)

    def test_stores_to_a_mapping_are_seen_by_the_other(self):
        """The kernel has the data, and only the mapping is left open: the recall makes the client write it."""
        with open(os.path.join(self.here, "mapped"), "w+b") as file:
            file.write(bytes(20000))
            file.flush()
            mapping = mmap.mmap(file.fileno(), 20000)
        with mapping:
            self.assertEqual(held(self.one), (0, 1))
            mapping[9000:9005] = b"store"
            with open(os.path.join(self.there, "mapped"), "rb") as file:
                self.assertEqual(file.read()[9000:9005], b"store")

    def test_removed_and_renamed_by_the_other(self):
        for name in ("removed", "renamed"):
            with open(os.path.join(self.here, name), "w") as file:
                file.write(name)
        os.unlink(os.path.join(self.there, "removed"))
        os.rename(os.path.join(self.there, "renamed"), os.path.join(self.there, "elsewhere"))
        self.wait_until(lambda: sorted(os.listdir(self.here)) == ["elsewhere"], "the directory is as the other left it")
        self.wait_until(lambda: not os.path.exists(os.path.join(self.here, "removed")), "the name is gone")
        with open(os.path.join(self.here, "elsewhere")) as file:
            self.assertEqual(file.read(), "renamed")


@needs_mount()
class Restart(OnDelegatingFiler, SystemCase):
    def test_delegations_survive_a_restart(self):
        mounted = self.mount()
        path = self.directory(mounted)
        names = [os.path.join(path, f"f{i}") for i in range(10)]
        for name in names:
            with open(name, "w") as file:
                file.write("content")
        with open(names[0]) as still_open:
            self.server.restart()
            os.mkdir(os.path.join(path, "the server is there again"))
            self.assertEqual(still_open.read(), "content")
        self.assertEqual(held(mounted), (0, 10))
        before = requests(mounted)
        for name in names:
            with open(name) as file:
                self.assertEqual(file.read(), "content")
        self.assertNotIn("OPEN", since(mounted, before))


@needs_mount()
class FewDescriptors(ServerForEach, SystemCase):
    FILES, DESCRIPTORS = 3000, 1024

    def test_more_delegations_than_the_filer_has_descriptors(self):
        """The filer closes delegated files when it needs descriptors, and opens them again when a client uses them."""
        self.server = Filer(name="filer.few", arguments=("--delegations", "write"), descriptors=self.DESCRIPTORS).start()
        self.addCleanup(self.server.kill)
        mounted, other = self.mount(), self.mount("noac")
        path = self.directory(mounted)
        for number in range(self.FILES):
            with open(os.path.join(path, str(number)), "w") as file:
                file.write(str(number))
        self.assertEqual(sum(held(mounted)), self.FILES)
        # 256 files may have up to three descriptors each.
        self.assertLess(len(os.listdir(f"/proc/{self.server.pid}/fd")), 3 * 256 + 50)
        name = os.path.basename(path)
        for number in range(0, self.FILES, 7):
            with open(os.path.join(other.path, name, str(number))) as file:
                self.assertEqual(file.read(), str(number))
        for number in range(self.FILES):
            os.unlink(os.path.join(path, str(number)))
        self.assertEqual(held(mounted), (0, 0))
        self.assertEqual(os.listdir(os.path.join(other.path, name)), [])


@needs_mount()
class Ganesha(SystemCase):
    SERVER = {"delegations": True, "lease": 20, "grace": 5}

    def test_what_it_grants_is_used(self):
        writer, mounted = self.mount("nodelegations"), self.mount()
        path = self.directory(writer)
        with open(os.path.join(path, "file"), "w") as file:
            file.write("first")
        name = os.path.join(mounted.path, os.path.basename(path), "file")
        with open(name) as file:
            self.assertEqual(file.read(), "first")
        if mounted.stats()["delegations"]["granted"] == 0:
            self.skipTest("this nfs-ganesha grants no delegation for a file opened to be read")
        before = requests(mounted)
        with open(name) as file:
            self.assertEqual(file.read(), "first")
        self.assertNotIn("OPEN", since(mounted, before))
        with open(os.path.join(path, "file"), "w") as file:
            file.write("second")
        with open(name) as file:
            self.assertEqual(file.read(), "second")


if __name__ == "__main__":
    unittest.main()
