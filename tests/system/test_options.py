# SPDX-License-Identifier: Apache-2.0
"""The visible effects of mount options: addresses, configuration, logs, signals, background mounts, forced unmounts, owners' names."""

import errno
import json
import os
import pwd
import re
import signal
import socket
import subprocess
import sys
import unittest

from harness.case import HOME, SystemCase, daemons, is_mounted, needs_mount, needs_root, needs_user, steward
from harness.mount import HELPER, Mount, TOOL, mounts
from harness.pausing import pause, resume
from harness.ports import free_port


class OptionCase(SystemCase):
    def helper(self, source, *options, status, port=None):
        """Runs the mount command with only these options; returns its standard error."""
        path = self.local("mnt")
        done = subprocess.run([HELPER, source, path, "-o", ",".join((f"port={port or self.server.port}", *options))],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertEqual(is_mounted(path), status == 0)
        return done.stderr

    def mount_as_given(self, source, options=""):
        """Like mount(), without proto=."""
        mounted = Mount(source, self.server.port, options, proto=None)
        self.mounted.append(mounted)
        return mounted

    def status_of(self, mounted):
        return json.loads(self.run_program(TOOL, "status", mounted.path, "--json"))

    def options_of(self, mounted):
        return self.status_of(mounted)["mount_options"].split(",")

    def log_lines(self, mounted, pattern):
        return [line for line in mounted.log_text().splitlines() if re.search(pattern, line)]

    def wait_for_line(self, mounted, pattern):
        self.wait_until(lambda: self.log_lines(mounted, pattern), f"a line with {pattern} in the log")
        return self.log_lines(mounted, pattern)


@needs_mount()
class Version6(OptionCase):
    """A server at an IPv6 address."""

    SERVER = {"bind": "::1"}

    @classmethod
    def setUpClass(cls):
        try:
            with socket.socket(socket.AF_INET6) as probe:
                probe.bind(("::1", 0))
        except OSError as error:
            raise unittest.SkipTest(f"this machine has no IPv6: {error}")
        super().setUpClass()

    def check(self, mounted, source):
        with open(os.path.join(mounted.path, "file"), "w") as file:
            file.write("content")
        with open(os.path.join(self.server.path(), "file")) as file:
            self.assertEqual(file.read(), "content")
        self.assertIn("proto=tcp6", self.options_of(mounted))
        self.assertEqual([m[0] for m in mounts() if m[1] == mounted.path], [source])
        self.run_program(TOOL, "umount", source)  # umount(8) takes the source, too
        self.assertFalse(is_mounted(mounted.path))

    def test_address_in_brackets(self):
        self.check(self.mount_as_given("[::1]:/export"), "[::1]:/export")
        self.check(self.mount_as_given("[::1]:/export", "proto=tcp6"), "[::1]:/export")

    def test_name_with_tcp6(self):
        try:
            socket.getaddrinfo("localhost", 1, socket.AF_INET6)
        except OSError as error:
            self.skipTest(f"localhost has no IPv6 address here: {error}")
        self.check(self.mount_as_given("localhost:/export", "proto=tcp6"), "localhost:/export")

    def test_tcp_is_version_4_only(self):
        self.assertIn("proto=tcp6", self.helper("[::1]:/export", "proto=tcp", status=1))
        self.assertIn("refused", self.helper("127.0.0.1:/export", "retry=0", status=32))


@needs_mount()
class Effects(OptionCase):
    def test_proto_is_that_of_the_address(self):
        self.assertIn("proto=tcp", self.options_of(self.mount_as_given("127.0.0.1:/export")))
        self.assertIn("IPv4 address", self.helper("127.0.0.1:/export", "proto=tcp6", status=1))

    def test_nconnect_is_the_number_of_connections(self):
        for option in ("nconnect=3", "threads=3", "fuse_threads=3"):
            status = self.status_of(self.mount(option))
            self.assertEqual(len(status["transports"]), 3)

    def test_softerr_gives_up_with_etimedout(self):
        chaos = self.proxy()
        path = self.directory(self.mount("softerr,timeo=10,retrans=1,actimeo=0", port=chaos.port))
        chaos.command("stall")
        with self.assertRaises(OSError) as failed:
            os.stat(os.path.join(path, "name"))
        self.assertEqual(failed.exception.errno, errno.ETIMEDOUT)
        chaos.command("unstall")

    def test_a_spoiled_message_is_logged_once_with_its_xid(self):
        chaos = self.proxy()
        mounted = self.mount("timeo=50,actimeo=0,lookupcache=none", port=chaos.port)
        path = self.directory(mounted)
        count = 0
        for rule in ("on reply GETATTR 1 truncate 8", "on reply GETATTR 1 xid"):
            chaos.command(rule)
            try:
                os.statvfs(path)
            except OSError as error:
                self.assertEqual(error.errno, errno.EIO)
            chaos.wait_triggered(count + 1)
            count += 1
            self.wait_until(lambda: len(self.log_lines(mounted, "(?i)xid")) >= count, "a line with the XID")
            os.statvfs(path)
            lines = self.log_lines(mounted, "(?i)xid")
            self.assertEqual(len(lines), count, lines)
            self.assertRegex(lines[-1], "(?i)xid 0x[0-9a-f]{8}")


@needs_mount()
class Configuration(OptionCase):
    def write(self, name, text):
        path = os.path.join(HOME, name)
        with open(path, "w") as file:
            file.write(text)
        self.addCleanup(os.unlink, path)
        return path

    def test_sections_and_precedence(self):
        path = os.path.join(HOME, "by-place")
        conf = self.write("place.conf", f"""\
[ NFSMount_Global_Options ]
acregmin=11
acregmax=111
acdirmin=12
ac = True
[ Server "127.0.0.1" ]
acregmax=222
acdirmax=223
[ MountPoint "{path}" ]
acdirmax=333
timeo=333
""")
        options = self.options_of(self.mount(f"conf={conf},timeo=444", path=path))
        for expected in ("acregmin=11", "acregmax=222", "acdirmin=12", "acdirmax=333", "timeo=444", f"conf={conf}"):
            self.assertIn(expected, options)

    def test_mistakes_are_named_with_file_and_line(self):
        conf = self.write("wrong.conf", "[ NFSMount_Global_Options ]\nrsiez=4096\n")
        line = self.helper("127.0.0.1:/export", f"conf={conf}", status=1)
        self.assertIn(f"{conf}:2", line)
        self.assertIn("rsize", line)
        self.assertIn("absent.conf", self.helper("127.0.0.1:/export", f"conf={HOME}/absent.conf", status=1))

    def test_sighup_rereads_a_relative_file_and_opens_the_log_anew(self):
        self.write("relative.conf", "[ NFSMount_Global_Options ]\nlog_level=warning\nacregmin=5\n")
        before = os.getcwd()
        os.chdir(HOME)
        try:
            mounted = self.mount("conf=relative.conf")
        finally:
            os.chdir(before)
        self.assertEqual(self.run_program(TOOL, "log-level", mounted.path), "warning\n")
        self.write_again("relative.conf", "[ NFSMount_Global_Options ]\nlog_level=debug\nacregmin=6\n")
        os.rename(mounted.log, mounted.log + ".1")
        os.kill(mounted.pid, signal.SIGHUP)
        self.wait_for_line(mounted, "reloaded")
        self.assertTrue(self.log_lines(mounted, "not changed while mounted: acregmin=6"))
        self.assertEqual(self.run_program(TOOL, "log-level", mounted.path), "debug\n")
        self.assertIn("acregmin=5", self.options_of(mounted))
        self.write_again("relative.conf", "nonsense\n")
        os.kill(mounted.pid, signal.SIGHUP)
        self.wait_for_line(mounted, "reload: .*relative.conf:1")
        self.assertEqual(self.run_program(TOOL, "log-level", mounted.path), "debug\n", "as it was")

    def write_again(self, name, text):
        with open(os.path.join(HOME, name), "w") as file:
            file.write(text)


@needs_mount()
class Logs(OptionCase):
    def test_standard_error_of_a_background_daemon_is_kept_at_sighup(self):
        path = self.local("mnt")
        said = os.path.join(HOME, "stderr.log")
        with open(said, "w") as file:
            argv = [HELPER, "127.0.0.1:/export", path, "-o", f"port={self.server.port},proto=tcp,log=stderr"]
            subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=file, stderr=file, check=True, timeout=60)
        (pid,) = daemons(path)
        os.kill(pid, signal.SIGHUP)

        def reloaded():
            with open(said) as file:
                return "reloaded" in file.read()
        self.wait_until(reloaded, "it is said where the daemon has begun to write")
        self.run_program(TOOL, "umount", path)

    def test_level_while_mounted(self):
        mounted = self.mount()
        self.assertEqual(self.run_program(TOOL, "log-level", mounted.path), "info\n")
        for level in ("trace", "debug", "error"):
            self.assertEqual(self.run_program(TOOL, "log-level", mounted.path, level), "")
            self.assertEqual(self.run_program(TOOL, "log-level", mounted.path), level + "\n")
            self.assertEqual(self.status_of(mounted)["log_level"], level)
        done = subprocess.run([TOOL, "log-level", mounted.path, "loud"], capture_output=True, text=True, timeout=30)
        self.assertEqual(done.returncode, 1)
        self.assertIn("error, warning, info, debug and trace", done.stderr)
        self.run_program(TOOL, "log-level", "/proc", status=3)

    def test_sigusr1_logs_the_statistics_and_sigusr2_the_next_level(self):
        mounted = self.mount()
        os.listdir(mounted.path)
        self.assertEqual(self.log_lines(mounted, "READDIR"), [])
        os.kill(mounted.pid, signal.SIGUSR1)
        self.wait_for_line(mounted, "READDIR +1 ")
        self.wait_for_line(mounted, "transport +tcp")
        for level in ("debug", "trace", "info"):
            os.kill(mounted.pid, signal.SIGUSR2)
            self.wait_for_line(mounted, f"log_level={level}$")
            self.assertEqual(self.run_program(TOOL, "log-level", mounted.path), level + "\n")

    def test_a_file_in_json(self):
        mounted = self.mount("log_format=json")
        lines = [json.loads(line) for line in mounted.log_text().splitlines()]
        self.assertTrue(any(line["message"].startswith("mounted ") for line in lines), lines)
        self.assertEqual({line["mount_point"] for line in lines}, {mounted.path})
        self.assertEqual(os.stat(mounted.log).st_mode & 0o777, 0o600, "nobody else reads it")

    def test_the_journal(self):
        steward.run(["mkdir", "-p", "-m", "777", "/run/systemd/journal"])
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as journal:
            journal.bind("/run/systemd/journal/socket")
            self.addCleanup(os.unlink, "/run/systemd/journal/socket")
            journal.settimeout(30)
            mounted = self.mount("log=journal")
            entry = journal.recv(65536).decode()
            while f"MESSAGE={mounted.path}: mounted {mounted.source}" not in entry:
                entry = journal.recv(65536).decode()
            self.assertIn("SYSLOG_IDENTIFIER=nfsrdma-fuse\n", entry)
            self.assertIn(f"NFSRDMA_MOUNT_POINT={mounted.path}\n", entry)
            mounted.umount()

    def test_no_journal(self):
        self.assertIn("journal", self.helper("127.0.0.1:/export", "log=journal", status=2))

    def test_standard_error_in_the_foreground(self):
        path = self.local("mnt")
        process = self.start_program(TOOL, "mount", "127.0.0.1:/export", path, "-f", "-o", f"port={self.server.port}",
                                     stderr=subprocess.PIPE)
        self.wait_until(lambda: is_mounted(path), "it is mounted")
        self.run_program(TOOL, "umount", path)
        self.assertEqual(process.wait(60), 0)
        text = process.stderr.read()
        process.stderr.close()
        self.assertRegex(text, r"(?m)^\d{4}-\d\d-\d\dT\S+ info +\S+: mounted 127.0.0.1:/export")


@needs_mount()
class Background(OptionCase):
    def test_bg_mounts_when_the_server_comes(self):
        port = free_port()
        path = self.local("mnt")
        log = os.path.join(HOME, "background.log")
        self.run_program(HELPER, "127.0.0.1:/export", path, "-o", f"bg,port={port},log={log}")
        self.assertFalse(is_mounted(path))
        self.assertEqual(len(daemons(path)), 1)
        late = self.server.__class__("server.bg", port=port).start()
        self.addCleanup(late.kill)
        self.wait_until(lambda: is_mounted(path), "the mount comes with the server", 60)
        os.mkdir(os.path.join(path, "works"))
        self.run_program(TOOL, "umount", path)
        self.wait_until(lambda: not daemons(), "the daemon ends")
        with open(log) as file:
            self.assertIn("in the background", file.read())

    def test_bg_says_what_is_final_and_ends_when_told_to(self):
        self.assertIn("/absent", self.helper("127.0.0.1:/absent", "bg", status=32))
        path = self.local("mnt")
        self.run_program(HELPER, "127.0.0.1:/export", path, "-o", f"bg,port={free_port()},log={HOME}/ended.log")
        pid, = daemons(path)
        os.kill(pid, signal.SIGTERM)
        self.wait_until(lambda: not daemons(), "the daemon ends")


@needs_mount()
class Unmount(OptionCase):
    def leave_unwritten(self, mounted, name):
        """Kills a process and so leaves data that a silent server has not taken."""
        program = "import os,sys; fd=os.open(sys.argv[1],os.O_CREAT|os.O_WRONLY); print(flush=True); input(); " \
                  "os.write(fd,b'x'*100000); print(flush=True); os.read(0,1)"
        path = os.path.join(mounted.path, name)
        writer = subprocess.Popen([sys.executable, "-c", program, path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.started.append(writer)
        writer.stdout.readline()
        self.server.pause()
        writer.stdin.write("\n")
        writer.stdin.flush()
        writer.stdout.readline()
        writer.kill()
        self.assertEqual(writer.wait(60), -signal.SIGKILL)
        writer.stdin.close()
        writer.stdout.close()

    def run_umount(self, *argv):
        done = subprocess.run([TOOL, "umount", *argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def test_force_gives_up_what_the_server_does_not_take(self):
        mounted = self.mount("timeo=600")
        self.leave_unwritten(mounted, "given-up")
        try:
            status, said = self.run_umount("--force", mounted.path)
        finally:
            self.server.resume()
        self.assertEqual(status, 4, said)
        self.assertIn("100000 bytes were given up", said)
        self.assertFalse(is_mounted(mounted.path))
        self.assertEqual(daemons(), [])

    def test_force_is_quiet_when_nothing_is_lost(self):
        mounted = self.mount("timeo=600")
        os.mkdir(os.path.join(mounted.path, "made"))
        self.server.pause()
        try:
            self.assertEqual(self.run_umount("--force", mounted.path), (0, ""))
        finally:
            self.server.resume()
        self.assertFalse(is_mounted(mounted.path))
        self.assertEqual(daemons(), [])

    def force_away(self, command, mounted, pid, status=4):
        """Runs a forced unmount of a mount whose daemon is stopped, and continues the daemon, which ends."""
        pause(pid)
        try:
            done = subprocess.run([*command, mounted.path], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, status, done.stderr)
            self.assertIn(f"process {pid}, does not answer; data that it has not written is given up", done.stderr)
            self.assertFalse(is_mounted(mounted.path))
            self.assertEqual(daemons(), [pid])
        finally:
            resume(pid)
        self.wait_until(lambda: not daemons(), "the daemon ends")
        self.assertTrue(self.log_lines(mounted, "told to give up"))
        self.assertEqual(self.log_lines(mounted, r"\[error\]"), [])

    def test_force_does_not_wait_for_a_stopped_daemon(self):
        # umount(8) runs the helper, whose exit statuses do not include "done with a warning".
        for command, status in (([TOOL, "umount", "--force"], 4), (["umount", "-f"], 0)):
            mounted = self.mount("timeo=600")
            os.mkdir(os.path.join(mounted.path, os.path.basename(command[0])))
            self.force_away(command, mounted, mounted.pid, status)

    def test_force_takes_away_a_stopped_daemons_mount_that_is_in_use(self):
        mounted = self.mount("timeo=600")
        pid, name = mounted.pid, os.path.join(mounted.path, "open")
        holder = self.start_program(sys.executable, "-c", "import sys, time; f=open(sys.argv[1],'w'); print(flush=True); time.sleep(600)", name,
                                    stdout=subprocess.PIPE)
        holder.stdout.readline()
        self.leave_unwritten(mounted, "unwritten")
        self.server.resume()
        self.force_away([TOOL, "umount", "--force"], mounted, pid)
        holder.kill()

    @needs_root()
    def test_a_busy_mount_becomes_read_only_with_umount_r(self):
        # The helper alone: umount(8) may not need it.
        mounted = self.mount()
        pid, name = mounted.pid, os.path.join(mounted.path, "file")
        with open(name, "w"):
            pass
        with open(name):
            done = subprocess.run(["/sbin/umount.fuse.rpcrdma", mounted.path, "-r"], capture_output=True, text=True, timeout=60)
            self.assertEqual(done.returncode, 0, done.stderr)
            self.assertIn("busy; remounted read-only", done.stderr)
            with self.assertRaises(OSError) as failed:
                open(name, "w")
        self.assertEqual(failed.exception.errno, errno.EROFS)
        self.assertIn("ro", next(options for _, path, _, options in mounts() if path == mounted.path).split(","))
        self.assertEqual(daemons(), [pid])

    def test_timeout_ends_the_waiting_not_the_writing(self):
        mounted = self.mount("timeo=600")
        self.leave_unwritten(mounted, "written-late")
        pid = mounted.pid
        try:
            status, said = self.run_umount("--timeout", "1", mounted.path)
            self.assertEqual(status, 1, said)
            self.assertIn(f"process {pid} still waits for the server", said)
            self.assertEqual(daemons(), [pid])
        finally:
            self.server.resume()
        self.wait_until(lambda: not daemons(), "the daemon has written everything and ends", 60)
        self.assertEqual(os.stat(os.path.join(self.server.path(), "written-late")).st_size, 100000)


@needs_mount()
class Remount(OptionCase):
    @needs_root()
    def test_what_the_kernel_keeps_can_be_changed(self):
        mounted = self.mount("acregmin=7")
        name = os.path.join(mounted.path, "file")
        self.run_program("mount", "-o", "remount,ro", mounted.path)
        with self.assertRaises(OSError) as failed:
            open(name, "w")
        self.assertEqual(failed.exception.errno, errno.EROFS)
        self.run_program("mount", "-o", "remount,rw,noexec", mounted.path)
        with open(name, "w") as file:
            file.write("#!/bin/sh\n")
        os.chmod(name, 0o755)
        with self.assertRaises(PermissionError):
            subprocess.run([name], check=True)
        self.run_program("mount", "-o", "remount,exec,acregmin=7", mounted.path)
        self.assertIn("rw", self.options_of(mounted))
        subprocess.run([name], check=True)
        done = subprocess.run(["mount", "-o", "remount,acregmin=8", mounted.path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("acregmin cannot be changed by remount", done.stderr)
        self.helper("127.0.0.1:/export", "remount", status=32)

    def remount(self, mounted, options, status):
        done = subprocess.run(["mount", "-o", f"remount,{options}", mounted.path], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, status, f"{options}: {done.stderr}")
        return done.stderr

    @needs_root()
    def test_what_only_a_new_mount_changes_is_refused(self):
        mounted = self.mount("actimeo=7,sync,bg,nodelegations,rsize=65536")
        for option in ("actimeo=8", "v3", "fg", "delegations", "rsize=0", "proto=auto"):
            said = self.remount(mounted, option, 1)
            self.assertIn(f"option {option.split('=')[0]} cannot be changed by remount", said)
        # mount(8) does not pass this option on.
        done = subprocess.run([HELPER, "127.0.0.1:/export", mounted.path, "-o", "remount,async"], capture_output=True, text=True, timeout=60)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("option async cannot be changed by remount", done.stderr)
        self.remount(mounted, "ro,actimeo=7,acregmax=7,sync,bg,nodelegations,rsize=64k,v4.1,vers=4,minorversion=1,tcp,proto=tcp", 0)
        self.assertIn("ro", self.options_of(mounted))
        self.remount(mounted, "rw,noatime,nosuid,_netdev,xprtsec=none,cto,noccp,rdmavers=auto,poll_us=0", 0)
        self.assertIn("rw", self.options_of(mounted))

    @needs_root()
    def test_a_transport_that_was_found_may_be_asked_for_again(self):
        mounted = self.mount_as_given("127.0.0.1:/export")
        self.remount(mounted, "ro,proto=auto", 0)
        self.assertIn("proto=tcp", self.options_of(mounted))
        self.remount(mounted, "rw,proto=tcp", 0)

    @needs_root()
    def test_a_read_only_mount_becomes_writable(self):
        mounted = self.mount("ro")
        name = os.path.join(mounted.path, "file")
        for attempt in (lambda: open(name, "w"), lambda: os.mkdir(name), lambda: os.unlink(name)):
            with self.assertRaises(OSError) as failed:
                attempt()
            self.assertEqual(failed.exception.errno, errno.EROFS)
        self.assertIn("ro", self.options_of(mounted))
        self.run_program("mount", "-o", "remount,rw", mounted.path)
        self.assertIn("rw", self.options_of(mounted))
        with open(name, "w") as file:
            file.write("text")
        with open(name, "r+") as file:
            self.assertEqual(file.read(), "text")
        self.assertTrue(os.access(name, os.W_OK))

    @needs_user()
    def test_it_takes_root(self):
        self.assertIn("only root", self.helper("127.0.0.1:/export", "remount,ro", status=1))


@needs_mount()
class Names(OptionCase):
    """A server that sends owners as names, not as numbers."""

    SERVER = {"numeric_owners": False}

    def test_nfsidmap(self):
        games = pwd.getpwnam("games")
        steward.write_file(os.path.join(self.server.path(), "file"), "text")
        steward.call("chown", os.path.join(self.server.path(), "file"), games.pw_uid, games.pw_gid)
        numeric = os.stat(os.path.join(self.mount("idmap=numeric").path, "file"))
        self.assertEqual((numeric.st_uid, numeric.st_gid), (65534, 65534), "the server sends no numbers")
        mounted = self.mount("idmap=nfsidmap")
        named = os.stat(os.path.join(mounted.path, "file"))
        self.assertEqual((named.st_uid, named.st_gid), (games.pw_uid, games.pw_gid))
        if os.getuid() == 0:
            mail = pwd.getpwnam("mail")
            os.chown(os.path.join(mounted.path, "file"), mail.pw_uid, mail.pw_gid)
            seen = os.stat(os.path.join(self.server.path(), "file"))
            self.assertEqual((seen.st_uid, seen.st_gid), (mail.pw_uid, mail.pw_gid))


@needs_mount()
class Groups(OptionCase):
    """RFC 5531: AUTH_SYS carries at most 16 groups."""

    GROUPS = range(4_000_000, 4_000_020)

    @needs_root("root, who gives itself groups")
    def test_the_first_sixteen_are_sent(self):
        path = self.directory(self.mount())
        os.chmod(path, 0o755)
        os.chmod(HOME, 0o755)
        for number in (0, 15, 16, 19):
            name = os.path.join(path, f"g{number}")
            os.mkdir(name)
            os.chown(name, 0, self.GROUPS[number])
            os.chmod(name, 0o770)
        program = "import os,sys\nfor n in sys.argv[2:]:\n try: os.mkdir(f'{sys.argv[1]}/g{n}/new'); print(n)\n except PermissionError: pass"
        done = subprocess.run([sys.executable, "-c", program, path, "0", "15", "16", "19"], user=1 << 20, group=3_000_000,
                              extra_groups=list(self.GROUPS), capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertEqual(done.stdout.split(), ["0", "15"])

    @needs_root("root, who gives a user groups")
    def test_a_user_of_many_groups_mounts_and_works(self):
        path = self.local("mnt")
        os.chmod(HOME, 0o755)
        user = pwd.getpwnam("games")  # fusermount3 needs a user with a name
        os.chown(path, user.pw_uid, user.pw_gid)
        many = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": list(self.GROUPS), "capture_output": True, "text": True}
        options = f"port={self.server.port},log=/dev/null"
        done = subprocess.run([HELPER, "127.0.0.1:/export", path, "-o", options], timeout=60, **many)
        self.assertEqual(done.returncode, 0, done.stderr)
        program = "import os,sys; os.mkdir(sys.argv[1]+'/mine'); print(os.stat(sys.argv[1]+'/mine').st_uid)"
        done = subprocess.run([sys.executable, "-c", program, path], timeout=60, **many)
        self.assertEqual((done.returncode, done.stdout), (0, f"{user.pw_uid}\n"), done.stderr)
        self.run_program(TOOL, "umount", path)
        self.wait_until(lambda: not daemons(), "the daemon ends")


if __name__ == "__main__":
    unittest.main()
