"""What every part of the benchmark measures with: CPU of running processes, runs and their medians, memory that is cheap to touch."""

import json
import mmap
import os
import platform
import statistics
import subprocess

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
    return {"cpu": model, "cores": os.cpu_count(), "kernel": platform.release()}


class Process:
    """CPU time of a running process."""

    def __init__(self, pid):
        self.pid = pid

    def cpu_seconds(self):
        # schedstat counts nanoseconds where stat counts 10 ms ticks; each thread has its own.
        total = 0
        for thread in os.listdir(f"/proc/{self.pid}/task"):
            with open(f"/proc/{self.pid}/task/{thread}/schedstat") as file:
                total += int(file.read().split()[0])
        return total / 1e9


def take_free_memory(but):
    """A virtual machine may give free pages back to its host (free page reporting). Touched again they cost ten times
    their use, which would fall on whoever next reads through the page cache. Takes, and touches, all `but` so many
    bytes; None where nothing is given back."""
    if not os.path.exists("/sys/module/page_reporting"):
        return None
    with open("/proc/meminfo") as file:
        free = next(int(line.split()[1]) << 10 for line in file if line.startswith("MemFree"))
    if free <= but:
        return None
    return mmap.mmap(-1, free - but, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE)


class Results:
    """results[metric][contender] = list of runs."""

    def __init__(self):
        self.runs = {}

    def add(self, metric, contender, run):
        self.runs.setdefault(metric, {}).setdefault(contender, []).append(run)

    def median(self, metric, contender, key):
        values = [run[key] for run in self.runs.get(metric, {}).get(contender, []) if run.get(key) is not None]
        return statistics.median(values) if values else None

    def spread(self, metric, contender, key):
        values = [run[key] for run in self.runs[metric][contender] if run.get(key) is not None]
        return (min(values), max(values)) if values else None

    def best(self, metric, prefix, key):
        """The contender of this family with the highest median."""
        found = [(self.median(metric, name, key), name) for name in self.runs.get(metric, {}) if name.startswith(prefix)]
        found = [entry for entry in found if entry[0] is not None]
        return max(found) if found else (None, None)

    def medians(self):
        """medians()[metric][contender][key] = {"median", "spread"}."""
        medians = {}
        for metric, contenders in self.runs.items():
            for name, runs in contenders.items():
                keys = {key for run in runs for key in run}
                medians.setdefault(metric, {})[name] = {
                    key: {"median": self.median(metric, name, key), "spread": self.spread(metric, name, key)}
                    for key in sorted(keys) if self.median(metric, name, key) is not None}
        return medians


class Part:
    """A part of the benchmark: what it runs goes to `results`, which all parts share."""

    def __init__(self, results, extra, arguments):
        self.results = results
        self.extra = extra
        self.size = arguments.size * MIB
        self.options = arguments.options
        self.touch = not arguments.no_touch
        self.found = []  # targets and limits
        self.round = 0

    def end(self):
        """Stops what the part started."""

    def touch_free_memory(self):
        """Before whatever goes through the page cache is measured."""
        taken = take_free_memory(256 * MIB) if self.touch else None
        if taken:
            taken.close()

    # Each run is {"ops_per_s", "mib_per_s", "cpu_per_gib", "cpu_us_per_op", "server_cpu_per_gib"}.

    def figures(self, result, client_cpu, server_cpu):
        gib = result["bytes"] / GIB
        return {
            "ops_per_s": result["operations"] / result["seconds"],
            "mib_per_s": result["bytes"] / MIB / result["seconds"],
            "cpu_per_gib": client_cpu / gib if gib else None,
            "cpu_us_per_op": client_cpu / result["operations"] * 1e6,
            "application_cpu_per_gib": result["cpu_seconds"] / gib if gib else None,
            "server_cpu_per_gib": server_cpu / gib if gib and server_cpu is not None else None,
        }

    def fsload(self, metric, contender, daemon, argv, server=None):
        if "--direct" not in argv and argv[1] in ("read", "write"):
            self.touch_free_memory()
        before, served = daemon.cpu_seconds(), server.cpu_seconds() if server else 0
        result = run_json([os.path.join(TOOLS, "fsload"), *argv])
        self.results.add(metric, contender, self.figures(result, daemon.cpu_seconds() - before,
                                                         server.cpu_seconds() - served if server else None))

    def load_file(self, contender, source, target, daemon, server=None, among=""):
        """Sequential and random transfers of one large file; `among` comes before each metric's name."""
        size = ["--size", self.size, "--block", BLOCK]
        for op, path in (("read", source), ("write", target)):
            self.fsload(among + op, contender, daemon, ["--op", op, "--path", path, *size], server)
            self.fsload(f"{among}{op}, O_DIRECT", contender, daemon, ["--op", op, "--path", path, "--direct", 1, *size], server)
        for depth in (1, 32):
            self.fsload(f"{among}random read, depth {depth}", contender, daemon,
                        ["--op", "randread", "--path", source, "--size", self.size, "--block", 4096, "--depth", depth, "--count",
                         20000, "--direct", 1, "--seed", self.round], server)

    def ratio(self, what, of, over, **target):
        """Notes of/over beside the target (at_least or at_most), if both were measured."""
        if of and over:
            value = of / over
            met = value >= target["at_least"] if "at_least" in target else value <= target["at_most"] if target else None
            self.found.append({"what": what, "value": round(value, 3), **target, "met": met})
