# SPDX-License-Identifier: Apache-2.0
"""fuse-nfs, the libnfs-based FUSE client, as a peer. Debian has no package; bench.py --fuse-nfs PROGRAM names a built one.

It mounts NFSv3 with its own defaults: one request at a time, the kernel's page cache, attributes valid for a second.
"""

import os
import subprocess
import time

from harness.mount import is_mounted
from measure import HOME, Process

FUSE_NFS = "fuse-nfs"
FUSE_NFS_ABOUT = ("peer", "a FUSE client on libnfs (github.com/sahlberg/fuse-nfs), NFSv3, its own defaults")


class FuseNfs:
    """A mount by fuse-nfs."""

    def __init__(self, program, server):
        self.path = os.path.join(HOME, "fuse-nfs")
        os.makedirs(self.path, exist_ok=True)
        url = f"nfs://127.0.0.1/export?version=3&nfsport={server.port}&mountport={server.mount_port}&uid={os.geteuid()}&gid={os.getegid()}"
        subprocess.run([program, "-n", url, "-m", self.path], check=True, stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 20
        while not is_mounted(self.path):
            if time.monotonic() > deadline:
                raise RuntimeError(f"{program} did not mount {self.path}")
            time.sleep(0.01)
        self.daemon = Process(self.pid())

    def pid(self):
        """fuse-nfs daemonises; its process is found by the mount point in its command line."""
        for pid in filter(str.isdigit, os.listdir("/proc")):
            try:
                with open(f"/proc/{pid}/cmdline", "rb") as file:
                    if self.path.encode() in file.read().split(b"\0"):
                        return int(pid)
            except OSError:
                pass  # it has ended
        raise RuntimeError("fuse-nfs has mounted and is not there")

    def umount(self):
        subprocess.run(["umount", self.path], check=True)
        deadline = time.monotonic() + 20
        while os.path.exists(f"/proc/{self.daemon.pid}"):
            if time.monotonic() > deadline:
                raise RuntimeError("fuse-nfs was unmounted and does not end")
            time.sleep(0.01)
