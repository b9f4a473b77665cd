# SPDX-License-Identifier: Apache-2.0
"""Programs of the build in a guest: mounts and filers with the guest's RDMA devices."""

import json
import os

from harness.case import WORK

BIN = os.path.join(WORK, "bin")
# Root's daemons write here each system call that their filter forbids, as in harness/case.py.
FORBIDDEN = "/run/forbidden_calls"


class MountInside:
    """A mount in the guest. SystemCase.mounted may contain it: it is unmounted at the end, and its log shown after a failure."""

    count = 0

    def __init__(self, guest, source, options, proto="rdma", timeout=1200):
        MountInside.count += 1
        self.guest = guest
        self.path = f"/run/mount.{MountInside.count}"
        self.log = self.path + ".log"
        guest.run(f"mkdir -p {self.path}; NFSRDMA_FORBIDDEN_CALLS={FORBIDDEN} {BIN}/mount.nfsrdma-fuse {source} {self.path} -o proto={proto},log={self.log},{options} || "
                  f"{{ cat {self.log}; exit 1; }}", timeout)

    def status(self):
        return self.guest.run(f"{BIN}/nfsrdma-fuse status {self.path}")

    def stats(self):
        return json.loads(self.guest.run(f"{BIN}/nfsrdma-fuse stats {self.path} --format json"))

    def rdma(self):
        """The RDMA numbers of `stats` for its one connection."""
        transport, = self.stats()["transports"]
        return transport["rdma"]

    def log_text(self):
        return self.guest.run(f"cat {self.log}")

    def keep_kernel_from_reading_ahead(self, kilobytes=128):
        """See harness.mount.Mount."""
        self.guest.run(f"echo {kilobytes} >/sys/class/bdi/$(mountpoint -d {self.path})/read_ahead_kb")

    def umount(self, timeout=1200):
        """Unmounts; returns when the daemon has ended."""
        self.guest.run(f"""if [ -s {FORBIDDEN} ]; then echo "daemons called what their filter forbids:"; cat {FORBIDDEN}; rm {FORBIDDEN}; exit 1; fi
            mountpoint -q {self.path} || exit 0
            pid=$({BIN}/nfsrdma-fuse stats {self.path} --format json | sed -n 's/^  "pid": \\([0-9]*\\),$/\\1/p')
            umount {self.path} && while [ -e /proc/$pid ]; do sleep 0.1; done""", timeout)


class FilerInside:
    """nfsrdma-filer in the guest, which exports memory, or a directory of the guest's, over RDMA devices. Ordinary users may mount it,
    too."""

    def __init__(self, guest, address, name="filer", export="memory", arguments=(), fabrics="verbs"):
        self.guest, self.log = guest, f"/run/{name}.log"
        self.process = guest.begin(f"echo $$ >/run/{name}.pid; exec {BIN}/nfsrdma-filer --export {export} --listen {address}:2049 "
                                   f"--rdma {address} --rdma-fabrics {fabrics} --no-root-squash --insecure {' '.join(arguments)} >{self.log} 2>&1")
        guest.run(f"for i in $(seq 3000); do ! grep -q 'listening.*rdma' {self.log} || exit 0; sleep 0.1; done; cat {self.log}; exit 1")
        self.pid = int(guest.run(f"cat /run/{name}.pid"))

    def end(self):
        """Ends it and checks its exit status."""
        self.guest.run(f"kill {self.pid}")
        status = self.process.wait(60, check=False)[0]
        assert status == 0, f"the filer ended with {status}:\n{self.log_text()}"

    def log_text(self):
        return self.guest.run(f"cat {self.log}")


def work_as_a_user(guest, source, export, device, expected, size):
    """An ordinary user mounts, writes and reads. `export` is the source's directory, and `status` must print `expected`."""
    nobody = 65534
    guest.run(f"""set -e
        d=$(mktemp -d); cd $d; mkdir m
        {BIN}/mount.nfsrdma-fuse {source} m -o proto=rdma,rdma_dev={device},log=$d/log || {{ cat log; exit 1; }}
        {BIN}/nfsrdma-fuse status m | tee status | grep -q '{expected}' || {{ cat status; exit 1; }}
        mkdir m/of-a-user; head -c {size} /dev/urandom >data; cp data m/of-a-user; cmp data m/of-a-user/data
        [ "$(stat -c %u m/of-a-user/data)" = {nobody} ]
        {BIN}/nfsrdma-fuse umount m
        cmp data {export}/of-a-user/data""", user=nobody)
