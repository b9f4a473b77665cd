"""A control group with a limit of memory, for a daemon that is started in it."""

import os
import unittest

ROOT = "/sys/fs/cgroup"


class MemoryGroup:
    """Of version 1 or 2 (cgroups(7)). Skips the test where root cannot make one, saying what is missing."""

    def __init__(self, name, limit):
        version1 = os.path.isdir(f"{ROOT}/memory")
        above = f"{ROOT}/memory" if version1 else ROOT
        self.path = f"{above}/{name}.{os.getpid()}"
        limit_file = "memory.limit_in_bytes" if version1 else "memory.max"
        try:
            os.mkdir(self.path)
        except OSError as error:
            raise unittest.SkipTest(f"no control group can be made in {above}: {error}")
        if not os.path.exists(f"{self.path}/{limit_file}"):
            os.rmdir(self.path)
            raise unittest.SkipTest(f"{above}/cgroup.subtree_control does not enable the memory controller")
        self._write(limit_file, limit)
        if version1:
            self.events = f"{self.path}/memory.oom_control"
        else:
            self.events = f"{self.path}/memory.events"
        own = [line.split(":", 2) for line in self._read("/proc/self/cgroup").splitlines()]
        self.before = above + next(path for _, which, path in own
                                   if ("memory" in which.split(",") if version1 else which == ""))

    def _write(self, name, value):
        with open(f"{self.path}/{name}", "w") as file:
            file.write(str(value))

    def __enter__(self):
        """What is started from here on is in it."""
        self._write("cgroup.procs", os.getpid())
        return self

    def __exit__(self, *_):
        try:
            with open(f"{self.before}/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))
        except OSError:  # a group that has groups may not have processes
            with open(f"{os.path.dirname(self.path)}/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))

    @staticmethod
    def _read(path):
        with open(path) as file:
            return file.read()

    def processes(self):
        return self._read(f"{self.path}/cgroup.procs").split()

    def killed(self):
        words = self._read(self.events).split()
        return int(words[words.index("oom_kill") + 1])

    def remove(self):
        os.rmdir(self.path)
