# SPDX-License-Identifier: Apache-2.0
"""This mount beside the kernel's own NFS client, over an RDMA device and over TCP, to Linux' server; scripts/bench --lab runs it.

usage: lab.py [--size MIB] [--reads N] [--files N] [--repeats N] [--clock instructions|host] [--only PART,...] [--commit NAME]

Clients, server and device (Linux' rxe) are in one guest (tests/interop) with one emulated processor, so only ratios mean something. The
guest's clock counts instructions: the results are repeatable whatever the host does, but a cache miss costs as much as a hit. With
`--clock host` it is the host's clock, and the spread shows how busy the host was.

Every run has its own mount, with nothing cached; the contenders' runs alternate. The transport that a mount uses is checked.

The empty FUSE file system is measured, too. The time of the kernel's client plus that of the empty file system, as a rate 1 / (1 / kernel
+ 1 / empty), is the target for a client behind FUSE. lab_requests.py counts the requests of whole workloads, lab_costs.py the daemon's
instructions and system calls. Parts: transfers, files, requests, costs. Writes lab.json (docs/bench/README.md), lab.html and lab.txt, and
the requests and system calls by kind to lab_operations.json.
"""

import argparse
import json
import os
import re
import sys
import time

from ceilings import CEILINGS, EMPTY
from guest import GUEST, Guest
from inside import MountInside
from knfsd import EXPORT, Knfsd
from lab_costs import Costs, CountingGuest, describe_costs
from lab_requests import AGAIN, WORKLOADS, Requests
from measure import BLOCK, MIB, TOOLS, WORK, programs
from results import Results, reference, write_report

DEVICE = "rxe0"
OURS, KERNEL = "this mount", "kernel"
PROTOS = ("rdma", "tcp")
ABOUT = {OURS: "nfsrdma-fuse", KERNEL: "the kernel's client", "rdma": " over an RDMA device (rxe, software)", "tcp": " over TCP"}
MOUNTS = [(client, proto) for proto in PROTOS for client in (OURS, KERNEL)]
CONTENDERS = [*MOUNTS, (EMPTY, None)]
RANDOM, SMALL = 4096, 4096
PARTS = ("transfers", "files", "requests", "costs")
LARGE = ("read", "write", "read, O_DIRECT", "write, O_DIRECT")
NAMES = {"create": "create", "stat": "stat", "smallread": "small file read"}


def name_of(client, proto):
    return f"{client}, {proto}" if proto else client


# The kernel's read-ahead window of a mount, in KiB.
WINDOW = "/sys/class/bdi/$(mountpoint -d {})/read_ahead_kb"


class EmptyMount:
    """tests/bench/nullfs in the guest."""

    path = "/run/empty"
    data = target = "data"
    small, created = "f", "c"

    def __init__(self, guest, size, files, window):
        self.guest = guest
        guest.run(f"mkdir -p {self.path}")
        self.process = guest.begin(f"exec {TOOLS}/nullfs --size {size} --files {files} {self.path}")
        guest.run(f"for i in $(seq 600); do ! mountpoint -q {self.path} || exit 0; sleep 0.1; done; exit 1")
        guest.run(f"echo {window} >{WINDOW.format(self.path)}")

    def umount(self):
        self.guest.run(f"umount {self.path}")
        self.process.wait(60)


class Names:
    """Paths in the export."""

    export = EXPORT
    data, target, small, created = "data", "target", "small/f", "created/c"


class KernelMount(Names):
    """The kernel's client in the guest, with those methods of MountInside that are used here."""

    path = "/net"

    def __init__(self, guest, proto):
        self.guest = guest
        guest.run(f"kernel_mount {GUEST}:/ {self.path} proto={proto},port={20049 if proto == 'rdma' else 2049}")

    def went_over(self):
        """The transport in use. It is checked because an NFSv4.1 mount may share the transport of another mount of the same server."""
        return self.guest.run(f"sed -n '\\| {self.path} |,/^device/ s/^\\s*xprt:\\s*\\(\\S*\\).*/\\1/p' /proc/self/mountstats").strip()

    def requests(self):
        """{operation: number of requests}."""
        sections = self.guest.run("cat /proc/self/mountstats").split("\ndevice ")
        mine, = (section for section in sections if f" mounted on {self.path} " in section.splitlines()[0])
        counted = re.findall(r"^\s*([A-Z_]+): (\d+)", mine.split("per-op statistics")[1], re.MULTILINE)
        return {op: int(n) for op, n in counted if op != "SEQUENCE"}

    def umount(self):
        self.guest.run(f"umount {self.path}")


class OurMount(Names, MountInside):
    def __init__(self, guest, proto):
        super().__init__(guest, f"{GUEST}:/", f"rdma_dev={DEVICE}" if proto == "rdma" else "rw", proto)

    def went_over(self):
        transport, = self.stats()["transports"]
        rdma = transport.get("rdma")
        return "tcp" if not rdma else "rdma" if rdma["fabric"].startswith(DEVICE) else rdma["fabric"]

    def requests(self):
        return {op["name"]: op["requests"] for op in self.stats()["operations"] if op["name"] != "SEQUENCE"}


class Lab:
    """Measures in a guest that has the device."""

    def __init__(self, guest, results, size, reads, files, parts=PARTS):
        self.guest, self.results, self.size, self.reads, self.files, self.parts = guest, results, size, reads, files, parts
        self.requests = Requests(guest, results) if "requests" in parts else None
        self.costs = Costs(guest, results, size) if "costs" in parts else None
        self.kib = None
        for client, proto in MOUNTS:
            results.contender(name_of(client, proto), "ours" if client == OURS else "peer", ABOUT[client] + ABOUT[proto])
        results.contender(EMPTY, *CEILINGS[EMPTY])
        guest.run("modprobe -a nfsv4 rpcrdma fuse")
        Knfsd(guest, lease=10).start()  # the grace period is as long as the lease
        guest.run(f"""cd {EXPORT}; for name in data target; do head -c {self.size} /dev/urandom >$name; chmod 666 $name; done
            mkdir small created; for i in $(seq 0 {files - 1}); do head -c {SMALL} data >small/f$i; done""")
        if self.requests:
            self.requests.prepare(EXPORT)

    def run(self, number):
        """Measures every contender once; each round begins with another one."""
        self.results.round = number
        turn = number % len(CONTENDERS)
        for client, proto in CONTENDERS[turn:] + CONTENDERS[:turn]:
            for part in ("transfers", "files"):
                if part in self.parts:
                    self.with_mount(client, proto, {"transfers": self.transfers, "files": self.files_part}[part])
            if self.requests and proto and number == 0:
                self.with_mount(client, proto, self.requests.count)
            if self.costs and client == OURS:
                self.with_mount(client, proto, self.costs.count)

    def with_mount(self, client, proto, work):
        mounted = self.mount(client, proto)
        try:
            work(name_of(client, proto), mounted)
        finally:
            mounted.umount()

    def mount(self, client, proto):
        if client == EMPTY:
            return EmptyMount(self.guest, self.size, self.files, self.window())
        mounted = (OurMount if client == OURS else KernelMount)(self.guest, proto)
        over = mounted.went_over()
        if over != proto:
            mounted.umount()
            raise RuntimeError(f"{client} was to go over {proto} and went over {over}")
        return mounted

    def window(self):
        """Our mount's read-ahead window; the ceiling gets the same."""
        if self.kib is None:
            mounted = OurMount(self.guest, "tcp")
            self.kib = int(self.guest.run(f"cat {WINDOW.format(mounted.path)}"))
            mounted.umount()
        return self.kib

    def transfers(self, contender, mounted):
        for direct, suffix in ((0, ""), (1, ", O_DIRECT")):
            for op, name in (("read", mounted.data), ("write", mounted.target)):
                self.fsload(op + suffix, contender, f"--size {self.size} --op {op} --path {mounted.path}/{name} --block {BLOCK} --direct {direct}")
        for depth in (1, 8, 32):
            self.fsload("random read", contender, f"--size {self.size} --op randread --path {mounted.path}/{mounted.data} "
                        f"--block {RANDOM} --direct 1 --depth {depth} --count {self.reads}", {"depth": depth})

    def files_at(self, op, depth, contender, mounted, name):
        self.fsload(NAMES[op], contender, f"--op {op} --path {mounted.path}/{name} --block {SMALL} --depth {depth} --count {self.files}",
                    {"depth": depth})

    def files_part(self, contender, mounted):
        for depth in (1, 8):
            self.files_at("create", depth, contender, mounted, f"{mounted.created}{depth}.")
        self.guest.run(f"rm -rf {EXPORT}/created; mkdir {EXPORT}/created")
        self.files_at("stat", 1, contender, mounted, mounted.small)
        self.files_at("smallread", 1, contender, mounted, mounted.small)
        self.files_at("smallread", 8, contender, mounted, mounted.small)

    def fsload(self, metric, contender, words, at=None):
        done = json.loads(self.guest.run(f"{TOOLS}/fsload {words}"))
        self.results.add(metric, contender, {"mib_per_s": done["bytes"] / MIB / done["seconds"] or None, "p50_us": done["p50_us"],
                                             "ops_per_s": done["operations"] / done["seconds"]}, at)


def describe(results):
    """The plots and the targets: nine tenths of the rate of kernel plus FUSE, the kernel's own speed for names, and fewer requests."""
    pairs = [(name_of(OURS, proto), name_of(KERNEL, proto)) for proto in PROTOS]
    if results.has("read", EMPTY):
        results.plot("bars", "Large transfers beside the kernel's client", LARGE, "mib_per_s", pairs,
                     text="One file in blocks of 1 MiB. The RDMA device is software: it copies every byte, and is most of what is measured over it.")
        results.plot("lines", "4 KiB random reads against queue depth", "random read", "ops_per_s", pairs, x="depth", text="O_DIRECT.")
    if results.has("stat", EMPTY):
        for depth, names in ((1, list(NAMES.values())), (8, ["create", "small file read"])):
            results.plot("bars", f"Names and small files, {'one at a time' if depth == 1 else f'{depth} at once'}", names, "ops_per_s", pairs,
                         where={"depth": depth}, text="Files of 4 KiB; every mount starts with nothing cached.")
    if results.has(WORKLOADS[0][0], name_of(OURS, "tcp")):
        results.plot("bars", "Requests of whole workloads", [name for name, _ in WORKLOADS], "rpcs", pairs, text="What keeps the lease is not counted.")
    for proto in PROTOS:
        demand(results, name_of(OURS, proto), name_of(KERNEL, proto))
    describe_costs(results, *(name_of(OURS, proto) for proto in PROTOS))


def demand(results, ours, kernel):
    allowed = [(metric, "mib_per_s", None) for metric in LARGE] + [("random read", "ops_per_s", {"depth": 8})]
    for metric, key, at in allowed:
        of, them, empty = (reference(metric, who, at) for who in (ours, kernel, EMPTY))
        what = metric if not at else f"{metric}, {at['depth']} at once"
        results.target(f"{what}: {ours} / ({kernel} and {EMPTY}, one after the other)", key, of, [them, empty], combine="series", at_least=0.9)
    for metric, depth in (("create", 1), ("create", 8), ("stat", 1)):
        at = {"depth": depth}
        results.target(f"{metric}, {depth} at once: {ours} / {kernel}", "ops_per_s", reference(metric, ours, at), reference(metric, kernel, at), at_least=1.0)
    for workload, _ in WORKLOADS:
        results.target(f"requests of {workload}: {ours} / {kernel}", "rpcs", reference(workload, ours), reference(workload, kernel),
                       at_most=0.1 if workload in AGAIN else 0.7)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=32, metavar="MIB", help="of the file that is read and written")
    parser.add_argument("--reads", type=int, default=500, metavar="N", help="random reads in a run")
    parser.add_argument("--files", type=int, default=300, metavar="N", help="small files in a run")
    parser.add_argument("--repeats", type=int, default=5, metavar="N", help="fewer decide nothing")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--clock", choices=("instructions", "host"), default="instructions", help="what the guest measures with")
    parser.add_argument("--commit", help="that the programs are of, for the report")
    arguments = parser.parse_args()
    parts = arguments.only.split(",")
    if unknown := set(parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    guest = (CountingGuest if "costs" in parts else Guest)(counted=arguments.clock == "instructions").start()
    guest.run("rdma_up")
    results, begin = Results(), time.monotonic()
    lab = Lab(guest, results, arguments.size * MIB, arguments.reads, arguments.files, parts)
    for number in range(arguments.repeats if set(lab.parts) - {"requests"} else 1):
        print(f"repeat {number + 1} of {arguments.repeats}", file=sys.stderr, flush=True)
        lab.run(number)
    guest.end()
    describe(results)
    results.note(f"The processor is emulated (clock: {arguments.clock}): only ratios mean something.")
    conditions = [("server", f"knfsd of {guest.release}"), ("guest", guest.release), ("programs", programs(arguments.commit)), ("clock", arguments.clock), ("large file", f"{arguments.size} MiB"), ("random reads", arguments.reads),
                  ("small files", arguments.files), ("rounds", arguments.repeats), ("took", f"{time.monotonic() - begin:.0f} s")]
    print(write_report(results.document("nfsrdma-fuse beside the kernel's NFS client", conditions), os.path.join(WORK, "out"), "lab",
                       results.operations), end="")


if __name__ == "__main__":
    main()
