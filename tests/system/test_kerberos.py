# SPDX-License-Identifier: Apache-2.0
"""Mounts with sec=krb5, krb5i and krb5p: nfsrdma-filer, a KDC of its own, TCP and software RDMA."""

import os
import pwd
import socket
import subprocess
import sys
import unittest

from harness import kdc
from harness.case import HOME, SystemCase, needs_mount, needs_root, needs_user
from harness.filer import Filer
from harness.mount import TOOL, Mount
from harness.ports import free_port
from harness.secured import SecuredMounts

FLAVORS = ("krb5", "krb5i", "krb5p")


@needs_user()
@needs_mount()
@unittest.skipIf(kdc.missing(), kdc.missing())
class Kerberos(SecuredMounts, SystemCase):
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
        self.assertRegex(self.refused("sec=krb5p"), "ticket")

    def test_sys_is_refused_by_the_server(self):
        self.assertIn("the server wants sec=krb5p", self.refused("sec=sys"))

    def test_server_that_the_kdc_does_not_know(self):
        os.environ["KRB5CCNAME"] = self.kdc.kinit("alice")
        self.assertIn("nfs@127.0.0.1", self.refused("sec=krb5p", host="127.0.0.1"))

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


@needs_root("root, whose mount serves each user by his own ticket")
@needs_mount()
@unittest.skipIf(kdc.missing(), kdc.missing())
class ManyUsers(SystemCase):
    """Accounts that every Debian has; the machine has a key in its keytab."""

    ALICE, BOB, NOBODY = pwd.getpwnam("daemon"), pwd.getpwnam("games"), 65534

    @classmethod
    def setUpClass(cls):
        os.chmod(HOME, 0o755)
        cls.kdc = kdc.Kdc(os.path.join(HOME, "realm"), local_users={"alice": cls.ALICE.pw_name, "bob": cls.BOB.pw_name}).start()
        cls.kdc.add("alice", "bob")
        cls.rdma_port = free_port()
        cls.server = Filer(name="filer.kerberos", env=cls.kdc.env,
                           arguments=["--rdma", f"127.0.0.1:{cls.rdma_port}", "--sec", "krb5p:krb5i:krb5", "--keytab",
                                      cls.kdc.keytab("nfs/localhost")]).start()
        os.environ.update(cls.kdc.env)
        os.environ["KRB5_KTNAME"] = f"FILE:{cls.kdc.keytab(f'host/{socket.gethostname()}')}"

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()
        cls.kdc.stop()

    def kerberos_mount(self, flavor, proto="tcp"):
        port = self.rdma_port if proto == "rdma" else self.server.port
        options = f"sec={flavor}" + (",rdma_dev=software" if proto == "rdma" else "")
        mounted = Mount(self.server.source(host="localhost"), port, options, proto=proto)
        self.mounted.append(mounted)
        return mounted

    def kinit(self, name, user):
        """A ticket where login puts it."""
        cache = f"/tmp/krb5cc_{user.pw_uid}"
        self.kdc.kinit(name, cache=f"FILE:{cache}")
        os.chown(cache, user.pw_uid, user.pw_gid)
        self.addCleanup(lambda: os.path.exists(cache) and os.remove(cache))

    def as_user(self, user, program, *args):
        """Runs Python code as that user; returns its output."""
        done = subprocess.run([sys.executable, "-c", "import os,sys\n" + program, *args], user=user.pw_uid, group=user.pw_gid,
                              extra_groups=[], cwd="/", capture_output=True, text=True, timeout=60)
        return (done.stdout + done.stderr).strip()

    def test_each_user_has_his_own_files(self):
        self.kinit("alice", self.ALICE)
        self.kinit("bob", self.BOB)
        for flavor, proto in (("krb5", "tcp"), ("krb5i", "rdma"), ("krb5p", "tcp"), ("krb5p", "rdma")):
            with self.subTest(flavor=flavor, proto=proto):
                mounted = self.kerberos_mount(flavor, proto)
                private = os.path.join(mounted.path, f"private.{flavor}.{proto}")
                secret = os.path.join(private, "secret")
                self.assertEqual(self.as_user(self.ALICE, "os.mkdir(sys.argv[1], 0o700); open(sys.argv[2], 'w').write('text')",
                                              private, secret), "")
                for path in (private, secret):
                    self.assertEqual(os.stat(self.on_server(path)).st_uid, self.ALICE.pw_uid)
                reads = "print(open(sys.argv[1]).read())"
                self.assertEqual(self.as_user(self.ALICE, reads, secret), "text")
                self.assertIn("PermissionError", self.as_user(self.BOB, reads, secret))
                with self.assertRaises(PermissionError):  # root of this machine is nobody there
                    os.stat(secret)
                own = os.path.join(mounted.path, f"bob.{flavor}.{proto}")
                self.assertEqual(self.as_user(self.BOB, "open(sys.argv[1], 'w').write('of bob')", own), "")
                self.assertEqual(os.stat(self.on_server(own)).st_uid, self.BOB.pw_uid)

    def test_user_without_ticket_gets_one(self):
        self.kinit("alice", self.ALICE)
        mounted = self.kerberos_mount("krb5p")
        writes = "open(sys.argv[1], 'w').write('x')"
        name = os.path.join(mounted.path, "late")
        self.assertIn("PermissionError", self.as_user(self.BOB, writes, name))
        self.assertEqual(self.as_user(self.ALICE, writes, name + ".alice"), "", "others are not concerned")
        told = subprocess.run([TOOL, "status", mounted.path], capture_output=True, text=True, timeout=30).stdout
        self.assertRegex(told, rf"krb5p, user {self.ALICE.pw_uid} for (9|10) h")
        self.assertRegex(told, rf"krb5p, user {self.BOB.pw_uid}: .*no Kerberos ticket")
        self.kinit("bob", self.BOB)
        self.wait_until(lambda: self.as_user(self.BOB, writes, name) == "", "the mount takes the new ticket")

    # Whoever owns the file decides whose tickets it has, not its name.
    def test_cache_of_another_owner_does_not_count(self):
        self.kinit("alice", self.BOB)
        cache = f"/tmp/krb5cc_{self.BOB.pw_uid}"
        os.chown(cache, self.ALICE.pw_uid, self.ALICE.pw_gid)
        mounted = self.kerberos_mount("krb5")
        self.assertIn("PermissionError", self.as_user(self.BOB, "open(sys.argv[1], 'w')", os.path.join(mounted.path, "stolen")))
