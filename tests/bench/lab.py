"""This mount beside the kernel's own NFS client, over an RDMA device and over TCP, to Linux' server; scripts/bench --lab runs it.

usage: lab.py [--size MIB] [--reads N] [--repeats N] [--clock instructions|host]

Clients, server and device (Linux' rxe) are in one guest (tests/interop) with one emulated processor, so only ratios mean something.
The guest's clock counts instructions: figures repeat whatever the host does, but a cache miss costs what a hit does. With
`--clock host` it is the host's clock, and the spread says how busy the host was.

Every run is a mount of its own, with nothing cached; repeats are interleaved. What a mount went over is looked up, not believed.
"""

import argparse
import json
import os
import sys
import time

from guest import GUEST, Guest
from inside import MountInside
from knfsd import EXPORT, Knfsd
from measure import BLOCK, MIB, TOOLS, WORK, Results, machine

DEVICE = "rxe0"
OURS, KERNEL = "this mount", "kernel"
CONTENDERS = [(client, proto) for proto in ("rdma", "tcp") for client in (OURS, KERNEL)]
RANDOM = 4096


class KernelMount:
    """The kernel's client in the guest, with the methods of MountInside that are used here."""

    path = "/net"

    def __init__(self, guest, proto):
        self.guest = guest
        guest.run(f"kernel_mount {GUEST}:/ {self.path} proto={proto},port={20049 if proto == 'rdma' else 2049}")

    def went_over(self):
        """The transport in use: NFSv4.1 lets a mount share another one's of the same server."""
        return self.guest.run(f"sed -n '\\| {self.path} |,/^device/ s/^\\s*xprt:\\s*\\(\\S*\\).*/\\1/p' /proc/self/mountstats").strip()

    def umount(self):
        self.guest.run(f"umount {self.path}")


class OurMount(MountInside):
    def __init__(self, guest, proto):
        super().__init__(guest, f"{GUEST}:/", f"rdma_dev={DEVICE}" if proto == "rdma" else "rw", proto)

    def went_over(self):
        transport, = self.stats()["transports"]
        rdma = transport.get("rdma")
        return "tcp" if not rdma else "rdma" if rdma["fabric"].startswith(DEVICE) else rdma["fabric"]


class Lab:
    """Works in a guest that has the device."""

    def __init__(self, guest, results, size, reads):
        self.guest, self.results, self.size, self.reads = guest, results, size, reads
        guest.run("modprobe -a nfsv4 rpcrdma fuse")
        Knfsd(guest, lease=10).start()  # it has a grace period as long
        guest.run(f"cd {EXPORT}; for name in data target; do head -c {self.size} /dev/urandom >$name; chmod 666 $name; done")

    def run(self, number):
        """Every contender once; each is the first in turn."""
        turn = number % len(CONTENDERS)
        for client, proto in CONTENDERS[turn:] + CONTENDERS[:turn]:
            mounted = (OurMount if client == OURS else KernelMount)(self.guest, proto)
            try:
                over = mounted.went_over()
                if over != proto:
                    raise RuntimeError(f"{client} was to go over {proto} and went over {over}")
                self.load(f"{client}, {proto}", mounted.path)
            finally:
                mounted.umount()

    def load(self, contender, path):
        for direct, suffix in ((0, ""), (1, ", O_DIRECT")):
            for op, name in (("read", "data"), ("write", "target")):
                self.fsload(op + suffix, contender, f"--op {op} --path {path}/{name} --block {BLOCK} --direct {direct}")
        for depth in (1, 32):
            self.fsload(f"random read, depth {depth}", contender,
                        f"--op randread --path {path}/data --block {RANDOM} --direct 1 --depth {depth} --count {self.reads}")

    def fsload(self, metric, contender, words):
        done = json.loads(self.guest.run(f"{TOOLS}/fsload --size {self.size} {words}"))
        self.results.add(metric, contender, {"mib_per_s": done["bytes"] / MIB / done["seconds"],
                                             "ops_per_s": done["operations"] / done["seconds"]})


def key_of(metric):
    return "ops_per_s" if metric.startswith("random") else "mib_per_s"


def ratios(results):
    """[{"metric", "proto", "of_kernel_rdma", "of_kernel_tcp"}] of this mount's medians."""
    found = []
    for metric in results.runs:
        for proto in ("rdma", "tcp"):
            ours, rdma, tcp = (results.median(metric, who, key_of(metric)) for who in (f"{OURS}, {proto}", f"{KERNEL}, rdma", f"{KERNEL}, tcp"))
            found.append({"metric": metric, "proto": proto, "of_kernel_rdma": round(ours / rdma, 3), "of_kernel_tcp": round(ours / tcp, 3)})
    return found


def table(results, clock):
    lines = [f"{'':32}{'contender':20}{'median':>10}{'lowest':>10}{'highest':>10}{'of kernel, rdma':>18}{'of kernel, tcp':>18}"]
    for metric in results.runs:
        key = key_of(metric)
        for number, (client, proto) in enumerate(CONTENDERS):
            name = f"{client}, {proto}"
            median, (low, high) = results.median(metric, name, key), results.spread(metric, name, key)
            shares = "".join(f"{median / results.median(metric, f'{KERNEL}, {other}', key):>18.2f}" for other in ("rdma", "tcp"))
            unit = "/s" if key == "ops_per_s" else " MiB/s"
            lines.append(f"{metric + unit if number == 0 else '':32}{name:20}{median:>10.1f}{low:>10.1f}{high:>10.1f}{shares}")
    return "\n".join([*lines, "", f"The processor is emulated (clock: {clock}): only ratios mean something."])


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=32, metavar="MIB", help="of the file that is read and written")
    parser.add_argument("--reads", type=int, default=500, metavar="N", help="random reads in a run")
    parser.add_argument("--repeats", type=int, default=3, metavar="N")
    parser.add_argument("--clock", choices=("instructions", "host"), default="instructions", help="what the guest measures with")
    arguments = parser.parse_args()
    guest = Guest(counted=arguments.clock == "instructions").start()
    guest.run("rdma_up")
    results = Results()
    lab = Lab(guest, results, arguments.size * MIB, arguments.reads)
    for number in range(arguments.repeats):
        print(f"repeat {number + 1} of {arguments.repeats}", file=sys.stderr, flush=True)
        lab.run(number)
    guest.end()
    out = os.path.join(WORK, "out")
    with open(os.path.join(out, "lab.json"), "w") as file:
        json.dump({"date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "machine": machine(), "guest": guest.release,
                   "settings": vars(arguments), "medians": results.medians(), "runs": results.runs, "ratios": ratios(results)},
                  file, indent=1)
    with open(os.path.join(out, "lab.txt"), "w") as file:
        file.write(table(results, arguments.clock) + "\n")
    print(table(results, arguments.clock))


if __name__ == "__main__":
    main()
