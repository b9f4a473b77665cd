# SPDX-License-Identifier: Apache-2.0
"""A mount of Ganesha over TCP, compared with libnfs, which does not use FUSE, and with the ceilings (ceilings.py).

tests/bench/nfsload drives libnfs through its raw asynchronous API (NFSv3 and NFSv4.0), with a number of calls in progress at once. nfs-cat
and nfs-cp are libnfs's own tools; fuse-nfs (fuse_nfs.py) is a mount built on it. The CPU of a mount and of a ceiling is its daemon's; that
of libnfs is the whole client's. The bare client, a minimal client of the same server, is measured with all.
"""

import os
import resource
import shutil
import subprocess
import time

from ceilings import BARE, BARE_ABOUT, CEILINGS, DUTIES, DUTIES_ABOUT, EMPTY, RELAY, Bare, Ceiling, read_ahead
from fuse_nfs import FUSE_NFS, FUSE_NFS_ABOUT, FuseNfs
from harness.ganesha import Ganesha
from harness.mount import Mount
from measure import GIB, HOME, MIB, TOOLS, Daemon, Part, Process, run_json
from results import reference

OURS = "mount of Ganesha"
CAT, COPY = "read with cat", "write a new file"
TRANSFERS = ("read", "read, O_DIRECT", "write", "write, O_DIRECT")
NAMES = {"stat": "stat", "smallread": "small file read", "create": "create"}
NAME_DEPTHS = (1, 16)


def libnfs(version, depth=None):
    return f"libnfs, NFSv{version}" + (f", {depth} at once" if depth else "")


class Peers(Part):
    REPEATED = ("transfers", "depth", "metadata")
    ONCE = ()
    CONTENDERS = {OURS: ("ours", "nfsrdma-fuse, NFSv4.1 over TCP to nfs-ganesha"), **{
        libnfs(version, depth): ("peer", f"libnfs' asynchronous API over NFSv{version}, without FUSE, into one buffer"
                                 + (f"; {depth} calls of 512 KiB under way" if depth else ""))
        for version in (3, 4) for depth in (None, 1, 4, 8)}, "nfs-cat": ("peer", "libnfs' tool"), "nfs-cp": ("peer", "libnfs' tool"), **CEILINGS,
        BARE: BARE_ABOUT, DUTIES: DUTIES_ABOUT}

    def __init__(self, results, arguments):
        super().__init__(results, arguments)
        if arguments.fuse_nfs:
            results.contender(FUSE_NFS, *FUSE_NFS_ABOUT)
        self.files = arguments.files
        self.server = Ganesha(minor_versions="0,1,2", v3=True, lease=60, grace=2).start()
        self.served = Process(self.server.pid)
        self.prepare()

    def end(self):
        self.server.kill()

    def prepare(self):
        root = self.server.path()
        block = os.urandom(MIB)
        for name in ("data", "target"):
            with open(os.path.join(root, name), "wb") as file:
                for _ in range(self.size // MIB):
                    file.write(block)
            os.chmod(os.path.join(root, name), 0o666)
        shutil.copyfile(os.path.join(root, "data"), os.path.join(HOME, "local"))
        os.mkdir(os.path.join(root, "small"))
        for i in range(self.files):
            with open(os.path.join(root, "small", f"f{i}"), "wb") as file:
                file.write(block[:4096])

    def mounted(self):
        mounted = Mount(self.server.source(), self.server.port, self.options)
        self.window = read_ahead(mounted.path)
        return mounted

    window = None

    def ceiling(self, name):
        return Ceiling(name, self.size, self.files, self.window)

    def bare(self, directory="/export", small=False, name=BARE):
        return Bare(self.server.port, directory, small, name)

    def peer(self):
        return FuseNfs(self.arguments.fuse_nfs, self.server)

    def beside(self):
        """{name: mount} of the contenders that use FUSE and a server: the peer, if one was named, and the bare client."""
        return {**({FUSE_NFS: self.peer()} if self.arguments.fuse_nfs else {}), BARE: self.bare()}

    def libnfs(self, metric, contender, op, version, depth, at=None, **options):
        argv = [os.path.join(TOOLS, "nfsload"), "--op", op, "--version", version, "--port", self.server.port, "--mount-port",
                self.server.mount_port, "--path", "/export" + ("/small" if op in NAMES else ""), "--depth", depth]
        for name, value in options.items():
            argv += ["--" + name, value]
        before = self.served.cpu_seconds()
        result = run_json(argv)
        run = self.figures(result, result["cpu_seconds"], self.served.cpu_seconds() - before)
        run["cpu_percent"] = 100 * result["cpu_seconds"] / result["seconds"]  # client and application are one process
        self.results.add(metric, contender, run, at)

    def tool(self, metric, contender, *argv):
        self.touch_free_memory()
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        served, begin = self.served.cpu_seconds(), time.monotonic()
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
        seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            self.results.note(f"{contender} failed: {done.stderr.strip()}")
            return
        cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
        gib = self.size / GIB
        self.results.add(metric, contender, {"mib_per_s": self.size / MIB / seconds, "cpu_per_gib": cpu / gib,
                                             "server_cpu_per_gib": (self.served.cpu_seconds() - served) / gib})

    # One large file

    def transfers(self):
        """Measures every metric with all contenders in turn, so that compared runs are within a second or two."""
        mounted = self.mounted()
        stands, peers, dutiful = {name: self.ceiling(name) for name in CEILINGS}, self.beside(), self.bare(name=DUTIES)
        self.warm([mounted.path, dutiful.path, peers[BARE].path])
        for metric in self.LARGE:
            runs = [lambda: self.large(metric, OURS, self.paths(mounted.path), Daemon(mounted), self.served)]
            runs += [lambda name=name, it=it: self.large(metric, name, dict.fromkeys(("read", "write"), it.path + "/data"), it.daemon)
                     for name, it in stands.items()]
            runs += [lambda name=name, it=it: self.large(metric, name, self.paths(it.path), it.daemon, self.served) for name, it in peers.items()]
            if metric.startswith("write"):
                runs.append(lambda: self.large(metric, DUTIES, self.paths(dutiful.path), dutiful.daemon, self.served))
            for version, depth in [(v, d) for v in (3, 4) for d in (1, 4, 8)]:
                if metric == "read" or (metric == "write" and version == 3):
                    source = "data" if metric == "read" else "target"
                    runs.append(lambda version=version, depth=depth: self.libnfs(
                        metric, libnfs(version, depth), metric, version, depth, file=source, size=self.size, block=512 << 10))
            for run in self.turns(runs):
                run()
        self.new_file(mounted)
        for it in [mounted, *stands.values(), *peers.values(), dutiful]:
            it.umount()

    def warm(self, mounts):
        """Pays the daemon's one-time cost of touching the memory in which it keeps written data. A mount lives for days, so this is not
        part of a transfer's cost. On 2026-11-26 it was 0.3 of the 0.9 CPU s/GiB of a first write of 128 MiB. With O_DIRECT, because
        page cache pages would go back to the host before the next reads need them. (fuse-nfs keeps nothing; libnfs and nfs-cp have one
        buffer.)"""
        for path in mounts:
            self.unmeasured("write", self.paths(path)["write"], "--direct", 1)

    @staticmethod
    def paths(path):
        return {"read": path + "/data", "write": path + "/target"}

    def new_file(self, mounted):
        """libnfs's tools, and their equivalents on a mount: cat, and cp with a sync."""
        nfs = "nfs://127.0.0.1/export/"
        v3 = f"?version=3&nfsport={self.server.port}&mountport={self.server.mount_port}"
        # A new name for every round: Ganesha caches a file that was removed without its knowledge.
        number = self.results.round
        fresh = os.path.join(mounted.path, f"written{number}")
        runs = {CAT: [lambda: self.tool(CAT, "nfs-cat", "nfs-cat", f"{nfs}data{v3}"),
                      lambda: self.command(CAT, mounted, ["cat", mounted.path + "/data"])],
                COPY: [lambda: self.tool(COPY, "nfs-cp", "nfs-cp", os.path.join(HOME, "local"), f"{nfs}copied{number}{v3}"),
                       lambda: self.command(COPY, mounted, ["sh", "-c", f"cp {HOME}/local {fresh} && sync {fresh}"])]}
        for metric in runs:
            for run in self.turns(runs[metric]):
                run()
        os.unlink(fresh)
        if os.path.exists(copied := os.path.join(self.server.path(), f"copied{number}")):
            os.unlink(copied)

    def command(self, metric, mounted, argv):
        if metric == CAT:
            descriptor = os.open(mounted.path + "/data", os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)
        daemon = Daemon(mounted)
        begin, before = time.monotonic(), daemon.cpu_seconds()
        subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
        seconds = time.monotonic() - begin
        self.results.add(metric, OURS, {"mib_per_s": self.size / MIB / seconds,
                                        "cpu_per_gib": (daemon.cpu_seconds() - before) / (self.size / GIB)})

    # Queue depth: 4 KiB random reads, and throughput

    def depth(self):
        mounted = self.mounted()
        stands, peers = {name: self.ceiling(name) for name in CEILINGS}, self.beside()
        kinds = [("random read", self.random_reads, self.DEPTHS), (self.DEEP, self.deep_reads, self.DEEP_DEPTHS)]
        for metric, reads, depth in [(metric, reads, depth) for metric, reads, depths in kinds for depth in depths]:
            runs = [lambda: reads(OURS, mounted.path + "/data", Daemon(mounted), depth, self.served)]
            runs += [lambda name=name, it=it: reads(name, it.path + "/data", it.daemon, depth, self.served) for name, it in peers.items()]
            runs += [lambda name=name, it=it: reads(name, it.path + "/data", it.daemon, depth) for name, it in stands.items()]
            runs += [lambda version=version: self.libnfs_reads(metric, version, depth) for version in (3, 4)]
            for run in self.turns(runs):
                run()
        for it in [mounted, *stands.values(), *peers.values()]:
            it.umount()

    def libnfs_reads(self, metric, version, depth):
        op, more = ("read", {"block": self.DEEP_BLOCK}) if metric == self.DEEP else ("randread", {"block": 4096, "count": 1000 * min(depth, 8)})
        self.libnfs(metric, libnfs(version), op, version, depth, {"depth": depth}, file="data", size=self.size, **more)

    # Names and small files

    def metadata(self):
        """stat, create and small files. Every mount starts with empty caches."""
        small = os.path.join(self.server.path(), "small")
        for depth in NAME_DEPTHS:
            for op, name in NAMES.items():
                runs = [lambda: self.load_names(OURS, op, depth, self.mounted()), lambda: self.load_names(EMPTY, op, depth, self.ceiling(EMPTY), ""),
                        lambda: self.load_names(BARE, op, depth, self.bare("/export/small", small=op == "smallread"), "")]
                if op == "smallread":
                    runs.append(lambda: self.load_names(DUTIES, op, depth, self.bare("/export/small", small=True, name=DUTIES), ""))
                runs += [lambda: self.load_names(FUSE_NFS, op, depth, self.peer())] if self.arguments.fuse_nfs else []
                runs += [lambda version=version: self.libnfs(name, libnfs(version), op, version, depth, {"depth": depth}, count=self.files,
                                                             file=self.new_names() if op == "create" else "f",
                                                             **({"block": 4096} if op == "smallread" else {})) for version in (3, 4)]
                for run in self.turns(runs):
                    run()
            for name in os.listdir(small):
                if name.startswith("new"):
                    os.unlink(os.path.join(small, name))

    names = 0

    def new_names(self):
        """A new prefix for every run: Ganesha caches names for a while after they were removed without its knowledge."""
        self.names += 1
        return f"new{self.names}."

    def load_names(self, contender, op, depth, it, below="small"):
        """Measures a mount that is made for this run. `below`: the directory of the small files in it."""
        daemon = Daemon(it) if contender == OURS else it.daemon
        prefix = os.path.join(it.path, below, self.new_names() if op == "create" else "f")
        self.fsload(NAMES[op], contender, daemon, ["--op", op, "--path", prefix, "--count", self.files, "--depth", depth, "--block", 4096],
                    None if contender == EMPTY else self.served, {"depth": depth})
        it.umount()

    # Plots and targets

    def best_libnfs(self, metric, key="mib_per_s", at=None):
        return self.results.best(metric, "libnfs", key, at)

    def plots(self):
        plot, best = self.results.plot, {m: self.best_libnfs(m) for m in ("read", "write")}
        shown = [OURS, *dict.fromkeys(b for b in best.values() if b), "nfs-cat", "nfs-cp", FUSE_NFS, RELAY, BARE, DUTIES, EMPTY]
        pairs = [(OURS, name) for name in [*dict.fromkeys(best.values()), BARE, DUTIES, RELAY] if name]
        if best["read"]:
            plot("bars", "Large transfers: a mount of Ganesha beside libnfs", [*self.LARGE, CAT, COPY], "mib_per_s",
                 pairs, contenders=shown,
                 text="One file, in blocks of 1 MiB. libnfs is shown with the number of calls under way at once that was its best in this run.")
            plot("bars", "CPU for large transfers", list(TRANSFERS), "cpu_per_gib", pairs[:1], contenders=shown,
                 text="Of the daemon alone; for libnfs, which has none, of the whole client.")
        if self.results.median("random read", OURS, "ops_per_s", {"depth": 1}):
            who = [OURS, libnfs(3), libnfs(4), FUSE_NFS, RELAY, BARE, EMPTY]
            pairs = [(OURS, libnfs(3)), (OURS, BARE), (OURS, RELAY)]
            plot("lines", "4 KiB random reads against queue depth: a mount of Ganesha", "random read", "ops_per_s", pairs, x="depth", contenders=who,
                 text="O_DIRECT, in one file that the server has in memory.")
            plot("lines", "How long such a read takes", "random read", "p50_us", [(OURS, BARE), (OURS, RELAY)], x="depth", contenders=[OURS, BARE, RELAY, EMPTY],
                 text="The median of all reads of a round.")
            plot("lines", "Throughput against queue depth: a mount of Ganesha", self.DEEP, "mib_per_s", pairs, x="depth", contenders=who,
                 text="One file in order, in reads of 256 KiB, so many of them under way at once; O_DIRECT.")
        for depth in NAME_DEPTHS:
            if self.results.median("stat", OURS, "ops_per_s", {"depth": depth}):
                plot("bars", f"Names and small files, {'one at a time' if depth == 1 else f'{depth} at once'}", list(NAMES.values()), "ops_per_s",
                     [(OURS, libnfs(4)), (OURS, BARE), (OURS, DUTIES)], where={"depth": depth},
                     contenders=[OURS, libnfs(3), libnfs(4), FUSE_NFS, BARE, DUTIES, EMPTY],
                     text="Every mount starts with empty caches; files of 4 KiB are opened, read and closed, or created and closed.")

    def targets(self):
        """Targets: a minimum ratio to libnfs's speed; a maximum ratio to its CPU plus FUSE's; and the ratio to the ceilings."""
        target = self.results.target
        for metric in ("read", "write"):
            name = self.best_libnfs(metric)
            if not name:
                continue
            them = reference(metric, name)
            for variant in (metric, metric + ", O_DIRECT"):
                ours = reference(variant, OURS)
                target(f"sequential {variant}: {OURS} / {name}", "mib_per_s", ours, them, at_least=1.2)
                limits = (BARE, DUTIES) if metric == "write" else (BARE,)
                for limit in (RELAY, *limits):
                    target(f"sequential {variant}: {limit} / {name} (for comparison)", "mib_per_s", reference(variant, limit), them)
                for who in (OURS, *limits):
                    what = f"CPU per GiB, {variant}: {who} / (libnfs and empty FUSE together)"
                    target(what if who == OURS else what + " (for comparison)", "cpu_per_gib", reference(variant, who),
                           [them, reference(variant, EMPTY)], **({"at_most": 0.6} if who == OURS else {}))
        for metric, tool in ((CAT, "nfs-cat"), (COPY, "nfs-cp")):
            target(f"sequential {metric}: {OURS} / {tool}", "mib_per_s", reference(metric, OURS), reference(metric, tool), at_least=1.2)
        for metric, bound, at in [("random read", 1.2, {"depth": 32})] + [(n, 1.5, {"depth": 16}) for n in ("small file read", "create")]:
            name = self.best_libnfs(metric, "ops_per_s", at)
            if name:
                what, them = f"{metric}, {at['depth']:g} at once", reference(metric, name, at)
                target(f"{what}: {OURS} / {name}", "ops_per_s", reference(metric, OURS, at), them, at_least=bound)
                # The relay serves no small files.
                for limit in (RELAY if metric == "random read" else EMPTY, BARE, *((DUTIES,) if metric == "small file read" else ())):
                    target(f"{what}: {limit} / {name} (for comparison)", "ops_per_s", reference(metric, limit, at), them)
        self.beside_fuse_nfs()
        target(f"re-read: {OURS} / {EMPTY}", "mib_per_s", reference("re-read", OURS), reference("re-read", EMPTY), at_least=0.9)

    def beside_fuse_nfs(self):
        """ "libnfs-based FUSE clients must be left behind by 1.5 to 2 x on every line"."""
        lines = [(metric, "mib_per_s", None) for metric in TRANSFERS] + [("random read", "ops_per_s", {"depth": depth}) for depth in (1, 32)]
        lines += [(metric, "ops_per_s", {"depth": depth}) for metric in NAMES.values() for depth in NAME_DEPTHS]
        for metric, key, at in lines:
            what = f"{metric}, {at['depth']} at once" if at else f"sequential {metric}"
            self.results.target(f"{what}: {OURS} / {FUSE_NFS}", key, reference(metric, OURS, at), reference(metric, FUSE_NFS, at), at_least=1.5)
