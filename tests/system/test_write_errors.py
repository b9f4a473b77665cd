# SPDX-License-Identifier: Apache-2.0
"""Errors of asynchronous writes: who gets them, and how often.

fsync(2): an error is reported once to every descriptor that was open when it happened. A full or failing server refuses a write only after
write(2) has returned.
"""

import errno
import os
import signal
import subprocess
import unittest

from harness.case import ServerForEach, SystemCase, needs_mount
from harness.filer import Filer
from harness.mount import TOOL
from harness.ports import free_port

MIB = 1 << 20


@needs_mount()
class ToldOnce(ServerForEach, SystemCase):
    PROTO = "tcp"

    def serve(self, *arguments, export=None):
        """A server with these arguments, and a file on it that is open twice."""
        rdma_port = free_port()
        self.server = Filer(name=f"{type(self).__name__}.{self._testMethodName}",
                            arguments=("--rdma", f"127.0.0.1:{rdma_port}", *arguments)).start()
        self.addCleanup(self.end_server)
        mounted = self.mount(export=export, proto=self.PROTO, port=rdma_port if self.PROTO == "rdma" else None)
        self.path = os.path.join(mounted.path, "file")
        self.one = os.open(self.path, os.O_CREAT | os.O_WRONLY, 0o644)
        self.two = os.open(self.path, os.O_WRONLY)

    def end_server(self):
        self.assertEqual(self.server.kill(signal.SIGTERM), 0, self.server.log_text()[-4000:])

    def serve_full(self):
        self.serve("--export", f"/full=memory:{MIB}", export="/full")
        return errno.ENOSPC

    def serve_answering(self, operation, status):
        self.serve("--fault", f"request {operation}: answer {operation} {status}")
        return getattr(errno, "E" + status)

    def write(self, size=2 * MIB):
        """write(2) reports no error: the server is asked only after it has returned."""
        self.assertEqual(os.write(self.one, bytes(size)), size)

    def tells(self, code, call, descriptor):
        with self.assertRaises(OSError) as raised:
            call(descriptor)
        self.assertEqual(raised.exception.errno, code)

    def fsync_tells_each_descriptor_once(self, code, size=2 * MIB):
        self.write(size)
        for descriptor in (self.one, self.two):
            self.tells(code, os.fsync, descriptor)
        three = os.open(self.path, os.O_WRONLY)
        for descriptor in (self.one, self.two, three):
            os.fsync(descriptor)
            os.close(descriptor)

    def close_tells_each_descriptor_once(self, code, size=2 * MIB):
        """close(2) of a duplicated descriptor reports the error, too. Once reported, no other descriptor of that open file reports it."""
        self.write(size)
        copies = [os.dup(self.one), os.dup(self.two)]
        for descriptor in copies:
            self.tells(code, os.close, descriptor)
        for descriptor in (self.one, self.two):
            os.fsync(descriptor)
            os.close(descriptor)
        os.close(os.open(self.path, os.O_WRONLY))

    def test_fsync_of_what_a_full_server_has_no_room_for(self):
        self.fsync_tells_each_descriptor_once(self.serve_full())

    def test_close_of_what_a_full_server_has_no_room_for(self):
        self.close_tells_each_descriptor_once(self.serve_full())

    def test_umount_gives_up_nothing_that_close_has_told_of(self):
        """The unwritten bytes that `status` shows are the bytes that `umount --force` drops."""
        code = self.serve_full()
        self.write()
        for descriptor in (self.one, self.two):
            self.tells(code, os.close, descriptor)
        mount_point = os.path.dirname(self.path)
        said = self.run_program(TOOL, "status", mount_point)
        self.assertRegex(said, r"unwritten +0 B, and 0 B written but not committed")
        done = subprocess.run([TOOL, "umount", "--force", mount_point], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))

    def test_what_is_written_once_there_is_room_again(self):
        self.tells_and_goes_on(self.serve_full(), lambda: os.ftruncate(self.one, 0))

    def test_what_is_written_after_an_error_of_the_server(self):
        self.tells_and_goes_on(self.serve_answering("WRITE", "IO"), lambda: None)
        with open(self.on_server(self.path), "rb") as file:
            self.assertEqual(file.read()[-5:], b"again")

    def tells_and_goes_on(self, code, relief):
        self.write()
        self.tells(code, os.fsync, self.one)
        relief()
        os.write(self.one, b"again")
        os.fsync(self.one)
        os.close(self.one)
        self.tells(code, os.close, self.two)
        with open(self.path, "rb") as file:
            self.assertEqual(file.read()[-5:], b"again")

    def test_fsync_and_quota(self):
        self.fsync_tells_each_descriptor_once(self.serve_answering("WRITE", "DQUOT"))

    def test_fsync_and_a_write_that_fails(self):
        self.fsync_tells_each_descriptor_once(self.serve_answering("WRITE", "IO"))

    def test_close_and_a_write_that_fails(self):
        self.close_tells_each_descriptor_once(self.serve_answering("WRITE", "IO"))

    def test_fsync_and_a_small_write_that_fails(self):
        """The write is held back, and fsync sends it."""
        self.fsync_tells_each_descriptor_once(self.serve_answering("WRITE", "IO"), size=100)

    def test_fsync_and_a_commit_that_fails(self):
        self.fsync_tells_each_descriptor_once(self.serve_answering("COMMIT", "IO"))

    def test_close_and_a_commit_that_fails(self):
        self.close_tells_each_descriptor_once(self.serve_answering("COMMIT", "IO"))


class ToldOnceRdma(ToldOnce):
    PROTO = "rdma"


class ToldOnceDelegated(ToldOnce):
    """Opens and closes are answered by the client; the data goes to the server."""

    def serve(self, *arguments, export=None):
        super().serve("--delegations", "write", *arguments, export=export)
        self.assertEqual(self.mounted[0].stats()["delegations"]["held_write"], 1)


class ToldOnceDelegatedRdma(ToldOnceDelegated):
    PROTO = "rdma"


if __name__ == "__main__":
    unittest.main()
