# SPDX-License-Identifier: Apache-2.0
"""`nfsrdma-fuse trace`: the operations of programs on a mount, seen from outside; captures that tshark can read, over TCP and software
RDMA.
"""

import json
import mmap
import os
import shutil
import signal
import struct
import subprocess
import time
import unittest

from harness.case import SystemCase, needs_mount
from harness.filer import Filer
from harness.mount import TOOL
from harness.ports import free_port

TSHARK = shutil.which("tshark")
MIB = 1 << 20
# tshark may know a client's port below 1024 as another protocol's.
HEURISTIC = ("-o", "tcp.try_heuristic_first:TRUE")


class Traced(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.rdma_port = free_port()
        cls.server = Filer(name=f"trace.{cls.__name__}", arguments=("--rdma", f"127.0.0.1:{cls.rdma_port}")).start()

    def trace(self, mounted, *arguments):
        """Starts a trace that watches the mount."""
        output = os.path.join(self.local("trace"), f"{time.monotonic_ns()}")
        with open(output, "w") as file:
            process = self.start_program(TOOL, "trace", mounted.path, *arguments, stdout=file, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        return process, output

    def end(self, process, number=signal.SIGINT):
        process.send_signal(number)
        self.assertEqual(process.wait(20), 0, process.stderr.read())

    def lines_until(self, output, condition, act):
        """Repeats act() until the trace shows it, because the moment when the trace begins to watch is not visible."""
        def shown():
            act()
            with open(output) as file:
                return condition(file.read().splitlines())
        self.wait_until(shown, "the trace shows it")
        with open(output) as file:
            return file.read().splitlines()


@needs_mount()
class Operations(Traced):
    def test_each_operation_with_its_path_process_and_result(self):
        mounted = self.mount()
        inner = os.path.join(mounted.path, "dir")
        os.mkdir(inner)
        process, output = self.trace(mounted, "--json")
        name = os.path.join(inner, "file")

        def act():
            with open(name, "wb") as file:
                file.write(b"x" * 1000)
            os.rename(name, name + ".new")
            try:
                os.stat(os.path.join(inner, f"absent{time.monotonic_ns()}"))
            except FileNotFoundError:
                pass

        lines = self.lines_until(output, lambda lines: any("RENAME" in line for line in lines), act)
        self.end(process)
        records = [json.loads(line) for line in lines]
        rename = [r for r in records if r["operation"] == "RENAME"][0]
        self.assertEqual((rename["path"], rename["new_path"]), ("/dir/file", "/dir/file.new"))
        self.assertEqual((rename["pid"], rename["errno"], rename["uid"]), (os.getpid(), 0, os.geteuid()))
        with open(f"/proc/{os.getpid()}/comm") as file:
            self.assertEqual(rename["command"], file.read().strip())
        self.assertGreater(rename["took_ns"], 0)
        absent = [r for r in records if r["errno"] == 2 and r["operation"] == "LOOKUP" and "absent" in r["path"]]
        self.assertTrue(absent, records)
        writes = [r for r in records if r["operation"] == "WRITE"]
        self.assertEqual({(r["offset"], r["size"]) for r in writes}, {(0, 1000)})

    def test_filters(self):
        mounted = self.mount()
        for name in ("one", "two"):
            os.mkdir(os.path.join(mounted.path, name))
        process, output = self.trace(mounted, "--ops", "mkdir,rmdir", "--path", "/one/*", "--process", str(os.getpid()))

        def act():
            for name in ("one", "two"):
                made = os.path.join(mounted.path, name, "made")
                os.mkdir(made)
                subprocess.run(["rmdir", made], check=True)

        lines = self.lines_until(output, bool, act)
        self.end(process, signal.SIGTERM)
        for line in lines:
            self.assertIn(" MKDIR ", line)
            self.assertIn(" /one/made", line)
            self.assertIn(f"[{os.getpid()}]", line)

    def test_slow_and_failed_ones(self):
        mounted = self.mount()
        process, output = self.trace(mounted, "--failed", "--above", "0", "--count", "1")
        self.lines_until(output, bool, lambda: os.path.exists(os.path.join(mounted.path, f"no{time.monotonic_ns()}")))
        self.assertEqual(process.wait(20), 0)
        self.assertEqual(self.run_program(TOOL, "trace", mounted.path, "--above", "60000", "--duration", "1"), "")

    def test_what_it_does_not_know(self):
        mounted = self.mount()
        self.assertIn('there is no operation "REED"', self.refused(1, mounted, "--ops", "reed"))
        self.assertIn("--pcap", self.refused(2, mounted, "--ops", "read", "--pcap", "/dev/null"))

    def refused(self, status, mounted, *arguments):
        done = subprocess.run([TOOL, "trace", mounted.path, *arguments], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        return done.stderr

    def test_captures_one_after_the_other(self):
        mounted = self.mount()
        capture = os.path.join(self.local("capture"), "capture.pcapng")
        for _ in range(2):
            self.run_program(TOOL, "trace", mounted.path, "--pcap", capture, "--duration", "1")
        os.unlink(capture)
        process, _ = self.trace(mounted, "--pcap", capture)
        self.wait_until(lambda: os.path.exists(capture) and os.path.getsize(capture) > 0, "the trace watches")
        with open(capture, "a") as file:
            file.write("kept")
        self.assertIn("another trace captures", self.refused(1, mounted, "--pcap", capture))
        with open(capture, "rb") as file:
            self.assertTrue(file.read().endswith(b"kept"), "a trace that is refused leaves the file as it is")
        self.end(process)

    def test_a_trace_that_is_killed_is_forgotten(self):
        mounted = self.mount()
        for _ in range(8):
            process, _ = self.trace(mounted, "--pcap", "/dev/null")
            process.kill()
            process.wait()
        self.wait_until(lambda: subprocess.run([TOOL, "trace", mounted.path, "--duration", "1", "--pcap", "/dev/null"],
                                               capture_output=True).returncode == 0, "a capture is possible again", 60)


def streams(capture):
    """The payload of the TCP segments in each direction: {(from, to): bytes}."""
    with open(capture, "rb") as file:
        text = file.read()
    found = {}
    at = 0
    while at < len(text):
        kind, length = struct.unpack_from("=II", text, at)
        if kind == 6:  # an enhanced packet block: IPv4 and TCP, both without options
            size, = struct.unpack_from("=I", text, at + 20)
            packet = text[at + 28:at + 28 + size]
            ports = struct.unpack_from(">HH", packet, 20)
            found.setdefault(ports, bytearray()).extend(packet[40:])
        at += length
    return found


@needs_mount()
@unittest.skipUnless(TSHARK, "needs tshark; scripts/setup installs it")
class Capture(Traced):
    def captured(self, mounted):
        """What tshark finds in the capture of a file that is written and read."""
        name = os.path.join(mounted.path, "file")
        data = os.urandom(3 * MIB)
        capture = os.path.join(self.local("capture"), "capture.pcapng")
        process, _ = self.trace(mounted, "--pcap", capture)

        def begun():
            os.path.exists(os.path.join(mounted.path, f"no{time.monotonic_ns()}"))  # LOOKUP
            return os.path.exists(capture) and os.path.getsize(capture) > 500
        self.wait_until(begun, "the capture has begun")
        with open(name, "wb") as file:
            file.write(data)
        descriptor = os.open(name, os.O_RDONLY | os.O_DIRECT)
        with open(descriptor, "rb", buffering=0) as file:
            page = mmap.mmap(-1, 3 * MIB)
            self.assertEqual(file.readinto(page), 3 * MIB)
            self.assertEqual(page[:], data)
            page.close()
        self.end(process)
        self.assertEqual(os.stat(capture).st_mode & 0o777, 0o600)
        return capture, data

    def fields(self, capture, *names, display=""):
        done = subprocess.run([TSHARK, "-n", *HEURISTIC, "-r", capture, *(("-Y", display) if display else ()), "-T", "fields",
                               *(f"-e{name}" for name in names)], capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        return [line.split("\t") for line in done.stdout.splitlines()]

    def check(self, mounted, protocol):
        capture, data = self.captured(mounted)
        malformed = self.fields(capture, "frame.number", "_ws.expert.message", display="_ws.malformed || tcp.analysis.flags")
        self.assertEqual(malformed, [])
        operations = {op for row in self.fields(capture, "nfs.opcode", display="rpc.msgtyp == 1") for op in row[0].split(",")}
        for operation in ("18", "25", "38", "53"):  # OPEN, READ, WRITE, SEQUENCE
            self.assertIn(operation, operations)
        self.assertEqual({row[0] for row in self.fields(capture, "frame.interface_name")}, {protocol})
        # The data of the WRITE calls, and of the READ replies, at their offsets, is the file.
        for kind, field in (("0", "nfs.write.data_length"), ("1", "nfs.read.data_length")):
            rows = self.fields(capture, field, display=f"rpc.msgtyp == {kind} && {field}")
            self.assertEqual(sum(int(row[0]) for row in rows), len(data), field)
        for name, stream in streams(capture).items():
            missing = [at for at in range(0, len(data), 1 << 16) if data[at:at + (1 << 16)] not in stream]
            self.assertEqual(missing, [], name)

    def test_tcp(self):
        self.check(self.mount(), "tcp")

    def test_software_rdma(self):
        self.check(self.mount(port=self.rdma_port, proto="rdma"), "rdma")


del Traced
