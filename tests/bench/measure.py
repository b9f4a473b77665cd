# SPDX-License-Identifier: Apache-2.0
"""Shared by all parts of the benchmark: CPU of running processes, runs and their medians, and touching of free memory."""

import json
import mmap
import os
import platform
import resource
import subprocess
import time

WORK = os.environ["NFSRDMA_WORK"]
HOME = os.environ["HOME"]
TOOLS = os.path.join(WORK, "build/tests/bench")
MIB, GIB = 1 << 20, 1 << 30
BLOCK = 1 << 20


def run_json(argv):
    done = subprocess.run([str(a) for a in argv], capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(map(str, argv))}: status {done.returncode}: {done.stderr}")
    return json.loads(done.stdout)


def machine():
    with open("/proc/cpuinfo") as cpuinfo:
        model = next((line.split(":")[1].strip() for line in cpuinfo if line.startswith("model name")), "unknown")
    return {"host": platform.node(), "cpu": model, "cores": os.cpu_count(), "kernel": f"{platform.system()} {platform.release()}"}


def programs(commit):
    """How the measured programs were built, and from which commit."""
    with open(os.path.join(WORK, "build/CMakeCache.txt")) as cache:
        profile = next((line.strip().split("=", 1)[1] for line in cache if line.startswith("NFSRDMA_PROFILE:")), "")
    built = {"": "as the preset release compiles them", "use": "compiled by how they run (scripts/profile)",
             "generate": "such as record how they run: slower"}[profile]
    return f"{built}, of commit {commit}" if commit else built


class Process:
    """CPU time of a running process."""

    def __init__(self, pid):
        self.pid = pid

    def cpu_seconds(self):
        """The CPU time of all its threads, including those that have ended."""
        return time.clock_gettime(~self.pid << 3 | 2)  # clock_getcpuclockid(3): nanoseconds; /proc has ticks of 10 ms

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()


def take_free_memory(but):
    """A virtual machine may give free pages back to its host (free page reporting). The next touch of such a page costs ten times as much,
    which the next run through the page cache would pay. Allocates and touches all free memory but `but` bytes. None where the kernel
    gives nothing back."""
    if not os.path.exists("/sys/module/page_reporting"):
        return None
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemFree"))
    if free <= but:
        return None
    return mmap.mmap(-1, free - but, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)


class Daemon(Process):
    """A mount's daemon, and the calls it has sent to its server."""

    def __init__(self, mounted):
        super().__init__(mounted.pid)
        self.mounted = mounted

    def operations(self):
        """{operation: number}, without the lease renewals, whose number depends on the time."""
        return {op["name"]: op["requests"] for op in self.mounted.stats()["operations"] if op["name"] != "SEQUENCE"}

    def calls(self):
        return sum(self.operations().values())


class Part:
    """A part of the benchmark. It adds its runs to `results`, which all parts share.

    CONTENDERS: name: (role, about). REPEATED parts are measured in every round, ONCE ones at the end."""

    CONTENDERS = {}

    def __init__(self, results, arguments):
        self.results = results
        self.arguments = arguments
        self.size = arguments.size * MIB
        self.options = arguments.options
        for name, (role, about) in self.CONTENDERS.items():
            results.contender(name, role, about)

    def end(self):
        """Stops what the part started."""

    def turns(self, of):
        """The contenders, rotated each round. The first after a pause finds the processor's caches and the free memory as others left
        them."""
        of = list(of)
        turn = self.results.round % len(of)
        return of[turn:] + of[:turn]

    def unmeasured(self, op, path, *more, size=None):
        """Transfers the large file once, in order, without a result."""
        run_json([os.path.join(TOOLS, "fsload"), "--op", op, "--path", path, "--size", size or self.size, "--block", BLOCK, *more])

    def touch_free_memory(self):
        """Call it before a run through the page cache."""
        taken = take_free_memory(256 * MIB) if self.arguments.touch else None
        if taken:
            taken.close()

    # A run contains those quantities of the document (docs/bench/README.md) that it measured.

    @staticmethod
    def figures(result, client_cpu, server_cpu):
        gib = result["bytes"] / GIB
        own = result["cpu_seconds"]
        return {
            "ops_per_s": result["operations"] / result["seconds"],
            "mib_per_s": result["bytes"] / MIB / result["seconds"],
            "cpu_per_gib": client_cpu / gib if gib else None,
            "cpu_us_per_op": client_cpu / result["operations"] * 1e6,
            "cpu_percent": 100 * (client_cpu + own) / result["seconds"],
            "application_cpu_per_gib": own / gib if gib else None,
            "application_cpu_us_per_op": own / result["operations"] * 1e6,
            "server_cpu_per_gib": server_cpu / gib if gib and server_cpu is not None else None,
            "server_cpu_us_per_op": server_cpu / result["operations"] * 1e6 if server_cpu is not None else None,
            **{name: result[name] for name in ("p50_us", "p99_us", "p999_us") if name in result},
        }

    def fsload(self, metric, contender, daemon, argv, server=None, at=None):
        """One run of fsload on a mount that `daemon` serves."""
        if "--direct" not in argv and argv[1] in ("read", "write"):
            self.touch_free_memory()
        counts = isinstance(daemon, Daemon)
        called = daemon.calls() if counts else 0
        before, served = daemon.cpu_seconds(), server.cpu_seconds() if server else 0
        result = run_json([os.path.join(TOOLS, "fsload"), *argv])
        run = self.figures(result, daemon.cpu_seconds() - before, server.cpu_seconds() - served if server else None)
        if counts:
            run["rpcs_per_op"] = (daemon.calls() - called) / result["operations"]
        self.results.add(metric, contender, run, at)
        return run

    # The runs of every mount

    LARGE = {"read": ("read", []), "re-read": ("read", ["--keep", 1]), "read, O_DIRECT": ("read", ["--direct", 1]),
             "write": ("write", []), "write, O_DIRECT": ("write", ["--direct", 1])}

    REREADS = 4

    def large(self, metric, contender, path, daemon, server=None):
        """One large file, in blocks of 1 MiB. `path` has one file for reads and one for writes."""
        op, more = self.LARGE[metric]
        if metric == "re-read":  # from memory one pass is too short to measure
            more = [*more, "--count", self.REREADS * self.size // BLOCK]
        self.fsload(metric, contender, daemon, ["--op", op, "--path", path[op], "--size", self.size, "--block", BLOCK, *more], server)

    DEPTHS = (1, 2, 4, 8, 16, 32)

    # Throughput by queue depth, up to the depth where neither a connection of libnfs nor a loop of a daemon gets
    # faster.
    DEEP, DEEP_BLOCK, DEEP_DEPTHS = "read, 256 KiB at a time", 256 << 10, (1, 2, 4, 8, 16)

    def deep_reads(self, contender, path, daemon, depth, server=None):
        """Reads one file once, in order, with `depth` READs in progress."""
        self.fsload(self.DEEP, contender, daemon,
                    ["--op", "read", "--path", path, "--size", self.size, "--block", self.DEEP_BLOCK, "--depth", depth, "--direct", 1,
                     "--seconds", self.arguments.seconds], server, {"depth": depth})

    def random_reads(self, contender, path, daemon, depth, server=None):
        self.fsload("random read", contender, daemon,
                    ["--op", "randread", "--path", path, "--size", self.size, "--block", 4096, "--depth", depth, "--count", 20000,
                     "--direct", 1, "--seed", self.results.round, "--seconds", self.arguments.seconds], server, {"depth": depth})
