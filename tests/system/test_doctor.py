# SPDX-License-Identifier: Apache-2.0
"""The doctor with a real mount and a server that works, hangs, is silent or does not exist; and its archive for a bug report."""

import json
import os
import signal
import socket
import stat
import subprocess
import tarfile
import threading
import time

from harness.case import HOME, ServerForEach, SystemCase, needs_mount
from harness.filer import Filer
from harness.mount import TOOL, control_socket, daemons
from harness.pausing import pause, resume
from harness.ports import free_port


def doctor(*argv):
    begin = time.monotonic()
    done = subprocess.run([TOOL, "doctor", *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    return done, time.monotonic() - begin


@needs_mount()
class Doctor(ServerForEach, SystemCase):
    def setUp(self):
        super().setUp()
        self.server = Filer().start()
        self.addCleanup(self.server.kill)

    def examine(self, *argv, status):
        """{check: [(verdict, finding, remedy)]}"""
        done, seconds = doctor("--json", *argv)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        self.assertLess(seconds, 35, "the bound that --help states, and a little for the end")
        found = {}
        for one in json.loads(done.stdout)["checks"]:
            found.setdefault(one["check"], []).append((one["verdict"], one["finding"], one["remedy"]))
        return found

    def url(self, path="/"):
        return f"nfs://127.0.0.1:{self.server.port}{path}"

    def test_a_mount_that_is_well(self):
        mounted = self.mount()
        found = self.examine(mounted.path, status=0)
        for check in ("daemon", "port", "version", "session", "exports", "low-port", "kernel", "fuse"):
            self.assertEqual(found[check][0][0], "good", (check, found[check]))
        self.assertIn("the daemon and the server answer", found["daemon"][0][1])

    def test_lines_for_people(self):
        mounted = self.mount("log_level=debug")
        done, _ = doctor(mounted.path)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        lines = done.stdout.splitlines()
        verdicts = [line.split()[0] for line in lines]
        self.assertEqual(verdicts, sorted(verdicts, key=["bad", "warn", "unknown", "good"].index))
        self.assertTrue(any(line.startswith("warn     log-level") and f"log-level {mounted.path} info" in line for line in lines), done.stdout)

    def test_a_server_by_its_address(self):
        found = self.examine(self.url(), status=0)
        self.assertIn("export", found["exports"][0][1])
        self.assertEqual(found["name"][0][1], "127.0.0.1 is an address")
        self.assertNotIn("daemon", found)

    def test_a_path_that_the_server_has_not(self):
        found = self.examine(self.url("/absent"), status=1)
        self.assertEqual(found["session"][0][0], "bad")
        self.assertIn("NOENT", found["session"][0][1])

    def test_a_refused_port(self):
        found = self.examine(f"nfs://127.0.0.1:{free_port()}/", status=1)
        self.assertIn("refuses connections", found["port"][0][1])

    def test_a_port_that_takes_connections_and_says_nothing(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            found = self.examine(f"nfs://127.0.0.1:{listener.getsockname()[1]}/", status=1)
        self.assertEqual(found["port"][0][0], "good")
        self.assertIn("answers nothing", found["version"][0][1])

    def test_a_port_behind_a_firewall(self):
        with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
            listener.bind(("127.0.0.1", 0))
            listener.listen(0)
            for filler in (first, second):  # when the queue is full the kernel drops new packets
                filler.setblocking(False)
                filler.connect_ex(listener.getsockname())
            time.sleep(0.2)
            found = self.examine(f"nfs://127.0.0.1:{listener.getsockname()[1]}/", status=1)
        self.assertIn("answers nothing", found["port"][0][1])
        self.assertIn("firewall", found["port"][0][1])

    def test_a_name_that_nobody_knows(self):
        found = self.examine("no-such-host.invalid", status=1)
        self.assertEqual(found["name"][0][0], "bad")
        self.assertIn("getent ahosts", found["name"][0][2])

    def test_a_dead_daemon(self):
        mounted = self.mount()
        os.kill(mounted.pid, signal.SIGKILL)
        self.wait_until(lambda: not daemons(), "the daemon is gone")
        found = self.examine(mounted.path, status=1)
        self.assertEqual(found["daemon"][0][0], "bad")
        self.assertIn("umount", found["daemon"][0][2])
        self.run_program(TOOL, "umount", mounted.path)

    def test_a_daemon_that_dies_while_it_is_asked(self):
        """The kernel closes a dead process' sockets one after the other, so the connection may still be made."""
        mounted = self.mount()
        path = control_socket(mounted.path)
        os.kill(mounted.pid, signal.SIGKILL)
        self.wait_until(lambda: not daemons(), "the daemon is gone")
        os.unlink(path)
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path)
            listener.listen()
            hanging_up = threading.Thread(target=lambda: listener.accept()[0].close())
            hanging_up.start()
            found = self.examine(mounted.path, status=1)
            hanging_up.join()
        self.assertIn("hung up", found["daemon"][0][1])
        self.assertIn("umount", found["daemon"][0][2])
        self.run_program(TOOL, "umount", mounted.path)

    def test_a_daemon_that_hangs(self):
        mounted = self.mount()
        pause(mounted.pid)
        try:
            found = self.examine(mounted.path, status=1)
        finally:
            resume(mounted.pid)
        self.assertIn("does not answer", found["daemon"][0][1])
        self.assertIn("--force", found["daemon"][0][2])

    def test_a_hung_server(self):
        mounted = self.mount("timeo=10")
        os.listdir(mounted.path)
        self.server.pause()
        try:
            found = self.examine(mounted.path, status=1)
        finally:
            self.server.resume()
        self.assertIn("answers nothing", found["version"][0][1])

    def test_what_is_no_mount(self):
        done, _ = doctor("/usr")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1)

    def test_a_directory_that_is_no_mount_is_not_taken_for_a_server(self):
        name = "directory-and-no-host"
        here = self.local("here")
        os.mkdir(os.path.join(here, name))
        done = subprocess.run([TOOL, "doctor", name], cwd=here, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 3, done.stdout)
        self.assertIn(f"{name}: not a mount of this program", done.stderr)

    def test_an_archive_names_nobody(self):
        secret = "salaries2026"
        with open(os.path.join(self.server.path(), secret), "w") as file:
            file.write("x")
        where = self.local("moneyplace")
        mounted = self.mount("log_level=trace", path=where)
        os.stat(os.path.join(where, secret))
        with open(os.path.join(where, secret)) as file:
            file.read()
        self.wait_until(lambda: secret in mounted.log_text(), "the log has the name, or this test shows nothing")
        archive = os.path.join(self.local("out"), "report.tar.gz")
        done, _ = doctor(where, "--bundle", archive)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(stat.S_IMODE(os.stat(archive).st_mode), 0o600)
        files = self.contents(archive)
        for part in ("doctor.txt", "doctor.json", "system.txt", "limits.txt", "mounts.txt", "mount-1-status.txt", "mount-1-stats.json", "mount-1-log.txt"):
            self.assertTrue(files[part], part)
        json.loads(files["doctor.json"])
        self.assertEqual(json.loads(files["mount-1-stats.json"])["state"], "mounted")
        self.assertIn("fuse.rpcrdma", files["mounts.txt"])
        for name in (secret, "moneyplace", "/export", "127.0.0.1", socket.gethostname(), mounted.log, HOME):
            for part, text in files.items():
                self.assertNotIn(name, text, f"{part} has {name}")
        again, _ = doctor(where, "--bundle", archive)
        self.assertEqual(again.returncode, 1, "what is there is not written over")

    def test_an_archive_with_names(self):
        mounted = self.mount()
        archive = os.path.join(self.local("out"), "report.tar.gz")
        done, _ = doctor(mounted.path, "--bundle", archive, "--with-names")
        self.assertEqual(done.returncode, 0, done.stderr)
        files = self.contents(archive)
        self.assertIn("127.0.0.1:/export", files["mounts.txt"])
        self.assertIn(mounted.path, files["mount-1-status.txt"])

    def contents(self, archive):
        with tarfile.open(archive) as tar:
            return {os.path.basename(m.name): tar.extractfile(m).read().decode() for m in tar.getmembers() if m.isfile()}
