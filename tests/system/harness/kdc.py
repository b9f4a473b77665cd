# SPDX-License-Identifier: Apache-2.0
"""A realm of MIT Kerberos for one test class: database, KDC on a free port of loopback, keytabs, tickets.

Everything is in one directory, and nothing of the host's own Kerberos is seen: pass `env` to every program. Runs with the rights of the
test. (tests/unit/support/kdc.h is the same for unit tests.)
"""

import os
import shutil
import signal
import socket
import subprocess
import time

from .ports import free_port

REALM = "NFSRDMA.TEST"
PATH = os.environ["PATH"] + ":/usr/sbin:/usr/local/sbin"
PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit", "kdestroy")


def missing():
    """Why there is no KDC on this machine; or ""."""
    absent = [program for program in PROGRAMS if not shutil.which(program, path=PATH)]
    return f"missing: {', '.join(absent)}; scripts/setup installs them" if absent else ""


class Kdc:
    """One realm. `env`: the environment of programs that use it; its default credential cache does not exist."""

    def __init__(self, directory, local_users=None):
        """local_users: {principal without realm: account}; others are accounts of their own names."""
        self.directory = directory
        self.port = free_port()
        self.process = None
        self.count = 0
        os.makedirs(directory)
        self.env = {"KRB5_CONFIG": self.path("krb5.conf"), "KRB5_KDC_PROFILE": self.path("kdc.conf"),
                    "KRB5CCNAME": f"FILE:{self.path('no-ccache')}", "KRB5_KTNAME": f"FILE:{self.path('no-keytab')}",
                    "KRB5_CLIENT_KTNAME": f"FILE:{self.path('no-client')}", "KRB5RCACHENAME": f"file2:{self.path('replays')}"}
        names = "".join(f"   {name} = {user}\n" for name, user in (local_users or {}).items())
        rules = f"  auth_to_local_names = {{\n{names}  }}\n" if names else ""
        # TCP first: where nobody listens it fails at once.
        self.write("krb5.conf", f"[libdefaults]\n default_realm = {REALM}\n dns_lookup_kdc = false\n dns_lookup_realm = false\n"
                   " dns_canonicalize_hostname = false\n rdns = false\n udp_preference_limit = 1\n"
                   f"[realms]\n {REALM} = {{\n  kdc = 127.0.0.1:{self.port}\n{rules} }}\n")
        self.write("kdc.conf", f"[realms]\n {REALM} = {{\n  database_name = {self.path('principal')}\n"
                   f"  key_stash_file = {self.path('stash')}\n  acl_file = {self.path('acl')}\n"
                   f"  kdc_listen = 127.0.0.1:{self.port}\n  kdc_tcp_listen = 127.0.0.1:{self.port}\n  max_life = 24h\n }}\n"
                   f"[logging]\n kdc = FILE:{self.path('log')}\n admin_server = FILE:{self.path('log')}\n"
                   f" default = FILE:{self.path('log')}\n")
        self.run("kdb5_util", "create", "-s", "-r", REALM, "-P", "master")

    def path(self, name):
        return os.path.join(self.directory, name)

    def write(self, name, text):
        with open(self.path(name), "w") as file:
            file.write(text)

    def run(self, program, *arguments, given=""):
        done = subprocess.run([shutil.which(program, path=PATH), *arguments], env={**os.environ, **self.env, "PATH": PATH},
                              input=given, capture_output=True, text=True, timeout=60)
        output = done.stdout + done.stderr
        # kadmin.local ends with 0 although commands failed.
        if done.returncode != 0 or (program == "kadmin.local" and "while " in output):
            raise RuntimeError(f"{program} {' '.join(arguments)} {given}: status {done.returncode}: {output}")
        return output

    def start(self, timeout=20):
        self.process = subprocess.Popen([shutil.which("krb5kdc", path=PATH), "-n", "-r", REALM],
                                        env={**os.environ, **self.env}, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        deadline = time.monotonic() + timeout
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return self
            except OSError:
                if self.process.poll() is not None or time.monotonic() > deadline:
                    raise RuntimeError("the KDC did not start") from None
                time.sleep(0.02)

    def stop(self):
        if self.process:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(20)
            self.process = None

    def add(self, *principals):
        """Users, whose keys are in the keytab that kinit() uses."""
        for principal in principals:
            self.run("kadmin.local", "-r", REALM,
                     given=f"addprinc -randkey {principal}\nktadd -norandkey -k {self.path('users.keytab')} {principal}\n")

    def keytab(self, *principals):
        """A keytab of services that are created. Returns its path."""
        self.count += 1
        path = self.path(f"keytab{self.count}")
        for principal in principals:
            self.run("kadmin.local", "-r", REALM, given=f"addprinc -randkey {principal}\nktadd -norandkey -k {path} {principal}\n")
        return path

    def kinit(self, principal, lifetime="10h", cache=None):
        """Gets a ticket into a credential cache; returns the cache's name."""
        self.count += 1
        cache = cache or f"FILE:{self.path(f'ccache{self.count}')}"
        self.run("kinit", "-k", "-t", self.path("users.keytab"), "-l", lifetime, "-c", cache, principal)
        return cache
