# SPDX-License-Identifier: Apache-2.0
"""Random operations, restarts and cuts with delegations, over TCP and over RDMA; and servers that recall, revoke, or send wrong change
attributes.

nfsrdma-filer grants write delegations. A second mount reads, lists and stats the files of the first one, so that delegations are recalled
while they are used. The fault plan does the same without a second client (nfsrdma-filer --fault).
"""

import mmap
import os
import signal
import stat
import threading
import unittest

import test_coherence
import test_delegations
import test_random
import test_rdma
from harness.case import HOME, ServerForEach, needs_mount, scaled, seconds, tool
from harness.filer import Filer
from harness.ports import free_port


def delegating_filer(name, faults=(), address="127.0.0.1", **times):
    """Starts the server; returns it and its RDMA port."""
    port = free_port()
    rules = [word for rule in faults for word in ("--fault", rule)]
    arguments = ["--delegations", "write", "--rdma", f"{address}:{port}", *rules]
    return Filer(name=f"recalls.{name}", arguments=arguments, address=address, **times).start(), port


class OverTcp:
    """Runs the tests of the other base class on a filer that grants delegations."""

    PROTO = "tcp"
    FAULTS = ()

    @classmethod
    def setUpClass(cls):
        wishes = getattr(cls, "SERVER", {})
        times = {k: v for k, v in wishes.items() if k in ("lease", "grace")}
        cls.server, cls.rdma_port = delegating_filer(cls.__name__, cls.FAULTS, wishes.get("bind", "127.0.0.1"), **times)

    @classmethod
    def tearDownClass(cls):
        status = cls.server.kill(signal.SIGTERM)
        assert status == 0, f"the filer ended with {status}:\n{cls.server.log_text()[-4000:]}"

    def mount(self, options="", export=None, port=None, **more):
        usual = self.rdma_port if self.PROTO == "rdma" else None
        return super().mount(options, export, port or usual, **{"proto": self.PROTO, **more})


class OverRdma(OverTcp):
    PROTO = "rdma"


class Far:
    """The random tester with a delayed server, so that the daemon reads ahead of long runs, which are part of the steps, and caches the
    data. At the end it must have used read-ahead, cached data, delegations and unstable writes."""

    FAULTS = ("reply READ always: delay 2",)
    SCANS = ("--max-bytes", 2 << 20, "--scans", 40)
    STEPS = scaled(2500)

    def mount(self, options="", export=None, port=None, **more):
        mounted = super().mount(options, export, port, **more)
        mounted.keep_kernel_from_reading_ahead(16)
        return mounted

    def fsrandom(self, directory, *options, steps, **more):
        return super().fsrandom(directory, *self.SCANS, *options, steps=min(steps, self.STEPS), **more)

    def finish(self, process, timeout=1500):
        super().finish(process, timeout)
        self.check_that_all_is_used(self.mounted[0].stats())

    def check_that_all_is_used(self, stats):
        cache, delegations = stats["cache"], stats["delegations"]
        requests = {o["name"]: o["requests"] for o in stats["operations"]}
        self.assertGreater(cache["ahead_bytes"], scaled(1 << 20), cache)
        self.assertGreater(cache["data_hit_bytes"], scaled(1 << 20), cache)
        self.assertGreater(delegations["granted"], 0, delegations)
        self.assertGreater(delegations["local_opens"], 0, delegations)
        self.assertGreater(requests.get("COMMIT", 0), 0, "data was written behind")


class Reader(threading.Thread):
    """Reads, lists and stats everything below a directory, repeatedly, until stopped. It ignores files that vanish, and does not check
    contents."""

    def __init__(self, path):
        super().__init__()
        self.path, self.done, self.files = path, threading.Event(), 0

    def run(self):
        while not self.done.is_set():
            for directory, _, names in os.walk(self.path):
                for name in names:
                    if self.done.is_set():
                        return
                    self.look(os.path.join(directory, name))

    def look(self, path):
        try:
            # Skips files that would block, and devices.
            if not stat.S_ISREG(os.lstat(path).st_mode):
                return
            with open(path, "rb", opener=lambda p, flags: os.open(p, flags | os.O_NONBLOCK | os.O_NOFOLLOW)) as file:
                # Files are sparse and may be too large to read completely.
                for _ in range(4):
                    if self.done.is_set() or not file.read(1 << 20):
                        break
            self.files += 1
        except OSError:
            pass

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()


class RecallCase(OverTcp, test_random.RandomCase):

    def reader_of(self, directory):
        """A context manager, so that it ends before any unmount."""
        other = self.mount("noac")  # holds no delegation, and asks the server every time
        return Reader(os.path.join(other.path, os.path.basename(directory)))

    def delegations(self, mounted):
        return mounted.stats()["delegations"]


@needs_mount()
class Random(RecallCase):
    """No difference to a local disk, and none between the two sides, while another mount causes recalls."""

    STEPS = scaled(6000)

    def test_beside_a_reader(self):
        mounted = self.mount()
        directory = self.directory(mounted)
        with self.reader_of(directory) as reader:
            for seed in range(200, 300):
                self.finish(self.fsrandom(directory, seed=seed, steps=self.STEPS))
                # Repeats until both mounts have used the same files often enough.
                if reader.files > 20 and self.delegations(mounted)["recalled"] > 20:
                    break
                directory = self.directory(mounted, f"seed{seed}")
                reader.path = os.path.join(os.path.dirname(reader.path), os.path.basename(directory))
        numbers = self.delegations(mounted)
        self.assertGreater(numbers["recalled"], 20, numbers)
        self.assertGreater(numbers["local_opens"], 0, numbers)

    def test_several_workers_four_loops(self):
        mounted = self.mount("threads=4")
        self.finish(self.fsrandom(self.directory(mounted), seed=300, steps=self.STEPS, workers=3))
        self.assertGreater(self.delegations(mounted)["local_opens"], 0)


class RandomRdma(OverRdma, Random):
    pass


class RandomFar(Far, Random):
    pass


class RandomFarRdma(OverRdma, RandomFar):
    pass


class Held:
    """A mixin: each test must have used delegations."""

    def tearDown(self):
        try:
            if not any(test is self for test, _ in self._outcome.result.failures + self._outcome.result.errors):
                self.check_delegations(self.mounted[0].stats()["delegations"])
        finally:
            super().tearDown()

    def check_delegations(self, numbers):
        self.assertGreater(numbers["granted"], 0, numbers)


class Recalled(Held):
    """A mixin for tests with a single mount: the fault plan recalls all of its delegations, repeatedly, with enough requests in between to
    get new ones."""

    FAULTS = ("request every 150: recall",)

    def check_delegations(self, numbers):
        super().check_delegations(numbers)
        self.assertGreater(numbers["recalled"], 0, numbers)


class Restarts(Recalled, RecallCase, test_random.Restarts):
    """The filer is repeatedly killed; delegations are reclaimed, and recalled before and after."""


class RestartsRdma(OverRdma, Restarts):
    pass


class RestartsFar(Far, Restarts):
    FAULTS = (*Far.FAULTS, *Recalled.FAULTS)
    test_acknowledged_writes = None  # reads nothing, so nothing can be read ahead


class RestartsFarRdma(OverRdma, RestartsFar):
    pass


class Cuts(Recalled, RecallCase, test_random.Cuts):
    """Connections are cut; recalls are lost with them and repeated."""


class CutsRdma(Recalled, OverRdma, test_rdma.Cuts):
    pass


class CutsFar(Far, Cuts):
    FAULTS = (*Far.FAULTS, *Recalled.FAULTS)
    test_acknowledged_writes_with_cuts_and_restarts = None  # reads nothing, so nothing can be read ahead
    test_replies_in_tiny_fragments = None  # replies are too short


class CutsFarRdma(Far, CutsRdma):
    FAULTS = CutsFar.FAULTS
    test_acknowledged_writes_with_cuts_and_restarts = None


class Granted(OverTcp):
    """A mixin for tests of the random tester: delegations must have been granted, except with noac."""

    def mount(self, options="", *arguments, **more):
        self.granting = getattr(self, "granting", [])
        mounted = super().mount(options, *arguments, **more)
        if "noac" not in options.split(","):
            self.granting.append(mounted)
        return mounted

    def check_granted(self, mounted):
        self.assertGreater(mounted.stats()["delegations"]["granted"], 10)

    def finish(self, process, timeout=1500):
        super().finish(process, timeout)
        for mounted in self.granting:
            self.check_granted(mounted)


class Quiet(Granted, test_random.Quiet):
    SEEDS = range(110, 111)
    STEPS = scaled(10000)
    test_a_million_operations = None  # random.Quiet runs it

    def test_another_mount_sees_the_same(self):
        super().test_another_mount_sees_the_same()
        self.assertGreater(self.mounted[-1].stats()["delegations"]["granted"], 0)

    def test_another_mount_sees_the_same_while_the_first_holds_it(self):
        """What only the first mount knows is fetched from it: delegations are recalled, sizes requested by CB_GETATTR."""
        one, two = self.mount(), self.mount()
        directory, dump = self.directory(one), os.path.join(HOME, "dump")
        super(Granted, self).finish(self.fsrandom(directory, "--dump", dump, seed=101, steps=scaled(5000)))
        self.assertGreater(sum(test_delegations.held(one)), 0)
        self.run_program(tool("fsrandom"), "--verify", dump, os.path.join(two.path, os.path.basename(directory)))
        self.assertGreater(one.stats()["delegations"]["recalled"], 0)


class QuietRdma(OverRdma, Quiet):
    pass


class Options(Granted, test_random.Options):
    pass


class OptionsRdma(OverRdma, Options):
    pass


class Beside(Granted, test_random.Beside):
    pass


class BesideRdma(OverRdma, Beside):
    pass


class DaemonKilled(Granted, test_random.DaemonKilled):
    """The server keeps the dead client's delegations until its lease expires."""

    def before_the_end(self, mounted):
        self.check_granted(mounted)


class DaemonKilledRdma(OverRdma, DaemonKilled):
    pass


class CoherenceRdma(OverRdma, test_delegations.Coherence):
    pass


class OneCachesTheOtherNot(Held, OverTcp, test_coherence.OneCachesTheOtherNot):
    """One mount expires attributes and names at once; delegations still keep them valid."""


class OneCachesTheOtherNotRdma(OverRdma, OneCachesTheOtherNot):
    pass


class OneCachesTheOtherNotUndelegatedRdma(OverRdma, test_coherence.OneCachesTheOtherNot):
    FIRST, SECOND = ("nodelegations," + options for options in
                     (test_coherence.OneCachesTheOtherNot.FIRST, test_coherence.OneCachesTheOtherNot.SECOND))


class OpenDirectories(OverTcp, test_coherence.OpenDirectories):
    pass


class OpenDirectoriesRdma(OverRdma, test_coherence.OpenDirectories):
    pass


class RestartRdma(OverRdma, test_delegations.Restart):
    pass


class ReadAhead(OverTcp, test_coherence.ReadAhead):
    def test_what_is_read_ahead_is_used_and_never_old(self):
        super().test_what_is_read_ahead_is_used_and_never_old()
        for mounted in (self.one, self.two):
            numbers = mounted.stats()["delegations"]
            self.assertGreater(numbers["recalled"], 0, numbers)


class ReadAheadRdma(OverRdma, ReadAhead):
    FAULTS = ("reply READ always: delay 3",)


class ReadAheadUndelegatedRdma(OverRdma, test_coherence.ReadAhead):
    FAULTS = ReadAheadRdma.FAULTS
    FIRST = SECOND = "nodelegations," + test_coherence.ReadAhead.FIRST


@needs_mount()
class Faults(ServerForEach, RecallCase):
    """Servers that misuse delegations or send wrong change attributes: with a single client every byte is right."""

    STEPS = scaled(4000)

    def serve(self, *faults):
        faults = (*faults, *self.FAULTS)
        self.server, self.rdma_port = delegating_filer(f"{type(self).__name__}.{self._testMethodName}", faults)
        self.addCleanup(self.server.kill)
        return self.mount()

    def check(self, *faults, seed):
        mounted = self.serve(*faults)
        self.finish(self.fsrandom(self.directory(mounted), seed=seed, steps=self.STEPS, workers=2))
        return self.delegations(mounted)

    def test_recalls(self):
        numbers = self.check("request every 40: recall", seed=400)
        self.assertGreater(numbers["recalled"], 20, numbers)
        self.assertEqual(numbers["revoked"], 0, numbers)

    def test_recalls_that_overtake_the_reply_that_grants(self):
        """A recall may arrive before the reply that grants the delegation (RFC 8881 section 2.10.6.3)."""
        numbers = self.check("reply OPEN every 7: recall", seed=401)
        self.assertGreater(numbers["recalled"], 10, numbers)
        self.assertEqual(numbers["revoked"], 0, numbers)

    def test_revocations(self):
        numbers = self.check("request nth 100 every 400: revoke", seed=402)
        self.assertGreater(numbers["revoked"], 0, numbers)

    def test_nothing_acknowledged_is_lost_when_delegations_are_revoked(self):
        mounted = self.serve("request nth 50 every 200: revoke")
        directory, log = self.directory(mounted), os.path.join(HOME, f"{self.id()}.log")
        self.run_program(tool("ackcheck"), "write", "--log", log, "--workers", 3, "--seconds", seconds(6, 60), directory)
        self.assertGreater(self.delegations(mounted)["revoked"], 0)
        self.run_program(tool("ackcheck"), "verify", "--log", log, self.on_server(directory))

    def test_change_attributes_that_never_rest(self):
        self.check("request: change restless", seed=403)

    def test_change_attributes_that_go_backwards(self):
        self.check("request: change backwards", seed=404)

    def test_change_attributes_that_never_move(self):
        self.check("request: change frozen", seed=405)

    def test_change_attributes_that_are_another_lie_each_time(self):
        self.check("request nth 1 every 300: change frozen", "request nth 100 every 300: change restless",
                   "request nth 200 every 300: change backwards", "request nth 250 every 300: recall", seed=406)


class FaultsRdma(OverRdma, Faults):
    pass


@needs_mount()
class Storm(RecallCase):
    """One request recalls thousands of delegations."""

    # A slow machine must not have its delegations revoked.
    SERVER = {"lease": 90, "grace": 90}
    # The first CREATE makes the directory.
    FAULTS = ("request CREATE nth 2: recall",)
    FILES, MAPPED = scaled(3000), 50

    def test_each_goes_back_once_and_none_is_revoked(self):
        mounted = self.mount()
        path = self.directory(mounted)
        mappings = []
        for number in range(self.FILES):
            with open(os.path.join(path, str(number)), "w+b") as file:
                file.write(b"%08d" % number * 1000)
                if number < self.MAPPED:
                    file.flush()
                    mappings.append(mmap.mmap(file.fileno(), 8000))
        # The kernel has these files' pages; only the mappings hold a descriptor.
        for mapping in mappings:
            mapping[5000:5005] = b"store"
        before = self.delegations(mounted)
        self.assertEqual((before["held_write"], before["recalled"], before["returned"]), (self.FILES, 0, 0))
        os.symlink("nowhere", os.path.join(path, "recalls them"))
        self.wait_until(lambda: test_delegations.held(mounted) == (0, 0) and not self.delegations(mounted)["returning"],
                        "all are back", 300)
        numbers = self.delegations(mounted)
        self.assertGreaterEqual(numbers["recalled"], self.FILES, numbers)
        self.assertEqual((numbers["returned"], numbers["revoked"]), (self.FILES, 0), numbers)
        for number in range(self.FILES):
            with open(os.path.join(self.on_server(path), str(number)), "rb") as file:
                content = b"%08d" % number * 1000
                if number < self.MAPPED:
                    content = content[:5000] + b"store" + content[5005:]
                self.assertEqual(file.read(), content, number)
        for mapping in mappings:
            mapping.close()


class StormRdma(OverRdma, Storm):
    pass


class FaultsFar(Far, Faults):
    test_nothing_acknowledged_is_lost_when_delegations_are_revoked = None  # reads nothing, so nothing can be read ahead

    def check_that_all_is_used(self, stats):
        # No data is kept while the change attribute changes all the time; and with some plans delegations are too
        # short.
        if "rest" not in self._testMethodName and "revo" not in self._testMethodName:
            super().check_that_all_is_used(stats)


class FaultsFarRdma(OverRdma, FaultsFar):
    pass


if __name__ == "__main__":
    unittest.main()
