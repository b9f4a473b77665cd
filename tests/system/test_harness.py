# SPDX-License-Identifier: Apache-2.0
"""Tests of the harness itself: whether its results can be trusted."""

import os
import random
import subprocess
import sys
import threading
import unittest

from harness import nfs41, steward
from harness.case import HOME, WORK, SystemCase, needs_mount, tool
from harness.ganesha import Ganesha
from harness.mount import mounts
from harness.proxy import ChaosProxy


class CheckersTest(unittest.TestCase):
    """The checking programs pass on a local file system, and detect a defect."""

    def directory(self, name):
        path = os.path.join(HOME, name)
        os.mkdir(path)
        return path

    def fsrandom(self, path, *options):
        return subprocess.run([tool("fsrandom"), *options, path], capture_output=True, text=True, timeout=300)

    def test_fsrandom_on_a_local_file_system(self):
        path, dump = self.directory("local"), os.path.join(HOME, "dump")
        done = self.fsrandom(path, "--seed", "1", "--steps", "20000", "--witness", path, "--dump", dump)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.fsrandom(path, "--verify", dump).returncode, 0)
        files = [os.path.join(d, f) for d, _, fs in os.walk(path) for f in fs if not os.path.islink(os.path.join(d, f))]
        self.assertTrue(files, "this seed leaves no file; take another")
        victim = max(files, key=os.path.getsize)
        with open(victim, "r+b") as file:
            file.seek(os.path.getsize(victim) - 1)
            last = file.read(1)
            file.seek(os.path.getsize(victim) - 1)
            file.write(bytes([last[0] ^ 1]))
        self.assertEqual(self.fsrandom(path, "--verify", dump).returncode, 1)

    def test_fsrandom_sees_single_flipped_bytes(self):
        path, stop, flips = self.directory("flipped"), threading.Event(), []

        def flip():
            generator = random.Random(5)
            while not stop.is_set():
                for directory, _, files in os.walk(path):
                    for name in files:
                        try:
                            fd = os.open(os.path.join(directory, name), os.O_RDWR | os.O_NOFOLLOW)
                        except OSError:
                            continue
                        size = os.fstat(fd).st_size
                        if 0 < size < 1 << 20:
                            at = generator.randrange(size)
                            os.pwrite(fd, bytes([os.pread(fd, 1, at)[0] ^ 0x80 if os.pread(fd, 1, at) else 1]), at)
                            flips.append(at)
                        os.close(fd)

        thread = threading.Thread(target=flip)
        thread.start()
        done = self.fsrandom(path, "--seed", "2", "--steps", "1000000", "--check-every", "200")
        stop.set()
        thread.join()
        self.assertEqual(done.returncode, 1, "a flipped byte was not noticed")
        self.assertIn("seed 2, step", done.stderr)
        self.assertTrue(flips)

    def test_locktest_on_a_local_file_system(self):
        path = self.directory("locks")
        for mode in ("posix", "flock"):
            subprocess.run([tool("locktest"), mode, "--steps", "2000", path, path], check=True, timeout=300)
        subprocess.run([tool("locktest"), "counter", path, path], check=True, timeout=300)

    def test_locktest_sees_locks_that_do_not_lock(self):
        # Two directories with a file each: locks in one do not conflict with locks in the other.
        one, two = self.directory("one"), self.directory("two")
        for mode in ("posix", "flock"):
            done = subprocess.run([tool("locktest"), mode, one, two], capture_output=True, timeout=300)
            self.assertEqual(done.returncode, 1, done.stderr)

    def test_ackcheck_sees_a_lost_block_and_a_lost_name(self):
        path, log = self.directory("acknowledged"), os.path.join(HOME, "acknowledged.log")
        subprocess.run([tool("ackcheck"), "write", "--log", log, "--seconds", "1", path], check=True, timeout=60)
        verify = [tool("ackcheck"), "verify", "--log", log, path]
        subprocess.run(verify, check=True)
        names = [name for name in os.listdir(path) if name.startswith("name.")]
        os.rename(os.path.join(path, names[0]), os.path.join(HOME, "away"))
        self.assertEqual(subprocess.run(verify, capture_output=True).returncode, 1)
        os.rename(os.path.join(HOME, "away"), os.path.join(path, names[0]))
        subprocess.run(verify, check=True)
        os.truncate(os.path.join(path, "data.1"), 5000)
        self.assertEqual(subprocess.run(verify, capture_output=True).returncode, 1)

    def test_ackcheck_takes_no_log_of_another_run(self):
        """Data that the other run acknowledged in its own directory would seem to be lost in this one."""
        log = os.path.join(HOME, "twice.log")
        for directory, status in (("first", 0), ("second", 2)):
            write = [tool("ackcheck"), "write", "--log", log, "--seconds", "0.2", self.directory(directory)]
            self.assertEqual(subprocess.run(write, capture_output=True, timeout=60).returncode, status)


class WorldTest(SystemCase):
    def mounts(self):
        return [point for _, point, kind, _ in mounts() if kind == "fuse.rpcrdma"]

    def test_begins_without_mounts_of_ours(self):
        self.assertEqual(self.mounts(), [])

    @needs_mount()
    def test_mounts_outside_are_not_seen_inside(self):
        mounted = self.mount()
        self.assertEqual(self.mounts(), [mounted.path])
        inner = [sys.executable, os.path.join(WORK, "src", "system", "run.py"), "--build", os.path.join(WORK, "build"), "--as", "root"]
        self.run_program(*inner, "test_harness.WorldTest.test_begins_without_mounts_of_ours", timeout=60)
        self.assertEqual(self.mounts(), [mounted.path], "it is gone outside, too")
        os.stat(mounted.path)


class ServerTest(SystemCase):
    """Ganesha behaves as the tests assume; checked with the second client."""

    SERVER = {"lease": 5, "grace": 5}

    def client(self, port=None, **more):
        client = nfs41.Client(port or self.server.port, **more)
        self.addCleanup(client.close)
        return client

    def test_locks_are_reclaimed_after_sigkill_and_cannot_be_stolen(self):
        holder, thief = self.client(), self.client()
        stateid, handle = holder.open(["export", "held"], create=True)
        holder.lock(handle, stateid)
        self.server.restart()
        for client in (holder, thief):
            client.connect()
            with self.assertRaises(nfs41.Status) as refused:
                client.compound(("PUTROOTFH", b""))
            self.assertEqual(refused.exception.name, "BADSESSION")
            client.new_session()
        thief.reclaim_complete()
        with self.assertRaises(nfs41.Status) as refused:
            thief.open(["export", "held"])
        self.assertEqual(refused.exception.name, "GRACE")
        stateid, reclaimed = holder.open(None, claim_handle=handle)
        self.assertEqual(reclaimed, handle)
        holder.lock(handle, stateid, reclaim=True)
        holder.reclaim_complete()

        def renewed_and_open():
            holder.compound(("PUTROOTFH", b""))  # renews the short lease
            return self.opens(thief)

        self.wait_until(renewed_and_open, "the grace period ends")
        their_stateid, their_handle = thief.open(["export", "held"])
        with self.assertRaises(nfs41.Status) as refused:
            thief.lock(their_handle, their_stateid)
        self.assertEqual(refused.exception.name, "DENIED")

    @staticmethod
    def opens(client):
        try:
            stateid, handle = client.open(["export", "held"])
        except nfs41.Status as status:
            if status.name != "GRACE":
                raise
            return False
        client.close_file(handle, stateid)
        return True

    def test_a_forgetful_server_has_no_grace(self):
        holder = self.client()
        _, handle = holder.open(["export", "forgotten"], create=True)
        self.server.restart(forget=True)
        holder.connect()
        holder.new_session()
        with self.assertRaises(nfs41.Status) as refused:
            holder.open(None, claim_handle=handle)
        self.assertEqual(refused.exception.name, "NO_GRACE")

    def test_the_proxy_cuts_between_execution_and_reply(self):
        proxy = self.proxy()
        client = self.client(proxy.port)
        stateid, handle = client.open(["export", "before"], create=True)
        client.close_file(handle, stateid)
        proxy.command("on reply RENAME 1 cut")
        with self.assertRaises(ConnectionError):
            client.rename(["export"], "before", "after")
        self.assertEqual(proxy.stats()["triggered"], 1)
        self.assertIn("after", os.listdir(self.server.path()))
        client.connect()
        client.sequence -= 1  # the same slot and sequence ID, so the reply cache answers
        client.rename(["export"], "before", "after")
        with self.assertRaises(nfs41.Status) as refused:
            client.rename(["export"], "before", "after")
        self.assertEqual(refused.exception.name, "NOENT")

    def test_the_proxy_keeps_what_it_fragments_and_spoils_what_it_shall(self):
        proxy = self.proxy()
        client = self.client(proxy.port)
        stateid, handle = client.open(["export", "whole"], create=True)
        data = os.urandom(20000)
        for fragment in (1, 7, 1000):
            proxy.command(f"fragment {fragment}")
            client.write(handle, stateid, 0, data)
            self.assertEqual(client.read(handle, stateid, 0, len(data)), data)
        proxy.command("fragment 0")
        proxy.command("on reply READ 1 flip")
        try:
            self.assertNotEqual(client.read(handle, stateid, 0, len(data)), data)
        except (RuntimeError, nfs41.Status, EOFError):
            pass  # the flipped byte was not in the data
        self.assertEqual(proxy.stats()["triggered"], 1)


if __name__ == "__main__":
    unittest.main()
