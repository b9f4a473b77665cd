# SPDX-License-Identifier: Apache-2.0
"""The tests of other modules under Kerberos and within TLS, with nfsrdma-filer."""

import os
import pwd
import signal
import unittest

import test_locks
import test_random
import test_restart
from harness import kdc
from harness.case import HOME
from harness.certificates import Authority
from harness.filer import Filer
from harness.ports import free_port
from harness.proxy import ChaosProxy


class Secured:
    """Runs the tests of the other base class with a server and mount options of its own. PROTO: tcp or rdma.

    The server also takes AUTH_SYS without TLS, which the tests' own clients speak; the mount's options leave it no choice."""

    PROTO = "tcp"

    @classmethod
    def serve(cls, *arguments, env=None):
        times = {k: v for k, v in cls.SERVER.items() if k in ("lease", "grace")}
        cls.server = Filer(name=f"secured.{cls.__name__}", arguments=arguments, env=env, **times).start()

    @classmethod
    def tearDownClass(cls):
        status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"

    @classmethod
    def port(cls):
        return cls.rdma_port if cls.PROTO == "rdma" else cls.server.port

    def mount(self, options="", export=None, port=None, **more):
        joined = ",".join(part for part in (self.security(), self.PROTO == "rdma" and "rdma_dev=software", options) if part)
        return super().mount(joined, export, port or self.port(), **{"proto": self.PROTO, **more})

    # Nobody on the way can tell the messages apart.
    def proxy(self):
        proxy = ChaosProxy(self.port(), raw=True)
        self.addCleanup(proxy.close)
        return proxy


@unittest.skipIf(kdc.missing(), kdc.missing())
class OnKerberos(Secured):
    FLAVOR = "krb5p"

    @classmethod
    def setUpClass(cls):
        cls.kdc = kdc.Kdc(os.path.join(HOME, f"realm.{cls.__name__}"), local_users={"alice": pwd.getpwuid(os.getuid()).pw_name}).start()
        cls.kdc.add("alice")
        cls.rdma_port = free_port()
        cls.serve("--rdma", f"127.0.0.1:{cls.rdma_port}", "--sec", "krb5p:krb5i:krb5:sys", "--keytab", cls.kdc.keytab("nfs/127.0.0.1"),
                  env=cls.kdc.env)
        os.environ.update(cls.kdc.env)
        os.environ["KRB5CCNAME"] = cls.kdc.kinit("alice")

    @classmethod
    def tearDownClass(cls):
        super().tearDownClass()
        cls.kdc.stop()

    def security(self):
        return f"sec={self.FLAVOR}"


class OnTls(Secured):
    @classmethod
    def setUpClass(cls):
        cls.authority = Authority(os.path.join(HOME, f"authority.{cls.__name__}"))
        cls.serve("--tls-cert", cls.authority.issue("IP:127.0.0.1"))

    def security(self):
        return f"xprtsec=tls,tls_ca={self.authority.file}"


class KerberosRandom(OnKerberos, test_random.Quiet):
    PROTO = "rdma"
    SEEDS = range(1, 2)
    STEPS = test_random.scaled(10000)


class KerberosCuts(OnKerberos, test_random.Cuts):
    FLAVOR = "krb5i"
    test_replies_in_tiny_fragments = None  # the proxy would have to understand the messages


class KerberosRestart(OnKerberos, test_restart.Restart):
    """A server that was restarted has no contexts."""

    FLAVOR = "krb5"


class KerberosLocks(OnKerberos, test_locks.Locks):
    FAIR = False


class TlsRandom(OnTls, test_random.Quiet):
    SEEDS = range(1, 2)
    STEPS = test_random.scaled(10000)


class TlsCuts(OnTls, test_random.Cuts):
    test_replies_in_tiny_fragments = None


class TlsRestart(OnTls, test_restart.Restart):
    pass
