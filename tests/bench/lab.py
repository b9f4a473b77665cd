"""This mount beside the kernel's own NFS client, over an RDMA device and over TCP, to Linux' server; scripts/bench --lab runs it.

usage: lab.py [--size MIB] [--reads N] [--files N] [--repeats N] [--clock instructions|host] [--only transfers,files,requests]

Clients, server and device (Linux' rxe) are in one guest (tests/interop) with one emulated processor, so only ratios mean something.
The guest's clock counts instructions: figures repeat whatever the host does, but a cache miss costs what a hit does. With
`--clock host` it is the host's clock, and the spread says how busy the host was.

Every run is a mount of its own, with nothing cached; repeats are interleaved. What a mount went over is looked up, not believed.

The empty FUSE file system stands beside them: what the kernel's client and it cost one after the other, 1 / (1 / kernel + 1 / empty), is
what a client behind FUSE is allowed. lab_requests.py counts the requests of whole workloads.
"""

import argparse
import json
import os
import re
import sys
import time

from guest import GUEST, Guest
from inside import MountInside
from knfsd import EXPORT, Knfsd
from lab_requests import Requests
from measure import BLOCK, MIB, TOOLS, WORK, Results, machine

DEVICE = "rxe0"
OURS, KERNEL, EMPTY = "this mount", "kernel", "empty FUSE file system"
MOUNTS = [(client, proto) for proto in ("rdma", "tcp") for client in (OURS, KERNEL)]
CONTENDERS = [*MOUNTS, (EMPTY, None)]
RANDOM, SMALL = 4096, 4096
PARTS = ("transfers", "files", "requests")


def name_of(client, proto):
    return f"{client}, {proto}" if proto else client


class EmptyMount:
    """tests/bench/nullfs in the guest."""

    path = "/run/empty"
    data = target = "data"
    small, created = "f", "c"

    def __init__(self, guest, size, files):
        self.guest = guest
        guest.run(f"mkdir -p {self.path}")
        self.process = guest.begin(f"exec {TOOLS}/nullfs --size {size} --files {files} {self.path}")
        guest.run(f"for i in $(seq 600); do ! mountpoint -q {self.path} || exit 0; sleep 0.1; done; exit 1")

    def umount(self):
        self.guest.run(f"umount {self.path}")
        self.process.wait(60)


class Names:
    """Where things are in the export."""

    data, target, small, created = "data", "target", "small/f", "created/c"


class KernelMount(Names):
    """The kernel's client in the guest, with the methods of MountInside that are used here."""

    path = "/net"

    def __init__(self, guest, proto):
        self.guest = guest
        guest.run(f"kernel_mount {GUEST}:/ {self.path} proto={proto},port={20049 if proto == 'rdma' else 2049}")

    def went_over(self):
        """The transport in use: NFSv4.1 lets a mount share another one's of the same server."""
        return self.guest.run(f"sed -n '\\| {self.path} |,/^device/ s/^\\s*xprt:\\s*\\(\\S*\\).*/\\1/p' /proc/self/mountstats").strip()

    def requests(self):
        """{operation: how many}."""
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
    """Works in a guest that has the device."""

    def __init__(self, guest, results, size, reads, files, parts=PARTS):
        self.guest, self.results, self.size, self.reads, self.files, self.parts = guest, results, size, reads, files, parts
        self.requests = Requests(guest) if "requests" in parts else None
        guest.run("modprobe -a nfsv4 rpcrdma fuse")
        Knfsd(guest, lease=10).start()  # it has a grace period as long
        guest.run(f"""cd {EXPORT}; for name in data target; do head -c {self.size} /dev/urandom >$name; chmod 666 $name; done
            mkdir small created; for i in $(seq 0 {files - 1}); do head -c {SMALL} data >small/f$i; done""")
        if self.requests:
            self.requests.prepare(EXPORT)

    def run(self, number):
        """Every contender once; each is the first in turn."""
        turn = number % len(CONTENDERS)
        for client, proto in CONTENDERS[turn:] + CONTENDERS[:turn]:
            for part in ("transfers", "files"):
                if part in self.parts:
                    self.with_mount(client, proto, {"transfers": self.transfers, "files": self.files_part}[part])
            if self.requests and proto and number == 0:
                self.with_mount(client, proto, self.count)

    def with_mount(self, client, proto, work):
        mounted = self.mount(client, proto)
        try:
            work(name_of(client, proto), mounted)
        finally:
            mounted.umount()

    def mount(self, client, proto):
        if client == EMPTY:
            return EmptyMount(self.guest, self.size, self.files)
        mounted = (OurMount if client == OURS else KernelMount)(self.guest, proto)
        over = mounted.went_over()
        if over != proto:
            mounted.umount()
            raise RuntimeError(f"{client} was to go over {proto} and went over {over}")
        return mounted

    def transfers(self, contender, mounted):
        for direct, suffix in ((0, ""), (1, ", O_DIRECT")):
            for op, name in (("read", mounted.data), ("write", mounted.target)):
                self.fsload(op + suffix, contender, f"--size {self.size} --op {op} --path {mounted.path}/{name} --block {BLOCK} --direct {direct}")
        for depth in (1, 8, 32):
            self.fsload(f"random read, depth {depth}", contender, f"--size {self.size} --op randread --path {mounted.path}/{mounted.data} "
                        f"--block {RANDOM} --direct 1 --depth {depth} --count {self.reads}")

    def files_at(self, op, depth, contender, mounted, name):
        self.fsload(f"{op}, depth {depth}", contender,
                    f"--op {op} --path {mounted.path}/{name} --block {SMALL} --depth {depth} --count {self.files}")

    def files_part(self, contender, mounted):
        for depth in (1, 8):
            self.files_at("create", depth, contender, mounted, f"{mounted.created}{depth}.")
        self.guest.run(f"rm -rf {EXPORT}/created; mkdir {EXPORT}/created")
        self.files_at("stat", 1, contender, mounted, mounted.small)
        self.files_at("smallread", 1, contender, mounted, mounted.small)
        self.files_at("smallread", 8, contender, mounted, mounted.small)

    def count(self, contender, mounted):
        self.requests.count(contender, mounted)

    def fsload(self, metric, contender, words):
        done = json.loads(self.guest.run(f"{TOOLS}/fsload {words}"))
        self.results.add(metric, contender, {"mib_per_s": done["bytes"] / MIB / done["seconds"],
                                             "ops_per_s": done["operations"] / done["seconds"]})


def key_of(metric):
    return "mib_per_s" if metric.startswith(("read", "write")) else "ops_per_s"


def ratios(results):
    """[{"metric", "proto", "of_kernel_rdma", "of_kernel_tcp", "of_allowance"}] of this mount's medians; the allowance is of its own proto."""
    found = []
    for metric in results.runs:
        key = key_of(metric)
        empty = results.median(metric, EMPTY, key)
        for proto in ("rdma", "tcp"):
            ours, rdma, tcp = (results.median(metric, who, key) for who in (f"{OURS}, {proto}", f"{KERNEL}, rdma", f"{KERNEL}, tcp"))
            kernel = rdma if proto == "rdma" else tcp
            found.append({"metric": metric, "proto": proto, "of_kernel_rdma": round(ours / rdma, 3), "of_kernel_tcp": round(ours / tcp, 3),
                          "of_allowance": round(ours * (1 / kernel + 1 / empty), 3)})
    return found


def table(results, clock):
    lines = [f"{'':32}{'contender':24}{'median':>10}{'lowest':>10}{'highest':>10}{'of kernel, rdma':>18}{'of kernel, tcp':>18}{'of allowance':>15}"]
    allowed = {(r["metric"], f"{OURS}, {r['proto']}"): r["of_allowance"] for r in ratios(results)}
    for metric in results.runs:
        key = key_of(metric)
        for number, name in enumerate(name_of(*contender) for contender in CONTENDERS):
            median, (low, high) = results.median(metric, name, key), results.spread(metric, name, key)
            shares = "".join(f"{median / results.median(metric, f'{KERNEL}, {other}', key):>18.2f}" for other in ("rdma", "tcp"))
            unit = "/s" if key == "ops_per_s" else " MiB/s"
            share = allowed.get((metric, name))
            lines.append(f"{metric + unit if number == 0 else '':32}{name:24}{median:>10.1f}{low:>10.1f}{high:>10.1f}{shares}"
                         + (f"{share:>15.2f}" if share else ""))
    return "\n".join([*lines, "", f"The processor is emulated (clock: {clock}): only ratios mean something."])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=32, metavar="MIB", help="of the file that is read and written")
    parser.add_argument("--reads", type=int, default=500, metavar="N", help="random reads in a run")
    parser.add_argument("--files", type=int, default=300, metavar="N", help="small files in a run")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--only", default=",".join(PARTS), metavar="PART,...", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--clock", choices=("instructions", "host"), default="instructions", help="what the guest measures with")
    arguments = parser.parse_args()
    guest = Guest(counted=arguments.clock == "instructions").start()
    guest.run("rdma_up")
    results = Results()
    lab = Lab(guest, results, arguments.size * MIB, arguments.reads, arguments.files, arguments.only.split(","))
    for number in range(arguments.repeats):
        print(f"repeat {number + 1} of {arguments.repeats}", file=sys.stderr, flush=True)
        lab.run(number)
    guest.end()
    out = os.path.join(WORK, "out")
    with open(os.path.join(out, "lab.json"), "w") as file:
        json.dump({"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": machine(), "guest": guest.release,
                   "settings": vars(arguments), "medians": results.medians(), "runs": results.runs, "ratios": ratios(results),
                   "requests": lab.requests.counts if lab.requests else {}}, file, indent=1)
    text = "\n".join([table(results, arguments.clock) if results.runs else "", *(lab.requests.table() if lab.requests else ())])
    with open(os.path.join(out, "lab.txt"), "w") as file:
        file.write(text + "\n")
    print(text)


if __name__ == "__main__":
    main()
