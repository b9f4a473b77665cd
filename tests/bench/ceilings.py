# SPDX-License-Identifier: Apache-2.0
"""The highest speed of any file system in user space, and of any network client behind it, on this machine.

empty FUSE   tests/bench/nullfs: the cost of FUSE with nothing behind it
relay        nullfs --relay: the same, and each byte crosses a TCP connection to a process that does nothing with it
framed relay nullfs --relay --framed: a READ's data also comes in the frames of software RDMA (mpa_frames.h)
bare client  tests/bench/barefs: a minimal NFSv4.1 client of the same server; not an upper limit (docs/adr/0042-plain-client-as-a-yardstick.md);
with duties: barefs --duties, which also does what a mount must do for writes and small files
"""

import os
import subprocess
import time

from harness.mount import is_mounted
from measure import HOME, TOOLS, Process

EMPTY, RELAY, FRAMED, BARE, DUTIES = "empty FUSE", "relay", "framed relay", "bare client", "bare client with duties"
CEILINGS = {
    EMPTY: ("ceiling", "a FUSE file system that answers from one buffer: what FUSE leaves to anybody"),
    RELAY: ("ceiling", "the same with every byte crossing a TCP connection to a process that does nothing with it: what a network client can reach"),
}
FRAMED_ABOUT = ("ceiling", "the relay with what is read in MPA's frames of 65,520 bytes of data, as software RDMA brings it, with no protocol at all; "
                "all frames of a reply are spliced into a pipe and told apart there")
BARE_ABOUT = ("ceiling", "an NFSv4.1 client behind FUSE over TCP to the same server that encodes what it asks once and splices large reads: "
              "no cache, no recovery, no locks, no delegations, no written data kept, one RPC for each name, READ and WRITE")

DUTIES_ABOUT = ("ceiling", "the bare client, with three duties of a mount: what was written is kept until a COMMIT covers it, a file that is open here is open "
                "at the server, and each close(2) is told")


class Stand:
    """A mounted file system of tests/bench."""

    def __init__(self, name, program, words, window):
        self.path = os.path.join(HOME, "ceiling." + name.replace(" ", "-"))
        os.makedirs(self.path, exist_ok=True)
        self.process = subprocess.Popen([os.path.join(TOOLS, program), *map(str, words), self.path])
        deadline = time.monotonic() + 20
        while not is_mounted(self.path):
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{program} did not mount {self.path}")
            time.sleep(0.01)
        self.daemon = Process(self.process.pid)
        if window:
            set_read_ahead(self.path, window)

    def umount(self):
        subprocess.run(["umount", self.path], check=True)
        self.process.wait(30)


class Ceiling(Stand):
    """A ceiling without a server: EMPTY, RELAY or FRAMED."""

    WORDS = {EMPTY: [], RELAY: ["--relay"], FRAMED: ["--relay", "--framed"]}

    def __init__(self, name, size, files, window=None):
        super().__init__(name, "nullfs", ["--size", size, "--files", files, *self.WORDS[name]], window)


class Bare(Stand):
    """The bare client, mounting one directory. `small`: LOOKUP also reads files of 4 KiB. It has no read-ahead of its own. A kernel window
    above 2 MiB did not make it faster (2026-11-25: of windows of 1, 2 and 4 MiB and requests of 256 KiB to 1 MiB, 2 MiB and 512 KiB
    were the fastest)."""

    WINDOW = 2048

    def __init__(self, port, directory, small=False, name=BARE):
        words = ["--server", "127.0.0.1", "--port", port, "--path", directory, *(["--small"] if small else []), *(["--duties"] if name == DUTIES else [])]
        super().__init__(name, "barefs", words, self.WINDOW)


def control(path):
    device = os.stat(path).st_dev
    return f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"


def read_ahead(path):
    """The kernel's read-ahead window of a mount in KiB; None where it cannot be read."""
    try:
        with open(control(path)) as file:
            return int(file.read())
    except OSError:
        return None


def set_read_ahead(path, window):
    """Sets the window that the daemon sets for its mount as root. Does nothing where /sys is read-only, as in containers."""
    try:
        with open(control(path), "w") as file:
            file.write(str(window))
    except OSError:
        pass
