# SPDX-License-Identifier: Apache-2.0
"""Linux' NFS server in a guest, in the place of Ganesha: RDMA through the guest's device, siw unless it has one, and TCP."""

from guest import GUEST

EXPORT = "/srv/export"


class Knfsd:
    """One server; its directory lies in the guest's memory."""

    def __init__(self, guest, lease=20):
        self.guest, self.lease = guest, lease
        self.port, self.rdma_port, self.log = 2049, 20049, "the guest's console"

    def start(self):
        self.guest.run(f"ls /sys/class/infiniband/* >/dev/null 2>&1 || siw_up; knfsd_up {self.lease}")
        return self

    def kill(self):
        """Ends the server. Its export goes with the guest."""
        self.guest.run("knfsd_stop")

    def restart(self, down=0.0):
        """Opens and locks are forgotten; who had some may reclaim them."""
        self.guest.run(f"knfsd_stop; sleep {down}; knfsd_start {self.lease}")

    def path(self, export=None):
        return None  # nothing of it is on the host

    def source(self, export=None, host=GUEST):
        return f"{host}:/"

    def names(self, directory="."):
        """What lies in a directory of the export."""
        return sorted(self.guest.run(f"ls -A {EXPORT}/{directory}").split())

    def log_text(self):
        return self.guest.console()
