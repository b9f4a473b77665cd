"""Measures mounts beside what a user would pick instead, and beside their ceilings; scripts/bench runs it (see run.py for the world).

usage: bench.py [--size MIB] [--repeats N] [--files N] [--options MOUNT_OPTIONS] [--only PART,...] [--no-mount]
                [--no-touch]

peers.py: Ganesha over TCP, libnfs, FUSE itself (parts transfers, metadata, memory, rpc_counts); fabrics.py: software RDMA
beside TCP (part fabrics). Repeats are interleaved, so that a change of the machine's mood hits everybody. Figures are medians of
the repeats, with the lowest and the highest beside them.
"""

import argparse
import json
import os
import sys
import time

sys.path.insert(0, os.path.join(os.environ["NFSRDMA_WORK"], "src/system"))

from fabrics import Fabrics  # noqa: E402
from measure import GIB, MIB, WORK, Results, machine, take_free_memory  # noqa: E402
from peers import Peers  # noqa: E402

KINDS = (Peers, Fabrics)
ALL = [part for kind in KINDS for part in kind.REPEATED + kind.ONCE]


def table(results, extra, targets):
    lines = [f"{'':32}{'contender':24}{'median':>12}{'lowest':>12}{'highest':>12}{'CPU s/GiB':>11}{'of peer':>11}{'of nullfs':>11}"]
    for metric, contenders in results.runs.items():
        key = "ops_per_s" if "depth" in metric else "mib_per_s"
        unit = "/s" if key == "ops_per_s" else " MiB/s"
        # The peer: libnfs at its best, its tool, or among the fabrics our own TCP.
        reference = next((found for prefix in ("libnfs", "nfs-", "TCP") if (found := results.best(metric, prefix, key)[0])), None)
        ceiling = results.median(metric, "nullfs", key)
        order = sorted(contenders, key=lambda name: (name != "mount", name == "nullfs", name))
        for number, name in enumerate(order):
            median = results.median(metric, name, key)
            low, high = results.spread(metric, name, key)
            cpu = results.median(metric, name, "cpu_per_gib") if key == "mib_per_s" else None
            ratios = "".join(f"{median / other:>11.2f}" if other else f"{'':>11}" for other in (reference, ceiling))
            lines.append(f"{metric + unit if number == 0 else '':32}{name:24}{median:>12.0f}{low:>12.0f}{high:>12.0f}"
                         f"{f'{cpu:.3f}' if cpu is not None else '':>11}{ratios}")
    return "\n".join([*lines, "", *remarks(extra), *verdicts(targets)])


def remarks(extra):
    if "resident_mib_per_100000_inodes" in extra:
        yield (f"Resident memory per 100,000 cached inodes: {extra['resident_mib_per_100000_inodes']} MiB "
               f"(before: {extra['resident_mib_before']} MiB)")
    for name, count in extra.get("rpc_counts", {}).items():
        ops = ", ".join(f"{op} {n}" for op, n in sorted(count["operations"].items(), key=lambda x: -x[1]) if op != "SEQUENCE")
        yield f"COMPOUNDs of {name}: {count['compounds']} ({ops})"
    for contender, why in extra.get("failed", {}).items():
        yield f"{contender} failed: {why}"


def verdicts(targets):
    for target in targets:
        verdict = {True: "met", False: "MISSED", None: "limit"}[target["met"]]
        wanted = " (at least {at_least})" if "at_least" in target else " (at most {at_most})" if "at_most" in target else ""
        yield f"{verdict:7}{target['what']} = {target['value']}" + wanted.format(**target)


def document(results, extra, targets, arguments):
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine(),
        "settings": {"size_mib": arguments.size, "repeats": arguments.repeats, "files": arguments.files, "options": arguments.options},
        "medians": results.medians(), "runs": results.runs, "extra": extra, "targets": targets,
    }


def measure(kinds, wanted, repeats):
    """Every wanted part: the repeated ones in turn, then those that are done once."""
    for number in range(repeats):
        for kind in kinds:
            kind.round = number
            for part in [p for p in kind.REPEATED if p in wanted]:
                print(f"{part}, repeat {number + 1} of {repeats}", file=sys.stderr, flush=True)
                getattr(kind, part)()
    for kind in kinds:
        for part in [p for p in kind.ONCE if p in wanted]:
            print(part, file=sys.stderr, flush=True)
            getattr(kind, part)()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--files", type=int, default=5000, help="small files")
    parser.add_argument("--options", default="", help="more mount options")
    parser.add_argument("--only", default=",".join(ALL), help="parts to run")
    parser.add_argument("--no-mount", action="store_true", help="measure libnfs and nullfs only")
    parser.add_argument("--no-touch", action="store_true", help="leave free memory as it is (quicker; costs more CPU where a host took it back)")
    arguments = parser.parse_args()
    wanted = [part for part in arguments.only.split(",") if not arguments.no_mount or part in Peers.REPEATED]
    if unknown := set(wanted) - set(ALL):
        parser.error(f"no such part: {', '.join(sorted(unknown))}")
    results, extra = Results(), {}
    kinds = [kind(results, extra, arguments) for kind in KINDS if set(wanted) & set(kind.REPEATED + kind.ONCE)]
    touch = not arguments.no_touch and {"transfers", "fabrics"} & set(wanted)
    held = take_free_memory(max(2 * GIB, 3 * arguments.size * MIB)) if touch else None
    measure(kinds, wanted, arguments.repeats)
    if held:
        held.close()
    targets = [target for kind in kinds for target in kind.targets()]
    out = os.path.join(WORK, "out")
    with open(os.path.join(out, "bench.json"), "w") as file:
        json.dump(document(results, extra, targets, arguments), file, indent=1)
    with open(os.path.join(out, "bench.txt"), "w") as file:
        file.write(table(results, extra, targets) + "\n")
    print(table(results, extra, targets))
    for kind in kinds:
        kind.end()


if __name__ == "__main__":
    main()
