# SPDX-License-Identifier: Apache-2.0
"""Controls a chaosproxy: `with ChaosProxy(server.port) as proxy: proxy.command("cut")`. main.cc lists its commands."""

import json
import os
import socket
import subprocess
import time

from .steward import WORK


class ChaosProxy:
    count = 0

    def __init__(self, target_port, raw=False, host="127.0.0.1"):
        ChaosProxy.count += 1
        control = os.path.join(os.environ["HOME"], f"chaos.{os.getpid()}.{ChaosProxy.count}")
        self.process = subprocess.Popen(
            [os.path.join(WORK, "build/tests/system/chaosproxy"), "--listen", "0", "--target", f"{host}:{target_port}",
             "--control", control, "--raw", str(int(raw))], stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline())
        self.control = socket.socket(socket.AF_UNIX)
        self.control.connect(control)
        self.answers = self.control.makefile()

    def command(self, line):
        self.control.sendall(line.encode() + b"\n")
        answer = self.answers.readline().strip()
        if not answer.startswith("ok"):
            raise RuntimeError(f"chaosproxy: {line}: {answer or 'gone'}")
        return answer[3:]

    def stats(self):
        return json.loads(self.command("stats"))

    def wait_triggered(self, count=1, timeout=30):
        """Waits until `count` rules have been applied."""
        deadline = time.monotonic() + timeout
        while self.stats()["triggered"] < count:
            if time.monotonic() > deadline:
                raise TimeoutError(f"no fault has struck: {self.stats()}")
            time.sleep(0.02)

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.control.close()
        self.process.stdout.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
