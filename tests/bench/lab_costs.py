# SPDX-License-Identifier: Apache-2.0
"""The daemon's instructions and system calls for large transfers, over an RDMA device and over TCP; part of lab.py.

Instructions are all of the daemon's in user space, without the kernel's. QEMU counts them (instructions.cc); each repetition of `rep movs`
counts. The guest's kernel counts system calls by name, thread and result (tracefs). Of the calls that move data (a result of PAYLOAD bytes
or more), FUSE's own are left out: the reply to a READ, and the read of a WRITE from /dev/fuse.

The measured file is new to the daemon, and another file is transferred first, which pays the one-time costs of first pages and pools.
"""

import mmap
import re

from guest import Guest
from measure import BLOCK, GIB, TOOLS
from results import reference

# The counted transfers: (metric, operation, O_DIRECT).
COUNTED = (("counted read", "read", 0), ("counted read, O_DIRECT", "read", 1), ("counted write", "write", 0), ("counted write, O_DIRECT", "write", 1))
PAYLOAD = 4096
INWARD = ("read", "readv", "recvfrom", "recvmsg", "preadv")
OUTWARD = ("write", "writev", "sendto", "sendmsg", "pwritev", "vmsplice")
TRACING = "/sys/kernel/tracing"
EXITS, SPLICES = f"{TRACING}/events/raw_syscalls/sys_exit", f"{TRACING}/events/syscalls/sys_enter_splice"
TRIGGERS = ((EXITS, "hist:keys=id.syscall,common_pid"), (EXITS, f"hist:keys=common_pid,id.syscall if ret >= {PAYLOAD} && ret < 0x40000000"),
            (SPLICES, f"hist:keys=fd_in,fd_out,common_pid if len >= {PAYLOAD}"))
CUT = "-- cut here --"
# The guest's clock jumps to the next timer while nothing runs there. While counts are read from outside, this loop
# runs, so that the daemon's timers do not.
SPIN = "chrt -i 0 bash -c 'while :; do :; done' </dev/null >/dev/null 2>&1 & echo $! >/run/spinning"
STOP_SPINNING = "kill $(cat /run/spinning)"


def executed(numbers, page):
    """The number of instructions executed in this page; instructions.cc describes the table `numbers`."""
    slots = len(numbers) // 2
    at = (page * 0x9e3779b97f4a7c15 & 0xffffffffffffffff) // ((1 << 64) // slots)
    while at == 0 or numbers[2 * at] not in (0, page):
        at = (at + 1) % slots
    return numbers[2 * at + 1]


class CountingGuest(Guest):
    """A guest whose processor counts the instructions of its programs."""

    def devices(self):
        return ["-plugin", f"{TOOLS}/libinstructions.so,counts={self.folder}/instructions"]

    def instructions(self, pages):
        """The number of instructions executed so far in these ranges of pages."""
        with open(f"{self.folder}/instructions", "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            with memoryview(mapped) as octets, octets.cast("Q") as numbers:
                if numbers[1]:
                    raise RuntimeError("the guest has executed more pages of programs than can be told apart")
                return sum(executed(numbers, page) for first, end in pages for page in range(first, end))


class SystemCalls:
    """The system calls of one process while a command runs, counted by the guest's kernel."""

    def __init__(self, guest, pid, command):
        kept = [f"cat {event}/hist; echo {CUT}" for event in (EXITS, SPLICES)]
        text = guest.run(f"""set -e; {STOP_SPINNING}
            threads=$(ls /proc/{pid}/task)
            {self.triggers("")}
            {command} >/dev/null
            {"; ".join(kept)}
            {self.triggers("!")}
            echo $threads $(ls /proc/{pid}/task)
            {SPIN}""")
        exits, splices, threads = text.split(CUT)
        self.threads = set(threads.split())
        self.every = self.by_name((name, thread, n) for name, thread, n in self.rows(exits, r"id: sys_(\w+) .*?common_pid: +(\d+)"))
        # Includes those of FUSE.
        self.moved = self.by_name((name, thread, n) for thread, name, n in self.rows(exits, r"common_pid: +(\d+), id: sys_(\w+)"))
        self.spliced = [({int(a), int(b)}, n) for a, b, thread, n in self.rows(splices, r"fd_in: +(\d+), fd_out: +(\d+), common_pid: +(\d+)")
                        if thread in self.threads]

    @staticmethod
    def triggers(sign):
        return "\n".join(f"echo '{sign}{trigger}' >>{event}/trigger" for event, trigger in TRIGGERS)

    @staticmethod
    def rows(text, keys):
        for *found, count in re.findall(rf"^{{ {keys}.*hitcount: +(\d+)", text, re.MULTILINE):
            yield *found, int(count)

    def by_name(self, rows):
        total = {}
        for name, thread, count in rows:
            if thread in self.threads:
                total[name] = total.get(name, 0) + count
        return total

    def data(self, op, fuse):
        """{name: number} of calls that moved data, without those of FUSE, whose descriptors are `fuse`. Read data enters the daemon by one
        call and leaves it by FUSE's; written data goes the other way."""
        names = INWARD if op == "read" else OUTWARD
        aside = sum(count for ends, count in self.spliced if not fuse & ends)
        return {**{name: count for name, count in self.moved.items() if name in names}, **({"splice": aside} if aside else {})}


class Costs:
    """Counts the costs of one mount at a time."""

    def __init__(self, guest, results, size):
        self.guest, self.results, self.size = guest, results, size
        guest.run(f"mountpoint -q {TRACING} || mount -t tracefs tracefs {TRACING}")

    def load(self, mounted, op, name, direct):
        return f"{TOOLS}/fsload --op {op} --path {mounted.path}/{name} --size {self.size} --block {BLOCK} --direct {direct}"

    def of_process(self, pid):
        """The page ranges of its code, and its descriptors of /dev/fuse."""
        maps = (line.split()[:2] for line in self.guest.run(f"cat /proc/{pid}/maps").splitlines())
        fuse = self.guest.run(f"cd /proc/{pid}/fd; for fd in *; do [ \"$(readlink $fd)\" != /dev/fuse ] || echo $fd; done")
        return [tuple(int(address, 16) >> 12 for address in extent.split("-")) for extent, access in maps if "x" in access], {int(fd) for fd in fuse.split()}

    def count(self, contender, mounted):
        for metric, op, direct in COUNTED:
            # A new file, so that the daemon has no cached data of it.
            self.guest.run(f"""cd {mounted.export}; rm -f counted; cp {mounted.data} counted; chmod 666 counted
                {self.load(mounted, op, mounted.target, direct)}""")
            self.counted(metric, contender, mounted, op, direct)

    def counted(self, metric, contender, mounted, op, direct):
        asked, pid = mounted.requests(), mounted.stats()["pid"]
        pages, fuse = self.of_process(pid)
        self.guest.run(SPIN)
        before = self.guest.instructions(pages)
        calls = SystemCalls(self.guest, pid, self.load(mounted, op, "counted", direct))
        instructions = self.guest.instructions(pages) - before
        self.guest.run(STOP_SPINNING)
        self.check(metric, contender, mounted.requests().get(op.upper(), 0) - asked.get(op.upper(), 0))
        data, gib = calls.data(op, fuse), self.size / GIB
        self.results.operations.setdefault(f"system calls of {metric}", {})[contender] = calls.every
        self.results.operations.setdefault(f"system calls that move data of {metric}", {})[contender] = data
        self.results.add(metric, contender, {"instructions_per_gib": instructions / 1e6 / gib, "syscalls_per_gib": sum(calls.every.values()) / gib,
                                             "payload_calls_per_gib": sum(data.values()) / gib})

    def check(self, metric, contender, requests):
        if requests * BLOCK < self.size:
            self.results.note(f"{metric} of {contender} asked the server {requests} times: part of it was in the daemon already.")


def describe_costs(results, rdma, tcp):
    """Targets: half of TCP's costs, and no system call for the data except FUSE's own."""
    metrics = [metric for metric, _, _ in COUNTED]
    if not results.has(metrics[0], rdma):
        return
    for key, title in (("instructions_per_gib", "Instructions of the daemon"), ("syscalls_per_gib", "System calls of the daemon"),
                       ("payload_calls_per_gib", "System calls of the daemon that move data, but for FUSE's own")):
        results.plot("bars", title, metrics, key, [(rdma, tcp)] if not key.startswith("payload") else (), contenders=[rdma, tcp],
                     text="For large transfers, over an RDMA device and over TCP.")
    for metric in metrics:
        for key, what in (("instructions_per_gib", "the daemon's own instructions"), ("syscalls_per_gib", "the daemon's system calls")):
            results.target(f"{what}, {metric}: {rdma} / {tcp}", key, reference(metric, rdma), reference(metric, tcp), at_most=0.5)
        results.target(f"system calls per GiB that move data, but for FUSE's own, {metric}: {rdma}", "payload_calls_per_gib", reference(metric, rdma), at_most=0)
