# SPDX-License-Identifier: Apache-2.0
"""Latencies that are to be told apart by microseconds.

A call of a file system in user space wakes its daemon up and is woken up by it. On one processor that is a change of process; from one processor
to another it is an interrupt, in a virtual machine through its host, which takes several times as long (12 and 45 µs here). Which of them it is
the scheduler decides anew for every run. So load, daemons and servers stay on one processor here, the runs are short and many, and everybody's
run is beside everybody else's: what is compared are medians of BATCHES runs of each.

ROUND_TRIP is the other half of what no client can be without, beside FUSE: a question and an answer as long as those of a 4 KiB READ between
two processes that do nothing else (roundtrip.cc).
"""

import os
import statistics

from measure import TOOLS, run_json

BATCHES = 20
CALLS = 300
# What a mount of nfsrdma-filer sends and receives for one over TCP: COMPOUNDs of SEQUENCE, PUTFH and READ, with their record marks.
CALL_BYTES, REPLY_BYTES = 172, 4096 + 108
ROUND_TRIP = "loopback round trip"
ROUND_TRIP_ABOUT = ("ceiling", f"{CALL_BYTES} bytes there and {REPLY_BYTES} back over TCP on loopback, between two processes that wait in epoll and do "
                    "nothing else: the calls and replies of 4 KiB READs, without FUSE")
ROUND_TRIP_WORDS = ["roundtrip", "--request", CALL_BYTES, "--reply", REPLY_BYTES]


def family(pid):
    """The process and those that it has started."""
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
    """All of these processes on the same one, and back again at the end."""

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
    """{contender: the median latency of each batch, in µs}. `contenders`: {name: [tool of tests/bench, its words]}; `pids`: whatever answers them."""
    names, taken = list(contenders), {name: [] for name in contenders}
    with OneProcessor(pids) as there:
        for name in names:
            there.median(contenders[name], 0)  # what the first calls pay is no latency
        for batch in range(BATCHES):
            first = batch % len(names)
            for name in names[first:] + names[:first]:
                taken[name].append(there.median(contenders[name], seed * BATCHES + batch))
    return taken


def beyond(taken, of, over):
    """The median of what each batch of one takes more than the other one's beside it."""
    return statistics.median(a - b for a, b in zip(taken[of], taken[over]))
