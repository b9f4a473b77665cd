#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs the libFuzzer targets of a build for a given CPU time each, merges what is new into the corpus, and reports.

usage: campaign.py --build BUILDDIR [--seconds CPU_SECONDS] [--jobs N] [TARGET...]

CPU time, not the clock, decides when a target has had its share: on a busy machine it takes longer. The targets run
at a low priority.
"""

import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import corpus

LONGEST_BYTES = 4096  # people read kept inputs too


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run(program, log, budget, *argv):
    """Until `budget` CPU seconds are used, or it ends by itself. (status, CPU seconds)"""
    with open(log, "wb") as out:
        process = subprocess.Popen([program, *argv], stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                   preexec_fn=lambda: os.nice(10))
    used, asked = 0.0, False
    try:
        while process.poll() is None:
            time.sleep(0.5)
            try:
                used = max(used, cpu_seconds(process.pid))
            except OSError:
                break
            if used >= budget and not asked:
                asked = True
                process.send_signal(signal.SIGINT)  # libFuzzer prints its statistics and ends with status 72
        return process.wait(), used
    finally:
        process.kill()


def fuzz(build, name, budget):
    program = os.path.join(build, "tests/fuzz", "fuzz_" + name)
    fresh, findings = os.path.join(build, "new", name), os.path.join(build, "findings")
    merged, kept = os.path.join(build, "merged", name), os.path.join(build, "kept", name)
    for directory in (merged, kept):
        shutil.rmtree(directory, ignore_errors=True)
    for directory in (fresh, findings, merged, kept):
        os.makedirs(directory, exist_ok=True)
    corpus.unpack(name, kept)
    log = os.path.join(build, f"{name}.log")
    status, used = run(program, log, budget, "-print_final_stats=1", "-timeout=300", f"-max_len={LONGEST_BYTES}",
                       f"-artifact_prefix={findings}/{name}-", fresh, kept)
    with open(log, errors="replace") as file:
        text = file.read()
    executed = re.findall(r"number_of_executed_units: (\d+)", text)
    covered = re.findall(r"cov: (\d+)", text)
    found = status not in (0, 72)
    if not found:  # inputs that add nothing to the kept ones are dropped
        for source in sorted(os.listdir(kept)):
            shutil.copy(os.path.join(kept, source), merged)
        subprocess.run([program, "-merge=1", "-use_counters=0", merged, fresh], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL, check=True)
        if set(os.listdir(merged)) != set(os.listdir(kept)):
            corpus.pack(name, merged)
    return (f"| {name} | {time.strftime('%Y-%m-%d')} | {used:.0f} | {executed[-1] if executed else '?'} | "
            f"{covered[-1] if covered else '?'} | {'see build/fuzz/findings' if found else 'none'} |"), found


def main():
    parser = argparse.ArgumentParser(prog="scripts/fuzz", description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True)
    parser.add_argument("--seconds", type=float, default=600, help="CPU seconds per target")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("targets", nargs="*")
    arguments = parser.parse_args()
    names = arguments.targets or corpus.names()
    print("| target | date | CPU s | executions | edges | findings |\n|---|---|---|---|---|---|", flush=True)
    failed = False
    with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        for line, found in pool.map(lambda name: fuzz(arguments.build, name, arguments.seconds), names):
            print(line, flush=True)
            failed = failed or found
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
