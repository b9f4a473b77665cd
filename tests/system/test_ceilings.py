# SPDX-License-Identifier: Apache-2.0
"""The bare client of tests/bench, which the benchmark compares with a mount: its file operations work."""

import mmap
import os
import random
import socket
import struct
import sys
import threading
import unittest
from concurrent.futures import ThreadPoolExecutor

from harness.case import WORK, SystemCase, needs_mount
from harness.filer import Filer

sys.path.insert(0, os.path.join(WORK, "src/bench"))
from ceilings import FRAMED, RELAY, Bare, Ceiling  # noqa: E402

IO_ERROR, BAD_SESSION = 5, 10052
PUTFH, READ, SEQUENCE = 22, 25, 53


class Refusing(threading.Thread):
    """A proxy between a client and its server. Once `refusal` is set it answers in the server's place: (status, results after SEQUENCE's,
    or None if SEQUENCE fails)."""

    def __init__(self, port):
        super().__init__(daemon=True)
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port, self.server_port, self.refusal = self.listener.getsockname()[1], port, None
        self.start()

    def run(self):
        with self.listener:
            client, _ = self.listener.accept()
        with client, socket.create_connection(("127.0.0.1", self.server_port)) as server, server.makefile("rb") as replies:
            threading.Thread(target=self.pass_calls, args=(client, server), daemon=True).start()
            while len(mark := replies.read(4)) == 4:
                reply = self.changed(replies.read(int.from_bytes(mark, "big") & 0x7FFFFFFF))
                client.sendall((1 << 31 | len(reply)).to_bytes(4, "big") + reply)

    def changed(self, reply):
        if not self.refusal:
            return reply
        status, results = self.refusal
        sequence = struct.pack(">II", SEQUENCE, status) if results is None else reply[36:80]
        return reply[:24] + struct.pack(">III", status, 0, 1 + len(results or b"") // 8) + sequence + (results or b"")

    @staticmethod
    def pass_calls(client, server):
        while calls := client.recv(1 << 16):
            server.sendall(calls)
        server.shutdown(socket.SHUT_RDWR)


LARGE, BLOCK = (3 << 20) + 4099, 1 << 20


@unittest.skipUnless(os.path.exists(os.path.join(WORK, "build/tests/bench/barefs")), "built without NFSRDMA_BENCH")
@needs_mount()
class Ceilings(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="ceilings").start()

    def bare(self, small=False):
        bare = Bare(self.server.port, "/export", small)
        self.addCleanup(bare.umount)
        return bare

    def there(self, name, content=b""):
        """Makes a file at the server."""
        path = os.path.join(self.server.path(), name)
        with open(path, "wb") as file:
            file.write(content)
        return path

    def content(self, name):
        with open(os.path.join(self.server.path(), name), "rb") as file:
            return file.read()

    def test_the_bare_client_reads_and_writes_what_is_there(self):
        """Data that is spliced and data that is copied, an end of file within a page, and a file that another client reads afterwards."""
        content = os.urandom(LARGE)
        self.there("data", content)
        self.there("target", content)
        bare = self.bare()
        with open(bare.path + "/data", "rb") as file:
            self.assertEqual(file.read(), content)
        descriptor = os.open(bare.path + "/data", os.O_RDONLY | os.O_DIRECT)
        self.addCleanup(os.close, descriptor)
        self.assertEqual(os.preadv(descriptor, [page := bytearray(4096)], 1 << 20), 4096)
        self.assertEqual(page, content[1 << 20:(1 << 20) + 4096])
        changed = os.urandom(2 * BLOCK)
        with open(bare.path + "/target", "r+b", buffering=0) as file:
            file.write(changed[:BLOCK])
        direct = os.open(bare.path + "/target", os.O_WRONLY | os.O_DIRECT)
        with open(os.path.join(self.server.path(), "target"), "rb") as file:
            self.assertEqual(file.read(), changed[:BLOCK] + content[BLOCK:])  # close(2) waited for the data
            os.pwrite(direct, self.aligned(changed[BLOCK:]), BLOCK)
            file.seek(0)
            self.assertEqual(file.read(), changed + content[2 * BLOCK:])
        os.close(direct)

    @staticmethod
    def aligned(data):
        memory = mmap.mmap(-1, len(data))
        memory.write(data)
        return memory

    def test_the_bare_client_finds_makes_and_reads_small_files(self):
        for name in ("one", "two"):
            self.there(name, name.encode() * 100)
        bare = self.bare(small=True)
        for name in ("one", "two"):
            self.assertEqual(os.stat(f"{bare.path}/{name}").st_size, 300)
            with open(f"{bare.path}/{name}") as file:
                self.assertEqual(file.read(), name * 100)
        self.assertFalse(os.path.exists(bare.path + "/three"))
        with open(bare.path + "/three", "w") as file:
            file.write("three")
        self.assertEqual(self.content("three"), b"three")

    def test_the_bare_client_meets_a_directory_and_a_longer_file_among_small_ones(self):
        content = os.urandom(3 * 4096)
        self.there("longer", content)
        os.makedirs(os.path.join(self.server.path(), "directory"), exist_ok=True)
        bare = self.bare(small=True)
        self.assertTrue(os.path.isdir(bare.path + "/directory"))
        with open(bare.path + "/longer", "rb") as file:
            self.assertEqual(file.read(), content)
        with self.assertRaises(OSError):
            os.stat(bare.path + "/directory/longer")

    def test_the_bare_client_has_one_file_open_twice(self):
        self.there("twice", bytes(BLOCK))
        bare = self.bare()
        first, second = (os.open(bare.path + "/twice", os.O_RDWR | os.O_DIRECT) for _ in range(2))
        os.pwrite(first, self.aligned(b"1" * 4096), 0)
        os.close(first)
        os.pwrite(second, self.aligned(b"2" * 4096), 4096)
        self.assertEqual(os.pread(second, 4096, 0), b"1" * 4096)
        third = os.open(bare.path + "/twice", os.O_RDONLY)
        os.close(second)
        self.assertEqual(os.pread(third, 4096, 4096), b"2" * 4096)
        os.close(third)
        with open(bare.path + "/twice", "wb") as file:  # truncated by SETATTR
            file.write(b"anew")
        self.assertEqual(self.content("twice"), b"anew")

    def test_the_bare_client_commits_each_file_by_itself(self):
        bare = self.bare()
        files = {name: os.open(f"{bare.path}/{name}", os.O_CREAT | os.O_WRONLY) for name in ("left", "right")}
        for name, file in files.items():
            os.write(file, name.encode() * 1000)
        for name, file in files.items():
            os.fsync(file)
            self.assertEqual(self.content(name), name.encode() * 1000)
            os.close(file)

    def test_the_bare_client_writes_more_behind_than_it_has_slots(self):
        content = os.urandom(300 * 4096)
        self.there("behind")
        bare = self.bare()
        with open(bare.path + "/behind", "r+b", buffering=0) as file:
            for at in range(0, len(content), 4096):
                file.write(content[at:at + 4096])
        self.assertEqual(self.content("behind"), content)
        large = content * 20
        with open(bare.path + "/behind", "r+b", buffering=0) as file, ThreadPoolExecutor(16) as threads:
            list(threads.map(lambda at: os.pwrite(file.fileno(), large[at:at + BLOCK], at), range(0, len(large), BLOCK)))
        self.assertEqual(self.content("behind"), large)

    def test_the_bare_client_reads_for_many_at_once(self):
        """Spliced data, with copied data before and after it."""
        content = os.urandom(16 * BLOCK)
        self.there("many", content)
        bare = self.bare()
        direct = os.open(bare.path + "/many", os.O_RDONLY | os.O_DIRECT)
        self.addCleanup(os.close, direct)

        def reads(seed):
            rng = random.Random(seed)
            memory = mmap.mmap(-1, 256 << 10)
            for _ in range(100):
                size = rng.choice((4096, 256 << 10))
                at = rng.randrange(len(content) // size) * size
                if os.preadv(direct, [memoryview(memory)[:size]], at) != size or memory[:size] != content[at:at + size]:
                    return False
            return True

        with ThreadPoolExecutor(32) as threads:
            self.assertTrue(all(threads.map(reads, range(32))))

    def test_the_bare_client_ends_when_it_is_refused(self):
        """It does not wait for results that an error reply does not have."""
        self.there("refused", os.urandom(BLOCK))
        for refusal in ((BAD_SESSION, None), (IO_ERROR, struct.pack(">II", PUTFH, IO_ERROR)),
                        (IO_ERROR, struct.pack(">IIII", PUTFH, 0, READ, IO_ERROR))):
            with self.subTest(refusal=refusal):
                refusing = Refusing(self.server.port)
                bare = Bare(refusing.port, "/export")
                descriptor = os.open(bare.path + "/refused", os.O_RDONLY | os.O_DIRECT)
                refusing.refusal = refusal
                with self.assertRaises(OSError):
                    os.preadv(descriptor, [mmap.mmap(-1, 256 << 10)], 0)
                os.close(descriptor)
                bare.umount()
                self.assertEqual(bare.process.returncode, 1)

    def test_the_relay_answers_with_as_much_as_was_asked_for(self):
        size = 2 * BLOCK + 4099
        for kind in (RELAY, FRAMED):
            ceiling = Ceiling(kind, size, 0)
            self.addCleanup(ceiling.umount)
            with open(ceiling.path + "/data", "rb", buffering=0) as file:
                descriptor = os.open(ceiling.path + "/data", os.O_RDONLY | os.O_DIRECT)
                self.addCleanup(os.close, descriptor)
                for asked in (4096, 65536, 4 * 65536, BLOCK, 65536 + 512, BLOCK - 512):
                    self.assertEqual(os.preadv(descriptor, [page := mmap.mmap(-1, asked)], 0), asked)
                    self.assertEqual(page[:], b"r" * asked)
                self.assertEqual(file.read(), b"r" * size)
