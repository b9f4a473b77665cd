# SPDX-License-Identifier: Apache-2.0
"""Mounts with xprtsec=tls, mtls and auto: nfsrdma-filer with certificates of an authority of the test's own."""

import os
import subprocess

from harness.case import HOME, SystemCase, needs_mount
from harness.certificates import Authority
from harness.filer import Filer
from harness.mount import TOOL, Mount
from harness.secured import SecuredMounts


@needs_mount()
class Tls(SecuredMounts, SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.authority = Authority(os.path.join(HOME, "authority"))
        cls.certificate = cls.authority.issue("DNS:localhost,IP:127.0.0.1")
        cls.server = Filer(name="filer.tls", arguments=["--tls-cert", cls.certificate, "--tls-ca", cls.authority.file,
                                                        "--tls", "required"]).start()

    @classmethod
    def tearDownClass(cls):
        cls.server.kill()

    def tls_mount(self, options, server=None, **more):
        server = server or self.server
        mounted = Mount(server.source(**more), server.port, f"tls_ca={self.authority.file},{options}")
        self.mounted.append(mounted)
        return mounted

    def test_tls_by_name_and_address(self):
        for host in ("localhost", "127.0.0.1"):
            self.work(self.tls_mount("xprtsec=tls", host=host))

    def test_mtls(self):
        server = Filer(name="filer.mtls", arguments=["--tls-cert", self.certificate, "--tls-ca", self.authority.file,
                                                     "--tls", "mutual"]).start()
        try:
            mine = self.authority.issue()
            mounted = self.tls_mount(f"xprtsec=mtls,tls_cert={mine}", server)
            with open(os.path.join(mounted.path, "file"), "w") as file:
                file.write("mutual")
            with open(os.path.join(server.export, "file")) as file:
                self.assertEqual(file.read(), "mutual")
            mounted.umount()
        finally:
            server.kill()

    # A connection that is cut is made again within TLS, with the certificate that the server has by then.
    def test_renewed_certificate_counts_without_remount(self):
        mounted = self.tls_mount("xprtsec=tls")
        path = self.directory(mounted)
        self.authority.issue("DNS:localhost,IP:127.0.0.1", into=self.certificate)
        self.server.kill()
        self.server.start()
        with open(os.path.join(path, "later"), "w") as file:
            file.write("renewed")
        self.work(mounted)

    def test_certificate_of_a_stranger(self):
        stranger = Authority(self.local("stranger"), "Stranger")
        self.assertIn("signed by nobody whom this machine trusts", self.refused(f"xprtsec=tls,tls_ca={stranger.file}"))

    def test_mount_without_tls_is_refused(self):
        self.refused("xprtsec=none")

    # A server that has no TLS: never without it, unless the user says so.
    def test_server_without_tls(self):
        plain = Filer(name="filer.plain").start()
        try:
            self.assertIn("the server does not offer TLS", self.refused("xprtsec=tls", server=plain))
            mounted = Mount(plain.source(), plain.port, "xprtsec=auto")
            self.mounted.append(mounted)
            self.assertIn("going on without it", mounted.log_text())
            mounted.umount()
        finally:
            plain.kill()

    def test_probe_says_what_is_offered(self):
        def probe(*options):
            done = subprocess.run([TOOL, "probe", "-o", ",".join((f"port={self.server.port}", "proto=tcp", *options)),
                                   self.server.source(host="localhost")], capture_output=True, text=True, timeout=120)
            return done.stdout + done.stderr

        self.assertRegex(probe("xprtsec=tls", f"tls_ca={self.authority.file}"), r"(?m)^tls +TLSv1.3 with TLS_\w+, server CN=peer")
        self.assertRegex(probe(), r"(?m)^tls +offered; the server's certificate is signed by nobody whom this machine trusts")

    def test_auto_uses_tls_where_it_is(self):
        mounted = self.tls_mount("xprtsec=auto")
        told = subprocess.run([TOOL, "status", mounted.path], capture_output=True, text=True, timeout=30)
        self.assertIn("xprtsec=tls", told.stdout)
        self.assertIn(", TLSv1.3 with TLS_", told.stdout)
        self.work(mounted)
