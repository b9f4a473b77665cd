# SPDX-License-Identifier: Apache-2.0
"""nfsrdma-filer and other users of its machine: who may connect (docs/conformance/filer.md, "Who is believed"), and to whom sessions belong.

Two ordinary users: one owns the server, or uses it; the other one attacks.
"""

import os
import pwd
import select
import signal
import subprocess
import sys

from harness import nfs41
from harness.case import HOME, SystemCase, needs_mount, needs_root
from harness.filer import PROGRAM, Filer
from harness.mount import TOOL, is_mounted
from harness.ports import free_port

# Accounts of every Debian system: fusermount3 refuses a user without a name.
OWNER, STRANGER = (pwd.getpwnam(name).pw_uid for name in ("games", "news"))
# Writes and reads files until it is told to end; prints their number after each ten files.
HONEST = """
import os, signal, sys
signal.signal(signal.SIGTERM, lambda *_: over.append(1))
over, served = [], 0
print("begun", flush=True)
while not over:
    name = os.path.join(sys.argv[1], f"f{served % 10}")
    with open(name, "w") as file:
        file.write(str(served))
    with open(name) as file:
        assert file.read() == str(served)
    served += 1
    if served % 10 == 0:
        print(served, flush=True)
"""


def as_user(uid, *argv, **more):
    return subprocess.run([str(word) for word in argv], user=uid, group=uid, extra_groups=[], cwd="/", capture_output=True, text=True,
                          errors="replace", timeout=60, stdin=subprocess.DEVNULL,
                          env={**os.environ, "HOME": home_of(uid), "XDG_RUNTIME_DIR": home_of(uid)}, **more)


def home_of(uid):
    return os.path.join(HOME, f"home.{uid}")


def raw_client(uid, port, claimed):
    """The answer to a process of this user that claims to be user `claimed`: "in", or the reason of the refusal."""
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(uid)
            os.setuid(uid)
            nfs41.Client(port, uid=claimed, gid=claimed).close()
            said = "in"
        except Exception as refused:
            said = str(refused)
        os.write(write_end, said.encode())
        os._exit(0)
    os.close(write_end)
    os.waitpid(child, 0)
    with os.fdopen(read_end) as answer:
        return answer.read()


class StrangersCase(SystemCase):
    @classmethod
    def setUpClass(cls):
        os.chmod(HOME, 0o755)
        for uid in (OWNER, STRANGER):
            os.makedirs(home_of(uid), exist_ok=True)
            os.chown(home_of(uid), uid, uid)
            os.chmod(home_of(uid), 0o700)

    @classmethod
    def tearDownClass(cls):
        pass

    def setUp(self):
        super().setUp()
        self.server = self  # the base class looks through its server's log

    def log_text(self):
        return ""

    def mount_as(self, uid, port, *options):
        """(the mount's directory, or None, and the command's output)."""
        path = os.path.join(home_of(uid), "mnt")
        os.makedirs(path, exist_ok=True)
        os.chown(path, uid, uid)
        done = as_user(uid, TOOL, "mount", "127.0.0.1:/export", path, "-o", ",".join((f"port={port}", "retry=0", *options)))
        return (path if is_mounted(path) else None), done.stdout + done.stderr

    def not_mounted(self, port, proto):
        path, said = self.mount_as(STRANGER, port, proto)
        self.assertIsNone(path, said)
        self.assertNotIn("fusermount", said)
        self.assertRegex(said, "a port below 1024: .*--insecure")

    def umount_as(self, uid, path):
        done = as_user(uid, TOOL, "umount", path)
        self.assertEqual(done.returncode, 0, done.stderr)


@needs_mount()
@needs_root("root, to be two ordinary users")
class Strangers(StrangersCase):
    """The server of an ordinary user: every caller that it admits acts as that user."""

    def setUp(self):
        super().setUp()
        self.export = os.path.join(home_of(OWNER), "export")
        os.makedirs(self.export, exist_ok=True)
        os.chown(self.export, OWNER, OWNER)
        self.secret = os.path.join(self.export, "secret")
        with open(self.secret, "w") as file:
            file.write("secret")
        os.chown(self.secret, OWNER, OWNER)
        os.chmod(self.secret, 0o600)
        self.port, self.rdma_port = free_port(), free_port()

    def serve(self, *arguments):
        log = open(os.path.join(home_of(OWNER), "filer.log"), "w")
        self.addCleanup(log.close)
        server = self.start_program(PROGRAM, "--listen", f"127.0.0.1:{self.port}", "--rdma", f"127.0.0.1:{self.rdma_port}", "--export",
                                    f"/export={self.export}", "--state-dir", os.path.join(home_of(OWNER), "state"), "--grace", "0", *arguments,
                                    stdout=subprocess.PIPE, stderr=log, user=OWNER, group=OWNER, extra_groups=[], cwd="/")
        self.addCleanup(server.stdout.close)
        self.assertIn("listening", server.stdout.readline())
        return log.name

    def attack(self):
        for claimed in (OWNER, STRANGER, 0):
            self.assertEqual(raw_client(STRANGER, self.port, claimed), "RPC denied")
        for port, proto in ((self.port, "proto=tcp"), (self.rdma_port, "proto=rdma")):
            self.not_mounted(port, proto)

    def test_only_its_own_user_gets_in_and_is_served_meanwhile(self):
        log = self.serve()
        path, said = self.mount_as(OWNER, self.rdma_port, "proto=rdma")
        self.assertIsNotNone(path, said)
        self.umount_as(OWNER, path)
        path, said = self.mount_as(OWNER, self.port, "proto=tcp")
        self.assertIsNotNone(path, said)
        honest = self.start_program(sys.executable, "-c", HONEST, path, user=OWNER, group=OWNER, extra_groups=[], cwd="/",
                                    stdout=subprocess.PIPE)
        self.addCleanup(honest.stdout.close)
        self.assertEqual(honest.stdout.readline(), "begun\n")
        while True:
            self.attack()
            if select.select([honest.stdout], [], [], 0)[0]:
                break
        self.assertEqual(honest.stdout.readline(), "10\n")
        honest.send_signal(signal.SIGTERM)
        self.assertEqual(honest.wait(30), 0)
        self.umount_as(OWNER, path)
        self.assertEqual(raw_client(OWNER, self.port, STRANGER), "in")  # the claimed ID does not matter: the caller is the owner
        with open(log) as file:
            self.assertIn(f"its user on this machine is {STRANGER}, this server's is {OWNER}", file.read())

    def test_who_is_root_here_is_not_its_user_either(self):
        """The server's owner is not root, and root's mount serves all users of the machine."""
        self.serve()
        self.assertEqual(raw_client(0, self.port, OWNER), "RPC denied")

    def test_insecure_takes_everybody(self):
        self.serve("--insecure")
        self.assertEqual(raw_client(STRANGER, self.port, STRANGER), "in")

    def test_set_id_bits_are_not_kept(self):
        """A set-user-ID program owned by the server's user would give that user's rights to everyone who runs it."""
        self.serve("--insecure")
        client = nfs41.Client(self.port)
        self.addCleanup(client.close)
        mode = nfs41.u32(2, 0, 1 << 1)  # the bitmap of FATTR4_MODE, 33
        client.open(["export", "program"], create=True)
        before = client.walk(["export", "program"])
        for bits in (0o4755, 0o2755, 0o6711):
            reader = client.compound(*before, ("SETATTR", bytes(16) + mode + nfs41.opaque(nfs41.u32(bits))))
            client.result(client.skip(reader, before), "SETATTR")
            self.assertEqual(os.stat(os.path.join(self.export, "program")).st_mode & 0o7777, bits & 0o1777)
        before = client.walk(["export"])
        make = nfs41.u32(7) + nfs41.opaque("fifo") + mode + nfs41.opaque(nfs41.u32(0o6755))
        client.result(client.skip(client.compound(*before, ("CREATE", make)), before), "CREATE")
        self.assertEqual(os.stat(os.path.join(self.export, "fifo")).st_mode & 0o7777, 0o755)


@needs_mount()
@needs_root("root, whose server acts as its callers")
class OfRoot(StrangersCase):
    """The server of root: a caller that it trusts may claim any user."""

    def test_only_reserved_ports_get_in(self):
        rdma_port = free_port()
        filer = Filer(name="filer.secure", arguments=("--rdma", f"127.0.0.1:{rdma_port}"), insecure=False).start()
        self.addCleanup(filer.kill)
        for claimed in (0, OWNER, STRANGER):
            self.assertEqual(raw_client(STRANGER, filer.port, claimed), "RPC denied")
        for port, proto in ((filer.port, "proto=tcp"), (rdma_port, "proto=rdma")):
            self.not_mounted(port, proto)
            mounted = self.mount_of(filer, port, proto.split("=")[1])
            with open(os.path.join(mounted.path, "f"), "w") as file:
                file.write(proto)
            mounted.umount()
            with open(os.path.join(filer.path(), "f")) as file:
                self.assertEqual(file.read(), proto)
        self.assertIn("is not below 1024", filer.log_text())

    def mount_of(self, filer, port, proto):
        self.server = filer
        return self.mount(port=port, proto=proto)

    def test_sessions_belong_to_who_made_them(self):
        """RFC 8881 section 2.10.8.3: otherwise "the attacker can ... maliciously alter the client ID's lock state"."""
        filer = Filer(name="filer.sessions").start()
        self.addCleanup(filer.kill)
        owner = nfs41.Client(filer.port, uid=OWNER, gid=OWNER)
        stateid, handle = owner.open(["export", "f"], create=True)
        lock = owner.lock(handle, stateid)
        thief = nfs41.Client(filer.port, uid=STRANGER, gid=STRANGER)
        # The sessions just before and after the attacker's, in case session IDs are counted.
        for step in (-2, -1, 1, 2):
            guess = (int.from_bytes(thief.session, "big") + step) % (1 << 128)
            with self.assertRaises(nfs41.Status) as raised:
                thief.plain(("DESTROY_SESSION", guess.to_bytes(16, "big")))
            self.assertEqual(raised.exception.name, "BADSESSION")
        # The victim's own IDs, in case the attacker has learnt them.
        for operation, what, expected in (("DESTROY_SESSION", owner.session, 10082), ("DESTROY_CLIENTID", nfs41.u64(owner.client_id), 10082)):
            with self.assertRaises(nfs41.Status) as raised:
                thief.plain((operation, what))
            self.assertEqual(raised.exception.code, expected, operation)
        thief.client_id, thief.create_sequence = owner.client_id, owner.create_sequence + 1
        with self.assertRaises(nfs41.Status) as raised:
            thief.create_session()
        self.assertEqual(raised.exception.code, 10017)  # CLID_INUSE
        owner.unlock(handle, lock)
        owner.close_file(handle, stateid)
        owner.destroy()
        self.assertEqual(filer.kill(signal.SIGTERM), 0)


if __name__ == "__main__":
    import unittest
    unittest.main()
