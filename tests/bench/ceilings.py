"""What any file system in user space, and any network client behind it, at best reaches on this machine.

  empty FUSE   tests/bench/nullfs: what FUSE costs when nothing is behind it
  relay        nullfs --relay: the same with each byte crossing a TCP connection to a process that does nothing with it
"""

import os
import subprocess
import time

from harness.mount import is_mounted
from measure import HOME, TOOLS, Process

EMPTY, RELAY = "empty FUSE", "relay"
CEILINGS = {
    EMPTY: ("ceiling", "a FUSE file system that answers from one buffer: what FUSE leaves to anybody"),
    RELAY: ("ceiling", "the same with every byte crossing a TCP connection to a process that does nothing with it: what a network client can reach"),
}


class Ceiling:
    """One of the two, mounted."""

    def __init__(self, name, size, files, window=None):
        self.path = os.path.join(HOME, "ceiling." + name.replace(" ", "-"))
        os.makedirs(self.path, exist_ok=True)
        relay = ["--relay"] if name == RELAY else []
        self.process = subprocess.Popen([os.path.join(TOOLS, "nullfs"), "--size", str(size), "--files", str(files), *relay, self.path])
        deadline = time.monotonic() + 20
        while not is_mounted(self.path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"nullfs did not mount {self.path}")
            time.sleep(0.01)
        self.daemon = Process(self.process.pid)
        if window:
            set_read_ahead(self.path, window)

    def umount(self):
        subprocess.run(["umount", self.path], check=True)
        self.process.wait(30)


def control(path):
    device = os.stat(path).st_dev
    return f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"


def read_ahead(path):
    """The kernel's read-ahead window of a mount in KiB; None where it is not shown."""
    try:
        with open(control(path)) as file:
            return int(file.read())
    except OSError:
        return None


def set_read_ahead(path, window):
    """As root the daemon sets its mount's; the ceilings get the same. Left alone where /sys is read-only, as in containers."""
    try:
        with open(control(path), "w") as file:
            file.write(str(window))
    except OSError:
        pass
