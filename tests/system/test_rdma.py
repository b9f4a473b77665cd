# SPDX-License-Identifier: Apache-2.0
"""Mounts of nfsrdma-filer over software RDMA, in both versions of RPC-over-RDMA: the tests of other modules, and the paths of the data."""

import errno
import os
import signal

import test_locks
import test_random
import test_restart
import test_work
from harness.case import ServerForEach, SystemCase, needs_mount
from harness.filer import Filer
from harness.ports import free_port
from harness.proxy import ChaosProxy

MIB = 1 << 20


class OnRdma:
    """Runs the tests of the other base class over RDMA."""

    RDMA_VERSION = 2

    @classmethod
    def setUpClass(cls):
        cls.rdma_port = free_port()
        times = {k: v for k, v in cls.SERVER.items() if k in ("lease", "grace")}
        cls.server = Filer(name=f"rdma.{cls.__name__}", arguments=("--rdma", f"127.0.0.1:{cls.rdma_port}"), **times).start()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"

    def mount(self, options="", export=None, port=None, **more):
        joined = ",".join(part for part in (f"rdmavers={self.RDMA_VERSION}", options) if part)
        return super().mount(joined, export, port or self.rdma_port, **{"proto": "rdma", **more})


class Git(OnRdma, test_work.Git):
    pass


class Locks(OnRdma, test_locks.Locks):
    FAIR = False


class HandedOn(OnRdma, test_locks.HandedOn):
    pass


class Restart(OnRdma, test_restart.Restart):
    pass


class Cuts(OnRdma, test_random.Cuts):
    """Connections of software RDMA are reset at random, half of them in the middle of a message."""

    test_replies_in_tiny_fragments = None  # only TCP has fragments

    def proxy(self):
        proxy = ChaosProxy(self.rdma_port, raw=True)
        self.addCleanup(proxy.close)
        return proxy


class Random(OnRdma, test_random.Quiet):
    SEEDS = range(1, 2)
    STEPS = test_random.scaled(10000)


class RandomVersion1(Random):
    RDMA_VERSION = 1


@needs_mount()
class Placement(OnRdma, SystemCase):
    """The numbers of `stats` for data that was read and written."""

    SERVER = {}

    def transfer(self, version):
        self.RDMA_VERSION = version
        mounted = self.mount("threads=1")
        path = os.path.join(self.directory(mounted, f"version{version}"), "file")
        data = os.urandom(8 * MIB)
        with open(path, "wb") as file:
            file.write(data)
        mounted.umount()
        mounted = self.mount("threads=1")
        path = os.path.join(mounted.path, f"version{version}", "file")
        with open(path, "rb") as file:
            self.assertEqual(file.read(), data)
        transport, = mounted.stats()["transports"]
        mounted.umount()
        return transport

    def test_reads_are_placed_in_both_versions(self):
        for version in (2, 1):
            transport = self.transfer(version)
            self.assertEqual(transport["rdma"]["version"], version)
            self.assertGreaterEqual(transport["rdma"]["bytes_placed"], 8 * MIB, "every byte of the file was placed by RDMA Write")
            self.assertGreater(transport["bytes_spliced"], 0, "and some of it from the socket into a pipe")


@needs_mount()
class Faults(ServerForEach, test_random.RandomCase):
    """Servers that answer with transport errors, or take credits and slots away (nfsrdma-filer --fault)."""

    ERRORS = ("BAD_XDR", "INVAL_HTYPE", "READ_CHUNKS 1", "WRITE_CHUNKS 1", "SEGMENTS 1", "WRITE_RESOURCE 1 9000",
              "REPLY_RESOURCE 9000", "SYSTEM")

    def serve(self, version, *rules):
        self.rdma_port = free_port()
        faults = [word for rule in rules for word in ("--fault", rule)]
        self.server = Filer(name=f"rdma.{self._testMethodName}",
                            arguments=("--rdma", f"127.0.0.1:{self.rdma_port}", *faults)).start()
        self.addCleanup(self.server.kill)
        return self.mount(f"rdmavers={version}", port=self.rdma_port, proto="rdma")

    def work(self, mounted):
        """Writes and reads files, and counts failures; each failure must be EIO."""
        directory, failures = self.directory(mounted, "work"), 0
        for number in range(100):
            path, data = os.path.join(directory, str(number)), os.urandom(20000)
            try:
                with open(path, "wb") as file:
                    file.write(data)
                with open(path, "rb") as file:
                    read = file.read()
            except OSError as error:
                self.assertEqual(error.errno, errno.EIO)
                failures += 1
            else:
                self.assertEqual(read, data)
        return failures

    def check_errors(self, version, names):
        mounted = self.serve(version, *(f"header nth {60 + 17 * i}: error {name}" for i, name in enumerate(names)))
        failures = self.work(mounted)
        self.assertLessEqual(failures, len(names), "an error costs one call")
        transport, = mounted.stats()["transports"]
        self.assertGreaterEqual(transport["rdma"]["errors_received"], len(names))
        self.assertEqual(transport["connects"], 1, "and not the connection")
        self.run_program("cp", "-r", os.path.join(mounted.path, "work"), os.path.join(mounted.path, "copy"))

    def test_version_2_errors_cost_a_call_at_most(self):
        self.check_errors(2, self.ERRORS)

    def test_version_1_errors_cost_a_call_at_most(self):
        self.check_errors(1, ("CHUNK", "CHUNK"))

    def test_credits_and_slots_taken_away_and_given_back(self):
        mounted = self.serve(2, "reply nth 50: credits 1", "reply nth 500: credits 0", "reply nth 1500: credits 64",
                             "request nth 100: slots 1", "request nth 2000: slots 64")
        self.finish(self.fsrandom(self.directory(mounted), seed=7, steps=test_random.scaled(4000), workers=3))
        transport, = mounted.stats()["transports"]
        self.assertEqual(transport["rdma"]["credits_granted"], 64)
        self.assertEqual(transport["connects"], 1)
