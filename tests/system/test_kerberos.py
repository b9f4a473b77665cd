# SPDX-License-Identifier: Apache-2.0
"""A user's mount with sec=krb5, krb5i and krb5p: nfsrdma-filer, a KDC of its own, TCP and software RDMA."""

import os
import pwd
import subprocess
import unittest

from harness import kdc
from harness.case import HOME, SystemCase, needs_mount, needs_user
from harness.filer import Filer
from harness.mount import HELPER, TOOL, Mount, is_mounted
from harness.ports import free_port

FLAVORS = ("krb5", "krb5i", "krb5p")


@needs_user()
@needs_mount()
@unittest.skipIf(kdc.missing(), kdc.missing())
class Kerberos(SystemCase):
    @classmethod
    def setUpClass(cls):
        me = pwd.getpwuid(os.getuid()).pw_name
        cls.kdc = kdc.Kdc(os.path.join(HOME, "realm"), local_users={"alice": me}).start()
        cls.kdc.add("alice")
        cls.rdma_port = free_port()
        keytab = cls.kdc.keytab("nfs/localhost")
        cls.server = Filer(name="filer.kerberos", env=cls.kdc.env,
                           arguments=["--rdma", f"127.0.0.1:{cls.rdma_port}", "--sec", "krb5p:krb5i:krb5", "--keytab", keytab]).start()
        # The daemon inherits it, and with it its helper.
        os.environ.update(cls.kdc.env)

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.kdc.stop()

    def setUp(self):
        super().setUp()
        os.environ["KRB5CCNAME"] = self.kdc.env["KRB5CCNAME"]

    def kerberos_mount(self, flavor, proto="tcp", **more):
        port = self.rdma_port if proto == "rdma" else self.server.port
        options = ",".join(part for part in (flavor and f"sec={flavor}", proto == "rdma" and "rdma_dev=software") if part)
        mounted = Mount(self.server.source(host="localhost"), port, options, proto=proto, **more)
        self.mounted.append(mounted)
        return mounted

    def refused(self, options="sec=krb5p", host="localhost"):
        """What the mount says: one line."""
        path = self.local("mnt")
        done = subprocess.run([HELPER, self.server.source(host=host), path, "-o", f"port={self.server.port},proto=tcp,retry=0,{options}"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 32, done.stderr)
        self.assertFalse(is_mounted(path))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def work(self, mounted):
        """Small and large files, written, read again past the caches, and compared with what the server has."""
        path = self.directory(mounted, f"work{Mount.count}")
        for size in (0, 1, 4095, 4097, 1 << 20, (5 << 20) + 3):
            data = os.urandom(size)
            name = os.path.join(path, str(size))
            with open(name, "wb") as file:
                file.write(data)
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with open(name, "rb") as file:
                self.assertEqual(file.read(), data)
            with open(self.on_server(name), "rb") as file:
                self.assertEqual(file.read(), data)
            self.assertEqual(os.stat(self.on_server(name)).st_uid, os.getuid())
        os.rename(os.path.join(path, "1"), os.path.join(path, "one"))
        self.assertIn("one", os.listdir(path))

    def test_every_flavor_over_tcp(self):
        os.environ["KRB5CCNAME"] = self.kdc.kinit("alice")
        for flavor in FLAVORS:
            with self.subTest(flavor=flavor):
                mounted = self.kerberos_mount(flavor)
                self.work(mounted)
                # What another mount wrote is read over the wire.
                again = self.kerberos_mount(flavor)
                newest = max((e.path for e in os.scandir(again.path)), key=os.path.getmtime)
                self.assertEqual(os.path.getsize(os.path.join(newest, str(1 << 20))), 1 << 20)
                with open(os.path.join(newest, str(1 << 20)), "rb") as file:
                    read = file.read()
                with open(self.on_server(os.path.join(newest, str(1 << 20))), "rb") as file:
                    self.assertEqual(file.read(), read)

    def test_every_flavor_over_software_rdma(self):
        os.environ["KRB5CCNAME"] = self.kdc.kinit("alice")
        for flavor in FLAVORS:
            with self.subTest(flavor=flavor):
                self.work(self.kerberos_mount(flavor, proto="rdma"))

    def test_without_sec_uses_what_the_server_wants(self):
        os.environ["KRB5CCNAME"] = self.kdc.kinit("alice")
        mounted = self.kerberos_mount("")
        self.work(mounted)
        self.assertIn("sec=krb5p", mounted.log_text())
        told = subprocess.run([TOOL, "status", mounted.path], capture_output=True, text=True, timeout=30)
        self.assertRegex(told.stdout, rf"krb5p, user {os.getuid()} for (9|10) h", told.stderr)

    def test_no_ticket(self):
        self.assertRegex(self.refused(), "ticket")

    def test_sys_is_refused_by_the_server(self):
        self.assertIn("the server wants sec=krb5p", self.refused("sec=sys"))

    def test_server_that_the_kdc_does_not_know(self):
        os.environ["KRB5CCNAME"] = self.kdc.kinit("alice")
        self.assertIn("nfs@127.0.0.1", self.refused(host="127.0.0.1"))

    def test_expired_ticket_and_kinit(self):
        cache = mounted = None
        for lifetime in (15, 30, 60, 120):  # on a busy machine a ticket may end before the mount is there
            cache = self.kdc.kinit("alice", lifetime=f"{lifetime}s")
            os.environ["KRB5CCNAME"] = cache
            try:
                mounted = self.kerberos_mount("krb5i")
                path = self.directory(mounted)
                break
            except (OSError, RuntimeError):
                if lifetime == 120:
                    raise

        def expired():
            try:
                os.mkdir(os.path.join(path, "later"))
                os.rmdir(os.path.join(path, "later"))
                return False
            except OSError as error:
                self.assertEqual(os.strerror(error.errno), "Key has expired")
                return True

        self.wait_until(expired, "the ticket has expired", timeout=lifetime + 60)
        self.kdc.kinit("alice", cache=cache)
        self.wait_until(lambda: not expired(), "the mount goes on after kinit")
        self.work(mounted)
