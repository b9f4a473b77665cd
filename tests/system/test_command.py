# SPDX-License-Identifier: Apache-2.0
"""The command line with real servers and real mount points: mount(8)'s exit statuses, one clear line per failure, clean ends."""

import errno
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import unittest

from harness.case import Export, HOME, SystemCase, WORK, daemons, is_mounted, needs_mount, needs_root, needs_user, steward
from harness.mount import HELPER, TOOL, control_socket, mounts
from harness.pausing import pause, resume
from harness.ports import free_port


@needs_mount()
class Errors(SystemCase):
    """Each failure: one line that names the cause, the right status, and no mount or process left."""

    SERVER = {"exports": [Export("/export"), Export("/closed", access="None"), Export("/kerberos", sectype="krb5")]}

    def fails(self, source, status, words, options="", path=None, within=20, retry=True):
        path = path if path is not None else self.local("mnt")
        joined = ",".join(part for part in (f"port={self.server.port}", "proto=tcp", "retry=0" if retry else "", options) if part)
        begin = time.monotonic()
        done = subprocess.run([HELPER, source, path, "-o", joined], stdin=subprocess.DEVNULL, capture_output=True, text=True,
                              timeout=within + 30)
        seconds = time.monotonic() - begin
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(done.stdout, "")
        lines = done.stderr.splitlines()
        self.assertEqual(len(lines), 1, f"one line, please:\n{done.stderr}")
        for word in words:
            self.assertRegex(lines[0], re.compile(word, re.IGNORECASE))
        self.assertLess(seconds, within)
        self.assertFalse(is_mounted(path))
        self.assertEqual(daemons(), [])
        return lines[0]

    def test_wrong_host(self):
        self.fails("no-such-host.invalid:/export", 32, ["no-such-host.invalid"])

    def test_closed_port(self):
        self.fails("127.0.0.1:/export", 32, ["127.0.0.1", "refused"], f"port={free_port()}")

    def test_port_that_does_not_speak_nfs(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            child = os.fork()
            if child == 0:
                while True:
                    accepted, _ = listener.accept()
                    accepted.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")
                    accepted.close()
            try:
                self.fails("127.0.0.1:/export", 32, ["127.0.0.1"], f"port={listener.getsockname()[1]},timeo=10,retrans=1")
            finally:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    def test_server_that_does_not_answer(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            self.fails("127.0.0.1:/export", 32, ["127.0.0.1"], f"port={listener.getsockname()[1]},timeo=10,retrans=1", within=60)

    def test_absent_export(self):
        self.fails("127.0.0.1:/absent", 32, ["127.0.0.1:/absent", "NOENT|no such"])

    def test_absent_directory_below_an_export(self):
        self.fails("127.0.0.1:/export/absent", 32, ["/export/absent", "NOENT|no such"])

    def test_export_that_is_a_file(self):
        steward.write_file(os.path.join(self.server.path(), "file"), "text")
        self.fails("127.0.0.1:/export/file", 32, ["/export/file", "NOTDIR|not a directory"])

    def test_export_closed_to_us(self):
        self.fails("127.0.0.1:/closed", 32, ["/closed", "NFS4ERR|denied|no such"])

    def test_refused_credential(self):
        self.fails("127.0.0.1:/kerberos", 32, ["/kerberos", "WRONGSEC|krb5|security"])

    def test_no_common_version(self):
        other = self.__class__.server.__class__("server.v40", minor_versions="0").start()
        self.addCleanup(other.kill)
        self.fails("127.0.0.1:/export", 32, ["127.0.0.1", "VERS"], f"port={other.port}")

    def test_unknown_option(self):
        line = self.fails("127.0.0.1:/export", 1, ["timeoo"], "timeoo=5")
        self.assertIn("timeo", line.replace("timeoo", ""), "the nearest name is offered")

    def test_bad_values(self):
        for option in ("timeo=fast", "rsize=0x", "acregmin=-1", "lookupcache=some", "vers=2", "ro=1", "sec=", "proto=udp", "rdmavers=1"):
            self.fails("127.0.0.1:/export", 1, [option.split("=")[0]], option)

    def test_bad_sources(self):
        for source in ("", ":/export", "host", "127.0.0.1:export", "[::1:/export"):
            path = self.local("source")
            done = subprocess.run([HELPER, source, path], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 1, (source, done.stderr))
            self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    def test_missing_mount_point(self):
        self.fails("127.0.0.1:/export", 32, ["/does/not/exist"], path="/does/not/exist")

    def test_mount_point_that_is_a_file(self):
        name = os.path.join(HOME, "plain")
        open(name, "w").close()
        self.fails("127.0.0.1:/export", 32, ["plain"], path=name)

    def test_busy_mount_point(self):
        mounted = self.mount()
        done = subprocess.run([HELPER, "127.0.0.1:/export", mounted.path, "-o", f"port={self.server.port},proto=tcp"],
                              capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 32, done.stderr)
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertRegex(done.stderr, "busy|already")
        os.listdir(mounted.path)

    def test_no_arguments(self):
        for argv in ([HELPER], [HELPER, "127.0.0.1:/export"]):
            done = subprocess.run(argv, capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 1)
            self.assertTrue(done.stderr)

    def test_interrupted_while_trying(self):
        port = free_port()
        process = subprocess.Popen([HELPER, "127.0.0.1:/export", self.local("mnt"), "-o", f"port={port},retry=5"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        time.sleep(1)
        self.assertIsNone(process.poll(), "retry= minutes are not over")
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
        self.assertEqual(process.returncode, 8)
        self.assertIn(f"127.0.0.1:/export: mount: interrupted; run 'nfsrdma-fuse probe nfs://127.0.0.1:{port}/'", said)
        self.assertEqual(daemons(), [])

    def test_retry_waits_for_a_server_that_comes(self):
        port = free_port()
        path = self.local("mnt")
        process = subprocess.Popen([HELPER, "127.0.0.1:/export", path, "-o", f"port={port},proto=tcp,retry=2"],
                                   stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        self.assertIsNone(process.poll())
        late = self.__class__.server.__class__("server.late", port=port).start()
        self.addCleanup(late.kill)
        self.assertEqual(process.wait(60), 0, process.stderr.read())
        process.stderr.close()
        self.assertTrue(is_mounted(path))
        self.unmount(path)

    def unmount(self, path):
        self.run_program(*(["umount", path] if os.getuid() == 0 else ["fusermount3", "-u", path]))
        self.wait_until(lambda: not daemons(), "the daemon ends")


@needs_mount()
class LifeCycle(SystemCase):
    def gone(self, path):
        self.wait_until(lambda: not daemons() and not is_mounted(path), "mount and daemon are gone")

    def test_without_standard_descriptors(self):
        """Supervisors and init scripts may start programs this way: the daemon's own descriptors must not become 0, 1 or 2."""
        for closed in ("<&-", "<&- >&-", "<&- >&- 2>&-"):
            with self.subTest(closed=closed):
                path = self.local(f"closed{len(closed)}")
                argv = ["sh", "-c", f'exec "$0" "$@" {closed}', HELPER, "127.0.0.1:/export", path, "-o",
                        f"port={self.server.port},proto=tcp"]
                self.assertEqual(subprocess.run(argv, timeout=30).returncode, 0)
                self.assertTrue(is_mounted(path))
                os.listdir(path)
                subprocess.run([TOOL, "umount", path], check=True, timeout=30)
                self.assertEqual(daemons(), [])

    def test_the_helper_is_silent_and_the_mount_usable_at_once(self):
        path = self.local("mnt")
        done = subprocess.run([HELPER, "127.0.0.1:/export", path, "-o", f"port={self.server.port},proto=tcp"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "", ""))
        os.mkdir(os.path.join(path, "at once"))
        (source, _, kind, _), = [m for m in mounts() if m[1] == path]
        self.assertEqual((source, kind), ("127.0.0.1:/export", "fuse.rpcrdma"))
        self.run_program(TOOL, "umount", path)
        self.gone(path)

    def test_other_spellings_of_the_source(self):
        for source in ("localhost:/export", "127.0.0.1:/export/", f"nfs://127.0.0.1:{self.server.port}/export"):
            mounted = self.mount_source(source)
            os.listdir(mounted)
            self.run_program(TOOL, "umount", mounted)
            self.gone(mounted)

    def mount_source(self, source, *more):
        path = self.local("mnt")
        options = "proto=tcp" if source.startswith("nfs:") else f"port={self.server.port},proto=tcp"
        self.run_program(HELPER, source, path, "-o", options, *more)
        return path

    def test_every_way_to_unmount(self):
        ways = [[TOOL, "umount"], ["fusermount3", "-u"]]
        if os.getuid() == 0:
            ways += [["umount"], ["umount", "-t", "fuse.rpcrdma"]]
        for way in ways:
            mounted = self.mount()
            with open(os.path.join(mounted.path, "late"), "w") as file:
                file.write("x" * 500000)
            self.run_program(*way, mounted.path)
            self.gone(mounted.path)
            self.assertEqual(os.stat(os.path.join(self.server.path(), "late")).st_size, 500000)

    def test_umount_waits_for_a_daemon_that_does_not_answer(self):
        mounted = self.mount()
        os.listdir(mounted.path)
        pid = mounted.pid
        pause(pid)
        try:
            umount = self.start_program(TOOL, "umount", "--verbose", mounted.path, stderr=subprocess.PIPE)
            said = ""
            while "waiting for the daemon" not in said:
                line = umount.stderr.readline()
                self.assertTrue(line, f"umount has ended: {said}")
                said += line
            self.assertFalse(is_mounted(mounted.path))
        finally:
            resume(pid)
        status = umount.wait(60)
        self.assertEqual(daemons(), [], "umount has returned before the daemon ended")
        self.assertIn(status, (0, 4))  # 4: it ended by itself
        self.assertIn("does not answer", said)

    def test_umount_says_when_it_finds_no_daemon(self):
        mounted = self.mount()
        os.unlink(control_socket(mounted.path))
        done = subprocess.run([TOOL, "umount", mounted.path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("its daemon was not found", done.stderr)
        self.gone(mounted.path)

    def test_a_busy_mount_is_not_unmounted(self):
        mounted = self.mount()
        with open(os.path.join(mounted.path, "busy"), "w"):
            done = subprocess.run([TOOL, "umount", mounted.path], capture_output=True, text=True, timeout=60)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn("busy", done.stderr)
            self.assertTrue(is_mounted(mounted.path))
            os.listdir(mounted.path)

    def test_lazy_unmount_keeps_open_files_working(self):
        mounted = self.mount()
        with open(os.path.join(mounted.path, "lazy"), "w") as file:
            self.run_program(TOOL, "umount", "--lazy", mounted.path)
            self.assertFalse(is_mounted(mounted.path))
            file.write("still")
            file.flush()
            os.fsync(file.fileno())
        self.gone(mounted.path)
        with open(os.path.join(self.server.path(), "lazy")) as file:
            self.assertEqual(file.read(), "still")

    def test_sigterm_unmounts(self):
        for signum in (signal.SIGTERM, signal.SIGINT):
            mounted = self.mount()
            with open(os.path.join(mounted.path, "term"), "w") as file:
                file.write("x" * 100000)
            os.kill(mounted.pid, signum)
            self.gone(mounted.path)
            self.assertEqual(os.stat(os.path.join(self.server.path(), "term")).st_size, 100000)

    def test_sigkill_leaves_a_mount_that_umount_removes(self):
        mounted = self.mount()
        held = os.open(os.path.join(mounted.path, "open"), os.O_CREAT | os.O_WRONLY)
        os.kill(mounted.pid, signal.SIGKILL)
        self.wait_until(lambda: not daemons(), "it is dead")
        with self.assertRaises(OSError) as failed:
            os.listdir(mounted.path)
        self.assertIn(failed.exception.errno, (errno.ENOTCONN, errno.ECONNABORTED))
        with self.assertRaises(OSError) as failed:
            os.close(held)  # the descriptor is closed although the data is not saved, which nobody can report any more
        self.assertIn(failed.exception.errno, (errno.ENOTCONN, errno.ECONNABORTED))
        self.run_program(*(["umount"] if os.getuid() == 0 else ["fusermount3", "-u"]), mounted.path)
        self.assertFalse(is_mounted(mounted.path))
        again = self.mount()
        os.listdir(again.path)

    def test_auto_unmount_takes_the_mount_of_a_killed_daemon_away(self):
        mounted = self.mount("auto_unmount")
        open(os.path.join(mounted.path, "file"), "w").close()
        os.kill(mounted.stats()["pid"], signal.SIGKILL)
        self.wait_until(lambda: not is_mounted(mounted.path), "it is unmounted")
        self.wait_until(lambda: not daemons(), "nobody is left")
        again = self.mount("auto_unmount", path=mounted.path)
        again.umount()
        self.assertEqual(daemons(), [], "an orderly end leaves nobody either")

    def test_auto_unmount_leaves_another_mount_in_its_place_alone(self):
        first = self.mount("auto_unmount")
        pid = first.stats()["pid"]
        first.umount()
        second = self.mount(path=first.path)
        self.wait_until(lambda: pid not in daemons(), "the first daemon has ended")
        time.sleep(0.5)
        self.assertTrue(is_mounted(second.path))

    def test_mounting_again_and_again(self):
        for i in range(20):
            mounted = self.mount()
            os.mkdir(os.path.join(mounted.path, f"round{i}"))
            mounted.umount()
        self.assertEqual(len(os.listdir(self.server.path())) >= 20, True)

    def test_foreground(self):
        path = self.local("mnt")
        process = subprocess.Popen([TOOL, "mount", "127.0.0.1:/export", path, "--foreground", "-o",
                                    f"port={self.server.port},proto=tcp"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.wait_until(lambda: is_mounted(path), "it is mounted")
        os.listdir(path)
        self.assertIsNone(process.poll())
        process.terminate()
        said, log = process.communicate(timeout=60)
        self.assertEqual((process.returncode, said), (0, ""), log)
        # It logs its mount and unmount, and nothing else if there are no problems.
        told = [line.split(" info ", 1)[-1].strip() for line in log.splitlines()]
        self.assertEqual([line.removeprefix(f"{path}: ").split(" ")[0] for line in told], ["mounted", "signal", "unmounting", "unmounted"], log)
        self.gone(path)

    def test_foreground_is_quiet_when_nothing_is_wrong(self):
        path = self.local("mnt")
        process = subprocess.Popen([TOOL, "mount", "127.0.0.1:/export", path, "-f", "-o",
                                    f"port={self.server.port},proto=tcp,log_level=warning"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.wait_until(lambda: is_mounted(path), "it is mounted")
        with open(os.path.join(path, "quiet"), "w") as file:
            file.write("text")
        self.run_program(TOOL, "umount", path)
        self.assertEqual(process.communicate(timeout=60)[0], "")
        self.assertEqual(process.returncode, 0)
        self.gone(path)

    def test_the_daemon_holds_nothing_of_the_caller(self):
        """A reader of the command's pipe must see its end, although the daemon keeps running."""
        path = self.local("mnt")
        read_end, write_end = os.pipe()
        os.set_inheritable(write_end, True)
        process = subprocess.Popen([HELPER, "127.0.0.1:/export", path, "-o", f"port={self.server.port},proto=tcp"],
                                   stdout=write_end, stderr=write_end, close_fds=False, cwd=self.local("cwd"))
        os.close(write_end)
        self.assertEqual(process.wait(60), 0)
        self.assertEqual(os.read(read_end, 10), b"")
        os.close(read_end)
        pid, = daemons()
        self.assertEqual(os.readlink(f"/proc/{pid}/cwd"), "/")
        self.run_program(TOOL, "umount", path)
        self.gone(path)


@needs_mount()
class MountCommand(SystemCase):
    """mount(8) and umount(8) as root, through /sbin/mount.nfsrdma-fuse."""

    @needs_root()
    def test_mount_and_umount(self):
        path = self.local("mnt")
        options = f"port={self.server.port},proto=tcp,_netdev,nofail,x-systemd.automount,noatime"
        self.run_program("mount", "-t", "nfsrdma-fuse", "127.0.0.1:/export", path, "-o", options)
        open(os.path.join(path, "by-mount"), "w").close()
        self.assertIn("by-mount", os.listdir(self.server.path()))
        self.run_program("umount", path)
        self.wait_until(lambda: not daemons(), "the daemon ends")

    @needs_root()
    def test_an_fstab_line(self):
        path, table = self.local("mnt"), os.path.join(HOME, "fstab")
        with open(table, "w") as file:
            file.write(f"127.0.0.1:/export {path} nfsrdma-fuse port={self.server.port},proto=tcp,ro,nosuid,_netdev 0 0\n")
        self.run_program("mount", "-T", table, path)
        with self.assertRaises(OSError):
            os.mkdir(os.path.join(path, "new"))
        self.run_program("mount", "-T", table, "-o", "remount,rw", path)
        os.mkdir(os.path.join(path, "new"))
        self.run_program("umount", path)
        self.wait_until(lambda: not daemons(), "the daemon ends")

    @needs_root()
    def test_umount_returns_when_the_server_has_all(self):
        path = self.local("mnt")
        self.run_program("mount", "-t", "nfsrdma-fuse", "127.0.0.1:/export", path, "-o", f"port={self.server.port},proto=tcp")
        os.listdir(path)
        self.server.pause()
        try:
            umount = self.start_program("umount", path)
            self.wait_until(lambda: not is_mounted(path), "it is unmounted")
            time.sleep(1)
            self.assertIsNone(umount.poll(), "umount(8) has not waited for the daemon")
        finally:
            self.server.resume()
        self.assertEqual(umount.wait(60), 0)
        self.assertEqual(daemons(), [], "umount(8) has returned before the daemon ended")

    @needs_root()
    def test_the_table_of_libmount(self):
        path = self.local("mnt")
        source, more = "127.0.0.1:/export", f"port={self.server.port},proto=tcp"
        for command in (["mount", "-t", "nfsrdma-fuse", source, path, "-o", f"{more},x-gvfs-name=Our files"],
                        [HELPER, source, path, "-o", f"{more},x-gvfs-name=Our files"]):
            self.run_program(*command)
            shown = self.run_program("findmnt", "--mtab", "-no", "OPTIONS", path)
            self.assertIn("_netdev", shown)  # so systemd unmounts it before the network goes down
            self.assertIn("x-gvfs-name=Our files", shown)
            self.run_program("umount", path)
            with open("/run/mount/utab") as table:
                self.assertNotIn(path, table.read())
        self.run_program(HELPER, source, path, "-n", "-o", more)
        self.assertNotIn("_netdev", self.run_program("findmnt", "--mtab", "-no", "OPTIONS", path))
        self.run_program(TOOL, "umount", path)

    @needs_root()
    def test_dev_and_suid_of_an_fstab_line(self):
        path, table = self.local("mnt"), os.path.join(HOME, "fstab")
        for written, typed, nodev in (("dev,suid", "", False), ("defaults", "", True), ("dev", "nodev", True)):
            with open(table, "w") as file:
                file.write(f"127.0.0.1:/export {path} nfsrdma-fuse port={self.server.port},proto=tcp,{written} 0 0\n")
            self.run_program("mount", "-T", table, path, *(["-o", typed] if typed else []))
            shown = self.run_program("findmnt", "-no", "VFS-OPTIONS", path)
            (self.assertIn if nodev else self.assertNotIn)("nodev", shown)
            self.assertEqual("nosuid" in shown, written != "dev,suid")
            self.run_program("umount", path)

    @needs_root()
    def test_exit_status_comes_through(self):
        self.run_program("mount", "-t", "nfsrdma-fuse", "127.0.0.1:/absent", self.local("mnt"), "-o",
                         f"port={self.server.port},proto=tcp,retry=0", status=32)
        self.run_program("mount", "-t", "nfsrdma-fuse", "127.0.0.1:/export", self.local("mnt2"), "-o", "nonsense", status=1)

    @needs_root()
    def test_fake_and_verbose(self):
        path = self.local("mnt")
        self.run_program(HELPER, "127.0.0.1:/export", path, "-f", "-o", f"port={self.server.port},proto=tcp")
        self.assertFalse(is_mounted(path))
        self.run_program(HELPER, "127.0.0.1:/export", path, "-sn", "-o", f"port={self.server.port},proto=tcp,unheard-of=1")
        self.assertTrue(is_mounted(path))
        self.run_program("umount", path)
        self.wait_until(lambda: not daemons(), "the daemon ends")


@needs_mount()
class Tools(SystemCase):
    def test_status(self):
        mounted = self.mount("acregmin=7")
        status = json.loads(self.run_program(TOOL, "status", mounted.path, "--json"))
        text = json.dumps(status)
        self.assertIn("acregmin=7", text)
        self.assertIn("127.0.0.1", text)
        self.assertTrue(self.run_program(TOOL, "status", mounted.path))
        self.assertIn(mounted.path, self.run_program(TOOL, "status"))

    def test_without_a_mount(self):
        for verb in ("status", "stats"):
            self.assertEqual(self.run_program(TOOL, verb), "no mounts of this program\n")
        self.assertEqual(json.loads(self.run_program(TOOL, "status", "--json")), [])

    @needs_root()
    def test_status_of_another_users_mount(self):
        mounted = self.mount()
        done = subprocess.run([TOOL, "status", mounted.path], user=65534, group=65534, capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("only root may ask its daemon", done.stderr)

    def test_stats(self):
        mounted = self.mount()
        self.run_program("ls", "-lR", mounted.path)
        for form in ("table", "prometheus", "mountstats"):
            self.assertTrue(self.run_program(TOOL, "stats", mounted.path, "--format", form))
        text = json.dumps(mounted.stats())
        self.assertIn("READDIR", text)

    def test_not_our_mount(self):
        for verb in ("status", "stats", "umount"):
            done = subprocess.run([TOOL, verb, "/proc"], capture_output=True, text=True, timeout=30)
            self.assertEqual(done.returncode, 3, done.stderr)
            self.assertTrue(is_mounted("/proc"))

    def test_probe(self):
        output = self.run_program(TOOL, "probe", f"nfs://127.0.0.1:{self.server.port}/export")
        self.assertIn("export", output)
        done = subprocess.run([TOOL, "probe", f"nfs://127.0.0.1:{free_port()}/export"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, "^nfsrdma-fuse: nfs://127.0.0.1:.*: connect: .*refused; see that 127.0.0.1 runs")
        absent = f"nfs://127.0.0.1:{self.server.port}/absent"
        done = subprocess.run([TOOL, "probe", absent], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertRegex(done.stderr, f"^nfsrdma-fuse: {absent}: LOOKUP: NFS4ERR_NOENT.*; run 'nfsrdma-fuse probe nfs://127.0.0.1:")
        done = subprocess.run([TOOL, "probe", "no-such-host.invalid"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("; run 'getent ahosts no-such-host.invalid'", done.stderr)

    def test_tools_answer_while_the_server_does_not(self):
        mounted = self.mount()
        self.server.pause()
        try:
            json.loads(self.run_program(TOOL, "status", mounted.path, "--json", timeout=20))
            json.loads(self.run_program(TOOL, "stats", mounted.path, "--format", "json", timeout=20))
        finally:
            self.server.resume()


if __name__ == "__main__":
    unittest.main()
