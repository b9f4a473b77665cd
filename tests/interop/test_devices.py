# SPDX-License-Identifier: Apache-2.0
"""RDMA devices, here Linux' rxe: our client with our filer and with Linux' server, Linux' client with our filer.

All of it is in the guest, because the host has no device. One guest for all tests of the module, with one emulated processor, so sizes are
small.
"""

import os
import re
import sys
import tempfile
import unittest

import test_coherence
import test_delegations
import test_recalls
import trees
from guest import GUEST, Guest
from harness.case import HOME, WORK, SystemCase, tool
from inside import BIN, FilerInside, MountInside, work_as_a_user
from knfsd import EXPORT, Knfsd

DEVICE = "rxe0"
BENCH = os.path.exists(os.path.join(WORK, "build/tests/bench/fsload"))
GUEST6 = "fd00:9::2"
# Linux 6.1 removes rxe only after all programs have closed it.
DEVICE_GOES = f"rdma link del {DEVICE}; sleep 3; rdma_up"
# The server has the same device. The server or the client may notice its end first (seen with Linux 6.12 and 6.1).
DEVICE_LOST = "the RDMA device was removed|the peer disconnected"
guest = None


def setUpModule():
    global guest
    guest = (counting_guest() if BENCH else Guest)().start()
    guest.run(f"ip addr add {GUEST6}/64 dev eth0 nodad; rdma_up; dmesg -C")


def counting_guest():
    sys.path.append(os.path.join(WORK, "src/bench"))
    from lab_costs import CountingGuest
    return CountingGuest


def tearDownModule():
    guest.end()


class DeviceCase(SystemCase):
    """Mounts and commands in the guest; `server` is in the guest, too."""

    LIMIT = 3000
    SOURCE = f"{GUEST}:/memory"

    def mount(self, options="", source=None, **more):
        mounted = MountInside(guest, source or self.SOURCE, f"rdma_dev={DEVICE},threads=1" + (options and "," + options), **more)
        self.mounted.append(mounted)
        return mounted

    def write_during(self, mounted, trouble):
        """Runs writers one after the other until the trouble is over."""
        name = self._testMethodName
        guest.run(f"""set -e; rm -f /run/over
            ({{ sleep 3; {trouble}; }} >/run/trouble.log 2>&1; echo $? >/run/over) &
            n=0
            while [ $n = 0 ] || [ ! -e /run/over ]; do
              n=$((n + 1)); mkdir {mounted.path}/{name}.$n
              {tool('ackcheck')} write --log /run/{name}.$n --workers 2 --seconds 4 {mounted.path}/{name}.$n
            done
            [ "$(cat /run/over)" = 0 ] || {{ cat /run/trouble.log; exit 1; }}""")

    def run_inside(self, program, *words):
        """Runs tests of tests/system in the guest, with a program of guest/."""
        print(guest.run(f"cd /run; export NFSRDMA_WORK={WORK} PYTHONDONTWRITEBYTECODE=1 PYTHONPATH={WORK}/src/system; "
                        f"python3 {WORK}/src/interop/guest/{program} {' '.join(words)} 2>&1"))

    def verify(self, directory):
        """Checks that everything acknowledged to the writers is there."""
        name = self._testMethodName
        guest.run(f"for log in /run/{name}.*; do {tool('ackcheck')} verify --log $log {directory}/${{log#/run/}} || exit 1; done")

    def tearDown(self):
        super().tearDown()
        complaints = guest.run("dmesg -c | grep -iE 'rxe|rdma|bug|warn|oops|refcount|blocked' | grep -vE 'set active|set down|added eth0|Registered rdma' || true")
        self.assertEqual(complaints, "", "the guest's kernel complains")


class OurFiler(DeviceCase):
    """Our client with our filer."""

    SIZE = 1500001

    @classmethod
    def setUpClass(cls):
        cls.server = FilerInside(guest, "'[::]'")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def work(self, version):
        """Writes everything, reads it again through another mount, and compares; the data must have gone through memory windows."""
        tree, name = self.local("tree"), self._testMethodName
        trees.small_files(tree, 20)
        mounted = self.mount(f"rdmavers={version}")
        guest.run(f"""set -e; cd {mounted.path}; mkdir {name}; cd {name}
            head -c {self.SIZE} /dev/urandom >/run/data; cp /run/data data; cp -a {tree} tree; mkdir random
            {tool('fsrandom')} --tolerate silly --seed 1 --steps 150 --dump /run/{name}.dump random""")
        written = mounted.rdma()
        status = mounted.status()
        mounted.umount()
        mounted = self.mount(f"rdmavers={version}")
        guest.run(f"""set -e; cd {mounted.path}/{name}; cmp data /run/data; diff -r --no-dereference tree {tree}
            {tool('fsrandom')} --verify /run/{name}.dump random""")
        read = mounted.rdma()
        for rdma in written, read:
            self.assertEqual((rdma["version"], rdma["exposure"], rdma["segments_open"]), (version, "fenced by memory windows", 0))
            self.assertTrue(rdma["fabric"].startswith(f"{DEVICE} port 1, MTU "), rdma["fabric"])
            self.assertGreater(rdma["remotely_invalidated"], 0, "the server closed windows with its replies")
        self.assertGreaterEqual(written["bytes_fetched"], self.SIZE, "the server fetched what was written by RDMA Read")
        self.assertGreaterEqual(read["bytes_placed"], self.SIZE, "and placed what was read by RDMA Write")
        self.assertIn(f"{DEVICE} port 1, MTU ", status)
        self.assertIn(f"version {version}, ", status)
        self.assertIn("fenced by memory windows, closed by the server's replies", status)

    def test_version_2(self):
        self.work(2)

    def test_version_1(self):
        self.work(1)

    def test_ipv6(self):
        mounted = self.mount(source=f"[{GUEST6}]:/memory", proto="rdma6")
        guest.run(f"cd {mounted.path}; head -c 300000 /dev/urandom >/run/data; cp /run/data six; cmp six /run/data")
        transport, = mounted.stats()["transports"]
        self.assertEqual((transport["peer"], transport["rdma"]["version"]), (f"[{GUEST6}]:20049", 2))


class EverythingAtOnce(DeviceCase):
    """Our filer over a device, software RDMA and TCP, at one address."""

    @classmethod
    def setUpClass(cls):
        cls.server = FilerInside(guest, GUEST, fabrics="software,verbs")

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def test_mounts_of_each_kind_see_the_same(self):
        mounts = {"rxe0 port 1": self.mount(), "software RDMA": self.other("rdma", "rdma_dev=software,threads=1"), "TCP": self.other("tcp", "threads=1")}
        for name, mounted in mounts.items():
            transport, = mounted.stats()["transports"]
            carrier = transport["rdma"]["fabric"] if "rdma" in transport else "TCP"
            self.assertTrue(carrier.startswith(name), (name, carrier))
            guest.run(f"head -c 300001 /dev/urandom >'/run/{name}'; cp '/run/{name}' {mounted.path}")
        for mounted in mounts.values():
            for name in mounts:
                guest.run(f"cmp '/run/{name}' '{mounted.path}/{name}'")

    def other(self, proto, options):
        mounted = MountInside(guest, self.SOURCE, options, proto=proto)
        self.mounted.append(mounted)
        return mounted


class OnKnfsd(DeviceCase):
    """Our client with Linux' server."""

    SOURCE = f"{GUEST}:/"

    @classmethod
    def setUpClass(cls):
        cls.server = Knfsd(guest).start()

    @classmethod
    def tearDownClass(cls):
        guest.run(f"knfsd_stop; rm -rf {EXPORT}/*")

    def test_version_2_is_asked_for_and_version_1_used_on_the_same_connection(self):
        mounted = self.mount()
        guest.run(f"cd {mounted.path}; head -c 1000001 /dev/urandom >/run/data; cp /run/data data; cmp data /run/data")
        mounted.umount()
        mounted = self.mount()
        guest.run(f"cmp {mounted.path}/data /run/data && cmp {EXPORT}/data /run/data")
        transport, = mounted.stats()["transports"]
        rdma = transport["rdma"]
        self.assertEqual((transport["connects"], rdma["version"]), (1, 1))
        self.assertIn("has no RPC-over-RDMA version 2 (ERR_VERS); using version 1", mounted.log_text())
        self.assertGreaterEqual(rdma["bytes_placed"], 1000001, "every byte of the file came by RDMA Write")
        self.assertGreater(rdma["remotely_invalidated"], 0, "Linux' server sends With Invalidate to who says that it may")
        self.assertEqual((rdma["exposure"], rdma["segments_open"]), ("fenced by memory windows", 0))
        self.assertIn("closed by the server's replies", mounted.status())

    def test_git(self):
        source = os.path.join(HOME, "source")
        trees.git_repository(source, files=40, commits=2)
        mounted = self.mount()
        guest.run(f"""set -e; cd {mounted.path}
            git='git -c safe.directory=* -c user.name=A -c user.email=a@example.com -c gc.autoDetach=false'
            $git clone -q file://{source} clone; $git -C clone fsck --full --strict 2>&1; [ -z "$($git -C clone status --porcelain)" ]
            diff -r --no-dereference --exclude=.git {source} clone""")

    def test_tar(self):
        source = self.local("small")
        trees.small_files(source, 25)
        mounted = self.mount()
        guest.run(f"""set -e; mkdir {mounted.path}/tar; cd {mounted.path}/tar; tar -C {source} --format=posix -cf packed.tar .; mkdir out
            tar -C out -xpf packed.tar; tar -C out --compare -f packed.tar; rm -r out; [ "$(ls -A)" = packed.tar ]""")

    def test_locks_of_two_mounts(self):
        one, two = self.mount(), self.mount()
        for mode in ("posix --seed 1 --steps 25", "flock --seed 2 --steps 20", "counter --rounds 8"):
            guest.run(f"mkdir -p {one.path}/locks; {tool('locktest')} {mode} {one.path}/locks {two.path}/locks")

    def test_random_operations(self):
        mounted = self.mount()
        guest.run(f"mkdir {mounted.path}/random; {tool('fsrandom')} --tolerate silly --seed 2 --steps 200 --dump /run/knfsd.dump "
                  f"{mounted.path}/random")
        mounted.umount()
        mounted = self.mount()
        guest.run(f"{tool('fsrandom')} --verify /run/knfsd.dump {mounted.path}/random")

    def test_nothing_acknowledged_is_lost_when_the_server_restarts(self):
        mounted = self.mount("timeo=100")
        self.write_during(mounted, f"knfsd_stop; sleep 2; knfsd_start {self.server.lease}")
        mounted.umount()
        self.verify(EXPORT)

    def test_nothing_acknowledged_is_lost_when_the_device_goes_and_comes_back(self):
        mounted = self.mount("timeo=100")
        self.write_during(mounted, DEVICE_GOES)
        self.assertRegex(mounted.log_text(), DEVICE_LOST)
        mounted.umount()
        self.verify(EXPORT)


    def test_the_link_goes_down(self):
        mounted = self.mount("timeo=100")
        # When rxe of Linux 6.1 cannot send, it fails even its own queue pair for connecting, for ever: Linux' client
        # cannot connect then either. So the device is made again.
        self.write_during(mounted, f"ip link set eth0 down; sleep 4; ip link set eth0 up; ip addr add {GUEST6}/64 dev eth0 nodad; {DEVICE_GOES}")
        self.assertRegex(mounted.log_text(), "reconnecting")
        mounted.umount()
        self.verify(EXPORT)

    def test_an_unprivileged_user_mounts(self):
        work_as_a_user(guest, f"{GUEST}:/", EXPORT, DEVICE, f"{DEVICE} port 1, MTU [0-9]*, version 1", 1000000)

    def test_what_is_kept_is_what_may_be_locked(self):
        """The cache gets half of it: a device may register only as much of a user's memory as RLIMIT_MEMLOCK allows."""
        guest.run(f"head -c 30000000 /dev/urandom >{EXPORT}/more-than-the-limit; chmod a+r {EXPORT}/more-than-the-limit")
        self.addCleanup(guest.run, f"rm {EXPORT}/more-than-the-limit")
        guest.run(f"""set -e
            ulimit -l 8192; d=$(mktemp -d); cd $d; mkdir m
            {BIN}/mount.nfsrdma-fuse {GUEST}:/ m -o proto=rdma,rdma_dev={DEVICE},log=$d/log,cache_mem=64M || {{ cat log; exit 1; }}
            for turn in 1 2 3; do
                cmp m/more-than-the-limit {EXPORT}/more-than-the-limit; sleep 1
                dd if=m/more-than-the-limit of=/dev/null bs=1M iflag=direct status=none
            done
            {BIN}/nfsrdma-fuse stats m --format json >stats; {BIN}/nfsrdma-fuse umount m
            grep -q 'can stay registered' log || {{ cat log; exit 1; }}
            limit=$(grep -o '"data_limit_bytes":[ 0-9]*' stats | tr -dc 0-9); [ $limit -le 4194304 ] || {{ echo $limit; exit 1; }}""", user=65534)
        guest.run("dmesg -C")  # the test itself caused the kernel's messages about limits


class Far(DeviceCase):
    """With delegations that are recalled all the time and a delayed filer, so that the daemon reads ahead and caches the data, as in
    test_recalls.Far."""

    ARGUMENTS = ()
    FAULTS = ()

    @classmethod
    def setUpClass(cls):
        rules = (f"--fault '{rule}'" for rule in (*cls.FAULTS, *test_recalls.Far.FAULTS))
        cls.server = FilerInside(guest, GUEST, arguments=("--delegations write", *cls.ARGUMENTS, *rules))

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def random_operations(self, seed, options=""):
        """Runs random operations and returns the mount's statistics at their end."""
        name, options = self._testMethodName, "timeo=100" + options
        mounted = self.mount(options)
        mounted.keep_kernel_from_reading_ahead(16)
        guest.run(f"mkdir {mounted.path}/{name}; {tool('fsrandom')} --tolerate silly {' '.join(map(str, test_recalls.Far.SCANS))} --seed {seed} "
                  f"--steps 700 --dump /run/{name}.dump {mounted.path}/{name}")
        stats = mounted.stats()
        test_recalls.Far.check_that_all_is_used(self, stats)
        self.assertGreater(stats["delegations"]["recalled"], 0)
        mounted.umount()
        mounted = self.mount(options)
        guest.run(f"{tool('fsrandom')} --verify /run/{name}.dump {mounted.path}/{name}")
        return stats


class OurFilerInTrouble(Far):
    """Connections end during calls and replies."""

    FAULTS = ("request every 110: cut", "reply every 90: cut", "request every 40: recall")

    def test_random_operations(self):
        transport, = self.random_operations(5)["transports"]
        self.assertGreater(transport["connects"], 3)
        self.assertEqual(transport["rdma"]["segments_open"], 0)

    def test_random_operations_four_loops(self):
        transports = self.random_operations(7, ",threads=4")["transports"]
        self.assertEqual(len(transports), 4)
        self.assertGreater(sum(transport["connects"] for transport in transports), 3 + 4)
        self.assertEqual({transport["rdma"]["segments_open"] for transport in transports}, {0})

    def test_nothing_acknowledged_is_lost_when_connections_are_cut(self):
        mounted = self.mount("timeo=100,rdmavers=1")
        self.write_during(mounted, "true")
        self.assertGreater(mounted.stats()["transports"][0]["connects"], 3)
        mounted.umount()
        self.verify(self.mount().path)


class OurFilerRestarts(Far):
    """The filer restarts repeatedly, and recalls delegations in between."""

    ARGUMENTS = ("--lease 10", "--grace 10")
    FAULTS = ("request every 80: restart", "request every 45: recall")

    def test_random_operations(self):
        self.assertGreater(self.random_operations(6)["session"]["client_ids_established"], 2)

    def test_two_mounts_take_turns(self):
        """A file that one mount has closed is opened by the other at once."""
        one, two = self.mount("timeo=100"), self.mount("timeo=100")
        guest.run(f"""set -e; mkdir {one.path}/turns
            for i in $(seq 40); do
              [ $((i % 2)) = 0 ] && {{ w={one.path}; r={two.path}; }} || {{ w={two.path}; r={one.path}; }}
              echo turn $i >$w/turns/file; [ "$(cat $r/turns/file)" = "turn $i" ] || {{ echo "turn $i: $(cat $r/turns/file)"; exit 1; }}
            done""")
        self.assertGreater(one.stats()["session"]["client_ids_established"], 2)


class OurFilerLies(Far):
    """The filer's change attributes are wrong, in a different way each time."""

    FAULTS = ("request nth 1 every 300: change frozen", "request nth 100 every 300: change restless",
              "request nth 200 every 300: change backwards", "request every 45: recall")

    def test_random_operations(self):
        self.random_operations(8)


class OurFilerRevokes(Far):
    """The filer repeatedly revokes all delegations."""

    FAULTS = ("request nth 100 every 150: revoke", "request every 45: recall")

    def test_random_operations(self):
        self.assertGreater(self.random_operations(9)["delegations"]["revoked"], 0)


class Coherence(Far):
    """test_coherence.ReadAhead: the next open sees what another mount has closed, whatever was read ahead."""

    def test_close_to_open(self):
        two = [self.mount(test_coherence.ReadAhead.FIRST) for _ in range(2)]
        self.run_inside("coherence.py", two[0].path, two[1].path)
        for mounted in two:
            stats = mounted.stats()
            self.assertGreater(stats["cache"]["data_hit_bytes"], 0)
            self.assertGreater(stats["delegations"]["recalled"], 0)


class CoherenceUnderDelegations(DeviceCase):
    """test_delegations.Coherence's own tests: recalls while the holder reads on, and changes for which no recall is needed."""

    EXPORT = "/run/delegated"

    @classmethod
    def setUpClass(cls):
        guest.run(f"mkdir -m 1777 {cls.EXPORT}")
        cls.server = FilerInside(guest, GUEST, export=cls.EXPORT, arguments=["--delegations write"])

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def test_of_two_mounts(self):
        tests = [f"Coherence.{name}" for name in vars(test_delegations.Coherence) if name.startswith("test_")]
        self.run_inside("delegated.py", f"{GUEST}:{self.EXPORT}", f"rdma_dev={DEVICE},threads=1", self.EXPORT, *tests)


class OurFilerLosesItsDevice(DeviceCase):
    """Both sides use the device that is removed; the filer listens at its address."""

    @classmethod
    def setUpClass(cls):
        cls.server = FilerInside(guest, GUEST)

    @classmethod
    def tearDownClass(cls):
        cls.server.end()

    def test_nothing_acknowledged_is_lost(self):
        mounted = self.mount("timeo=100")
        before = self.descriptors(mounted)
        self.write_during(mounted, DEVICE_GOES)
        self.assertRegex(mounted.log_text(), DEVICE_LOST)
        self.assertIn(f"listening at {GUEST}:20049 again", self.server.log_text())
        self.assertEqual(self.descriptors(mounted), before, "nothing of the old device is left open")
        mounted.umount()
        self.verify(self.mount().path)

    def descriptors(self, mounted):
        """The devices that each of the two processes has open; a closed one is replaced by /dev/null."""
        return [sorted(guest.run(f"readlink /proc/{pid}/fd/* | grep -E 'infiniband|/dev/null' | sed 's/[0-9]*$//'").split())
                for pid in (mounted.stats()["pid"], self.server.pid)]


class KernelClient(DeviceCase):
    """Linux' client with our filer, which exports a directory of the guest."""

    MOUNT = "/net"

    @classmethod
    def setUpClass(cls):
        guest.run("modprobe -a nfsv4 rpcrdma; mkdir -p /run/exported")
        cls.server = FilerInside(guest, GUEST, export="/export=/run/exported", arguments=("--lease", "90", "--grace", "10", "--async"))
        guest.run(f"kernel_mount {GUEST}:/export {cls.MOUNT} proto=rdma,port=20049")

    @classmethod
    def tearDownClass(cls):
        try:
            guest.run(f"umount {cls.MOUNT}")
        finally:
            cls.server.end()

    def test_it_is_mounted_as_asked_for(self):
        options = guest.run(f"grep ' {self.MOUNT} ' /proc/mounts")
        self.assertIn("vers=4.1", options)
        self.assertIn("proto=rdma", options)

    def test_a_tree_is_the_same_here_and_there(self):
        tree = self.local("tree")
        trees.small_files(tree, 30)
        guest.run(f"""set -e; cd {self.MOUNT}; cp -a {tree} tree; ln -s tree link; sync .
            diff -r --no-dereference {tree} /run/exported/tree; [ $(readlink /run/exported/link) = tree ]
            cd /; umount {self.MOUNT}; kernel_mount {GUEST}:/export {self.MOUNT} proto=rdma,port=20049
            diff -r --no-dereference {tree} {self.MOUNT}/tree""")

    def test_a_user_works_and_another_connection_is_made(self):
        """The filer is root, and acts as the user in between."""
        guest.run(f"set -e; cd {self.MOUNT}; mkdir -m 777 users; cd users; setpriv --reuid=1234 --regid=1234 --clear-groups sh -c 'echo mine >file; mkdir d'; "
                  f"[ $(stat -c %u:%g /run/exported/users/file) = 1234:1234 ]; cd /; umount {self.MOUNT}; "
                  f"kernel_mount {GUEST}:/export {self.MOUNT} proto=rdma,port=20049; cat {self.MOUNT}/users/file")

    def test_large_files(self):
        guest.run(f"""set -e; cd {self.MOUNT}; head -c 3000003 /dev/urandom >/run/exported/there; cp there copy
            dd if=there of=direct bs=1M iflag=direct oflag=direct count=2 status=none; sync .
            cmp /run/exported/there /run/exported/copy; cmp -n 2097152 /run/exported/there /run/exported/direct""")

    def test_locks(self):
        for mode in ("posix --seed 1 --steps 25", "flock --seed 2 --steps 20", "counter --rounds 8"):
            guest.run(f"mkdir -p {self.MOUNT}/locks; {tool('locktest')} {mode} {self.MOUNT}/locks")


@unittest.skipUnless(BENCH, "needs the benchmark's tools (NFSRDMA_BENCH)")
class Benchmark(DeviceCase):
    """scripts/bench --lab works; the measured values mean nothing here."""

    def test_every_client_goes_over_both(self):
        import lab
        import lab_costs
        results = lab.Results()
        self.addCleanup(guest.run, f"knfsd_stop; rm -rf {EXPORT}/*")
        lab.Lab(guest, results, lab.MIB, 10, 10, ("transfers", "files", "costs")).run(0)
        contenders = {"this mount, rdma", "this mount, tcp", "kernel, rdma", "kernel, tcp", "empty FUSE"}
        points = [*((metric, ()) for metric in lab.LARGE), *(("random read", (("depth", depth),)) for depth in (1, 8, 32)),
                  *((metric, (("depth", depth),)) for metric, depth in (("create", 1), ("create", 8), ("stat", 1), ("small file read", 1),
                                                                       ("small file read", 8)))]
        counted = {(metric, f"this mount, {proto}", ()) for metric, _, _ in lab_costs.COUNTED for proto in lab.PROTOS}
        self.assertEqual(set(results.measured), {(metric, who, at) for metric, at in points for who in contenders} | counted)
        for key, found in results.measured.items():
            run, = found["runs"]
            for quantity in ("instructions_per_gib", "syscalls_per_gib") if key in counted else ("ops_per_s",):
                self.assertGreater(run[quantity], 0, key)
        lab.describe(results)
        self.assertEqual(len(results.targets), 2 * (5 + 3) + 3 * len(lab_costs.COUNTED))
        with tempfile.TemporaryDirectory() as out:
            text = lab.write_report(results.document("a test", []), out, "lab")
            self.assertEqual(sorted(os.listdir(out)), ["lab.html", "lab.json", "lab.txt"])
        for target in results.targets:
            self.assertIn(target["what"] + ":", text)


class Fabric(unittest.TestCase):
    """The unit tests that a machine without an RDMA device skips."""

    def run_tests(self, program, pattern, user=None, before=":"):
        output = guest.run(f"cd /tmp; {before}; {WORK}/build/tests/unit/{program} --gtest_filter='{pattern}' 2>&1", user=user)
        guest.run("dmesg -C")  # the test itself caused the kernel's messages about limits
        print(output)
        self.assertRegex(output, r"\[  PASSED  \] [1-9]")
        self.assertNotIn("FAILED", output)
        return output

    def skipped(self, output):
        return set(re.findall(r"SKIPPED \] (\S+/\S+|\S+\.\S+)", output))

    def test_devices(self):
        output = self.run_tests("fabric/fabric_verbs_test", "VerbsDevice.*:VerbsSource.*")
        print("skipped here:", self.skipped(output))

    def test_limit_of_locked_memory(self):
        output = self.run_tests("fabric/fabric_verbs_test", "VerbsDevice.LimitOfLockedMemory_MakesRegistrationsGoAndNotFail", 65534)
        self.assertIn("can stay registered (RLIMIT_MEMLOCK is ", output)

    def test_what_every_fabric_has_to_do(self):
        output = self.run_tests("fabric/fabric_conformance_test", "*Verbs*")
        self.assertEqual(self.skipped(output), {"Fabrics/ConformanceMemory.SendWithInvalidate_ClosesTheMemoryAndSaysSo/VerbsWithoutWindows"})

    def test_random_compounds(self):
        # A fifth of the cases of a native run: half a minute here.
        output = self.run_tests("rdma/rdma_compounds_test", "*Verbs*", before="export RC_PARAMS=max_success=20")
        self.assertEqual(self.skipped(output), set())

    def test_memory_is_taken_back_over_a_device_without_windows(self):
        self.addCleanup(guest.run, "rdma_down; rdma_up; dmesg -C")
        guest.run("rdma_down; siw_up")
        self.run_tests("fabric/fabric_conformance_test", "*ConformanceEnd.RevokedInTheMiddle*/Verbs", before="ulimit -l unlimited")


if __name__ == "__main__":
    unittest.main()
