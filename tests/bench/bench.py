# SPDX-License-Identifier: Apache-2.0
"""Measures mounts beside what a user would pick instead, and beside their ceilings; scripts/bench runs it (see run.py for the world).

usage: bench.py [--size MIB] [--repeats N] [--grid-repeats N] [--seconds S] [--files N] [--options MOUNT_OPTIONS] [--only PART,...]
                [--full] [--counts N,...] [--touch] [--fuse-nfs PROGRAM] [--commit NAME]

peers.py: Ganesha over TCP, compared with libnfs (parts transfers, depth, metadata); fabrics.py: software RDMA compared with TCP (fabrics,
latency, alone, filer_depth, grid); delays.py: a server with late replies (delay); scale.py: counts of calls and memory (rpc_counts,
memory), and whether large numbers cost more (answers, costs, held); ceilings.py: FUSE alone. The runs of the contenders alternate and are
short: on a shared host slow moments last seconds, so many short runs in turn compare better than few long ones. Writes bench.json
(docs/bench/README.md), report.html and bench.txt, and the calls by operation to bench_operations.json.
"""

import argparse
import os
import sys
import time

sys.path.insert(0, os.path.join(os.environ["NFSRDMA_WORK"], "src/system"))

from delays import Delays  # noqa: E402
from fabrics import Fabrics  # noqa: E402
from measure import GIB, MIB, WORK, programs, take_free_memory  # noqa: E402
from peers import Peers  # noqa: E402
from results import Results, version_of, write_report  # noqa: E402
from scale import Scale  # noqa: E402
from harness import ganesha  # noqa: E402

KINDS = (Peers, Fabrics, Delays, Scale)
ALL = [part for kind in KINDS for part in kind.REPEATED + kind.ONCE]


def measure(kinds, results, wanted, arguments):
    """Runs every wanted part: the repeated ones round by round, then those that run once."""
    repeated = [(kind, part) for kind in kinds for part in kind.REPEATED if part in wanted]
    once = [(kind, part) for kind in kinds for part in kind.ONCE if part in wanted]
    rounds = max(arguments.repeats, arguments.grid_repeats if "grid" in wanted else 0) if repeated else 0
    begin = time.monotonic()
    for number in range(rounds):
        results.round = number
        for kind, part in repeated:
            if number < (arguments.grid_repeats if part == "grid" else arguments.repeats):
                say(begin, f"{part}, round {number + 1} of {arguments.grid_repeats if part == 'grid' else arguments.repeats}")
                getattr(kind, part)()
    results.round = 0
    for kind, part in once:
        say(begin, part)
        getattr(kind, part)()
    return time.monotonic() - begin


def servers():
    filer = version_of(os.path.join(WORK, "build/cli/nfsrdma-filer"))
    return f"nfs-ganesha {'.'.join(map(str, ganesha.version()))}; {filer}"


def say(begin, what):
    print(f"{time.monotonic() - begin:6.0f} s  {what}", file=sys.stderr, flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=128, help="MiB of the large file")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--grid-repeats", type=int, default=5, help="rounds of the grid, which has 360 runs")
    parser.add_argument("--seconds", type=float, default=0.3, help="the longest that a run of the grid, or of random reads, may take")
    parser.add_argument("--files", type=int, default=1000, help="small files")
    parser.add_argument("--options", default="", help="more mount options")
    parser.add_argument("--only", default=",".join(ALL), help="parts to run")
    parser.add_argument("--full", action="store_true", help="also with a million cached inodes, and with 100,000 files, locks and delegations held")
    parser.add_argument("--counts", type=lambda text: [int(n) for n in text.split(",")], help="of cached inodes, and of what is held, instead")
    parser.add_argument("--touch", action="store_true", help="touch free memory before runs through the page cache, where the host takes it back")
    parser.add_argument("--fuse-nfs", help="measure this fuse-nfs, too")
    parser.add_argument("--commit", help="that the programs are of, for the report")
    arguments = parser.parse_args()
    wanted = arguments.only.split(",")
    if unknown := set(wanted) - set(ALL):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    results = Results()
    kinds = [kind(results, arguments) for kind in KINDS if set(wanted) & set(kind.REPEATED + kind.ONCE)]
    held = take_free_memory(max(2 * GIB, 6 * arguments.size * MIB)) if arguments.touch else None
    seconds = measure(kinds, results, wanted, arguments)
    if held:
        held.close()
    for kind in kinds:
        kind.plots()
        kind.targets()
    conditions = [("large file", f"{arguments.size} MiB"), ("rounds", f"{arguments.repeats}, of the grid {arguments.grid_repeats}"),
                  ("small files", arguments.files), ("mount options", arguments.options or "the defaults"), ("parts", ", ".join(wanted)),
                  ("server", servers()), ("programs", programs(arguments.commit)),
                  ("free memory", "touched before each run through the page cache" if arguments.touch else "left as it is"),
                  ("took", f"{seconds:.0f} s")]
    document = results.document("nfsrdma-fuse beside its peers and its ceilings", conditions)
    print(write_report(document, os.path.join(WORK, "out"), "bench", results.operations), end="")
    for kind in kinds:
        kind.end()


if __name__ == "__main__":
    main()
