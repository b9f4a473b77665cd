# SPDX-License-Identifier: Apache-2.0
"""Transports: one file in the memory of nfsrdma-filer, over software RDMA (RPC-over-RDMA 2 and 1) and over TCP.

All three mounts exist at once, and the ceilings (ceilings.py) with them; latency.py describes `latency`. The grid is that of the 2003
paper on NFS over RDMA (its sections 7.2 and 7.3): reads of 512 bytes to 1 MiB, with 0 to 16 of them ahead of the one that the application
waits for. The paper set a kernel's read-ahead. Here read-ahead N is N + 1 threads that each take the next block of one file with O_DIRECT,
so that exactly N + 1 READs of that size are in progress; `rsize` is 1 MiB, so that no read is split. The server has the file in memory;
the number of calls (`rpcs_per_op`) shows that no client cache answers. CPU is the daemon's; for CPU against throughput (the paper's figure
17) it is the daemon's and the application's together. The ceilings' runs of the grid are half as long: they need no warm-up, and the grid
takes most of the total time. libnfs is not measured here: it speaks NFSv3 and NFSv4.0.
"""

import statistics

from ceilings import BARE, BARE_ABOUT, CEILINGS, EMPTY, FRAMED, FRAMED_ABOUT, RELAY, Bare, Ceiling, read_ahead
from harness.filer import Filer
from harness.mount import Mount
from harness.ports import free_port
from latency import ROUND_TRIP, ROUND_TRIP_ABOUT, ROUND_TRIP_WORDS, medians
from measure import Daemon, Part, Process
from results import reference

TCP, RDMA2, RDMA1 = "TCP", "RDMA 2", "RDMA 1"
RDMA = (RDMA2, RDMA1)
METRICS = ("read", "read, O_DIRECT", "write", "write, O_DIRECT")
GRID, ALONE = "read in order", "4 KiB read, one at a time"
# The same ceilings as with Ganesha; here their runs alternate with those of these mounts.
STANDS = {f"{name}, beside the filer": name for name in (RELAY, EMPTY)}
WITH_RELAY, WITH_EMPTY = STANDS
WITH_FRAMED = f"{FRAMED}, beside the filer"
KINDS = {**STANDS, WITH_FRAMED: FRAMED}
FRAMED_METRICS = ("read", "read, O_DIRECT")  # other metrics transfer nothing in frames
WITH_BARE = f"{BARE}, beside the filer"
BLOCKS = [512 << n for n in range(12)]
AHEAD = (0, 1, 2, 4, 8, 16)
PAPERS_BLOCK, PAPERS_AHEAD = 256 << 10, 4


def filer_mount(server, rdma, version, *options):
    """A mount of a filer's memory, over RPC-over-RDMA of that version at port `rdma`, or over TCP (version None)."""
    proto, port = ("rdma", rdma) if version else ("tcp", server.port)
    words = [f"rdmavers={version}" if version else "", *options]
    return Mount(server.source("/memory"), port, ",".join(o for o in words if o), proto=proto)


class Fabrics(Part):
    REPEATED = ("fabrics", "latency", "alone", "filer_depth", "grid")
    ONCE = ()
    CONTENDERS = {TCP: ("ours", "nfsrdma-fuse, NFSv4.1 over TCP to nfsrdma-filer"),
                  RDMA2: ("ours", "the same over RPC-over-RDMA 2 in software (iWARP over a TCP socket)"),
                  RDMA1: ("ours", "the same over RPC-over-RDMA 1 in software"),
                  **{name: CEILINGS[kind] for name, kind in STANDS.items()}, WITH_FRAMED: FRAMED_ABOUT,
                  WITH_BARE: BARE_ABOUT, ROUND_TRIP: ROUND_TRIP_ABOUT}

    def __init__(self, results, arguments):
        super().__init__(results, arguments)
        self.rdma = free_port()
        self.server = Filer(name="fabrics", arguments=("--export", "memory", "--rdma", f"127.0.0.1:{self.rdma}")).start()
        self.served = Process(self.server.pid)
        mounted = self.mounted(TCP)
        for name in ("data", "target"):
            with open(f"{mounted.path}/{name}", "wb") as file:
                file.truncate(self.size)
            self.unmeasured("write", file.name)
        mounted.umount()

    def end(self):
        self.server.kill()

    def mounted(self, name, more=""):
        return filer_mount(self.server, self.rdma, {TCP: None, RDMA2: 2, RDMA1: 1}[name], more, self.options)

    def fabrics(self):
        """Large transfers through the page cache and with O_DIRECT."""
        mounts = {name: self.mounted(name) for name in (TCP, *RDMA)}
        # A daemon's first transfer costs more (first touch of pages, new pipes) than the differences to be measured,
        # so another file goes first.
        for mounted in mounts.values():
            self.unmeasured("read", mounted.path + "/target")
        stands = self.stands(read_ahead(mounts[TCP].path), KINDS)
        for metric in self.LARGE:
            for name in self.turns([*mounts, *stands]):
                if name == WITH_FRAMED and metric not in FRAMED_METRICS:
                    continue
                if name in stands:
                    self.large(metric, name, dict.fromkeys(("read", "write"), stands[name].path + "/data"), stands[name].daemon)
                else:
                    mounted = mounts[name]
                    self.large(metric, name, {"read": mounted.path + "/data", "write": mounted.path + "/target"}, Daemon(mounted), self.served)
        self.umount(mounts, stands)

    def stands(self, window=None, names=STANDS):
        return {name: Ceiling(KINDS[name], self.size, 1, window) for name in names}

    @staticmethod
    def umount(*groups):
        for group in groups:
            for it in group.values():
                it.umount()

    def latency(self):
        """The latency of a 4 KiB read; of the bare client; and of FUSE and a round trip of as many bytes, together (the relay) and
        separately."""
        mounts = {name: self.mounted(name) for name in (TCP, *RDMA)}
        stands = {**self.stands(), WITH_BARE: Bare(self.server.port, "/memory")}
        words = {name: ["fsload", "--op", "randread", "--path", it.path + "/data", "--size", self.size, "--block", 4096, "--direct", 1]
                 for name, it in {**mounts, **stands}.items()} | {ROUND_TRIP: ROUND_TRIP_WORDS}
        pids = [self.server.pid, *(mounted.pid for mounted in mounts.values()), *(it.process.pid for it in stands.values())]
        for name, found in medians(pids, words, self.results.round).items():
            self.results.add(ALONE, name, {"p50_us": statistics.median(found)})
        self.umount(mounts, stands)

    def filer_depth(self):
        """4 KiB random reads against queue depth."""
        mounts = {name: self.mounted(name) for name in (TCP, *RDMA)}
        daemons = {name: Daemon(mounted) for name, mounted in mounts.items()}
        stands = self.stands(names=[WITH_RELAY])
        daemons |= {name: it.daemon for name, it in stands.items()}
        paths = {name: it.path + "/data" for name, it in {**mounts, **stands}.items()}
        for depth in self.DEPTHS:
            for name in self.turns(paths):
                self.random_reads(name, paths[name], daemons[name], depth, None if name in stands else self.served)
        self.umount(mounts, stands)

    def alone(self):
        """The grid's reads of 256 KiB without read-ahead: one READ at a time."""
        self.cells([(PAPERS_BLOCK, 0)], KINDS)

    def grid(self):
        """Read size × read-ahead: the longest part."""
        cells = [(block, ahead) for ahead in AHEAD for block in BLOCKS]
        self.cells([(block, ahead) for block, ahead in cells if not self.results.now(GRID, TCP, {"block": block, "ahead": ahead})], KINDS)

    def cells(self, cells, names):
        mounts, stands = {name: self.mounted(name, "rsize=1048576") for name in (TCP, *RDMA)}, self.stands(names=names)
        for block, ahead in cells:
            for name in self.turns([*mounts, *stands]):
                if name in stands:
                    self.cell(name, stands[name], stands[name].daemon, block, ahead, self.arguments.seconds / 2)
                    continue
                run = self.cell(name, mounts[name], Daemon(mounts[name]), block, ahead, self.arguments.seconds, self.served)
                if run["rpcs_per_op"] < 0.99:
                    self.results.note(f"Part of the grid's reads over {name} were answered without the server: it is no longer cold.")
        self.umount(mounts, stands)

    def cell(self, name, it, daemon, block, ahead, seconds, server=None):
        return self.fsload(GRID, name, daemon,
                           ["--op", "read", "--path", it.path + "/data", "--size", self.size, "--block", block, "--direct", 1, "--depth", ahead + 1,
                            "--seconds", seconds], server, {"block": block, "ahead": ahead})

    def plots(self):
        plot, measured = self.results.plot, self.results.has
        pairs = [(name, TCP) for name in RDMA]
        if measured(GRID, TCP):
            who = [TCP, *RDMA, *STANDS, WITH_FRAMED]
            plot("grid", "Read size and read-ahead: the paper's grid", GRID, "mib_per_s", [*pairs, (RDMA2, WITH_RELAY)], x="block", along="ahead",
                 contenders=who,
                 text="Each panel is one transport or ceiling, each line so many READs ahead of the one that is waited for. In 2003 TCP peaked at 60 MB/s "
                      "with 256 KiB and 4 ahead, RDMA at 102 MB/s with 256 KiB and 8 ahead, on 750 MHz processors with RDMA in an adapter. libnfs "
                      "has no panel: it speaks NFSv3 and NFSv4.0, nfsrdma-filer NFSv4.1.")
            for name in RDMA:
                plot("map", f"Where {name} is faster than TCP", GRID, "mib_per_s", [(name, TCP)], x="block", along="ahead")
            plot("cloud", f"CPU against throughput, read-ahead {PAPERS_AHEAD}", GRID, "cpu_percent", [*pairs, (RDMA2, WITH_RELAY)], x="mib_per_s",
                 along="block", where={"ahead": PAPERS_AHEAD}, contenders=who,
                 text="Further right is faster, further down is cheaper. A point for each read size. Daemon and application together; 100 % is one processor.")
            alone = [*pairs, (WITH_FRAMED, WITH_RELAY)]
            plot("lines", "Throughput without read-ahead", GRID, "mib_per_s", alone, x="block", where={"ahead": 0}, contenders=who,
                 text="What software RDMA's frames alone cost is what lies between the two relays.")
            plot("lines", "CPU per GiB without read-ahead", GRID, "cpu_per_gib", alone, x="block", where={"ahead": 0}, contenders=who,
                 text="The daemon's. With an adapter that places data by itself, the paper's RDMA took 0.3 to 0.6 of TCP's CPU; software RDMA pays for "
                      "the same socket as TCP.")
        if measured("read", TCP):
            who = [TCP, *RDMA, *STANDS]
            plot("bars", "Large transfers: TCP and RDMA to nfsrdma-filer", list(self.LARGE), "mib_per_s", [*pairs, (RDMA2, WITH_RELAY)], contenders=[*who, WITH_FRAMED],
                 text="One file in the server's memory, in blocks of 1 MiB.")
            plot("bars", "CPU for large transfers: TCP and RDMA", list(METRICS), "cpu_per_gib", pairs, contenders=[*who, WITH_FRAMED], text="The daemon's.")
        if self.results.median("random read", TCP, "ops_per_s", {"depth": 1}):
            plot("lines", "4 KiB random reads against queue depth: TCP and RDMA to nfsrdma-filer", "random read", "ops_per_s", pairs, x="depth",
                 contenders=[TCP, *RDMA, WITH_RELAY], text="O_DIRECT.")
        if measured(ALONE, TCP):
            plot("bars", "How long a 4 KiB read takes", ALONE, "p50_us", [(RDMA2, TCP), (TCP, WITH_BARE), (RDMA2, WITH_RELAY)],
                 contenders=[TCP, *RDMA, WITH_BARE, *STANDS, ROUND_TRIP],
                 text="O_DIRECT, at random places, one at a time; all processes on one processor. Medians of short runs in turn. The relay is FUSE and a "
                      "round trip in one process; the empty FUSE file system and the round trip are the two of them alone, and can be added.")

    def frames_alone(self, what, metric, at):
        """For comparison: the cost of frames for any client that receives them."""
        framed, relay = reference(metric, WITH_FRAMED, at), reference(metric, WITH_RELAY, at)
        self.results.target(f"{what}: {FRAMED} / {RELAY} (for comparison)", "mib_per_s", framed, relay)
        self.results.target(f"CPU per GiB, {what}: {FRAMED} / {RELAY} (for comparison)", "cpu_per_gib", framed, relay)

    def without_read_ahead(self, block):
        what, at = f"{block} B" if block < 1024 else f"{block >> 10} KiB", {"block": block, "ahead": 0}
        for name in RDMA if block == PAPERS_BLOCK else (RDMA2,):
            of, over = reference(GRID, name, at), reference(GRID, TCP, at)
            self.results.target(f"{what} reads without read-ahead: {name} / TCP", "mib_per_s", of, over, at_least=1.0)
            self.results.target(f"CPU per GiB, {what} reads without read-ahead: {name} / TCP", "cpu_per_gib", of, over, at_most=1.0)
        self.frames_alone(f"{what} reads without read-ahead", GRID, at)

    def at_their_best(self, which, of, over, **bound):
        best = [self.results.best_point(GRID, who, "mib_per_s") for who in (of, over)]
        if all(best):
            self.results.target(f"reads, each at its best: {which}", "mib_per_s", reference(GRID, of, best[0]), reference(GRID, over, best[1]), **bound)

    def targets(self):
        results = self.results
        for name in RDMA:
            for metric in METRICS:
                results.target(f"{metric}: {name} / TCP", "mib_per_s", reference(metric, name), reference(metric, TCP), at_least=1.0)
                results.target(f"CPU per GiB, {metric}: {name} / TCP", "cpu_per_gib", reference(metric, name), reference(metric, TCP), at_most=1.0)
            self.at_their_best(f"{name} / TCP", name, TCP, at_least=1.0)
        for metric in FRAMED_METRICS:
            self.frames_alone(metric, metric, None)
        for block in BLOCKS:
            self.without_read_ahead(block)
        self.at_their_best(f"{FRAMED} / {RELAY} (for comparison)", WITH_FRAMED, WITH_RELAY)
        one = f"time of a 4 KiB read, one at a time: {RDMA2}"
        least = [reference(ALONE, WITH_EMPTY), reference(ALONE, ROUND_TRIP)]
        results.target(f"{one} / {EMPTY} and {ROUND_TRIP} together", "p50_us", reference(ALONE, RDMA2), least, at_most=1.5)
        results.target(f"time of a 4 KiB read, one at a time: {BARE} over TCP / {EMPTY} and {ROUND_TRIP} together (for comparison)", "p50_us", reference(ALONE, WITH_BARE), least)
        results.target(f"{one} / {RELAY} (FUSE and a round trip in one)", "p50_us", reference(ALONE, RDMA2), reference(ALONE, WITH_RELAY), at_most=1.5)
        results.target(f"sequential cold read: {RDMA2} / {RELAY}", "mib_per_s", reference("read", RDMA2), reference("read", WITH_RELAY), at_least=0.6)
        results.target(f"re-read of cached data: {RDMA2} / {EMPTY}", "mib_per_s", reference("re-read", RDMA2), reference("re-read", WITH_EMPTY), at_least=0.9)
