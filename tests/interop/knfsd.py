# SPDX-License-Identifier: Apache-2.0
"""Linux' NFS server in a guest, in the place of Ganesha: RDMA through the guest's device (siw if it has none), and TCP."""

from guest import GUEST

EXPORT = "/srv/export"


class Knfsd:
    """One server; its directory is in the guest's memory."""

    def __init__(self, guest, lease=20):
        self.guest, self.lease = guest, lease
        self.port, self.rdma_port, self.log = 2049, 20049, "the guest's console"

    def start(self):
        self.guest.run(f"ls /sys/class/infiniband/* >/dev/null 2>&1 || siw_up; knfsd_up {self.lease}")
        return self

    def kill(self):
        """Ends the server. Its export stays until the guest ends."""
        self.guest.run("knfsd_stop")

    def restart(self, down=0.0):
        """The server forgets opens and locks; clients may reclaim them."""
        self.guest.run(f"knfsd_stop; sleep {down}; knfsd_start {self.lease}")

    def wait_until_closed(self, seconds=300):
        """Until no client has a file open for writing: Linux' client sends CLOSE behind close(2), and until then the server grants no
        delegation of that file."""
        self.guest.run(f"""for i in $(seq {10 * seconds}); do
              cat /proc/fs/nfsd/clients/*/states | grep -q 'type: open, access: .w' || exit 0
              sleep 0.1
            done
            cat /proc/fs/nfsd/clients/*/states; exit 1""")

    def path(self, export=None):
        return None  # the host has none of its files

    def source(self, export=None, host=GUEST):
        return f"{host}:/"

    def names(self, directory="."):
        """The names in a directory of the export."""
        return sorted(self.guest.run(f"ls -A {EXPORT}/{directory}").split())

    def log_text(self):
        return self.guest.console()
