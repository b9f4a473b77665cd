"""Mounts over software RDMA from nfsrdma-filer, in both versions of RPC-over-RDMA: the work of other modules, and how the data went."""

import os
import signal

import test_locks
import test_random
import test_restart
import test_work
from harness.case import SystemCase, needs_mount
from harness.filer import Filer
from harness.ganesha import free_port

MIB = 1 << 20


class OnRdma:
    """The tests of the class beside it, over RDMA."""

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
    pass


class Restart(OnRdma, test_restart.Restart):
    pass


class Random(OnRdma, test_random.Quiet):
    SEEDS = range(1, 2)
    STEPS = test_random.scaled(10000)


class RandomVersion1(Random):
    RDMA_VERSION = 1


@needs_mount()
class Placement(OnRdma, SystemCase):
    """What `stats` says of data that was read and written."""

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
