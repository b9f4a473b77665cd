"""A mount of Ganesha beside libnfs, which has no FUSE to pay, and beside an empty FUSE file system, which has no server.

  mount    this program, as root, O_DIRECT or through the page cache, by tests/bench/fsload
  libnfs   tests/bench/nfsload over libnfs's raw asynchronous API (NFSv3 and NFSv4.0), best depth; nfs-cat and nfs-cp
  nullfs   tests/bench/nullfs by fsload: what FUSE costs when nothing is behind it
  relay    nullfs --relay by fsload: the same with each byte crossing a TCP connection, which is the most that a network client
           behind FUSE can reach
CPU of a mount is its daemon's alone, as is nullfs's and the relay's; that of libnfs is the whole client's.
"""

import os
import resource
import shutil
import subprocess
import time

import trees
from harness.ganesha import Ganesha
from harness.mount import Mount, is_mounted
from harness.proxy import ChaosProxy
from measure import GIB, HOME, MIB, TOOLS, Part, Process, run_json


class Peers(Part):
    REPEATED = ("transfers", "metadata")
    ONCE = ("memory", "rpc_counts")

    def __init__(self, results, extra, arguments):
        super().__init__(results, extra, arguments)
        self.files = arguments.files
        self.with_mount = not arguments.no_mount
        self.server = Ganesha(minor_versions="0,1,2", v3=True, lease=60, grace=2).start()
        self.prepare()

    def end(self):
        self.server.kill()

    def prepare(self):
        root = self.server.path()
        block = os.urandom(MIB)
        for name in ("data", "target"):
            with open(os.path.join(root, name), "wb") as file:
                for _ in range(self.size // MIB):
                    file.write(block)
            os.chmod(os.path.join(root, name), 0o666)
        shutil.copyfile(os.path.join(root, "data"), os.path.join(HOME, "local"))
        os.mkdir(os.path.join(root, "small"))
        for i in range(self.files):
            with open(os.path.join(root, "small", f"f{i}"), "wb") as file:
                file.write(block[:4096])

    def libnfs(self, metric, op, version, depth, **options):
        server = Process(self.server.pid)
        path = "/export"
        if op in ("stat", "create", "smallread"):
            path += "/small"
        argv = [os.path.join(TOOLS, "nfsload"), "--op", op, "--version", version, "--port", self.server.port, "--mount-port",
                self.server.mount_port, "--path", path, "--depth", depth]
        for name, value in options.items():
            argv += ["--" + name, value]
        before = server.cpu_seconds()
        result = run_json(argv)
        self.results.add(metric, f"libnfs v{version} depth {depth}",
                         self.figures(result, result["cpu_seconds"], server.cpu_seconds() - before))

    def libnfs_tools(self):
        """nfs-cat and nfs-cp, both protocol versions as far as they work."""
        v4 = f"version=4&nfsport={self.server.port}"
        v3 = f"version=3&nfsport={self.server.port}&mountport={self.server.mount_port}"
        self.tool("read", "nfs-cat v4", "nfs-cat", f"nfs://127.0.0.1/export/data?{v4}")
        self.tool("read", "nfs-cat v3", "nfs-cat", f"nfs://127.0.0.1/export/data?{v3}")
        fresh = f"copied{self.round}"
        self.tool("write new file", "nfs-cp v3", "nfs-cp", os.path.join(HOME, "local"),
                  f"nfs://127.0.0.1/export/{fresh}?{v3}")
        os.unlink(os.path.join(self.server.path(), fresh))

    def tool(self, metric, contender, *argv):
        self.touch_free_memory()
        server, usage = Process(self.server.pid), resource.getrusage(resource.RUSAGE_CHILDREN)
        served, begin = server.cpu_seconds(), time.monotonic()
        done = subprocess.run(argv, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, timeout=600)
        seconds, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode != 0:
            self.extra.setdefault("failed", {})[contender] = done.stderr.strip()
            return
        cpu = after.ru_utime + after.ru_stime - usage.ru_utime - usage.ru_stime
        gib = self.size / GIB
        self.results.add(metric, contender, {"ops_per_s": None, "mib_per_s": self.size / MIB / seconds, "cpu_per_gib": cpu / gib,
                                             "cpu_us_per_op": None, "server_cpu_per_gib": (server.cpu_seconds() - served) / gib})

    def mounted(self, options=""):
        joined = ",".join(part for part in (self.options, options) if part)
        return Mount(self.server.source(), self.server.port, joined)

    def nullfs(self, *options):
        path = os.path.join(HOME, "nullfs")
        os.makedirs(path, exist_ok=True)
        process = subprocess.Popen([os.path.join(TOOLS, "nullfs"), "--size", str(self.size), "--files", str(self.files), *options, path])
        while not is_mounted(path):
            time.sleep(0.01)
        self.read_ahead(path)
        return path, process

    def read_ahead(self, path):
        """The same read-ahead window as the mount's, which its daemon sets when it runs as root."""
        device = os.stat(path).st_dev
        control = f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb"
        if self.window and os.path.exists(control):
            try:
                with open(control, "w") as file:
                    file.write(str(self.window))
            except OSError as error:  # read-only /sys in a container
                self.extra["read_ahead"] = f"nullfs keeps the kernel's default: {error}"

    window = None

    def find_window(self, mounted):
        device = os.stat(mounted.path).st_dev
        try:
            with open(f"/sys/class/bdi/{os.major(device)}:{os.minor(device)}/read_ahead_kb") as file:
                self.window = int(file.read())
        except OSError:
            return
        self.extra["read_ahead_kb"] = self.window

    def transfers(self):
        """Sequential and random transfers of one large file."""
        size = str(self.size)
        for version in (3, 4):
            for depth in (1, 4, 8):
                self.libnfs("read", "read", version, depth, file="data", size=size, block=512 << 10)
            for depth in (1, 32):
                self.libnfs(f"random read, depth {depth}", "randread", version, depth, file="data", size=size, block=4096, count=20000)
        for depth in (1, 4, 8):
            self.libnfs("write", "write", 3, depth, file="target", size=size, block=512 << 10)
        self.libnfs_tools()
        if self.with_mount:
            mounted = self.mounted()
            self.find_window(mounted)
            self.load_file("mount", mounted.path + "/data", mounted.path + "/target", Process(mounted.pid), Process(self.server.pid))
            self.touch_free_memory()
            daemon = Process(mounted.pid)
            begin, before = time.monotonic(), daemon.cpu_seconds()
            # Not nfs-cp's name: Ganesha keeps what it knows of that one, which was removed behind its back.
            fresh = os.path.join(mounted.path, f"written{self.round}")
            subprocess.run(["cp", os.path.join(HOME, "local"), fresh], check=True)
            subprocess.run(["sync", fresh], check=True)
            self.results.add("write new file", "mount", {"mib_per_s": self.size / MIB / (time.monotonic() - begin),
                                                         "cpu_per_gib": (daemon.cpu_seconds() - before) / (self.size / GIB)})
            os.unlink(fresh)
            mounted.umount()
        for contender, options in (("nullfs", []), ("relay", ["--relay"])):
            path, process = self.nullfs(*options)
            self.load_file(contender, path + "/data", path + "/data", Process(process.pid))
            subprocess.run(["umount", path], check=True)
            process.wait(30)

    def metadata(self):
        """stat, create and small files; every mount starts with empty caches."""
        small = os.path.join(self.server.path(), "small")
        for depth in (1, 16):
            for version in (3, 4):
                self.libnfs(f"stat, depth {depth}", "stat", version, depth, file="f", count=self.files)
                self.libnfs(f"small file read, depth {depth}", "smallread", version, depth, file="f", count=self.files, block=4096)
                self.libnfs(f"create, depth {depth}", "create", version, depth, file=self.new_names(), count=self.files)
                self.remove_new(small)
            if self.with_mount:
                for op in ("stat", "smallread", "create"):
                    mounted = self.mounted()
                    self.load_names("mount", op, os.path.join(mounted.path, "small"), depth, Process(mounted.pid), Process(self.server.pid))
                    mounted.umount()
                self.remove_new(small)
            for op in ("stat", "smallread", "create"):
                path, process = self.nullfs()
                self.load_names("nullfs", op, path, depth, Process(process.pid))
                subprocess.run(["umount", path], check=True)
                process.wait(30)

    names = 0

    def new_names(self):
        """A prefix of its own for every run: Ganesha believes for a while in names that were removed behind its back."""
        self.names += 1
        return f"new{self.names}."

    NAMES = {"stat": "stat", "smallread": "small file read", "create": "create"}

    def load_names(self, contender, op, directory, depth, daemon, server=None):
        prefix = os.path.join(directory, self.new_names() if op == "create" else "f")
        self.fsload(f"{self.NAMES[op]}, depth {depth}", contender, daemon,
                    ["--op", op, "--path", prefix, "--count", self.files, "--depth", depth, "--block", 4096], server)

    @staticmethod
    def remove_new(directory):
        for name in os.listdir(directory):
            if name.startswith("new"):
                os.unlink(os.path.join(directory, name))

    def memory(self):
        """Resident memory of the daemon per 100,000 inodes the kernel knows."""
        count = 100000
        directory = os.path.join(self.server.path(), "many")
        os.mkdir(directory)
        for i in range(count):
            os.close(os.open(os.path.join(directory, f"f{i}"), os.O_CREAT, 0o644))
        mounted = self.mounted()
        os.listdir(os.path.join(mounted.path, "small"))
        before = mounted.resident_bytes()
        with os.scandir(os.path.join(mounted.path, "many")) as entries:
            for entry in entries:
                entry.stat()
        self.extra["resident_mib_per_100000_inodes"] = round((mounted.resident_bytes() - before) / MIB, 1)
        self.extra["resident_mib_before"] = round(before / MIB, 1)
        mounted.umount()

    def rpc_counts(self):
        """COMPOUNDs and operations of whole workloads, counted by the proxy on the way."""
        source, archive = os.path.join(HOME, "repository"), os.path.join(HOME, "small.tar")
        trees.git_repository(source, files=2000, commits=5)
        tree = os.path.join(HOME, "tree")
        trees.small_files(tree, 2000)
        subprocess.run(["tar", "-C", tree, "-cf", archive, "."], check=True)
        counts = {}
        with ChaosProxy(self.server.port) as proxy:
            joined = self.options
            mounted = Mount(self.server.source(), proxy.port, joined)
            top = mounted.path
            os.mkdir(os.path.join(top, "untar"))
            work = {
                "git clone (2000 files)": ["git", "clone", "-q", "file://" + source, os.path.join(top, "clone")],
                "tar x (2000 files)": ["tar", "-C", os.path.join(top, "untar"), "-xf", archive],
                "ls -lR (2000 files, warm)": ["ls", "-lR", os.path.join(top, "untar")],
                "rm -r (2000 files)": ["rm", "-r", os.path.join(top, "untar")],
            }
            for name, argv in work.items():
                proxy.command("zero")
                subprocess.run(argv, check=True, stdout=subprocess.DEVNULL)
                stats = proxy.stats()
                counts[name] = {"compounds": stats["compounds"], "operations": stats["operations"]}
            mounted.umount()
            mounted = Mount(self.server.source(), proxy.port, joined)
            proxy.command("zero")
            subprocess.run(["ls", "-lR", os.path.join(mounted.path, "clone")], check=True, stdout=subprocess.DEVNULL)
            stats = proxy.stats()
            counts["ls -lR (clone, cold)"] = {"compounds": stats["compounds"], "operations": stats["operations"]}
            mounted.umount()
        self.extra["rpc_counts"] = counts

    # The outcome

    def targets(self):
        """What is to be reached, and beside it, where it lies beyond what FUSE and TCP leave to anybody, what the relay does."""
        self.found, ratio = [], self.ratio
        median = self.results.median
        for metric in ("read", "write"):
            reference, name = self.results.best(metric, "libnfs", "mib_per_s")
            theirs = median(metric, name, "cpu_per_gib") if name else None
            for variant in (metric, metric + ", O_DIRECT"):
                ours, relay = (median(variant, who, "mib_per_s") for who in ("mount", "relay"))
                ratio(f"sequential {variant}: mount / {name}", ours, reference, at_least=1.0)
                ratio(f"sequential {variant}: relay / {name}", relay, reference)
                ratio(f"sequential {variant}: mount / relay", ours, relay)
                daemon, null, relay = (median(variant, who, "cpu_per_gib") for who in ("mount", "nullfs", "relay"))
                both = theirs + null if theirs and null else None
                ratio(f"CPU per GiB, {variant}: mount / (libnfs + nullfs)", daemon, both, at_most=0.9)
                ratio(f"CPU per GiB, {variant}: relay / (libnfs + nullfs)", relay, both)
        for metric, tool in (("read", "nfs-cat"), ("write new file", "nfs-cp")):
            reference, name = self.results.best(metric, tool, "mib_per_s")
            ratio(f"{metric}: mount / {name}", median(metric, "mount", "mib_per_s"), reference, at_least=1.0)
        return self.found
