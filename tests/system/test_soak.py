# SPDX-License-Identifier: Apache-2.0
"""Half an hour of all kinds of work and faults over software RDMA, then a check for leaked resources.

Runs only with NFSRDMA_SOAK=SECONDS. Two mounts of one nfsrdma-filer, one in each version of RPC-over-RDMA, behind a proxy that resets
connections at random. The server delays and duplicates replies, takes credits and slots away and gives them back, and is killed and
restarted. Random operations are compared with a model, and acknowledged writes are checked.
"""

import itertools
import os
import random
import time
import unittest

from harness.case import HOME, needs_mount, tool
from harness.filer import Filer
from harness.ports import free_port
from harness.proxy import ChaosProxy
from test_random import RandomCase, Trouble

SECONDS = int(os.environ.get("NFSRDMA_SOAK", "0"))

FAULTS = ("reply nth 1000 always: duplicate", "reply WRITE nth 400 times 100000: delay 5", "reply nth 2000: credits 1",
          "reply nth 4000: credits 64", "request nth 6000: slots 2", "request nth 9000: slots 64", "reply READ nth 3000: drop")


def resident_kib(pid):
    with open(f"/proc/{pid}/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))


def descriptors(pid):
    return len(os.listdir(f"/proc/{pid}/fd"))


@unittest.skipUnless(SECONDS, "needs NFSRDMA_SOAK=SECONDS")
@needs_mount()
class Soak(RandomCase):
    LIMIT = SECONDS * 2 + 300

    @classmethod
    def setUpClass(cls):
        cls.rdma_port = free_port()
        faults = [word for rule in FAULTS for word in ("--fault", rule)]
        cls.server = Filer(name="soak", lease=4, grace=4,
                           arguments=("--rdma", f"127.0.0.1:{cls.rdma_port}", *faults)).start()

    def settled(self, mounted):
        """The resources that the mount holds when it is idle."""
        time.sleep(3)
        stats = mounted.stats()
        transports = stats["transports"]
        return {"slots": stats["session"]["slots_in_use"], "pending": sum(t["pending"] for t in transports),
                "credits": sum(t["rdma"]["credits_in_use"] for t in transports),
                "segments": sum(t["rdma"]["segments_open"] for t in transports),
                "dirty": stats["cache"]["dirty_bytes"], "open files": stats["cache"]["open_files"],
                "locks": stats["cache"]["locks"]}

    def turn(self, mounts, number):
        """One round of work in both mounts at once. The first rounds fill every pool to its final size."""
        running = []
        for version, mounted in mounts.items():
            directory = self.directory(mounted, f"v{version}.{number}")
            running.append(self.fsrandom(directory, "--check-every", 500, seed=1000 * version + number, steps=8000, workers=2,
                                         witness=False))
        for process in running:
            self.finish(process)

    def acknowledged(self, mounted, number):
        directory, log = self.directory(mounted, f"acknowledged{number}"), os.path.join(HOME, f"acknowledged{number}.log")
        self.run_program(tool("ackcheck"), "write", "--log", log, "--workers", 2, "--seconds", 10, "--server-dies", 1, directory)
        self.run_program(tool("ackcheck"), "verify", "--log", log, self.on_server(directory))

    def test_nothing_is_lost_and_nothing_is_left(self):
        proxy = ChaosProxy(self.rdma_port, raw=True)
        self.addCleanup(proxy.close)
        mounts = {version: self.mount(f"timeo=50,threads=2,rdmavers={version}", port=proxy.port, proto="rdma")
                  for version in (2, 1)}
        chance = random.Random(1)
        proxy.command("cut-every 500 3000 5")
        trouble = Trouble(lambda: self.server.restart(down=chance.choice([0, 0.3])), 20, 60, 6)
        trouble.start()
        end, early = time.monotonic() + SECONDS, {}
        try:
            for number in itertools.count():
                self.turn(mounts, number)
                self.acknowledged(mounts[1 + number % 2], number)
                if not early and time.monotonic() > end - SECONDS * 0.7:
                    early = {v: (resident_kib(m.pid), descriptors(m.pid)) for v, m in mounts.items()}
                if time.monotonic() > end:
                    break
        finally:
            trouble.stop()
        proxy.command("reset")
        print(f"\nsoak: {SECONDS} s, {number + 1} rounds, {proxy.stats()['cuts']} connections cut, {trouble.count} restarts")
        for version, mounted in mounts.items():
            left = self.settled(mounted)
            late = (resident_kib(mounted.pid), descriptors(mounted.pid))
            print(f"soak: version {version}: left {left}; resident KiB and descriptors {early[version]} then, {late} now")
            self.assertEqual(set(left.values()), {0}, left)
            self.assertLessEqual(late[0], early[version][0] * 1.25 + 8192, "memory grows")
            self.assertLessEqual(late[1], early[version][1] + 4, "descriptors are left open")
