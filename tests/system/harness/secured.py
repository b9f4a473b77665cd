# SPDX-License-Identifier: Apache-2.0
"""What tests of Kerberos and of TLS do alike, on top of SystemCase: `server` is a Filer."""

import os
import subprocess

from .mount import HELPER, Mount, is_mounted


class SecuredMounts:
    def refused(self, options, host="localhost", server=None):
        """What the mount says: one line."""
        server = server or self.server
        path = self.local("mnt")
        done = subprocess.run([HELPER, server.source(host=host), path, "-o", f"port={server.port},proto=tcp,retry=0,{options}"],
                              stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=120)
        self.assertEqual(done.returncode, 32, done.stderr)
        self.assertFalse(is_mounted(path))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        return done.stderr

    def work(self, mounted):
        """Small and large files, written, read again past the caches, and compared with what the server has."""
        path = self.directory(mounted, f"work{Mount.count}")
        for size in (0, 1, 4095, 4097, 1 << 20, (9 << 20) + 3):
            data = os.urandom(size)
            name = os.path.join(path, str(size))
            with open(name, "wb") as file:
                file.write(data)
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
            with open(name, "rb") as file:
                self.assertEqual(file.read(), data)
            with open(self.on_server(name), "rb") as file:
                self.assertEqual(file.read(), data)
            self.assertEqual(os.stat(self.on_server(name)).st_uid, os.getuid())
        os.rename(os.path.join(path, "1"), os.path.join(path, "one"))
        self.assertIn("one", os.listdir(path))
