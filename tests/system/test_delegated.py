# SPDX-License-Identifier: Apache-2.0
"""The tests of lost replies, restarts and waiting from other modules, with a server that grants delegations, over TCP and over RDMA."""

import fcntl
import os
import unittest

import test_once
import test_restart
from harness.case import ServerForEach, daemons
from harness.proxy import ChaosProxy
from test_recalls import Held, OverRdma, OverTcp, delegating_filer


class OtherMount:
    """Another mount opens the delegated file: the delegation must be returned."""

    def delegated(self, name, data=b"content"):
        self.make(name, data)
        self.assertEqual(self.mounted[0].stats()["delegations"]["held_write"], 1)
        return os.path.join(self.beside().path, os.path.basename(self.path), name)

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()


class Once(OverTcp, OtherMount, test_once.ExactlyOnce):
    def beside(self):
        return self.mount()  # not through the proxy

    def test_lock_and_unlock(self):
        """The lock is local until the delegation is returned: then it is taken at the server."""
        theirs = self.delegated("locked")
        with open(self.at("locked"), "r+b") as file:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.assertEqual(self.strike("LOCK", lambda: self.read(theirs)), b"content")
            with open(theirs, "r+b") as other:
                with self.assertRaises(OSError):
                    fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
                self.strike("LOCKU", lambda: fcntl.lockf(file, fcntl.LOCK_UN))
                fcntl.lockf(other, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def test_close(self):
        """The CLOSE is sent with the DELEGRETURN."""
        theirs = self.delegated("closed", b"q")
        self.assertEqual(self.strike("DELEGRETURN", lambda: self.read(theirs)), b"q")
        self.assertEqual(self.mounted[0].stats()["delegations"]["held_write"], 0)

    def test_claim_of_an_open(self):
        theirs = self.delegated("open")
        with open(self.at("open"), "r+b", buffering=0) as file:
            self.assertEqual(self.strike("OPEN", lambda: self.read(theirs)), b"content")
            file.write(b"CONTENT")
            os.fsync(file.fileno())
        self.assertEqual(self.read(theirs), b"CONTENT")


class NotYet(Once):
    """The call itself is lost, so it must be sent again."""

    def strike(self, operation, action, direction="call", times=1):
        return super().strike(operation, action, "call", times)


class OnceRdma(ServerForEach, OverRdma, OtherMount, test_once.ExactlyOnce):
    """The first replies of that kind since the server's start are lost."""

    EVENT = "reply"

    STRUCK = {"test_rename": "RENAME", "test_rename_cut_three_times": "RENAME times 3",
              "test_rename_back_and_forth": "RENAME every 2", "test_exclusive_create": "OPEN", "test_mkdir": "CREATE",
              "test_symlink": "CREATE", "test_mkfifo": "CREATE", "test_link": "LINK", "test_unlink": "REMOVE",
              "test_rmdir": "REMOVE", "test_append": "WRITE times 3", "test_truncate": "SETATTR",
              "test_lock_and_unlock": "LOCK", "test_fsync": "COMMIT", "test_close": "DELEGRETURN",
              "test_claim_of_an_open": "OPEN times 3"}

    def setUp(self):
        struck = self.STRUCK[self._testMethodName]
        self.operation = struck.split()[0]
        rule = f"{self.EVENT} {struck}: reset"
        self.server, self.rdma_port = delegating_filer(f"{type(self).__name__}.{self._testMethodName}", (rule,))
        self.addCleanup(self.server.kill)
        super(test_once.ExactlyOnce, self).setUp()
        self.path = self.directory(self.mount())

    def connects(self):
        return sum(t["connects"] for t in self.mounted[0].stats()["transports"])

    def strike(self, operation, action, direction="reply", times=1):
        result = action()
        if operation == self.operation:
            self.wait_until(lambda: self.connects() > 1, f"{operation} was struck")
        return result

    def beside(self):
        return self.mount()

    def test_fsync(self):
        with open(self.at("synced"), "wb", buffering=0) as file:
            file.write(b"y" * 300000)
            self.strike("COMMIT", lambda: os.fsync(file.fileno()))
        self.assertEqual(os.stat(self.on_server(self.at("synced"))).st_size, 300000)

    test_lock_and_unlock = Once.test_lock_and_unlock
    test_close = Once.test_close
    test_claim_of_an_open = Once.test_claim_of_an_open


class NotYetRdma(OnceRdma):
    EVENT = "request"


class Restart(Held, OverTcp, test_restart.Restart):
    pass


class RestartRdma(Held, OverRdma, test_restart.Restart):
    pass


class Lost(Held, OverTcp, test_restart.Lost):
    pass


class LostRdma(Held, OverRdma, test_restart.Lost):
    def proxy(self):
        proxy = ChaosProxy(self.rdma_port, raw=True)
        self.addCleanup(proxy.close)
        return proxy


class Moved(Held, OverTcp, test_restart.Moved):
    pass


class MovedRdma(Held, OverRdma, test_restart.Moved):
    def port(self):
        return self.rdma_port


class Waiting(OverTcp, test_restart.Waiting):
    """With delegations, too, a process that needs the server waits for it, also if a delegation must be returned first."""

    # So long that no lease renewal is due while the server is away.
    SERVER = {"lease": 90, "grace": 90}
    PROGRAMS = {name: program for name, program in test_restart.Waiting.PROGRAMS.items() if name not in ("lock", "flock")}

    def test_locks_under_a_delegation_do_not_wait(self):
        chaos = self.proxy()
        path = self.directory(self.mount("timeo=600", port=chaos.port))
        with open(os.path.join(path, "file"), "w+b", buffering=0) as file:
            self.assertEqual(self.mounted[0].stats()["delegations"]["held_write"], 1)
            chaos.command("stall")
            for take in (fcntl.lockf, fcntl.flock):
                take(file, fcntl.LOCK_EX)
                take(file, fcntl.LOCK_UN)
            chaos.command("unstall")

    def end_those_who_wait(self, signum):
        super().end_those_who_wait(signum)
        self.assertGreaterEqual(self.mounted[0].stats()["delegations"]["granted"], len(self.PROGRAMS))

    def test_unmount_with_a_dead_server(self):
        """The unmount returns the delegations before it ends."""
        mounted = self.mount("timeo=600")
        with open(os.path.join(self.directory(mounted), "delegated"), "w") as file:
            file.write("content")
        self.assertEqual(mounted.stats()["delegations"]["held_write"], 1)
        self.server.kill()
        self.run_program("fusermount3", "-uz", mounted.path)
        self.server.start()
        self.wait_until(lambda: not daemons(), "the daemon ends", 150)


class WaitingRdma(OverRdma, Waiting):
    proxy = LostRdma.proxy


class Interrupted(Held, OverTcp, test_restart.Interrupted):
    pass


class InterruptedRdma(Held, OverRdma, test_restart.Interrupted):
    pass


if __name__ == "__main__":
    unittest.main()
