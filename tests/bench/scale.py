"""What does not repeat by chance: calls of whole workloads, and memory against cached inodes. Measured once, with nfsrdma-filer.

Calls are those that the daemon counts (`nfsrdma-fuse stats`).
"""

import os
import subprocess

import trees
from harness.filer import Filer
from harness.mount import Mount
from measure import HOME, MIB, Daemon, Part
from results import reference

OURS = "one mount"
WORK_FILES = 2000
PASSES = ("ls -lR", "ls -lR again", "grep -r", "grep -r again")


class Scale(Part):
    REPEATED = ()
    ONCE = ("rpc_counts", "memory")
    CONTENDERS = {OURS: ("ours", "nfsrdma-fuse, NFSv4.1 over TCP to nfsrdma-filer")}

    def __init__(self, results, arguments):
        super().__init__(results, arguments)
        self.server = Filer(name="scale", arguments=("--delegations", "write")).start()

    def end(self):
        self.server.kill()

    def mounted(self):
        return Mount(self.server.source(), self.server.port, self.options)

    # Calls

    def rpc_counts(self):
        source, archive, tree = (os.path.join(HOME, name) for name in ("repository", "small.tar", "tree"))
        trees.git_repository(source, files=WORK_FILES, commits=5)
        trees.small_files(tree, WORK_FILES)
        subprocess.run(["tar", "-C", tree, "-cf", archive, "."], check=True)
        mounted = self.mounted()
        top = mounted.path
        os.mkdir(os.path.join(top, "untar"))
        self.count("git clone", mounted, ["git", "clone", "-q", "file://" + source, os.path.join(top, "clone")])
        self.count("tar x", mounted, ["tar", "-C", os.path.join(top, "untar"), "-xf", archive])
        mounted.umount()
        mounted = self.mounted()
        for name in PASSES:
            argv = ["ls", "-lR"] if name.startswith("ls") else ["grep", "-r", "no such text is in there"]
            self.count(name, mounted, [*argv, os.path.join(top := mounted.path, "untar")])
        self.count("rm -r", mounted, ["rm", "-r", os.path.join(top, "untar")])
        mounted.umount()

    def count(self, name, mounted, argv):
        daemon = Daemon(mounted)
        before = daemon.operations()
        done = subprocess.run(argv, stdout=subprocess.DEVNULL)
        if done.returncode != (1 if argv[0] == "grep" else 0):  # grep finds nothing
            raise RuntimeError(f"{' '.join(argv)}: status {done.returncode}")
        self.results.count(name, OURS, {op: n - before.get(op, 0) for op, n in daemon.operations().items() if n != before.get(op, 0)})

    # Memory

    def memory(self):
        """Resident memory of the daemon against the inodes that the kernel knows, and so the daemon keeps."""
        counts = [1000, 10000, 100000] + ([1000000] if self.arguments.full else [])
        made, directory = 0, None
        mounted = self.mounted()
        os.listdir(mounted.path)
        start = mounted.resident_bytes()
        for count in counts:
            directory = os.path.join(self.server.path(), f"many{count}")
            os.mkdir(directory)
            for i in range(count - made):
                os.close(os.open(os.path.join(directory, f"f{i}"), os.O_CREAT | os.O_WRONLY, 0o644))
            with os.scandir(os.path.join(mounted.path, os.path.basename(directory))) as entries:
                for entry in entries:
                    entry.stat()
            made = count
            resident = mounted.resident_bytes()
            known = mounted.stats()["fuse"]["kernel_inodes"]
            if known < count:
                self.results.note(f"The kernel had forgotten {count - known} of {count} inodes when memory was measured.")
            self.results.add("cached inodes", OURS, {"resident_mib": resident / MIB, "bytes_per_inode": (resident - start) / count},
                             {"inodes": count}, exact=True)
        mounted.umount()

    def plots(self):
        names = [name for name in ("git clone", "tar x", *PASSES, "rm -r") if self.results.has(name, OURS)]
        if names:
            self.results.plot("bars", "Calls to the server of whole workloads", names, "rpcs",
                              text=f"{WORK_FILES} files each. The second pass of ls and of grep has what the first one has left in caches.")
        if self.results.has("cached inodes", OURS):
            for y, title in (("resident_mib", "Memory against cached inodes"), ("bytes_per_inode", "Memory of one cached inode")):
                self.results.plot("lines", title, "cached inodes", y, x="inodes", text="Of the daemon. One directory listing with attributes for each point.")

    def targets(self):
        for at in self.results.points("cached inodes", OURS)[-1:]:
            self.results.target(f"bytes of memory for each of {at['inodes']:,} cached inodes", "bytes_per_inode",
                                reference("cached inodes", OURS, at), at_most=600)
        for again in PASSES[1::2]:
            self.results.target(f"calls: {again} / the first pass", "rpcs", reference(again, OURS), reference(again.removesuffix(" again"), OURS))
