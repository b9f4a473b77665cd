# SPDX-License-Identifier: Apache-2.0
"""The base of tests that end a program in every way and look for its leftovers: processes, mounts, changed system files.

Processes are found by a mark in their environment.
"""

import os
import subprocess
import time
import unittest
import uuid

# Files that mounts, servers and their installation may touch.
SYSTEM_FILES = ("/dev/fuse", "/etc/exports", "/etc/fstab", "/etc/fuse.conf", "/etc/ganesha/ganesha.conf", "/etc/hosts", "/etc/idmapd.conf",
                "/etc/nfs.conf", "/etc/nfsmount.conf", "/etc/nfsrdma-fuse.conf", "/etc/nfsrdma-fuse.conf.d", "/sbin/mount.fuse.rpcrdma",
                "/sbin/mount.nfsrdma-fuse", "/sbin/umount.fuse.rpcrdma", "/usr/sbin/policy-rc.d")


class LeftoverCase(unittest.TestCase):
    def setUp(self):
        self.mark = f"NFSRDMA_TEST_MARK={uuid.uuid4()}"
        self.before = self.surroundings()

    @staticmethod
    def surroundings():
        with open("/proc/self/mountinfo") as table:
            mounts = [line for line in table if "rpcrdma" in line or "nfsrdma" in line]
        files = {}
        for path in SYSTEM_FILES:
            if os.path.exists(path):
                known = os.stat(path)
                files[path] = (known.st_ino, known.st_mode, known.st_size, known.st_mtime_ns)
        return mounts, files

    def processes(self):
        """The processes with the mark. An unprivileged caller may not read root's environment. The mark is not an argument, because sudo
        puts its command line into the environment."""
        sudo = [] if os.getuid() == 0 else ["sudo", "-n"]
        found = subprocess.run([*sudo, "sh", "-c", "grep -lszF -f - /proc/[0-9]*/environ"], input=self.mark + "\n",
                               capture_output=True, text=True)
        return found.stdout.split()

    def nothing_left(self, within=0.0):
        deadline = time.monotonic() + within
        while self.processes() and time.monotonic() < deadline:
            time.sleep(0.1)
        self.assertEqual(self.processes(), [])
        self.assertEqual(self.surroundings(), self.before)
