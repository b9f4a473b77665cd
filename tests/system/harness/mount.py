# SPDX-License-Identifier: Apache-2.0
"""Mounts of the program under test."""

import glob
import json
import os
import subprocess
import time

from . import steward
from .steward import WORK

HELPER = os.path.join(WORK, "bin/mount.nfsrdma-fuse")
TOOL = os.path.join(WORK, "bin/nfsrdma-fuse")
# NFSRDMA_TEST_CONTROL=1: the "mounts" are bind mounts of the exported directory. A failure there is a defect of the
# test.
CONTROL = os.environ.get("NFSRDMA_TEST_CONTROL") == "1"
# Options for every mount of the run, in front of the test's own.
OPTIONS = os.environ.get("NFSRDMA_TEST_OPTIONS", "")


def mounts():
    """[(source, mount point, type, options)] of /proc/self/mounts."""
    with open("/proc/self/mounts") as table:
        return [tuple(part.encode().decode("unicode_escape") for part in line.split()[:4]) for line in table]


def is_mounted(path):
    return any(point == path for _, point, _, _ in mounts())


def control_socket(path):
    """The path of the control socket of this user's mount at `path`."""
    device, uid = os.stat(path).st_dev, os.getuid()
    places = ["/run/nfsrdma-fuse" if uid == 0 else f"/run/user/{uid}/nfsrdma-fuse", f"/tmp/nfsrdma-fuse-{uid}"]
    sockets = [f"{place}/{os.major(device)}-{os.minor(device)}.sock" for place in places]
    (found,) = filter(os.path.exists, sockets)
    return found


def daemons(path=None):
    """The pids of the program's daemons; with `path` only of the one that serves it."""
    found = []
    for entry in glob.glob("/proc/[0-9]*"):
        try:
            with open(entry + "/cmdline", "rb") as file:
                argv = file.read().split(b"\0")
            with open(entry + "/stat") as file:
                state = file.read().rsplit(")", 1)[1].split()[0]
        except OSError:
            continue
        if state == "Z" or not argv or os.path.basename(argv[0]) not in (b"mount.nfsrdma-fuse", b"nfsrdma-fuse"):
            continue
        if path is None or path.encode() in argv:
            found.append(int(entry[6:]))
    return found


class Mount:
    """One mount. `path` is usable when the constructor returns; `log` is the daemon's log file."""

    count = 0

    def __init__(self, source, port, options="", path=None, control_path=None, timeout=60, helper=None, proto="tcp"):
        Mount.count += 1
        home = os.environ["HOME"]
        self.path = path or os.path.join(home, f"mnt{Mount.count}")
        self.log = os.path.join(home, f"daemon{Mount.count}.log")
        self.source = source
        self.control = CONTROL and control_path is not None
        os.makedirs(self.path, exist_ok=True)
        if self.control:
            steward.run(["mount", "--bind", control_path, self.path])
            return
        joined = ",".join(part for part in (f"port={port}", proto and f"proto={proto}", f"log={self.log}", OPTIONS, options) if part)
        argv = [*(helper or [HELPER]), source, self.path, "-o", joined]
        done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
        if done.returncode != 0 or not is_mounted(self.path):
            raise RuntimeError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr}{done.stdout}\n{self.log_text()}")

    @property
    def pid(self):
        found = daemons(self.path)
        if len(found) != 1:
            raise RuntimeError(f"{len(found)} daemons serve {self.path}: {found}")
        return found[0]

    def log_text(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, errors="replace") as file:
            return file.read()

    def stats(self):
        """`nfsrdma-fuse stats DIR --format json`."""
        out = subprocess.run([TOOL, "stats", self.path, "--format", "json"], capture_output=True, text=True, timeout=30)
        if out.returncode != 0:
            raise RuntimeError(f"stats: status {out.returncode}: {out.stderr}")
        return json.loads(out.stdout)

    def keep_kernel_from_reading_ahead(self, kilobytes=128):
        """Limits root's kernel, which would read far ahead by itself; an ordinary user's has this limit anyway."""
        device = os.stat(self.path).st_dev
        if os.getuid() == 0 and not self.control:
            with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb", "w") as limit:
                limit.write(str(kilobytes))

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def umount(self, timeout=60, command=None):
        """Unmounts and waits until the daemon has ended, too."""
        if not is_mounted(self.path):
            return
        if self.control:
            steward.run(["umount", self.path])
            return
        found = daemons(self.path)
        argv = command or (["umount", self.path] if os.getuid() == 0 else ["fusermount3", "-u", self.path])
        deadline = time.monotonic() + timeout
        while True:
            done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=timeout)
            if done.returncode == 0:
                break
            if "busy" not in done.stderr or time.monotonic() > deadline:
                raise RuntimeError(f"{' '.join(argv)}: status {done.returncode}: {done.stderr}{done.stdout}")
            time.sleep(0.1)  # a process that has just ended may still be closing its files
        while any(os.path.exists(f"/proc/{pid}") and pid in daemons() for pid in found):
            if time.monotonic() > deadline:
                raise RuntimeError(f"the daemon of {self.path} is still there {timeout} s after the unmount")
            time.sleep(0.02)
        defects = [line for line in self.log_text().splitlines() if "internal error: " in line]
        if defects:
            raise AssertionError("the daemon met a defect of its own:\n" + "\n".join(defects))
