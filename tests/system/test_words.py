# SPDX-License-Identifier: Apache-2.0
"""Messages for people: each names the real cause once, and the step that it advises works."""

import os
import re
import shlex
import socket
import subprocess
import time

from harness.case import Export, SystemCase, WORK, daemons, is_mounted, needs_mount, needs_root, needs_user
from harness.filer import Filer
from harness.mount import HELPER, TOOL, mounts
from harness.ports import free_port
from test_filer import OnFiler


class Telling:
    def fails(self, source, options="", within=25, retry="retry=0", port=None, proto="proto=tcp"):
        path = self.local("mnt")
        joined = ",".join(part for part in (f"port={port or self.server.port}", proto, retry, options) if part)
        begin = time.monotonic()
        done = subprocess.run([HELPER, source, path, "-o", joined], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=within + 60)
        self.assertEqual(done.returncode, 32, done.stderr)
        self.assertLess(time.monotonic() - begin, within)
        self.assertFalse(is_mounted(path))
        return done.stderr

    def once(self, words, text):
        self.assertEqual(text.count(words), 1, text)

    def advised(self, text, status=0):
        """Runs the last `run '...'` of the text and returns its output."""
        command, = re.findall(r"run '([^']*)'", text)[-1:]
        argv = shlex.split(command)
        argv[0] = {"nfsrdma-fuse": TOOL}.get(argv[0], argv[0])
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stdout + done.stderr)
        return done.stdout + done.stderr


@needs_mount()
class Mounting(Telling, SystemCase):
    SERVER = {"exports": [Export("/export"), Export("/closed", access="None"), Export("/kerberos", sectype="krb5")]}

    def test_unknown_host(self):
        said = self.fails("no-such-host.invalid:/export")
        self.once("no-such-host.invalid'", said.split("; run")[0])
        self.assertNotIn("No route to host", said)
        self.assertRegex(said, "Name or service not known|Temporary failure in name resolution")
        self.advised(said, status=1)

    def test_refused_port(self):
        port = free_port()
        said = self.fails("127.0.0.1:/export", port=port)
        self.once("Connection refused", said)
        self.assertIn(f"127.0.0.1:{port}: Connection refused", said)
        self.once("Connection refused", self.advised(said, status=1).splitlines()[-1])

    def test_not_silent_without_a_terminal_while_it_tries_again(self):
        process = subprocess.Popen([HELPER, "127.0.0.1:/export", self.local("mnt"), "-o", f"port={free_port()},retry=2"],
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.stderr.close)
        self.assertRegex(process.stderr.readline(), "127.0.0.1:/export: connect: .*Connection refused; trying again for 2 min")
        process.terminate()
        self.assertEqual(process.wait(30), 8)

    def test_export_of_kerberos_only(self):
        said = self.fails("127.0.0.1:/kerberos", options="sec=sys")
        self.assertIn("NFS4ERR_WRONGSEC", said)
        self.assertIn("the server wants sec=krb5, and this mount has sec=sys", said)
        self.assertNotIn("not permitted", said)

    def test_export_of_kerberos_only_without_a_ticket(self):
        self.once("the server wants sec=krb5: ", self.fails("127.0.0.1:/kerberos"))

    def test_absent_export(self):
        said = self.fails("127.0.0.1:/absent")
        self.once("No such file", said)
        self.assertRegex(said, '"absent" in the path /absent: the server exports .*/export')
        self.assertRegex(self.advised(said), r"[d?] export\n")  # nfs-ganesha 6 does not report the type

    def test_silent_port_without_retry(self):
        """The mount gives up after the same time as probe; it used to take minutes."""
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            said = self.fails("127.0.0.1:/export", within=20, port=listener.getsockname()[1])
        self.assertIn("EXCHANGE_ID: no answer within 10 s", said)

    @needs_user()
    def test_reserved_port_of_a_user(self):
        path = self.local("mnt")
        done = subprocess.run([HELPER, "127.0.0.1:/export", path, "-o", f"port={self.server.port},proto=tcp,resvport"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stderr, 'resvport: ports below 1024 are root\'s; .*"insecure"')
        subprocess.run([TOOL, "umount", path], check=True, timeout=30)

    def test_probe_in_one_pipe_keeps_its_order(self):
        """The step that failed is the last one of the output."""
        done = subprocess.run([TOOL, "probe", f"nfs://127.0.0.1:{self.server.port}/absent"], stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        self.assertEqual(done.returncode, 1)
        first = [line.split()[0] for line in done.stdout.splitlines()]
        self.assertEqual(first, ["resolve", "connect", "NULL", "nfsrdma-fuse:"], done.stdout)
        self.assertIn("the server exports", done.stdout)

    def test_trace_is_the_operation_log(self):
        mounted = self.mount("log_level=trace")
        os.mkdir(os.path.join(mounted.path, "traced"))
        with self.assertRaises(FileNotFoundError):
            os.stat(os.path.join(mounted.path, "nowhere"))
        self.wait_until(lambda: "nowhere" in mounted.log_text(), "the last line is written")
        text = mounted.log_text()
        self.assertRegex(text, r'CREATE: SEQUENCE PUTFH .*CREATE\("traced"\).*: NFS4_OK, \d+\.\d{3} ms')
        self.assertRegex(text, r'LOOKUP: SEQUENCE PUTFH .*LOOKUP\("nowhere"\).*: NFS4ERR_NOENT, \d+\.\d{3} ms')
        self.assertRegex(text, r"EXCHANGE_ID: EXCHANGE_ID: NFS4_OK")

    def test_without_trace_no_operation_and_no_name_is_logged(self):
        mounted = self.mount("log_level=info")
        os.mkdir(os.path.join(mounted.path, "untraced"))
        self.assertNotIn("untraced", mounted.log_text())
        self.assertNotIn("NFS4_OK", mounted.log_text())

    @needs_root()
    def test_dev_and_suid_through_mount(self):
        path = self.local("mnt")
        self.run_program("mount", "-t", "nfsrdma-fuse", "-o", f"dev,suid,port={self.server.port},proto=tcp", "127.0.0.1:/export", path)
        (_, _, _, options), = [m for m in mounts() if m[1] == path]
        self.assertNotRegex(options, "nodev|nosuid")
        self.run_program("umount", path)
        self.run_program("mount", "-t", "nfsrdma-fuse", "-o", f"port={self.server.port},proto=tcp", "127.0.0.1:/export", path)
        (_, _, _, options), = [m for m in mounts() if m[1] == path]
        self.assertRegex(options, "nosuid.*nodev")
        self.run_program("umount", path)
        self.wait_until(lambda: not daemons(), "the daemons end")

    @needs_root()
    def test_umount_of_all_by_type(self):
        """libmount compares with the kernel's type. So `umount -a -t nfsrdma-fuse` finds none; the help says so."""
        path = self.local("mnt")
        self.run_program(HELPER, "127.0.0.1:/export", path, "-o", f"port={self.server.port},proto=tcp")
        self.run_program("umount", "-a", "-t", "nfsrdma-fuse")
        self.assertTrue(is_mounted(path), "libmount has changed: say so in docs/conformance/mount.md and the helper's help")
        self.run_program("umount", "-a", "-t", "fuse.rpcrdma")
        self.wait_until(lambda: not is_mounted(path) and not daemons(), "it is unmounted")


@needs_mount()
class OldServer(Telling, SystemCase):
    SERVER = {"v3": "only", "lease": 5, "grace": 5}

    def test_probe_says_what_it_is_and_what_a_mount_of_it_lacks(self):
        said = self.run_program(TOOL, "probe", f"nfs://127.0.0.1:{self.server.port}/")
        self.assertIn("NFS version 3 answers, and version 4 does not", said)
        self.assertIn("its locks then exclude programs of this machine only", said)

    def test_a_mount_that_falls_back_says_what_it_lacks(self):
        path = self.local("old")
        done = subprocess.run([HELPER, self.server.source(), path, "-o", f"port={self.server.port}"], stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.once("with NFS version 3 locks exclude programs of this machine only", done.stderr)
        self.run_program(TOOL, "umount", path)
        self.wait_until(lambda: not daemons(), "the daemon ends")

    def test_absent_export(self):
        said = self.fails("127.0.0.1:/absent", f"vers=3,mountport={self.server.mount_port}")
        self.assertRegex(said, "/absent: the server exports .*/export")


@needs_mount()
class Logs(OnFiler, Telling, SystemCase):
    SERVER = {"lease": 3, "grace": 2}

    def refusing(self, name):
        server = Filer(name, arguments=["--fault", "request WRITE always: answer WRITE NOSPC"]).start()
        self.addCleanup(server.kill)
        return server

    def lose(self, options):
        """The log of a mount whose server does not take a write."""
        mounted = self.mount(options, port=self.refusing("filer." + self.id().rsplit(".", 1)[1]).port)
        name = os.path.join(mounted.path, "precious")
        with self.assertRaises(OSError):
            with open(name, "w") as file:
                file.write("x")
        inode = os.stat(name).st_ino
        self.wait_until(lambda: "could not be written" in mounted.log_text(), "it is told")
        return mounted, inode

    def test_file_names_are_not_logged_below_debug_and_can_be_found(self):
        mounted, inode = self.lose("log_level=info")
        self.assertNotIn("precious", mounted.log_text())
        command, = set(re.findall(r"run '(find -inum \d+)' in the mount", mounted.log_text()))
        self.assertEqual(command, f"find -inum {inode}")
        self.assertEqual(self.run_program(*shlex.split(command), cwd=mounted.path), "./precious\n")

    def test_file_names_are_logged_from_debug_on(self):
        mounted, inode = self.lose("log_level=debug")
        self.assertIn(f'data of "precious" (inode {inode}) could not be written', mounted.log_text())
        self.assertNotIn("find -inum", mounted.log_text())

    def test_the_filer_says_what_to_do_about_a_port_and_a_directory(self):
        program = os.path.join(WORK, "bin/nfsrdma-filer")
        for arguments, wanted in ((["--listen", f"127.0.0.1:{self.server.port}"], "already in use.*give another port with --listen"),
                                  (["--listen", "198.51.100.1:2049"], "no such address"),
                                  (["--export", "/tmp", "--listen", "127.0.0.1:0", "--state-dir", "/proc/none"], "--state-dir DIR")):
            done = subprocess.run([program, "--export", "memory", *arguments], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 1, done.stderr)
            self.assertRegex(done.stderr, wanted)
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_a_restart_and_a_lease_that_has_run_out_are_told_apart(self):
        mounted = self.mount()
        os.listdir(mounted.path)
        self.server.restart()
        os.listdir(mounted.path)
        self.wait_until(lambda: "recovered" in mounted.log_text(), "it is told")
        self.assertIn("recovered after its restart", mounted.log_text())
        self.server.restart(down=4)
        os.listdir(mounted.path)
        self.wait_until(lambda: mounted.log_text().count("recovered") == 2, "it is told again")
        self.assertRegex(mounted.log_text(), r"recovered; the lease of 3 s had run out, it was not renewed for [4-9] s")

    def test_a_server_that_is_gone_is_told_of_after_fifteen_seconds(self):
        mounted = self.mount("timeo=600")
        os.listdir(mounted.path)
        self.server.kill()
        process = self.start_program("stat", "-f", mounted.path, stdout=subprocess.DEVNULL)
        begin = time.monotonic()
        self.wait_until(lambda: "not responding" in mounted.log_text(), "the log has it", 40)
        self.assertGreater(time.monotonic() - begin, 12)
        self.assertIn("server 127.0.0.1 not responding for 15 s, still trying", mounted.log_text())
        self.assertIn("server not responding", self.run_program(TOOL, "status", mounted.path))
        self.server.start()
        self.assertEqual(process.wait(60), 0)
        self.wait_until(lambda: "server 127.0.0.1 OK" in mounted.log_text(), "and when it is over")
        self.assertNotIn("not responding", self.run_program(TOOL, "status", mounted.path))
