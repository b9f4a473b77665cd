# SPDX-License-Identifier: Apache-2.0
"""Our client with Linux' server: software RDMA with the kernel's siw, RPC-over-RDMA version 1.

One guest for all tests of the module. Assertions about the server's side are checked in the guest.
"""

import concurrent.futures
import os
import struct
import time
import unittest

import test_work
import trees
from beside import SIZE, overtaken_in_what_was_read_ahead
from guest import GUEST, Guest
from harness import acl
from harness.case import HOME, WORK, ChaosProxy, Mount, SystemCase, needs_mount, tool
from inside import MountInside, work_as_a_user
from knfsd import EXPORT, Knfsd
from relay import CLIENT, SERVER, Relay, messages

MIB = 1 << 20
guest = server = None


def setUpModule():
    global guest, server
    guest = Guest().start()
    server = Knfsd(guest).start()


def tearDownModule():
    guest.end()


class OnKnfsd:
    """Runs the tests of the other base class with Linux' server, over RDMA unless PROTO says otherwise."""

    LIMIT = 1800
    PROTO = "rdma"

    @classmethod
    def setUpClass(cls):
        cls.server = server

    @classmethod
    def tearDownClass(cls):
        guest.run(f"rm -rf {EXPORT}/*")

    def mount(self, options="", host=GUEST, port=None):
        usual = server.rdma_port if self.PROTO == "rdma" else server.port
        mounted = Mount(server.source(host=host), port or usual, options, proto=self.PROTO)
        self.mounted.append(mounted)
        return mounted

    def left(self):
        return server.names()


class TheGuest(unittest.TestCase):
    def test_a_command_that_cannot_be_begun_is_answered(self):
        with self.assertRaisesRegex(RuntimeError, "could not be begun"):
            guest.run("true " + "x" * 200_000, timeout=60)


@needs_mount()
class Version(OnKnfsd, SystemCase):
    def test_version_2_is_asked_for_and_version_1_used_on_the_same_connection(self):
        relay = Relay(GUEST, server.rdma_port)
        self.addCleanup(relay.close)
        mounted = self.mount("threads=1", host="127.0.0.1", port=relay.port)
        path = self.directory(mounted)
        with open(os.path.join(path, "file"), "wb") as file:
            file.write(b"x" * 100000)
        transport, = mounted.stats()["transports"]
        self.assertEqual(transport["rdma"]["version"], 1)
        self.assertIn("has no RPC-over-RDMA version 2 (ERR_VERS); using version 1", mounted.log_text())
        self.assertIn("version 1 (it has no RPC-over-RDMA version 2 (ERR_VERS))",
                      self.run_program(os.path.join(WORK, "bin/nfsrdma-fuse"), "status", mounted.path))
        mounted.umount()
        connection, = relay.connections
        asked, answered = messages(connection.stream(CLIENT)), messages(connection.stream(SERVER))
        words = [struct.unpack_from(">II", message) for message in asked]
        self.assertEqual([version for _, version in words[:2]], [2, 1])
        self.assertEqual({version for _, version in words[1:]}, {1})
        # RFC 8166 section 4.5: XID, version, credits, RDMA_ERROR, ERR_VERS, lowest, highest.
        xid, _, _, *error = struct.unpack(">7I", answered[0])
        self.assertEqual((xid, error), (words[0][0], [4, 1, 1, 1]))

    def test_what_is_placed(self):
        data = os.urandom(4 * MIB + 40001)  # its last part, too, is too long to go inline
        mounted = self.mount("threads=1")
        path = os.path.join(self.directory(mounted), "file")
        with open(path, "wb") as file:
            file.write(data)
        mounted.umount()
        mounted = self.mount("threads=1")
        with open(os.path.join(mounted.path, os.path.relpath(path, self.mounted[0].path)), "rb") as file:
            self.assertEqual(file.read(), data)
        rdma = mounted.stats()["transports"][0]["rdma"]
        self.assertGreaterEqual(rdma["bytes_placed"], len(data), "every byte of the file came by RDMA Write")


class Git(OnKnfsd, test_work.Git):
    FILES = 80


class Tar(OnKnfsd, test_work.Tar):
    FILES = 120


@needs_mount()
class Work(OnKnfsd, SystemCase):
    def two(self):
        one, two = self.mount(), self.mount()
        path = self.directory(one)
        return path, os.path.join(two.path, os.path.basename(path))

    def test_posix_locks_of_two_mounts(self):
        self.run_program(tool("locktest"), "posix", "--seed", 1, "--steps", 60, *self.two())

    def test_flock_of_two_mounts(self):
        self.run_program(tool("locktest"), "flock", "--seed", 2, "--steps", 40, *self.two())

    def test_counting_under_a_lock(self):
        self.run_program(tool("locktest"), "counter", "--rounds", 20, *self.two())

    def test_random_operations(self):
        mounted = self.mount()
        directory, dump = self.directory(mounted), os.path.join(HOME, "dump")
        self.run_program(tool("fsrandom"), "--tolerate", "silly", "--seed", 1, "--steps", 1000, "--dump", dump, directory)
        mounted.umount()
        again = self.mount()
        self.run_program(tool("fsrandom"), "--verify", dump, os.path.join(again.path, os.path.basename(directory)))

    def test_times_of_a_file_created_exclusively_are_of_now(self):
        path = self.directory(self.mount())
        os.close(os.open(os.path.join(path, "exclusive"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640))
        *times, now = map(int, guest.run(f"stat -c '%X %Y' {EXPORT}/{os.path.basename(path)}/exclusive; date +%s").split())
        self.assertTrue(all(abs(t - now) < 60 for t in times), (times, now))

    def test_a_tree_is_the_same_here_and_there(self):
        source = self.local("source")
        trees.small_files(source, 100)
        self.run_program("cp", "-a", source, os.path.join(self.mount().path, "tree"))
        self.mounted[0].umount()
        found = trees.describe(os.path.join(self.mount().path, "tree"))
        self.assertEqual(trees.differences(trees.describe(source), found), "")
        self.assertEqual(guest.run(f"cd {EXPORT}/tree && find . -type f -print0 | sort -z | xargs -0 sha1sum"),
                         self.run_program("sh", "-c", "find . -type f -print0 | LC_ALL=C sort -z | xargs -0 sha1sum", cwd=source))


@needs_mount()
class Trouble(OnKnfsd, SystemCase):
    """No acknowledged data is lost when faults happen while writers work."""

    def while_writing(self, *troubles, host=GUEST, port=None):
        """Runs writers one after the other until the last fault is over."""
        mounted = self.mount("timeo=100", host, port)
        trouble = concurrent.futures.ThreadPoolExecutor(1)
        self.addCleanup(trouble.shutdown)
        pending = [trouble.submit(call) for each in troubles for call in (lambda: time.sleep(1), each)]
        written = []
        while not written or not all(future.done() for future in pending):
            name = f"{self._testMethodName}.{len(written)}"
            log = os.path.join(HOME, name + ".log")
            self.run_program(tool("ackcheck"), "write", "--log", log, "--workers", 3, "--seconds", 3, self.directory(mounted, name))
            written.append(f"{tool('ackcheck')} verify --log {log} {EXPORT}/{name}")
        for future in pending:
            future.result()
        mounted.umount()
        guest.run(" && ".join(written))

    def test_connections_are_cut(self):
        chaos = ChaosProxy(server.rdma_port, raw=True, host=GUEST)
        self.addCleanup(chaos.close)

        def cut():
            self.wait_until(lambda: chaos.command("cut") != "0", "a connection to cut", timeout=120)

        self.while_writing(cut, cut, cut, host="127.0.0.1", port=chaos.port)

    def test_the_server_restarts(self):
        self.while_writing(server.restart, lambda: server.restart(down=3))

    def test_the_link_goes_down(self):
        self.while_writing(lambda: guest.run("ip link set eth0 down; sleep 4; ip link set eth0 up"))


@needs_mount()
class BesideTheKernelsClient(OnKnfsd, SystemCase):
    """The server's own client uses the same files, in the guest, while we hold the delegations that this server grants."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        guest.run("modprobe nfsv4; kernel_mount 127.0.0.1:/ /beside proto=tcp")

    @classmethod
    def tearDownClass(cls):
        guest.run("umount /beside")
        super().tearDownClass()

    def both(self, options=""):
        """Our mount, a directory in it, and that directory for the kernel's client."""
        mounted = self.mount(options)
        path = self.directory(mounted)
        return mounted, path, os.path.join("/beside", os.path.basename(path))

    def test_it_writes_under_our_delegations(self):
        mounted, path, there = self.both()
        guest.run(f"cd {there}; for i in $(seq 20); do echo first $i >f$i; done")
        for i in range(1, 21):
            self.assertEqual(self.content(path, i), f"first {i}\n")
        numbers = mounted.stats()["delegations"]
        self.assertGreater(numbers["held_read"], 0, numbers)
        guest.run(f"cd {there}; for i in $(seq 20); do echo the second $i >f$i; done")
        for i in range(1, 21):
            self.assertEqual(self.content(path, i), f"the second {i}\n")
        numbers = mounted.stats()["delegations"]
        self.assertGreater(numbers["recalled"], 0, numbers)
        self.assertEqual(numbers["revoked"], 0, numbers)

    def test_it_writes_what_we_have_read_ahead(self):
        mounted, path, there = self.both("read_ahead_kb=1024")

        def fill(byte):
            guest.run(f"head -c {SIZE} /dev/zero | tr '\\0' {byte} | dd of={there}/large conv=notrunc bs=1M iflag=fullblock status=none")
            server.wait_until_closed()

        fill("1")
        overtaken_in_what_was_read_ahead(self, mounted, os.path.join(path, "large"), fill)

    def content(self, path, number):
        with open(os.path.join(path, f"f{number}")) as file:
            return file.read()

    def test_it_changes_names_and_modes_under_our_delegations(self):
        _, path, there = self.both()
        guest.run(f"cd {there}; for i in $(seq 4); do echo $i >f$i; done")
        for i in range(1, 5):
            self.assertEqual(self.content(path, i), f"{i}\n")
        guest.run(f"cd {there}; rm f1; mv f2 f1; chmod 600 f3; truncate -s 0 f4")
        self.wait_until(lambda: sorted(os.listdir(path)) == ["f1", "f3", "f4"], "the directory is as it left it")
        self.wait_until(lambda: self.content(path, 1) == "2\n", "the name is of the other file")
        self.wait_until(lambda: os.stat(os.path.join(path, "f3")).st_mode & 0o777 == 0o600, "the mode is as it left it")
        self.assertEqual(self.content(path, 4), "")


class BesideTheKernelsClientTcp(BesideTheKernelsClient):
    PROTO = "tcp"


class Acls(OnKnfsd, SystemCase):
    """Root's mount in the guest serves the guest's users. Linux' server obeys its file system's ACLs, and shows them."""

    ALICE, BOB = 1001, 1002

    def stats_as(self, user, path, times=1):
        """Whether all stat calls succeed."""
        script = f"for i in $(seq {times}); do stat {path} >/dev/null 2>&1 || exit 1; done"
        return guest.run(f"setpriv --reuid={user} --regid={user} --clear-groups sh -c '{script}' && echo yes || echo no").strip() == "yes"

    def lookups(self, mounted):
        return sum(each["requests"] for each in mounted.stats()["fuse"]["operations"] if each["name"] == "LOOKUP")

    def test_names_are_lent_to_whom_the_acl_lets_in(self):
        guest.run(f"cd {EXPORT} && mkdir plain closed && touch plain/file closed/file")
        mounted = MountInside(guest, f"{GUEST}:/", "acdirmin=600,acdirmax=600", proto="tcp")
        self.mounted.append(mounted)
        value = acl.shutting_out(self.BOB).hex()
        guest.run(f"python3 -c 'import os; os.setxattr(\"{EXPORT}/closed\", \"system.posix_acl_access\", bytes.fromhex(\"{value}\"))'")
        self.assertTrue(self.stats_as(self.ALICE, f"{mounted.path}/closed/file", 40))
        self.assertFalse(self.stats_as(self.BOB, f"{mounted.path}/closed/file"), "an ACL shuts him out")
        self.assertTrue(self.stats_as(self.ALICE, f"{mounted.path}/plain/file", 40))
        before = self.lookups(mounted)
        self.assertTrue(self.stats_as(self.ALICE, f"{mounted.path}/plain/file", 40))
        self.assertTrue(self.stats_as(self.BOB, f"{mounted.path}/plain/file", 40))
        self.assertEqual(self.lookups(mounted), before, "the kernel has the names of a directory that everybody may search")


class Unprivileged(OnKnfsd, SystemCase):
    """An ordinary user of the guest mounts there and works. It uses no RDMA device; other tests do."""

    def test_mount_work_unmount(self):
        work_as_a_user(guest, f"{GUEST}:/", EXPORT, "software", "software RDMA, version 1", 3000000)


if __name__ == "__main__":
    unittest.main()
