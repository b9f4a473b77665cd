# SPDX-License-Identifier: Apache-2.0
"""A control group that limits memory, for a daemon that is started in it or moved into it."""

import os
import time
import unittest

from harness import steward


class ControlGroup:
    """A child of the control group that this test runs in, in the hierarchy (cgroups(7), version 1 or 2) that limits memory here."""

    def __init__(self, name):
        name = f"{name}.{os.getpid()}.{time.monotonic_ns()}"
        with open("/proc/self/cgroup") as file:
            for line in file:
                _, controllers, own = line.rstrip("\n").split(":", 2)
                if "memory" in controllers.split(","):
                    root, self.limit_file, self.none = "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "-1"
                    self.events = "memory.oom_control"
                elif not controllers:
                    root, self.limit_file, self.none = "/sys/fs/cgroup", "memory.max", "max"
                    self.events = "memory.events"
                else:
                    continue
                self.own = os.path.join(root, own.strip("/"))
                self.path = os.path.join(self.own, name)
                if steward.run(["mkdir", self.path], check=False)[0] == 0:
                    if os.path.exists(os.path.join(self.path, self.limit_file)):
                        return
                    steward.run(["rmdir", self.path])
        raise unittest.SkipTest("needs a control group that limits memory: none can be made in this test's own")

    def put(self, file, value):
        steward.run(["sh", "-c", f"echo {value} > {self.path}/{file}"])

    def limit(self, size):
        self.put(self.limit_file, size or self.none)

    def __enter__(self):
        """Processes started from here on are in the group."""
        self.put("cgroup.procs", os.getpid())
        return self

    def __exit__(self, *_):
        steward.run(["sh", "-c", f"echo {os.getpid()} > {self.own}/cgroup.procs"])

    def _words(self, file):
        with open(os.path.join(self.path, file)) as text:
            return text.read().split()

    def processes(self):
        return self._words("cgroup.procs")

    def killed(self):
        words = self._words(self.events)
        return int(words[words.index("oom_kill") + 1])

    def remove(self):
        """Removes the group; it must be empty."""
        steward.run(["sh", "-c", f"for i in $(seq 100); do rmdir {self.path} && exit; sleep 0.1; done; exit 1"])
