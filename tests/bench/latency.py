# SPDX-License-Identifier: Apache-2.0
"""Latencies with differences of microseconds.

A call to a file system in user space wakes its daemon, which wakes the caller. On one processor that is a process switch. Between two
processors it is an interrupt, in a virtual machine through its host, which takes several times as long (12 and 45 µs here). For every run
the scheduler may choose either. So load, daemons and servers are kept on one processor here. The runs are short and many, and those of the
contenders alternate: the medians of BATCHES runs of each are compared.

ROUND_TRIP is the other cost that no client can avoid, besides FUSE: a request and a reply as long as those of a 4 KiB READ, between two
processes that do nothing else (roundtrip.cc).
"""

import os
import statistics

from measure import TOOLS, run_json

BATCHES = 20
CALLS = 300
# Bytes sent and received by a mount of nfsrdma-filer for one READ over TCP: COMPOUNDs of SEQUENCE, PUTFH and READ,
# with their record marks.
CALL_BYTES, REPLY_BYTES = 172, 4096 + 108
ROUND_TRIP = "loopback round trip"
ROUND_TRIP_ABOUT = ("ceiling", f"{CALL_BYTES} bytes there and {REPLY_BYTES} back over TCP on loopback, between two processes that wait in epoll and do "
                    "nothing else: the calls and replies of 4 KiB READs, without FUSE")
ROUND_TRIP_WORDS = ["roundtrip", "--request", CALL_BYTES, "--reply", REPLY_BYTES]


def family(pid):
    """The process and its descendants."""
    found = [pid]
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/children") as file:
            found += [one for child in file.read().split() for one in family(int(child))]
    return found


def keep_on(processors, pids):
    for pid in (member for pid in pids for member in family(pid)):
        for thread in os.listdir(f"/proc/{pid}/task"):
            os.sched_setaffinity(int(thread), processors)


class OneProcessor:
    """Keeps all of these processes on one processor, and restores their affinity at the end."""

    def __init__(self, pids):
        self.pids, self.allowed = list(pids), os.sched_getaffinity(0)
        self.processor = max(self.allowed)

    def __enter__(self):
        keep_on({self.processor}, self.pids)
        return self

    def __exit__(self, *_):
        keep_on(self.allowed, self.pids)

    def median(self, words, seed):
        tool, *words = words
        seeds = ["--seed", seed] if tool == "fsload" else []
        return run_json(["taskset", "-c", self.processor, os.path.join(TOOLS, tool), "--count", CALLS, *words, *seeds])["p50_us"]


def medians(pids, contenders, seed=0):
    """{contender: the median latency of each batch, in µs}. `contenders`: {name: [tool of tests/bench, its arguments]}; `pids`: the
    processes that answer."""
    names, taken = list(contenders), {name: [] for name in contenders}
    with OneProcessor(pids) as there:
        for name in names:
            there.median(contenders[name], 0)  # the first calls cost more and do not count
        for batch in range(BATCHES):
            first = batch % len(names)
            for name in names[first:] + names[:first]:
                taken[name].append(there.median(contenders[name], seed * BATCHES + batch))
    return taken


def beyond(taken, of, over):
    """The median difference between a batch of one contender and the other one's batch beside it."""
    return statistics.median(a - b for a, b in zip(taken[of], taken[over]))
