"""RDMA devices: client and filer over Linux' rxe, both in the guest, for the host has no device.

One guest for all tests of the module; commands in it work in its mounts. It has one emulated processor, so everything is small.
"""

import os
import unittest

import kernel
import trees
from guest import GUEST, Guest
from harness.case import SystemCase, needs_mount, tool
from inside import FilerInside, MountInside

DEVICE = "rxe0"
GUEST6 = "fd00:9::2"
guest = None


def setUpModule():
    global guest
    if problem := kernel.why_none():
        raise unittest.SkipTest(problem)
    guest = Guest().start()
    guest.run(f"ip addr add {GUEST6}/64 dev eth0 nodad; rdma_up; dmesg -C")


def tearDownModule():
    guest.end()


class DeviceCase(SystemCase):
    """Mounts and commands in the guest; `server` is there, too."""

    LIMIT = 1200
    SOURCE = f"{GUEST}:/memory"

    def mount(self, options="", source=None):
        mounted = MountInside(guest, source or self.SOURCE, ",".join(part for part in (f"rdma_dev={DEVICE},threads=1", options) if part))
        self.mounted.append(mounted)
        return mounted

    def tearDown(self):
        super().tearDown()
        complaints = guest.run("dmesg -c | grep -iE 'rxe|rdma|infiniband|bug|warn|oops|refcount' || true")
        self.assertEqual(complaints, "", "the guest's kernel complains")


class OurFiler(DeviceCase):
    @classmethod
    def setUpClass(cls):
        cls.server = FilerInside(guest, GUEST)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.end()
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()}"

    def work(self, options, version):
        """Everything is written, read again by another mount, and compared; the data went by windows."""
        source, dump = self.local("tree"), f"/run/{self._testMethodName}.dump"
        trees.small_files(source, 20)
        mounted = self.mount(options)
        name = self._testMethodName
        guest.run(f"""set -e; cd {mounted.path}; mkdir {name}; cd {name}
            head -c 1500001 /dev/urandom >/run/data; cp /run/data data; cp -a {source} tree; mkdir random
            {tool('fsrandom')} --tolerate silly --seed 1 --steps 150 --dump {dump} random""", 500)
        written = mounted.rdma()
        status = mounted.status()
        mounted.umount()
        mounted = self.mount(options)
        guest.run(f"""set -e; cd {mounted.path}/{name}; cmp data /run/data; diff -r --no-dereference tree {source}
            {tool('fsrandom')} --verify {dump} random""", 500)
        read = mounted.rdma()
        for rdma in written, read:
            self.assertEqual((rdma["version"], rdma["exposure"], rdma["segments_open"]), (version, "fenced by memory windows", 0))
            self.assertTrue(rdma["fabric"].startswith(f"{DEVICE} port 1, MTU "), rdma["fabric"])
            self.assertGreater(rdma["remotely_invalidated"], 0, "the server closed windows with its replies")
        self.assertGreaterEqual(written["bytes_fetched"], 1500001, "the server fetched what was written by RDMA Read")
        self.assertGreaterEqual(read["bytes_placed"], 1500001, "and placed what was read by RDMA Write")
        self.assertIn(f"{DEVICE} port 1, MTU ", status)
        self.assertIn(f"version {version}, ", status)
        self.assertIn("fenced by memory windows, closed by the server's replies", status)

    def test_version_2(self):
        self.work("rdmavers=2", 2)

    def test_version_1(self):
        self.work("rdmavers=1", 1)


if __name__ == "__main__":
    unittest.main()
