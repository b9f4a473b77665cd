# SPDX-License-Identifier: Apache-2.0
"""The same system calls in two directories, by the same people: both must give the same answer.

One directory is on a local file system and is the model; the other is in the mount. A person is a (uid, gid, groups). For each person
there is a process on either side, whose working directory is that side's root.
"""

import errno
import multiprocessing
import os
import socket
import stat
import subprocess
import time

TYPES = ("regular", "directory", "fifo", "block", "character", "socket", "symlink")
TICK = 0.012  # file systems count time in ticks of up to 10 ms


class Calls:
    """The calls that a person can make, besides the functions of `os`, which are called by their names."""

    def __init__(self):
        self.held = {}

    def make(self, kind, path, mode=0o644):
        if kind == "regular":
            os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, mode))
        elif kind == "directory":
            os.mkdir(path, mode)
        elif kind == "symlink":
            os.symlink("nowhere", path)
        elif kind == "socket":
            with socket.socket(socket.AF_UNIX) as made:
                made.bind(path)
        else:
            bits = {"fifo": stat.S_IFIFO, "block": stat.S_IFBLK, "character": stat.S_IFCHR}[kind]
            os.mknod(path, bits | mode, 0 if kind == "fifo" else os.makedev(1, 2))

    def remove(self, path):
        (os.rmdir if stat.S_ISDIR(os.lstat(path).st_mode) else os.unlink)(path)

    def open(self, path, flags, mode=0o644):
        os.close(os.open(path, flags | os.O_NONBLOCK, mode))

    def write(self, path, data=b"data", flags=0):
        fd = os.open(path, os.O_WRONLY | flags, 0o644)
        try:
            return os.write(fd, data)
        finally:
            os.close(fd)

    def read(self, path):
        with open(path, "rb", buffering=0) as file:
            return file.read()

    def run(self, path):
        """execve() of a file that is not a program, if that gets so far: only the permission matters."""
        try:
            return subprocess.run([os.path.abspath(path)], stdin=subprocess.DEVNULL).returncode
        except OSError as error:
            return error.errno == errno.EACCES

    def hold(self, name, path, flags, mode=0o644):
        self.held[name] = os.open(path, flags, mode)

    def drop(self, name):
        os.close(self.held.pop(name))

    def held_do(self, name, function, *args):
        return plain(getattr(os, function)(self.held[name], *args))

    def stat(self, path):
        return plain(os.stat(path))

    def lstat(self, path):
        return plain(os.lstat(path))

    def listdir(self, path):
        return sorted(os.listdir(path))

    def times(self, path):
        found = os.lstat(path)
        return found.st_mtime_ns, found.st_ctime_ns

    def set_times(self, path, atime, mtime):
        os.utime(path, ns=(atime, mtime), follow_symlinks=False)
        found = os.lstat(path)
        return found.st_atime_ns, found.st_mtime_ns

    def same_file(self, one, two):
        return os.path.samestat(os.lstat(one), os.lstat(two))


def plain(value):
    """The fields of a stat result that do not depend on the file system."""
    if not isinstance(value, os.stat_result):
        return value
    size = "any" if stat.S_ISDIR(value.st_mode) else value.st_size
    return {"mode": oct(value.st_mode), "links": value.st_nlink, "uid": value.st_uid, "gid": value.st_gid, "size": size,
            "device": value.st_rdev}


def serve(pipe, root, identity):
    os.chdir(root)
    if identity:
        uid, gid, groups = identity
        os.setgroups(groups)
        os.setgid(gid)
        os.setuid(uid)
    os.umask(0)
    calls = Calls()
    while True:
        try:
            function, args, options = pipe.recv()
        except EOFError:
            return
        try:
            answer = getattr(calls, function, None) or getattr(os, function)
            pipe.send(answer(*args, **options))
        except OSError as error:
            pipe.send(errno.errorcode.get(error.errno, str(error)))


class Twins:
    """`people`: {name: (uid, gid, groups)}; None stands for the user who runs the test."""

    def __init__(self, model, mounted, people):
        self.differences = []
        self.pipes, self.processes = {}, []
        self.watcher = next(iter(people))
        for side, root in (("model", model), ("mounted", mounted)):
            for name, identity in people.items():
                ours, theirs = multiprocessing.Pipe()
                process = multiprocessing.Process(target=serve, args=(theirs, root, identity), daemon=True)
                process.start()
                theirs.close()
                self.pipes[side, name] = ours
                self.processes.append(process)

    def close(self):
        for pipe in self.pipes.values():
            pipe.close()
        for process in self.processes:
            process.terminate()
            process.join()

    def on(self, side, who, function, *args, **options):
        pipe = self.pipes[side, who]
        pipe.send((function, args, options))
        return pipe.recv()

    def do(self, who, function, *args, **options):
        """Makes the call on both sides; returns the model's answer (a value, or an error's name)."""
        want, got = (self.on(side, who, function, *args, **options) for side in ("model", "mounted"))
        if want != got:
            self.differences.append(f"{who}: {function}{args}{options or ''}: {got} instead of {want}")
        return want

    def settle(self, who, function, *args, **options):
        """Repeats the call until both sides give the same answer: for facts that the kernel learns some time after the change."""
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            want, got = (self.on(side, who, function, *args, **options) for side in ("model", "mounted"))
            if want == got:
                return
        self.differences.append(f"{who}: {function}{args}: still {got} instead of {want}")

    def changed(self, paths, who, function, *args, **options):
        """do(); and the objects at `paths` must get a new mtime or ctime on both sides or on neither."""
        before = {side: [self.on(side, self.watcher, "times", path) for path in paths] for side in ("model", "mounted")}
        time.sleep(TICK)
        self.do(who, function, *args, **options)
        moved = {}
        for side, old in before.items():
            new = [self.on(side, self.watcher, "times", path) for path in paths]
            moved[side] = [tuple(a != b for a, b in zip(pair[0], pair[1])) if isinstance(pair[1], tuple) and
                           isinstance(pair[0], tuple) else "gone" for pair in zip(old, new)]
        for path, want, got in zip(paths, moved["model"], moved["mounted"]):
            if want != got:
                self.differences.append(f"{who}: {function}{args}{options or ''}: new (mtime, ctime) of {path}: {got} instead of {want}")
