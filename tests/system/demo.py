# SPDX-License-Identifier: Apache-2.0
"""A visible round of real work in a mount of a real server; scripts/demo runs it (see run.py for the world).

usage: demo.py [--size MIB] [--options MOUNT_OPTIONS]

The result of each step is checked: what was written is compared with its source, through another mount or on the server. Prints every
command, its seconds and RPCs (from `nfsrdma-fuse stats`), and a summary. Exit status 0 only when every result was correct.
"""

import argparse
import filecmp
import os
import re
import shutil
import subprocess
import sys
import time

import trees
from harness import steward
from harness.filer import Filer
from harness.ganesha import Ganesha
from harness.mount import HELPER, TOOL, Mount, daemons, is_mounted
from harness.ports import free_port

HOME = os.environ["HOME"]
MIB = 1 << 20

COUNT = """\
import fcntl, os, sys
fd = os.open(sys.argv[1], os.O_RDWR)
for _ in range(int(sys.argv[2])):
    fcntl.lockf(fd, fcntl.LOCK_EX)
    value = int(os.pread(fd, 20, 0))
    os.pwrite(fd, b"%019d\\n" % (value + 1), 0)
    fcntl.lockf(fd, fcntl.LOCK_UN)
"""


class Failed(Exception):
    """A step's result is wrong."""


def require(condition, what):
    if not condition:
        raise Failed(what)


def title(text):
    print(f"\n-- {text}", flush=True)


def shown(argv):
    """A command as a person would type it: without the world's directories and git's fixed options."""
    text = " ".join(str(a) for a in argv).replace(HOME + "/", "")
    return re.sub(r"\S*/bin/(?=\S*nfsrdma-fuse)", "", text)


def run(*argv, quiet=False):
    if not quiet:
        print(f"   $ {shown(argv)}", flush=True)
    done = subprocess.run([str(a) for a in argv], stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace",
                          timeout=600)
    if done.returncode != 0:
        raise Failed(f"{shown(argv)}: status {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def git(*argv):
    print(f"   $ git {shown(argv)}", flush=True)
    return run("git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "safe.directory=*", "-c", "gc.autoDetach=false",
               *argv, quiet=True)


class Demo:
    def __init__(self, arguments):
        self.size = arguments.size * MIB
        self.options = arguments.options
        self.steps = []  # (name, seconds, RPCs, bytes)
        self.operations = {}  # of both mounts
        self.server = None
        self.port, self.proto = None, "tcp"
        self.mounted = None

    def mount(self, *options):
        options = ",".join(part for part in (*options, self.options) if part)
        joined = ",".join(part for part in (f"port={self.port}", f"proto={self.proto}", options) if part)
        path = os.path.join(HOME, "mnt")
        print(f"   $ {shown([HELPER, self.server.source(), path, '-o', joined])}", flush=True)
        self.mounted = Mount(self.server.source(), self.port, options, path=path, proto=self.proto)

    def umount(self):
        """Unmounts, and adds the mount's operations to the totals."""
        for operation in self.mounted.stats()["operations"]:
            count, errors = self.operations.get(operation["name"], (0, 0))
            self.operations[operation["name"]] = count + operation["requests"], errors + operation["retransmissions"]
        run(TOOL, "umount", self.mounted.path)
        deadline = time.monotonic() + 30
        while daemons() and time.monotonic() < deadline:
            time.sleep(0.02)
        require(not is_mounted(self.mounted.path) and not daemons(), "the mount or its daemon outlives the unmount")

    def requests(self):
        return sum(operation["requests"] for operation in self.mounted.stats()["operations"])

    def step(self, name, work, size=0):
        """Runs one step and records its seconds, RPCs and bytes."""
        before, begin = self.requests(), time.monotonic()
        work()
        seconds, rpcs = time.monotonic() - begin, self.requests() - before
        rate = f", {size / MIB / seconds:.0f} MiB/s" if size else ""
        print(f"   {seconds:.2f} s, {rpcs} RPCs{rate}", flush=True)
        self.steps.append((name, seconds, rpcs, size))

    def at(self, *parts):
        return os.path.join(self.mounted.path, *parts)

    def round(self):
        self.own_server()
        self.ganesha()
        self.summary()

    def own_server(self):
        """One file over every transport: RPC-over-RDMA 2 and 1 (RDMA in user space), and TCP."""
        rdma_port = free_port()
        self.server = Filer(arguments=("--rdma", f"127.0.0.1:{rdma_port}"), insecure=False).start()
        title(f"The server: nfsrdma-filer on 127.0.0.1, TCP port {self.server.port}, RDMA port {rdma_port}, exports a directory")
        source = os.path.join(HOME, "sent")
        self.random_file(source)
        for name, proto, port, *options in (("RDMA version 2", "rdma", rdma_port, "rdmavers=2"),
                                            ("RDMA version 1", "rdma", rdma_port, "rdmavers=1"), ("TCP", "tcp", self.server.port)):
            title(f"{name}: write {self.size // MIB} MiB, mount again (nothing cached), read them, compare")
            self.proto, self.port = proto, port
            self.mount(*options)
            self.step(f"write, {name}", lambda: (run("cp", source, self.at("sent")), run("sync", self.at("sent"))), self.size)
            self.umount()
            self.mount(*options)
            self.step(f"read and compare, {name}", lambda: run("cmp", source, self.at("sent")), self.size)
            self.show_placement(options)
            self.umount()
        os.unlink(source)
        self.server.kill()

    def show_placement(self, options):
        transports = self.mounted.stats()["transports"]
        if self.proto == "tcp":
            return print(f"   received straight into their place: {sum(t['bytes_placed'] for t in transports)} bytes")
        rdma = [t["rdma"] for t in transports]
        total = {key: sum(r[key] for r in rdma) for key in ("bytes_placed", "bytes_inline", "bytes_long", "write_chunks")}
        print(f"   {rdma[0]['fabric']}, RPC-over-RDMA version {rdma[0]['version']}: placed by RDMA Write {total['bytes_placed']} bytes in "
              f"{total['write_chunks']} Write chunks; inline {total['bytes_inline']} bytes, in long messages {total['bytes_long']}")
        require(f"rdmavers={rdma[0]['version']}" in options, "another version of RPC-over-RDMA is spoken than was asked for")
        require(total["bytes_placed"] >= self.size, "not all of the file was placed directly")

    def random_file(self, path):
        with open(path, "wb") as file:
            for _ in range(self.size // MIB):
                file.write(os.urandom(MIB))

    def ganesha(self):
        self.server = Ganesha().start()
        self.port, self.proto = self.server.port, "tcp"
        version = subprocess.run(["ganesha.nfsd", "-v"], capture_output=True, text=True).stdout.split("\n")[0].split("=")[-1].strip()
        title(f"The server: nfs-ganesha {version} on 127.0.0.1:{self.server.port}, exports /export")
        title("Mount")
        begin = time.monotonic()
        self.mount()
        print(f"   {time.monotonic() - begin:.2f} s until the root answered; process {self.mounted.pid}, uid {os.getuid()}")
        self.large_file()
        self.trees()
        self.repository()
        self.locks()
        self.names()
        title("What the mount says")
        print(run(TOOL, "status", self.mounted.path))
        print(run(TOOL, "stats", self.mounted.path, "--ops"))
        title("Unmount and stop the server")
        self.umount()
        self.server.kill()
        print("   nothing is mounted, no daemon and no server is left")

    def large_file(self):
        source = os.path.join(HOME, "large")
        self.random_file(source)
        title(f"A file of {self.size // MIB} MiB: write it, mount again (nothing cached), read it, compare")

        def write():
            run("cp", source, self.at("large"))
            run("sync", self.at("large"))

        self.step("write a large file", write, self.size)
        require(filecmp.cmp(source, os.path.join(self.server.path(), "large"), shallow=False), "the server has other bytes")
        self.umount()
        self.mount()
        self.step("read it back and compare", lambda: run("cmp", source, self.at("large")), self.size)
        os.unlink(source)

    def trees(self):
        title("Small files: unpack a tar archive of 2000, compare, copy, compare, remove")
        source, archive = os.path.join(HOME, "tree"), os.path.join(HOME, "tree.tar")
        trees.small_files(source, 2000)
        run("tar", "-C", source, "--format=posix", "-cf", archive, ".", quiet=True)
        os.mkdir(self.at("untar"))
        self.step("tar x, 2000 files", lambda: run("tar", "-C", self.at("untar"), "-xpf", archive))
        self.step("tar --compare", lambda: run("tar", "-C", self.at("untar"), "--compare", "-f", archive))
        self.step("cp -a", lambda: run("cp", "-a", self.at("untar"), self.at("copy")))
        self.step("diff -r", lambda: run("diff", "-r", "--no-dereference", source, self.at("copy")))
        self.step("rm -r", lambda: run("rm", "-r", self.at("untar")))
        found = trees.differences(trees.describe(source), trees.describe(self.at("copy")))
        require(not found, f"modes, times or contents differ:\n{found}")
        shutil.rmtree(source)

    def repository(self):
        if not shutil.which("git"):
            title("git is not installed: left out")
            return
        title("git: clone a repository of 500 files, change, commit, collect garbage, check")
        source, clone = os.path.join(HOME, "repository"), self.at("clone")
        trees.git_repository(source, files=500, commits=10)
        self.step("git clone", lambda: git("clone", "-q", "file://" + source, clone))

        def change():
            with open(os.path.join(clone, "new"), "w") as file:
                file.write("new\n")
            git("-C", clone, "add", "-A")
            git("-C", clone, "commit", "-q", "-m", "More")
            git("-C", clone, "gc", "-q", "--prune=now")
            git("-C", clone, "fsck", "--full", "--strict")

        self.step("git commit, gc, fsck", change)
        require(git("-C", clone, "status", "--porcelain") == "", "git status sees changes that nobody made")

    def locks(self):
        title("Locks: two mounts, a process in each; both count in one file, a byte-range lock around each step")
        steps = 200
        with open(self.at("counter"), "w") as file:
            file.write("0\n")
        other = Mount(self.server.source(), self.port, self.options)

        def count():
            print("   $ two times: lock, read, add one, write, unlock; 200 times each", flush=True)
            workers = [subprocess.Popen([sys.executable, "-c", COUNT, os.path.join(m.path, "counter"), str(steps)])
                       for m in (self.mounted, other)]
            require([worker.wait(300) for worker in workers] == [0, 0], "a locking process failed")

        self.step("400 locked steps by two", count)
        other.umount()
        with open(os.path.join(self.server.path(), "counter")) as file:
            total = int(file.read())
        require(total == 2 * steps, f"a step was lost: {total} of {2 * steps}")
        print(f"   the file says {total}")

    def names(self):
        title("Names: replace an open file by rename, keep using an unlinked one, rename a directory 500 times")

        def work():
            with open(self.at("one"), "w") as file:
                file.write("one")
            with open(self.at("two"), "w") as file:
                file.write("two")
            with open(self.at("two")) as replaced:
                os.rename(self.at("one"), self.at("two"))
                require(replaced.read() == "two", "a replaced file lost its bytes while it was open")
            with open(self.at("two"), "r+") as unlinked:
                os.unlink(self.at("two"))
                unlinked.write("ONE")
                unlinked.seek(0)
                require(unlinked.read() == "ONE", "an unlinked file lost its bytes while it was open")
            os.mkdir(self.at("d0"))
            for i in range(500):
                os.rename(self.at(f"d{i}"), self.at(f"d{i + 1}"))

        self.step("rename, unlink while open", work)
        left = sorted(name for name in os.listdir(self.server.path()) if name[0] in "dot.")
        require(left == ["d500"], f"the server has {left}")

    def summary(self):
        title("Summary")
        print(f"   {'':30}{'seconds':>10}{'RPCs':>10}{'RPC/s':>10}{'MiB/s':>10}")
        for name, seconds, rpcs, size in self.steps:
            print(f"   {name:30}{seconds:>10.2f}{rpcs:>10}{rpcs / seconds:>10.0f}{f'{size / MIB / seconds:.0f}' if size else '':>10}")
        print("\n   RPCs by what they were for: " + ", ".join(
            f"{name} {count}" for name, (count, _) in sorted(self.operations.items(), key=lambda entry: -entry[1][0]) if count))
        print(f"   sent again: {sum(again for _, again in self.operations.values())}")


def main():
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__.splitlines()[0])
    parser.add_argument("--size", type=int, default=256, help="MiB of the large file")
    parser.add_argument("--options", default="", help="more mount options")
    demo = Demo(parser.parse_args())
    try:
        demo.round()
    except (Failed, RuntimeError, OSError, subprocess.SubprocessError, steward.StewardError) as problem:
        print(f"\nFAILED: {problem}", file=sys.stderr)
        if demo.mounted:
            print(f"--- the daemon's log\n{demo.mounted.log_text()[-4000:]}", file=sys.stderr)
        return 1
    print("\nEverything was as it should be.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
