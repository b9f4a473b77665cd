# SPDX-License-Identifier: Apache-2.0
"""The random tester (fsrandom) in a mount: alone, with other processes beside it, and while the server and the network fail.

Required: 100,000 operations over several seeds without a difference; the same while Ganesha is killed and restarted and while connections
are cut at random: no wrong byte, no lost acknowledged write, no stuck process.
"""

import itertools
import os
import random
import threading
import time
import unittest

from harness.case import HOME, SystemCase, full_size, needs_mount, scaled, seconds, tool

# Removed files that are open have .nfs* names, as with other NFS clients; everything else is as on a local disk.
TOLERATE = ["--tolerate", "silly"]


class RandomCase(SystemCase):
    LIMIT = 900

    def fsrandom(self, directory, *options, seed, steps, workers=1, witness=True):
        argv = [tool("fsrandom"), *TOLERATE, "--seed", seed, "--steps", steps, "--workers", workers, *options]
        if witness:
            argv += ["--witness", self.on_server(directory)]
        return self.start_program(*argv, directory)

    def finish(self, process, timeout=1500):
        self.assertEqual(process.wait(timeout), 0, "fsrandom found a difference, see above")


class Quiet(RandomCase):
    """One process; the server's side is compared, too. 100,000 operations over five seeds."""

    SEEDS = range(1, 6)
    STEPS = scaled(20000)

    def run_seeds(self, options="", seeds=SEEDS, steps=STEPS, *more):
        mounted = self.mount(options)
        for seed in seeds:
            directory = self.directory(mounted, f"seed{seed}")
            self.finish(self.fsrandom(directory, *more, seed=seed, steps=steps))

    def test_hundred_thousand_operations(self):
        self.run_seeds("", self.SEEDS, self.STEPS, "--require", "direct")

    def test_another_mount_sees_the_same(self):
        mounted = self.mount()
        directory, dump = self.directory(mounted), os.path.join(HOME, "dump")
        self.finish(self.fsrandom(directory, "--dump", dump, seed=100, steps=scaled(5000)))
        mounted.umount()
        again = self.mount()
        self.run_program(tool("fsrandom"), "--verify", dump, os.path.join(again.path, os.path.basename(directory)))

    @unittest.skipUnless(full_size(), "needs NFSRDMA_TEST_FULL=1")
    def test_a_million_operations(self):
        self.run_seeds("", range(1000, 1020), 50000)


class Options(RandomCase):
    """Caches switched off, small transfers, several loops: only the speed may change."""

    def check(self, options, seed, steps=4000):
        directory = self.directory(self.mount(options))
        self.finish(self.fsrandom(directory, seed=seed, steps=scaled(steps, 20000)))

    def test_noac(self):
        self.check("noac", 11)

    def test_without_name_cache(self):
        self.check("lookupcache=none,actimeo=0", 12)

    def test_small_transfers(self):
        self.check("rsize=4096,wsize=4096", 13)

    def test_odd_transfers(self):
        self.check("rsize=66560,wsize=7168", 14)

    def test_one_loop(self):
        self.check("threads=1", 15, 6000)

    def test_four_loops(self):
        self.check("threads=4", 16, 6000)

    def test_nocto_and_no_readdirplus(self):
        self.check("nocto,nordirplus", 17)

    def test_sync(self):
        self.check("sync", 18)


class Beside(RandomCase):
    """Several processes and two mounts at once, each in its own directories."""

    def test_workers_on_two_mounts(self):
        one, two = self.mount("threads=4"), self.mount("threads=1")
        running = [self.fsrandom(self.directory(one, "one"), seed=20, steps=6000, workers=3),
                   self.fsrandom(self.directory(two, "two"), seed=30, steps=6000, workers=3)]
        for process in running:
            self.finish(process)


class Trouble(threading.Thread):
    """Calls `act` repeatedly, at random intervals, until stopped."""

    def __init__(self, act, low, high, seed):
        super().__init__()
        self.act, self.low, self.high, self.random = act, low, high, random.Random(seed)
        self.done, self.count, self.error = threading.Event(), 0, None

    def run(self):
        try:
            while not self.done.wait(self.random.uniform(self.low, self.high)):
                self.act()
                self.count += 1
        except Exception as error:  # stop() reports it
            self.error = error

    def stop(self):
        self.done.set()
        self.join()
        if self.error:
            raise self.error


@needs_mount()
class Restarts(RandomCase):
    """Ganesha is repeatedly killed with SIGKILL, usually after the end of its grace period: no new open succeeds before. Every half lease
    it checks whether every client has reclaimed."""

    SERVER = {"lease": 4, "grace": 4}

    def with_restarts(self, options, seed, steps, workers):
        mounted = self.mount(options)
        trouble = Trouble(lambda: self.server.restart(down=random.Random(seed).choice([0, 0.3, 2])), 2, 6, seed)
        trouble.start()
        try:
            # A fast machine finishes before the second restart; then it runs another seed.
            for turn in itertools.count():
                process = self.fsrandom(self.directory(mounted, f"{self._testMethodName}{turn}"), "--check-every", 500,
                                        seed=seed + 100 * turn, steps=steps, workers=workers, witness=False)
                self.finish(process)
                if trouble.count >= 2 or not trouble.is_alive():
                    break
        finally:
            trouble.stop()
        pid = mounted.pid
        self.assertTrue(os.path.exists(f"/proc/{pid}"))

    def test_random_operations(self):
        self.with_restarts("timeo=100", 40, scaled(20000, 100000), 2)

    def test_random_operations_four_loops(self):
        self.with_restarts("timeo=100,threads=4", 50, scaled(20000, 100000), 2)

    def test_acknowledged_writes(self):
        mounted = self.mount("timeo=100")
        directory, log = self.directory(mounted), os.path.join(HOME, f"{self.id()}.log")
        trouble = Trouble(lambda: self.server.restart(down=0.2), 2, 6, 60)
        trouble.start()
        try:
            self.run_program(tool("ackcheck"), "write", "--log", log, "--workers", 3, "--seconds", seconds(20, 120),
                             "--server-dies", 1, directory)
        finally:
            trouble.stop()
        self.assertGreater(trouble.count, 2)
        self.run_program(tool("ackcheck"), "verify", "--log", log, self.on_server(directory))


@needs_mount()
class Cuts(RandomCase):
    """Every TCP connection is cut at random, often in the middle of a message."""

    SERVER = {"lease": 4, "grace": 4}

    def through_proxy(self, options="timeo=100"):
        self.chaos = self.proxy()
        mounted = self.mount(options, port=self.chaos.port)
        return mounted, self.directory(mounted)

    def with_cuts(self, options, seed):
        mounted, directory = self.through_proxy(options)
        self.chaos.command(f"cut-every 50 500 {seed}")
        # Goes on until there were enough cuts: a fast machine may finish before.
        for turn in itertools.count():
            self.finish(self.fsrandom(directory, "--check-every", 500, seed=seed + turn, steps=scaled(8000, 40000), workers=2))
            if self.chaos.stats()["cuts"] > 10:
                break
            self.assertLess(turn, 50, "the proxy cuts nothing")
            directory = self.directory(mounted, f"{self._testMethodName}{turn}")
        self.assertTrue(os.path.exists(f"/proc/{mounted.pid}"))

    def test_random_operations(self):
        self.with_cuts("timeo=100", 70)

    def test_random_operations_four_loops(self):
        self.with_cuts("timeo=100,threads=4", 80)

    def test_acknowledged_writes_with_cuts_and_restarts(self):
        _, directory = self.through_proxy()
        log = os.path.join(HOME, f"{self.id()}.log")
        self.chaos.command("cut-every 100 1500 9")
        trouble = Trouble(lambda: self.server.restart(down=0.2), 2, 6, 61)
        trouble.start()
        try:
            self.run_program(tool("ackcheck"), "write", "--log", log, "--workers", 3, "--seconds", seconds(20, 120),
                             "--server-dies", 1, directory)
        finally:
            trouble.stop()
        self.run_program(tool("ackcheck"), "verify", "--log", log, self.on_server(directory))

    def test_replies_in_tiny_fragments(self):
        _, directory = self.through_proxy("")
        self.chaos.command("fragment 40")
        self.finish(self.fsrandom(directory, "--max-bytes", 40000, seed=90, steps=scaled(2000)))


@needs_mount()
class DaemonKilled(RandomCase):
    """Acknowledged data is on the server even when the daemon is killed."""

    def before_the_end(self, mounted):
        """For subclasses that look at the mount before its daemon is killed."""

    def test_acknowledged_writes_survive_sigkill_of_the_daemon(self):
        for attempt in range(3):
            mounted = self.mount()
            directory = self.directory(mounted, f"attempt{attempt}")
            log = os.path.join(HOME, f"acknowledged{attempt}.log")
            writer = self.start_program(tool("ackcheck"), "write", "--log", log, "--workers", 2, "--seconds", 60,
                                        "--until-error", 1, "--seed", attempt, directory)
            time.sleep(2)
            self.before_the_end(mounted)
            os.kill(mounted.pid, 9)
            self.assertEqual(writer.wait(60), 0)
            mounted.umount()
            self.run_program(tool("ackcheck"), "verify", "--log", log,
                             os.path.join(self.server.path(), os.path.basename(directory)))


if __name__ == "__main__":
    unittest.main()
