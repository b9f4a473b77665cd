# SPDX-License-Identifier: Apache-2.0
"""Whether large numbers cost more than small ones: calls of whole workloads; memory and time by cached inodes, by the size of a file, and
by files, locks and delegations held. Also the daemon's own time for an answer.

The server is nfsrdma-filer, which grants delegations. Calls are those that the daemon counts (`nfsrdma-fuse stats`). Where time is
measured, the daemon's CPU is compared: the server's own tables do not count.
"""

import fcntl
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import time

import trees
from ceilings import CEILINGS, EMPTY, Ceiling
from harness.filer import Filer
from harness.mount import Mount
from latency import BATCHES, CALLS, beyond, medians
from measure import GIB, HOME, MIB, TOOLS, Daemon, Part, run_json
from results import reference

OURS = "one mount"
WORK_FILES = 2000
PASSES = ("ls -lR", "ls -lR again", "grep -r", "grep -r again")
ANSWER, BEYOND = "stat that the daemon answers", "stat that the daemon answers, beyond empty FUSE"
STAT, LOOKUP, LIST = "stat among cached inodes", "lookup beside cached inodes", "entry of a listing beside cached inodes"
SPARSE, SPARSE_BUFFERED, SPARSE_WRITE = (f"{what} of a sparse file" for what in ("random read", "random read through the page cache", "random write"))
HELD_FILES, HELD_LOCKS = "create beside open files", "lock beside locks"
SERVER_LOCKS, RECALL = "lock at the server beside locks", "recalled delegation beside delegations"
ROUNDS = 9
FRESH = {"lookup": 200, "list": 500}  # names of a new directory that nobody has looked up
RECALLED = 50  # delegations recalled in a round
SPARSE_COUNT, PAGE = 4000, 4096
LOCKS = 1000  # taken in a round


# Holds a range of files open until its input ends.
HOLDER = """
import os, resource, sys
path, first, last = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
held = [os.open(f"{path}/{i}", os.O_CREAT | os.O_RDWR, 0o644) for i in range(first, last)]
print(len(held), flush=True)
sys.stdin.read()
"""


class Holders:
    """Processes that hold files open; their number depends on the limit of descriptors per process."""

    def __init__(self, path):
        self.path, self.processes = path, []
        self.each = resource.getrlimit(resource.RLIMIT_NOFILE)[1] - 100

    def hold(self, first, last):
        for begin in range(first, last, self.each):
            argv = [sys.executable, "-c", HOLDER, self.path, str(begin), str(min(last, begin + self.each))]
            self.processes.append(subprocess.Popen(argv, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True))
            if not self.processes[-1].stdout.readline():
                raise RuntimeError(f"files {begin} to {last} cannot be held open")

    def end(self):
        for process in self.processes:
            process.communicate()


class Scale(Part):
    REPEATED = ("answers",)
    ONCE = ("rpc_counts", "memory", "costs", "held")
    CONTENDERS = {OURS: ("ours", "nfsrdma-fuse, NFSv4.1 over TCP to nfsrdma-filer"), EMPTY: CEILINGS[EMPTY]}

    def __init__(self, results, arguments):
        super().__init__(results, arguments)
        self.server = Filer(name="scale", arguments=("--export", "memory", "--delegations", "write")).start()
        counts = [1000, 10000, 100000, 1000000]
        self.counts = arguments.counts or counts[:4 if arguments.full else 3]
        self.held_counts = arguments.counts or counts[:3 if arguments.full else 2]

    def end(self):
        self.server.kill()

    def mounted(self, options="", export=None):
        return Mount(self.server.source(export), self.server.port, ",".join(o for o in (options, self.options) if o))

    def rounds(self):
        """Several rounds of a part that runs once."""
        for self.results.round in range(ROUNDS):
            yield self.results.round
        self.results.round = 0

    # Calls

    def rpc_counts(self):
        source, archive, tree = (os.path.join(HOME, name) for name in ("repository", "small.tar", "tree"))
        trees.git_repository(source, files=WORK_FILES, commits=5)
        trees.small_files(tree, WORK_FILES)
        subprocess.run(["tar", "-C", tree, "-cf", archive, "."], check=True)
        mounted = self.mounted()
        top = mounted.path
        os.mkdir(os.path.join(top, "untar"))
        self.count("git clone", mounted, ["git", "clone", "-q", "file://" + source, os.path.join(top, "clone")])
        self.count("tar x", mounted, ["tar", "-C", os.path.join(top, "untar"), "-xf", archive])
        mounted.umount()
        mounted = self.mounted()
        for name in PASSES:
            argv = ["ls", "-lR"] if name.startswith("ls") else ["grep", "-r", "no such text is in there"]
            self.count(name, mounted, [*argv, os.path.join(top := mounted.path, "untar")])
        self.count("rm -r", mounted, ["rm", "-r", os.path.join(top, "untar")])
        mounted.umount()

    def count(self, name, mounted, argv):
        daemon = Daemon(mounted)
        before = daemon.operations()
        done = subprocess.run(argv, stdout=subprocess.DEVNULL)
        if done.returncode != (1 if argv[0] == "grep" else 0):  # grep finds nothing
            raise RuntimeError(f"{' '.join(argv)}: status {done.returncode}")
        self.results.count(name, OURS, {op: n - before.get(op, 0) for op, n in daemon.operations().items() if n != before.get(op, 0)})

    # The daemon alone

    def answers(self):
        """The kernel asks for attributes that the daemon has cached (AT_STATX_FORCE_SYNC); compared with a daemon that looks nothing up."""
        mounted, empty = self.mounted(), Ceiling(EMPTY, 0, 100)
        for i in range(100):
            with open(os.path.join(mounted.path, f"f{i}"), "w"):
                pass
        words = {name: ["fsload", "--op", "stat", "--path", os.path.join(path, "f"), "--among", 100, "--ask", 1]
                 for name, path in ((OURS, mounted.path), (EMPTY, empty.path))}
        daemon = Daemon(mounted)
        before = daemon.calls()
        taken = medians([mounted.pid, empty.process.pid], words, self.results.round)
        asked = (daemon.calls() - before) / (BATCHES * CALLS)
        if asked > 0.01:
            self.results.note(f"{ANSWER}: the server was asked {asked:.2f} times for each.")
        for name, found in taken.items():
            self.results.add(ANSWER, name, {"p50_us": statistics.median(found)})
        self.results.add(BEYOND, OURS, {"p50_us": beyond(taken, OURS, EMPTY)})
        empty.umount()
        mounted.umount()

    # Cached inodes

    def directory(self, mounted, count):
        """A directory that brings the number of files in all of them to `count`. Returns its path in the mount and its number of files."""
        name, files = f"many{count}", count - next((c for c in reversed(self.counts) if c < count), 0)
        path = os.path.join(self.server.path(), name)
        if not os.path.exists(path):
            os.mkdir(path)
            for i in range(files):
                os.close(os.open(os.path.join(path, f"f{i}"), os.O_CREAT | os.O_WRONLY, 0o644))
        return os.path.join(mounted.path, name), files

    def list(self, path):
        with os.scandir(path) as entries:
            for entry in entries:
                entry.stat()

    def memory(self):
        """Resident memory of the daemon by the inodes that the kernel, and so the daemon, holds."""
        mounted = self.mounted()
        os.listdir(mounted.path)
        start = mounted.resident_bytes()
        for count in self.counts:
            self.list(self.directory(mounted, count)[0])
            resident = mounted.resident_bytes()
            known = mounted.stats()["fuse"]["kernel_inodes"]
            if known < count:
                self.results.note(f"The kernel had forgotten {count - known} of {count} inodes when memory was measured.")
            self.keeps(OURS, count, start, resident)
        mounted.umount()
        for count in self.counts:
            self.keeps(EMPTY, count, self.resident_empty(0), self.resident_empty(count))

    def keeps(self, who, count, start, resident):
        self.results.add("cached inodes", who, {"resident_mib": resident / MIB, "bytes_per_inode": (resident - start) / count}, {"inodes": count}, exact=True)

    @staticmethod
    def resident_empty(count):
        """Resident memory of the empty FUSE file system with so many files, all of which the kernel has looked up."""
        empty = Ceiling(EMPTY, 0, count)
        if count:
            run_json([os.path.join(TOOLS, "fsload"), "--op", "stat", "--path", os.path.join(empty.path, "f"), "--count", count])
        resident = empty.daemon.resident_bytes()
        empty.umount()
        return resident

    def costs(self):
        """The cost of one stat that the daemon answers, one new name, one entry of a new directory, and one read, with few and with many
        inodes: one mount for each number, in turn."""
        fresh = {(what, count, number): self.fresh(f"{what}{count}.{number}", FRESH[what]) for what in FRESH for count in self.counts
                 for number in range(ROUNDS)}
        mounts = {count: self.mounted("actimeo=3600") for count in self.counts}
        for count, mounted in mounts.items():
            self.directory(mounted, count)
        time.sleep(0.1)  # the server sees a change in a host's directory only after a tick of its clock
        for count, mounted in mounts.items():
            for fewer in self.counts[:self.counts.index(count) + 1]:
                path, files = self.directory(mounted, fewer)
                self.list(path)
        for number in self.rounds():
            for count, mounted in mounts.items():
                self.costs_among(count, mounted, number, fresh)
        for mounted in mounts.values():
            mounted.umount()
        self.costs_of_sparse_files()

    def costs_among(self, count, mounted, number, fresh):
        daemon = Daemon(mounted)
        path, files = self.directory(mounted, count)
        self.fsload(STAT, OURS, daemon, ["--op", "stat", "--path", os.path.join(path, "f"), "--count", 4000, "--among", files, "--ask", 1, "--seed", number],
                    at={"inodes": count})
        names = os.path.join(mounted.path, fresh["lookup", count, number])
        self.fsload(LOOKUP, OURS, daemon, ["--op", "stat", "--path", os.path.join(names, "f"), "--count", FRESH["lookup"]], at={"inodes": count})
        before = daemon.cpu_seconds()
        self.list(listed := os.path.join(mounted.path, fresh["list", count, number]))
        self.results.add(LIST, OURS, {"cpu_us_per_op": (daemon.cpu_seconds() - before) / FRESH["list"] * 1e6}, {"inodes": count})
        for directory in (names, listed):  # the number of inodes must not change
            shutil.rmtree(directory)

    def costs_of_sparse_files(self):
        mounted = self.mounted("actimeo=3600")
        daemon, sizes = Daemon(mounted), (1, 100)
        for size in sizes:
            with open(os.path.join(self.server.path(), f"sparse{size}"), "wb") as file:
                file.truncate(size * GIB)
        for number in self.rounds():
            for size in sizes:
                sparse = os.path.join(mounted.path, f"sparse{size}")
                words = ["--op", "randread", "--path", sparse, "--size", size * GIB, "--block", PAGE, "--count", SPARSE_COUNT]
                self.fsload(SPARSE, OURS, daemon, [*words, "--seed", number, "--direct", 1], at={"file_gib": size})
                self.fsload(SPARSE_BUFFERED, OURS, daemon, [*words, "--seed", number], at={"file_gib": size})
                self.write_sparse(daemon, sparse, size)
        mounted.umount()

    def write_sparse(self, daemon, path, size):
        """Writes at random places and waits until the data is at the server."""
        places = random.Random(self.results.round)
        before = daemon.cpu_seconds()
        with open(path, "r+b", buffering=0) as file:
            for _ in range(SPARSE_COUNT):
                os.pwrite(file.fileno(), bytes(PAGE), places.randrange(size * GIB // PAGE) * PAGE)
            os.fsync(file.fileno())
        self.results.add(SPARSE_WRITE, OURS, {"cpu_us_per_op": (daemon.cpu_seconds() - before) / SPARSE_COUNT * 1e6}, {"file_gib": size})

    def fresh(self, name, names):
        """Makes a directory of so many names at the server."""
        os.mkdir(path := os.path.join(self.server.path(), name))
        for i in range(names):
            os.close(os.open(os.path.join(path, f"f{i}"), os.O_CREAT | os.O_WRONLY, 0o644))
        return name

    # Held at once

    def held(self):
        """The cost of the next open, the next recall, and the next lock while many are held. The server grants a delegation for each file,
        under which its locks are local; without delegations each lock is the server's."""
        mounted, other = self.mounted(export="/memory"), self.mounted(export="/memory")
        path = os.path.join(mounted.path, "held")
        os.mkdir(path)
        holders = Holders(path)
        self.hold(HELD_FILES, mounted, holders.hold, lambda i: os.open(f"{path}/{i}", os.O_CREAT | os.O_RDWR, 0o644), os.close,
                  then=lambda held, first: self.recall(mounted, os.path.join(other.path, "held"), held, first))
        holders.end()
        other.umount()
        self.hold_locks(HELD_LOCKS, mounted)
        mounted.umount()
        mounted = self.mounted("nodelegations", export="/memory")
        asked = self.hold_locks(SERVER_LOCKS, mounted)
        if asked < self.held_counts[-1]:
            self.results.note(f"Of more than {self.held_counts[-1]:,} locks only {asked:,} reached the server.")
        mounted.umount()

    def hold_locks(self, metric, mounted):
        """Returns the number of LOCKs sent to the server."""
        with open(os.path.join(mounted.path, "locks"), "wb", buffering=0) as file:
            def lock(number, how=fcntl.LOCK_EX):
                fcntl.lockf(file, how, 1, 2 * number)  # with a gap, so that they are not merged
                return number

            def locks(first, last):
                for number in range(first, last):
                    lock(number)

            self.hold(metric, mounted, locks, lock, lambda number: lock(number, fcntl.LOCK_UN), LOCKS)
        return Daemon(mounted).operations().get("LOCK", 0)

    def recall(self, mounted, path, held, first):
        """Another client opens files that `mounted` has just created and has open. Its daemon flushes, claims its open without the
        delegation, and returns the delegation."""
        daemon, before = Daemon(mounted), mounted.stats()["delegations"]["returned"]
        cpu = daemon.cpu_seconds()
        for number in range(first, first + RECALLED):
            os.close(os.open(f"{path}/{number}", os.O_RDONLY))
        cpu, returned = daemon.cpu_seconds() - cpu, mounted.stats()["delegations"]["returned"] - before
        if returned < RECALLED:
            self.results.note(f"Of {RECALLED} delegations only {returned} were returned when another client opened their files.")
        self.results.add(RECALL, OURS, {"cpu_us_per_op": cpu / RECALLED * 1e6}, {"held": held})

    def hold(self, metric, mounted, keep, take, leave, each=200, then=None):
        """keep(first, last) takes these numbers for good. take(number) takes one more, and leave() gives it back, after then(held, first
        number)."""
        daemon, held, next_number = Daemon(mounted), 0, 0
        for count in self.held_counts:
            keep(next_number, next_number + count - held)
            next_number, held = next_number + count - held, count
            for _ in self.rounds():
                before, begin = daemon.cpu_seconds(), time.perf_counter()
                fresh = [take(next_number + i) for i in range(each)]
                seconds, cpu = time.perf_counter() - begin, daemon.cpu_seconds() - before
                self.results.add(metric, OURS, {"ops_per_s": each / seconds, "cpu_us_per_op": cpu / each * 1e6}, {"held": held})
                if then:
                    then(held, next_number)
                next_number += each
                for one in fresh:
                    leave(one)

    def plots(self):
        names = [name for name in ("git clone", "tar x", *PASSES, "rm -r") if self.results.has(name, OURS)]
        if names:
            self.results.plot("bars", "Calls to the server of whole workloads", names, "rpcs",
                              text=f"{WORK_FILES} files each. The second pass of ls and of grep has what the first one has left in caches. This mount alone: "
                                   "the kernel's client, which counts its calls, too, is beside it in the lab (scripts/bench --lab --only requests); libnfs "
                                   "is no file system that git or tar could work in, and fuse-nfs counts nothing.")
        if self.results.has("cached inodes", OURS):
            for y, title in (("resident_mib", "Memory against cached inodes"), ("bytes_per_inode", "Memory of one cached inode")):
                self.results.plot("lines", title, "cached inodes", y, [(OURS, EMPTY)], x="inodes", contenders=[OURS, EMPTY],
                                  text="Of the daemon. One directory listing with attributes for each point. The empty FUSE file system keeps a table of names "
                                       "and numbers, and no more: what none can do without. libnfs, without FUSE, keeps no inodes; fuse-nfs speaks NFSv3, "
                                       "which this server does not.")
        for metric, x, title in ((STAT, "inodes", "CPU of one stat against cached inodes"), (LOOKUP, "inodes", "CPU of one lookup against cached inodes"),
                                 (LIST, "inodes", "CPU of one entry of a listing against cached inodes"),
                                 (HELD_FILES, "held", "CPU of one create against open files"),
                                 (RECALL, "held", "CPU of one recalled delegation against delegations"),
                                 (HELD_LOCKS, "held", "CPU of one lock against locks"),
                                 (SERVER_LOCKS, "held", "CPU of one lock that the server takes against locks")):
            if self.results.has(metric, OURS):
                self.results.plot("lines", title, metric, "cpu_us_per_op", x=x, text="The daemon's.")

    def flat(self, metric):
        points = self.results.points(metric, OURS)
        if len(points) > 1:
            (key, most), = points[-1].items()
            self.results.target(f"CPU of one {metric}: {most:,} / {points[0][key]:,}", "cpu_us_per_op", reference(metric, OURS, points[-1]),
                                reference(metric, OURS, points[0]), at_most=1.3)

    def targets(self):
        for at in self.results.points("cached inodes", OURS)[-1:]:
            self.results.target(f"bytes of memory for each of {at['inodes']:,} cached inodes", "bytes_per_inode",
                                reference("cached inodes", OURS, at), at_most=600)
        for metric in (STAT, LOOKUP, LIST, SPARSE, SPARSE_BUFFERED, SPARSE_WRITE, HELD_FILES, RECALL, HELD_LOCKS, SERVER_LOCKS):
            self.flat(metric)
        self.results.target("microseconds of a stat that the daemon answers, beyond empty FUSE", "p50_us", reference(BEYOND, OURS), at_most=15)
        for again in PASSES[1::2]:
            self.results.target(f"calls: {again} / the first pass", "rpcs", reference(again, OURS), reference(again.removesuffix(" again"), OURS))
