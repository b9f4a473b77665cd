# SPDX-License-Identifier: Apache-2.0
"""A private nfsrdma-filer that exports a directory of the host, in the place of Ganesha.

In a test that runs as root it runs as root and acts as its callers; in a test of an ordinary user as that user.
"""

import os
import signal
import time

from . import pausing, steward
from .ports import free_port
from .steward import WORK

PROGRAM = os.path.join(WORK, "bin/nfsrdma-filer")


class Filer:
    """One server. Directories: <root>/{export,state}; `log` has both its outputs.

    It accepts every caller (--insecure), because proxies and second clients use ports above 1023. With insecure=False it accepts its
    normal callers only."""

    def __init__(self, name="filer", lease=10, grace=10, arguments=(), port=None, address="127.0.0.1", descriptors=1 << 20,
                 insecure=True, env=None):
        self.descriptors = descriptors
        self.env = env
        self.as_root = os.getuid() == 0
        self.root = os.path.join(WORK if self.as_root else os.environ["HOME"], name)
        self.export, self.log = os.path.join(self.root, "export"), os.path.join(self.root, "output")
        self.port = port or free_port()
        self.argv = [PROGRAM, "--listen", f"{address}:{self.port}", "--export", f"/export={self.export}", "--state-dir",
                     os.path.join(self.root, "state"), "--lease", str(lease), "--grace", str(grace), "--no-root-squash",
                     "--async", *(["--insecure"] if insecure else []), *arguments]
        self.pid = None
        os.makedirs(self.export, exist_ok=True)
        os.chmod(self.export, 0o1777)

    def path(self, export=None):
        return self.export

    def source(self, export=None, host="127.0.0.1"):
        return f"{host}:{export or '/export'}"

    def start(self, timeout=20):
        before = self.log_text().count("listening tcp")
        # Process 1 starts it. A child of the test could not run before its copies of the test's files in the mount
        # are closed, which waits for the server.
        user = [] if self.as_root else ["setpriv", f"--reuid={os.getuid()}", f"--regid={os.getgid()}", "--clear-groups"]
        self.pid = steward.spawn([*user, *self.argv], self.log, env=self.env, nofile=self.descriptors)
        deadline = time.monotonic() + timeout
        while self.log_text().count("listening tcp") == before:
            if self.ended(0) is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the filer did not start:\n{self.log_text()[-4000:]}")
            time.sleep(0.02)
        return self

    def ended(self, timeout):
        """The exit status, or None when it has not ended within `timeout` seconds."""
        return steward.wait(self.pid, timeout)

    def kill(self, signum=signal.SIGKILL, timeout=20):
        """Ends the server and returns its exit status."""
        if self.pid is None:
            return None
        steward.kill(self.pid, signum)
        status = self.ended(timeout)
        self.pid = None
        return status

    def pause(self):
        pausing.pause(self.pid, steward.kill)

    def resume(self):
        pausing.resume(self.pid, steward.kill)

    def restart(self, down=0.0, forget=False):
        """forget: the restarted server does not know its clients any more."""
        self.kill()
        if forget:
            os.unlink(os.path.join(self.root, "state", "clients"))
        time.sleep(down)
        return self.start()

    def log_text(self):
        if not os.path.exists(self.log):
            return ""
        with open(self.log, errors="replace") as file:
            return file.read()
