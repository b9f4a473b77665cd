# SPDX-License-Identifier: Apache-2.0
"""Process 1 of a test's private world: prepares it, runs the test, serves it as root, ends everything.

Argument vector: BUILD IDENTITY USER TIMEOUT OUT (test|verbose MODULE... | script FILE ARG...), see run.py. Single
thread, one poll loop. It prepares, all inside its own namespaces:
- none of our mounts, whatever is mounted outside;
- loopback up, with one more address so that AI_ADDRCONFIG finds IPv4 and IPv6 usable;
- WORK (a fresh tmpfs): bin/ = the build's cli/, build/ = the build, src/ = this folder's parent, out/ = OUT,
  the documents, if the sources have them, because an ordinary user may not be able to read these there,
  desktop/ = packaging/desktop and gdb/ = scripts/gdb;
- the kernel's list of FUSE connections, which systemd mounts elsewhere;
- an empty /run (no rpcbind, no D-Bus, no utab of the host's); /dev/fuse open to users, as udev has it elsewhere;
- /sbin/mount.nfsrdma-fuse, /sbin/mount.fuse.rpcrdma and /sbin/umount.fuse.rpcrdma, so that mount(8) finds the helper.
The test talks to it over a socket in the environment (NFSRDMA_STEWARD): one JSON line per request and answer,
see steward.py for the calls. A closed stdin means that run.py is gone.
"""

import fcntl
import json
import os
import pwd
import re
import resource
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def sh(*argv):
    subprocess.run(argv, check=True, stdin=subprocess.DEVNULL)


def pick_work():
    """A directory of every Debian system that can be covered by a mount without hiding the sources or the build."""
    precious = [os.path.realpath(p) for p in sys.argv[1:2] + sys.argv[5:6] + [__file__, sys.executable]]
    for candidate in ("/mnt", "/media", "/srv", "/opt"):
        if os.path.isdir(candidate) and not any(p.startswith(candidate + "/") for p in precious):
            return candidate
    raise SystemExit("no directory to put a tmpfs on: /mnt, /media, /srv and /opt are taken")


def bring_up_loopback():
    """Calls SIOCSIFADDR and SIOCSIFFLAGS itself: iproute2 is not always installed."""
    SIOCSIFADDR, SIOCSIFFLAGS, UP_RUNNING = 0x8916, 0x8914, 0x41
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        fcntl.ioctl(sock, SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", UP_RUNNING))
        address = struct.pack("HH4s8x", socket.AF_INET, 0, socket.inet_aton("192.0.2.1"))
        fcntl.ioctl(sock, SIOCSIFADDR, struct.pack("16s16s8x", b"lo:1", address))
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as sock:
            address = socket.inet_pton(socket.AF_INET6, "2001:db8::1")
            fcntl.ioctl(sock, SIOCSIFADDR, struct.pack("16sIi", address, 128, socket.if_nametoindex("lo")))
    except OSError as error:
        print(f"no IPv6 here: {error}", file=sys.stderr)


def forget_outer_mounts():
    """Unmounts mounts of ours from outside: `nfsrdma-fuse status` would list them here, and they would outlive their daemon."""
    with open("/proc/self/mountinfo", encoding="utf-8", errors="surrogateescape") as file:
        mounts = [line.split(" - ") for line in file]
    for place, kind in reversed(mounts):
        if kind.split()[0] == "fuse.rpcrdma":
            # The kernel escapes characters in octal (proc_pid_mountinfo(5)). The mount may already be gone with one
            # that contained it.
            path = re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), place.split()[4])
            subprocess.run(["umount", "--lazy", path], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def bind_helpers(work):
    """Puts the mount helpers into /sbin by covering it with a directory of links; nothing on disk changes."""
    real = os.path.join(work, "sbin.real")
    cover = os.path.join(work, "sbin")
    target = os.path.realpath("/sbin")
    os.mkdir(real)
    os.mkdir(cover)
    sh("mount", "--bind", target, real)
    for name in os.listdir(real):
        path = os.path.realpath(os.path.join(target, name))  # Debian 13 has relative links to other directories
        os.symlink(os.path.join(real, os.path.relpath(path, target)) if path.startswith(target + "/") else path, os.path.join(cover, name))
    for helper in ("mount.nfsrdma-fuse", "mount.fuse.rpcrdma", "umount.fuse.rpcrdma"):
        path = os.path.join(cover, helper)
        if os.path.lexists(path):
            os.unlink(path)
        os.symlink(os.path.join(work, "bin", "mount.nfsrdma-fuse" if helper[0] == "m" else "nfsrdma-fuse"), path)
    sh("mount", "--bind", cover, target)


def prepare(work, build, out):
    sh("mount", "-t", "tmpfs", "-o", "mode=755,size=80%", "nfsrdma-test", work)
    source = os.path.abspath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.."))
    for name in ("bin", "build", "docs", "src", "tmp", "out"):
        os.mkdir(os.path.join(work, name))
    os.chmod(os.path.join(work, "tmp"), 0o1777)
    cli = os.path.join(build, "cli")
    if os.path.isdir(cli):
        sh("mount", "--bind", cli, os.path.join(work, "bin"))
    sh("mount", "--bind", build, os.path.join(work, "build"))
    sh("mount", "--bind", os.path.join(source, "tests"), os.path.join(work, "src"))
    os.symlink("src", os.path.join(work, "tests"))
    sh("mount", "--bind", os.path.join(source, "docs"), os.path.join(work, "docs"))
    for document in ("README.md", "CONTRIBUTING.md"):
        shutil.copy(os.path.join(source, document), work)
    # In a nested world the sources are the outer world's directory.
    for parent, name in (("packaging", "desktop"), ("scripts", "gdb")):
        folder = os.path.join(source, parent, name)
        shutil.copytree(folder if os.path.isdir(folder) else os.path.join(source, name), os.path.join(work, name))
    if out != "-":
        os.makedirs(out, exist_ok=True)
        sh("mount", "--bind", out, os.path.join(work, "out"))
    if os.path.exists("/dev/fuse") and os.stat("/dev/fuse").st_mode & 0o666 != 0o666:
        node = os.path.join(work, "fuse")
        os.mknod(node, 0o020666, os.stat("/dev/fuse").st_rdev)
        os.chmod(node, 0o666)
        sh("mount", "--bind", node, "/dev/fuse")
    connections = "/sys/fs/fuse/connections"
    if os.path.isdir(connections) and not os.path.ismount(connections):
        sh("mount", "-t", "fusectl", "fusectl", connections)
    # The sockets of rpcbind and D-Bus and mount(8)'s utab are there: the world has its own, or none.
    sh("mount", "-t", "tmpfs", "-o", "mode=755", "tmpfs", "/run")
    os.mkdir("/run/lock")
    if os.path.exists(os.path.join(cli, "mount.nfsrdma-fuse")):
        bind_helpers(work)


def identity_of(name, user):
    """(uid, gid, supplementary groups, HOME-less environment name)"""
    if name == "root":
        return 0, 0, []
    if ":" in user:
        uid, gid = map(int, user.split(":"))
        try:
            return uid, gid, os.getgrouplist(pwd.getpwuid(uid).pw_name, gid)
        except KeyError:
            return uid, gid, [gid]
    entry = pwd.getpwnam(user)
    return entry.pw_uid, entry.pw_gid, [entry.pw_gid]


class Steward:
    """Runs commands as root for the test. The main loop reaps spawned children into `ended`."""

    def __init__(self, sock):
        self.sock = sock
        self.buffer = b""
        self.ended = {}
        self.pending = []  # (pid, deadline) of each `wait` that is not answered yet

    def readable(self):
        data = self.sock.recv(1 << 20)
        if not data:
            return False
        self.buffer += data
        while b"\n" in self.buffer:
            line, self.buffer = self.buffer.split(b"\n", 1)
            request = json.loads(line)
            try:
                answer = getattr(self, "do_" + request.pop("call"))(**request)
            except Exception as error:  # becomes an exception in the test
                answer = {"error": f"{type(error).__name__}: {error}"}
            if answer is not None:
                self.answer(answer)
        return True

    def answer(self, message):
        self.sock.sendall(json.dumps(message).encode() + b"\n")

    def do_spawn(self, argv, stdout, env=None, cwd="/", nofile=None):
        def limits():
            if nofile:
                _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
                most = nofile if hard == resource.RLIM_INFINITY else min(nofile, hard)
                resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
        with open(stdout, "ab") as out:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd=cwd,
                                     env={**os.environ, **(env or {})}, preexec_fn=limits, start_new_session=True)
        child.returncode = 0  # the main loop reaps it
        return {"pid": child.pid}

    def do_kill(self, pid, signum):
        if pid in self.ended:
            return {"gone": True}
        os.kill(pid, signum)
        return {"gone": False}

    def do_wait(self, pid, timeout):
        self.pending.append((pid, time.monotonic() + timeout))
        self.settle()

    def do_write(self, path, text, mode):
        with open(path, "w") as file:
            file.write(text)
        os.chmod(path, mode)
        return {}

    def do_call(self, name, args):
        """Calls a function of os by its name, as root."""
        result = getattr(os, name)(*args)
        return {"result": result if isinstance(result, (int, str, list, type(None))) else None}

    def settle(self):
        """Answers every wait whose child has ended or whose time is over."""
        for entry in list(self.pending):
            pid, deadline = entry
            if pid in self.ended:
                self.pending.remove(entry)
                self.answer({"status": self.ended[pid]})
            elif time.monotonic() >= deadline:
                self.pending.remove(entry)
                self.answer({"status": None})


def reap(steward):
    """Collects every ended child, including adopted ones; returns {pid: status} of this round."""
    found = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return found
        if pid == 0:
            return found
        found[pid] = os.waitstatus_to_exitcode(status)
        steward.ended[pid] = found[pid]


def start_test(work, identity, sock, mode, what):
    uid, gid, groups = identity
    home = os.path.join(work, "tmp", "home")
    os.makedirs(home)
    os.chown(home, uid, gid)
    pid = os.fork()
    if pid:
        return pid
    try:
        sock.set_inheritable(True)
        os.setsid()
        os.setgroups(groups)
        os.setresgid(gid, gid, gid)
        os.setresuid(uid, uid, uid)
        os.chdir(home)
        modules = ":".join(os.path.join(work, "src", folder) for folder in ("system", "interop"))
        os.environ.update(NFSRDMA_STEWARD=str(sock.fileno()), NFSRDMA_WORK=work, HOME=home, TMPDIR=home, LC_ALL="C.UTF-8",
                          PYTHONDONTWRITEBYTECODE="1", PYTHONUNBUFFERED="1", PYTHONPATH=modules, PATH=PATH)
        for stray in ("XDG_RUNTIME_DIR", "DBUS_SESSION_BUS_ADDRESS", "SUDO_COMMAND"):
            os.environ.pop(stray, None)
        os.umask(0o022)
        if mode == "script":
            script = os.path.relpath(what[0], os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
            argv = ["/usr/bin/python3", os.path.join(work, "src", script), *what[1:]]
        else:
            argv = ["/usr/bin/python3", "-m", "unittest", *(["-v"] if mode == "verbose" else []), *what]
        os.execv(argv[0], argv)
    finally:
        os._exit(127)


def main():
    build, identity, user, timeout, out, mode, *what = sys.argv[1:]
    deadline = time.monotonic() + float(timeout)
    # For process 1 the kernel ignores signals with the default action. run.py handles the terminal's signals.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    os.environ["PATH"] = PATH
    work = pick_work()
    forget_outer_mounts()
    bring_up_loopback()
    prepare(work, build, out)
    ours, theirs = socket.socketpair()
    steward = Steward(ours)
    wake_read, wake_write = os.pipe()
    os.set_blocking(wake_write, False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
    test = start_test(work, identity_of(identity, user), theirs, mode, what)
    theirs.close()
    poll = select.poll()
    for fd in (0, ours.fileno(), wake_read):
        poll.register(fd, select.POLLIN)
    while True:
        events = dict(poll.poll(100))
        if 0 in events:  # nothing is ever written to stdin, so this is its end
            print("the caller is gone: ending the test", file=sys.stderr)
            return 130
        if wake_read in events:
            os.read(wake_read, 4096)
        ended = reap(steward)
        steward.settle()
        if test in ended:
            return ended[test] if ended[test] >= 0 else 128 - ended[test]
        if time.monotonic() > deadline:
            print(f"no end within {timeout} s: ending the test", file=sys.stderr)
            return 124
        if ours.fileno() in events and not steward.readable():
            poll.unregister(ours.fileno())


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)
