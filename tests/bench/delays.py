# SPDX-License-Identifier: Apache-2.0
"""What read-ahead and cached data gain when replies are late: nfsrdma-filer answers each READ some milliseconds late.

On loopback no reply is late, so the client reads nothing ahead beyond the kernel's own read-ahead (client/core/read/read_pace.h). The kernel's
window is set to an ordinary user's and to root's, for all contenders alike. Mounts are new in each round, and read each file once, so that
nothing is cached. "again" reads a small file once more after the kernel was told to drop its pages. `cache_mem=0` is this mount with the
kernel's read-ahead alone. The relay's replies are never late: it shows the speed without any delay.
"""

from ceilings import BARE, BARE_ABOUT, CEILINGS, RELAY, Bare, Ceiling, set_read_ahead
from fabrics import filer_mount
from harness.filer import Filer
from harness.mount import Mount
from harness.ports import free_port
from measure import BLOCK, MIB, Daemon, Part, Process
from results import reference

TCP, RDMA = "TCP, late answers", "RDMA 2, late answers"
KERNEL_ALONE = "cache_mem=0, late answers"
WITH_BARE, WITH_RELAY = f"{BARE}, late answers", f"{RELAY}, beside late answers"
WINDOWS = {"read, late answers, a user's mount": 128, "read, late answers, root's mount": 4096}  # KiB of the kernel's window
AGAIN = "read again, late answers"
AGAIN_SIZE = 16 * MIB


class Delays(Part):
    REPEATED = ("delay",)
    ONCE = ()
    DELAYS = (1, 4, 16)  # ms
    CONTENDERS = {TCP: ("ours", "nfsrdma-fuse, NFSv4.1 over TCP to a nfsrdma-filer that answers READs late"),
                  RDMA: ("ours", "the same over RPC-over-RDMA 2 in software"),
                  KERNEL_ALONE: ("ours", "the first with cache_mem=0: nothing is kept, and only the kernel reads ahead"),
                  WITH_BARE: BARE_ABOUT, WITH_RELAY: CEILINGS[RELAY]}

    def __init__(self, results, arguments):
        super().__init__(results, arguments)
        self.size //= 2
        self.servers = {delay: self.serve(delay) for delay in self.DELAYS}

    def end(self):
        for server, _ in self.servers.values():
            server.kill()

    def serve(self, delay):
        rdma = free_port()
        server = Filer(name=f"late{delay}", arguments=("--export", "memory", "--rdma", f"127.0.0.1:{rdma}",
                                                       "--fault", f"reply READ always: delay {delay}")).start()
        mounted = self.mounted(TCP, server, rdma)
        for name, size in {**{f"data{window}": self.size for window in WINDOWS.values()}, "again": AGAIN_SIZE}.items():
            self.unmeasured("write", f"{mounted.path}/{name}", size=size)
        mounted.umount()
        return server, rdma

    def mounted(self, name, server, rdma):
        return filer_mount(server, rdma, 2 if name == RDMA else None, "cache_mem=0" if name == KERNEL_ALONE else "", self.options)

    def delay(self):
        """Reads a file in order for each delay, and a small one again."""
        for delay, (server, rdma) in self.servers.items():
            mounts = {name: self.mounted(name, server, rdma) for name in (TCP, RDMA, KERNEL_ALONE)}
            stands = {WITH_BARE: Bare(server.port, "/memory"), WITH_RELAY: Ceiling(RELAY, self.size, 1)}
            for name in self.turns({**mounts, **stands}):
                self.reads(name, (mounts | stands)[name], {"delay_ms": delay}, Process(server.pid))
            for it in (mounts | stands).values():
                it.umount()

    def reads(self, name, it, at, server):
        daemon = Daemon(it) if isinstance(it, Mount) else it.daemon
        served = None if name == WITH_RELAY else server
        for metric, window in WINDOWS.items():
            set_read_ahead(it.path, window)
            file = "data" if name == WITH_RELAY else f"data{window}"
            self.fsload(metric, name, daemon, ["--op", "read", "--path", f"{it.path}/{file}", "--size", self.size, "--block", BLOCK,
                                               "--seconds", 3 * self.arguments.seconds], served, at)
        if name != WITH_RELAY:
            self.unmeasured("read", f"{it.path}/again", size=AGAIN_SIZE)
            self.fsload(AGAIN, name, daemon, ["--op", "read", "--path", f"{it.path}/again", "--size", AGAIN_SIZE, "--block", BLOCK], served, at)

    def plots(self):
        if not self.results.has(AGAIN, TCP):
            return
        about = {128: "The kernel's window is 128 KiB, which is what an ordinary user's mount has.", 4096: "The kernel's window is 4 MiB, which a mount by root asks for."}
        who, pairs = [TCP, RDMA, KERNEL_ALONE, WITH_BARE, WITH_RELAY], [(TCP, KERNEL_ALONE), (RDMA, KERNEL_ALONE), (TCP, WITH_BARE), (TCP, WITH_RELAY)]
        for metric, window in WINDOWS.items():
            self.results.plot("lines", f"What reading ahead gains: {metric}", metric, "mib_per_s", pairs, x="delay_ms", contenders=who,
                              text=f"One file in order, in blocks of 1 MiB, not cached. {about[window]}")
        self.results.plot("lines", "What keeping data gains", AGAIN, "mib_per_s", pairs[:2], x="delay_ms", contenders=who[:4],
                          text="A file of 16 MiB once more, which the kernel does not have any longer.")

    def targets(self):
        for delay in self.DELAYS:
            at = {"delay_ms": delay}
            for metric in (*WINDOWS, AGAIN):
                for over in (KERNEL_ALONE, WITH_BARE, WITH_RELAY):
                    self.results.target(f"{metric}, {delay} ms: TCP / {over} (for comparison)", "mib_per_s", reference(metric, TCP, at), reference(metric, over, at))
                self.results.target(f"{metric}, {delay} ms: RDMA 2 / TCP (for comparison)", "mib_per_s", reference(metric, RDMA, at), reference(metric, TCP, at))
