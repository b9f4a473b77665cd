"""What carries the bytes: one file of nfsrdma-filer, in its memory, over software RDMA (RPC-over-RDMA 2 and 1) and over TCP.

All three mounts stand side by side. "one READ in flight" is the 2003 paper's read-ahead 0: O_DIRECT in blocks that are one
READ each, the next after the last. CPU is the daemon's; software RDMA may cost it no more than TCP does.
"""

from harness.filer import Filer
from harness.ganesha import free_port
from harness.mount import Mount
from measure import TOOLS, Part, Process, run_json

AMONG = "fabrics: "
ONE_READ = 256 << 10


class Fabrics(Part):
    REPEATED = ("fabrics",)
    ONCE = ()

    def __init__(self, results, extra, arguments):
        super().__init__(results, extra, arguments)
        rdma = free_port()
        self.server = Filer(name="fabrics", arguments=("--export", "memory", "--rdma", f"127.0.0.1:{rdma}")).start()
        self.mounts = {name: Mount(self.server.source("/memory"), port, ",".join(o for o in (options, self.options) if o), proto=proto)
                       for name, proto, port, options in (("RDMA 2", "rdma", rdma, "rdmavers=2"), ("RDMA 1", "rdma", rdma, "rdmavers=1"),
                                                          ("TCP", "tcp", self.server.port, ""))}
        for name in ("data", "target"):
            with open(f"{self.mounts['TCP'].path}/{name}", "wb") as file:
                file.truncate(self.size)
            run_json([f"{TOOLS}/fsload", "--op", "write", "--path", file.name, "--size", self.size])

    def end(self):
        for mounted in self.mounts.values():
            mounted.umount()
        self.server.kill()

    def fabrics(self):
        server = Process(self.server.pid)
        # Each is the first in turn: who comes after a pause finds the processor's caches, and free memory, as others left them.
        names = list(self.mounts)
        turn = self.round % len(names)
        for name in names[turn:] + names[:turn]:
            mounted = self.mounts[name]
            data, daemon = mounted.path + "/data", Process(mounted.pid)
            self.load_file(name, data, mounted.path + "/target", daemon, server, AMONG)
            self.fsload(AMONG + "one READ in flight", name, daemon,
                        ["--op", "read", "--path", data, "--size", self.size, "--block", ONE_READ, "--direct", 1], server)

    def targets(self):
        self.found = []
        for metric in ("read", "read, O_DIRECT", "one READ in flight", "write", "write, O_DIRECT"):
            for name in ("RDMA 2", "RDMA 1"):
                speed, cost = ([self.results.median(AMONG + metric, who, key) for who in (name, "TCP")] for key in ("mib_per_s", "cpu_per_gib"))
                self.ratio(f"{AMONG}{metric}: {name} / TCP", *speed, at_least=1.0)
                self.ratio(f"{AMONG}CPU per GiB, {metric}: {name} / TCP", *cost, at_most=1.0)
        return self.found
