# SPDX-License-Identifier: Apache-2.0
"""The Linux kernel's NFSv4.1 client with nfsrdma-filer: over software RDMA, for which it uses siw, and over TCP.

The filer runs on the host and exports a directory there, so the tests can look at the server's files. One guest for all tests of the
module; its commands work in the mount.
"""

import fcntl
import os
import re
import signal
import stat
import time
import unittest

import trees
from beside import SIZE, overtaken_in_what_was_read_ahead
from guest import HOST, Guest
from harness.case import HOME, Mount, SystemCase, needs_mount, tool
from harness.filer import Filer

MIB = 1 << 20
RDMA_PORT = 20049
MOUNT = "/net"
guest = None


def setUpModule():
    global guest
    guest = Guest().start()
    guest.run("siw_up && modprobe -a nfsv4 rpcrdma")


def tearDownModule():
    guest.end()


class KernelCase(SystemCase):
    LIMIT = 1800
    OPTIONS = f"proto=rdma,port={RDMA_PORT}"
    ARGUMENTS = ()

    @classmethod
    def setUpClass(cls):
        # The kernel's client has a reserved port over TCP, and any port over RDMA. The long lease keeps the locks of
        # a guest that gets no processor for a while. Grace ends with the guest's RECLAIM_COMPLETE.
        cls.server = Filer(name=f"filer.{cls.__name__}", address=HOST, lease=90, grace=90, insecure="proto=rdma" in cls.OPTIONS,
                           arguments=("--rdma", f"{HOST}:{RDMA_PORT}", *cls.ARGUMENTS)).start()
        cls.options = cls.OPTIONS.format(port=cls.server.port)
        guest.run(f"dmesg -C; kernel_mount {HOST}:/export {MOUNT} {cls.options}")

    @classmethod
    def tearDownClass(cls):
        try:
            guest.run(f"umount {MOUNT}")
        finally:
            status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"

    def setUp(self):
        super().setUp()
        self.name = self.id().rsplit(".", 1)[1]
        self.there = os.path.join(MOUNT, self.name)
        self.here = os.path.join(self.server.path(), self.name)
        guest.run(f"mkdir {self.there}")

    def tearDown(self):
        super().tearDown()
        complaints = guest.run("dmesg -c | grep -iE 'nfs|rpc|siw|bug|warn|oops' || true")
        self.assertEqual(complaints, "", "the guest's kernel complains")
        complaints = [line for line in self.server.log_text().splitlines() if re.search(" (warning|error) ", line)]
        self.assertEqual(complaints, [], "the filer complains")

    def work(self, commands):
        """Runs commands in a new directory of the mount."""
        return guest.run(f"set -e; cd {self.there}; {commands}")


class Either:
    """The tests for both transports."""

    def test_it_is_mounted_as_asked_for(self):
        options = guest.run(f"grep ' {MOUNT} ' /proc/mounts")
        self.assertIn("vers=4.1", options)
        self.assertIn("proto=" + self.options.split("=")[1].split(",")[0], options)

    def test_a_tree_is_the_same_here_and_there(self):
        source = self.local("tree")
        trees.small_files(source, 60)
        self.work(f"cp -a {source} tree; ln -s tree link; ln 'tree/d0/file 0.txt' hard")
        self.assertEqual(trees.differences(trees.describe(source), trees.describe(os.path.join(self.here, "tree"))), "")
        self.remount()
        self.work(f"diff -r --no-dereference {source} tree; [ $(readlink link) = tree ]; [ $(stat -c %h hard) = 2 ]")

    def remount(self):
        """Mounts again, so that everything comes from the server."""
        guest.run(f"umount {MOUNT}; kernel_mount {HOST}:/export {MOUNT} {self.options}")

    def test_large_files(self):
        data = os.urandom(6 * MIB + 3)
        with open(os.path.join(self.here, "from-the-server"), "wb") as file:
            file.write(data)
        self.work("cp from-the-server copy; dd if=from-the-server of=direct bs=1M iflag=direct oflag=direct count=6 status=none; sync .")
        for name, part in (("copy", data), ("direct", data[:6 * MIB])):
            with open(os.path.join(self.here, name), "rb") as file:
                self.assertEqual(file.read(), part, name)

    def test_locks(self):
        for mode in ("posix --seed 1 --steps 60", "flock --seed 2 --steps 40", "counter --rounds 20"):
            self.work(f"{tool('locktest')} {mode} {self.there}")

    def test_removed_while_open_and_renamed_over(self):
        self.work("exec 3<>open; echo text >&3; rm open; echo more >&3; cat /proc/self/fd/3 | wc -c; exec 3>&-; "
                  "echo one >a; echo two >b; exec 4<a; mv b a; [ \"$(cat <&4)\" = one ]; exec 4<&-; [ $(cat a) = two ]")
        self.assertEqual(os.listdir(self.here), ["a"])

    def test_the_filer_restarts_while_it_writes(self):
        """No acknowledged data is lost, neither on the server's disk nor as the client sees it."""
        log = f"/run/{self.id()}.log"
        writer = guest.begin(f"{tool('ackcheck')} write --log {log} --workers 2 --seconds 3600 {self.there}")
        for acknowledged in (10, 20):
            guest.run(f"until [ 0$(grep -cs ^a {log}) -ge {acknowledged} ]; do sleep 0.2; done")
            self.server.restart(down=1)
        guest.run(f"until [ $(grep -c ^a {log}) -ge 40 ]; do sleep 0.2; done")
        writer.kill()
        writer.wait(check=False)
        guest.run(f"sync {self.there}")
        here = os.path.join(self.local("log"), "log")
        with open(here, "w") as file:
            file.write(guest.run(f"cat {log}"))
        self.run_program(tool("ackcheck"), "verify", "--log", here, self.here)
        self.remount()
        guest.run(f"{tool('ackcheck')} verify --log {log} {self.there}")


class Rdma(Either, KernelCase):
    def test_git(self):
        source = os.path.join(HOME, "source")
        trees.git_repository(source, files=40, commits=3)
        self.work(f"""git='git -c safe.directory=* -c user.name=A -c user.email=a@example.com -c gc.autoDetach=false'
            $git clone -q file://{source} clone; $git -C clone gc -q --prune=now; $git -C clone fsck --full --strict 2>&1
            [ -z "$($git -C clone status --porcelain)" ]""")
        self.run_program("diff", "-r", "--no-dereference", "--exclude=.git", source, os.path.join(self.here, "clone"))
        self.run_program("git", "-c", "safe.directory=*", "-C", os.path.join(self.here, "clone"), "fsck", "--full", "--strict")

    def test_tar(self):
        source = os.path.join(HOME, "small")
        trees.small_files(source, 60)
        self.work(f"tar -C {source} --format=posix -cf packed.tar .; mkdir out; tar -C out -xpf packed.tar; tar -C out --compare -f packed.tar")
        self.assertEqual(trees.differences(trees.describe(source), trees.describe(os.path.join(self.here, "out"))), "")
        self.work("rm -r out")
        self.assertEqual(os.listdir(self.here), ["packed.tar"])

    def test_long_directories_and_names(self):
        self.work("python3 -c 'for i in range(300): open(f\"{i:04}\" + \"x\" * 200, \"w\").close()'; [ $(ls | wc -l) = 300 ]")
        self.assertEqual(len(os.listdir(self.here)), 300)
        self.remount()
        self.work("[ $(ls | wc -l) = 300 ]; rm *; [ $(ls | wc -l) = 0 ]")

    def test_random_operations(self):
        dump = f"/run/{self.name}.dump"
        # Without hard links: the kernel's client reports their number late, with its own server, too.
        self.work(f"{tool('fsrandom')} --tolerate silly --without link --seed 1 --steps 500 --dump {dump} {self.there}")
        self.remount()
        self.work(f"{tool('fsrandom')} --verify {dump} {self.there}")


class Tcp(Either, KernelCase):
    OPTIONS = "proto=tcp,port={port}"


@needs_mount()
class BesideOurs(KernelCase):
    """The kernel's client and our mount use the same files, each with delegations that the other's work recalls. READs are delayed, so
    that the daemon reads ahead."""

    ARGUMENTS = ("--delegations", "write", "--fault", "reply READ always: delay 3")
    PROTO = "rdma"

    def setUp(self):
        super().setUp()
        port = RDMA_PORT if self.PROTO == "rdma" else self.server.port
        self.ours = Mount(f"{HOST}:/export", port, "read_ahead_kb=1024", proto=self.PROTO)
        self.mounted.append(self.ours)

    def path(self, name):
        return os.path.join(self.ours.path, self.name, name)

    def write(self, name, data):
        with open(self.path(name), "wb") as file:
            file.write(data)

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def test_it_writes_under_our_delegations(self):
        """A conflicting OPEN waits until the delegation is returned (RFC 8881 section 10.2)."""
        for turn in range(5):
            self.write("file", f"ours {turn}".encode())
            self.assertEqual(self.ours.stats()["delegations"]["held_write"], 1)
            self.assertEqual(self.work("cat file"), f"ours {turn}")
            self.work(f"echo theirs {turn} >file")
            self.assertEqual(self.read("file"), f"theirs {turn}\n".encode())
        numbers = self.ours.stats()["delegations"]
        self.assertGreaterEqual(numbers["recalled"], 5, numbers)
        self.assertEqual(numbers["revoked"], 0, numbers)

    def test_it_changes_what_we_keep_open(self):
        self.write("file", b"0" * 100000)
        with open(self.path("file"), "rb") as kept:
            self.assertEqual(kept.read(), b"0" * 100000)
            self.work("head -c 50000 /dev/zero | tr '\\0' 1 | dd of=file conv=notrunc bs=50000 status=none")
            self.assertEqual(self.read("file"), b"1" * 50000 + b"0" * 50000, "an open after its close sees what it wrote")
            self.assertEqual(os.pread(kept.fileno(), 100000, 0), b"1" * 50000 + b"0" * 50000, "and so does who had it open")

    def test_it_writes_what_we_have_read_ahead(self):
        here = os.path.join(self.here, "large")
        with open(here, "wb") as file:
            file.write(b"1" * SIZE)
        self.wait_until(lambda: time.time() > os.stat(here).st_ctime + 0.1, "its change attribute rests (filer/tree/host_store.h)")
        overtaken_in_what_was_read_ahead(
            self, self.ours, self.path("large"),
            lambda byte: self.work(f"head -c {SIZE} /dev/zero | tr '\\0' {byte} | dd of=large conv=notrunc bs=1M iflag=fullblock status=none"))

    def test_it_truncates_extends_removes_and_renames(self):
        for name in ("truncated", "extended", "removed", "renamed"):
            self.write(name, name.encode() * 1000)
        self.work("truncate -s 9 truncated; echo end >>extended; rm removed; mv renamed moved; chmod 600 extended")
        self.assertEqual(self.read("truncated"), b"truncated")
        self.assertEqual(self.read("extended"), b"extended" * 1000 + b"end\n")
        self.wait_until(lambda: sorted(os.listdir(os.path.dirname(self.path("x")))) == ["extended", "moved", "truncated"],
                        "the directory is as it left it")
        self.assertEqual(self.read("moved"), b"renamed" * 1000)
        self.wait_until(lambda: stat.S_IMODE(os.stat(self.path("extended")).st_mode) == 0o600, "the mode is as it left it")

    def test_we_write_under_its_delegations(self):
        self.work("for i in 1 2 3 4 5; do echo theirs $i >f$i; cat f$i >/dev/null; done")
        for i in range(1, 6):
            self.assertEqual(self.read(f"f{i}"), f"theirs {i}\n".encode())
            self.write(f"f{i}", f"ours {i}\n".encode())
        self.assertEqual(self.work("cat f1 f2 f3 f4 f5").splitlines(), [f"ours {i}" for i in range(1, 6)])

    def test_both_append_in_turn_under_a_lock(self):
        self.write("log", b"")
        held = []
        for turn in range(10):
            with open(self.path("log"), "ab") as file:
                fcntl.lockf(file, fcntl.LOCK_EX)
                file.write(f"ours {turn}\n".encode())
                file.flush()
                fcntl.lockf(file, fcntl.LOCK_UN)
            held.append(f"ours {turn}")
            self.work(f"flock log sh -c 'echo theirs {turn} >>log'")
            held.append(f"theirs {turn}")
        self.assertEqual(self.read("log").decode().splitlines(), held)
        self.assertEqual(self.work("cat log").splitlines(), held)


class BesideOursTcp(BesideOurs):
    """Recalls come by TCP; the kernel's client stays on RDMA."""

    PROTO = "tcp"


if __name__ == "__main__":
    unittest.main()
