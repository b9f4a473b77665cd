# SPDX-License-Identifier: Apache-2.0
"""A private nfs-ganesha: Debian's server with its own port, configuration and recovery database.

Facts about Debian 12's 4.3 and Debian 13's 6.5 (VFS backend) that the tests rely on:
- It runs without rpcbind, D-Bus and nfs-common's services: the log then complains about registration, D-Bus and
  Kerberos at CRIT or MAJ, and the server works.
- NFSv3 needs rpcbind, and so does mountd; `v3` starts one inside the world. v3="only" leaves NFSv4 out:
  a call of NFSv4 is answered with PROG_MISMATCH. With Mount_Path_Pseudo MNT takes the names that NFSv4 has.
- The VFS backend opens files by handle: it needs root and a backing file system with handles (ext4, tmpfs; not
  overlayfs), which it finds through /proc/mounts and an fsid.
- Bind_addr is resolved with AI_ADDRCONFIG: 127.0.0.1 fails when the only address is on loopback (init.py adds one).
- NFSv4 client records are in RecoveryRoot/v4recov/node0, one directory per client. At start they move to v4old,
  and their owners may reclaim. They are written at once, so SIGKILL loses none of them.
- Grace ends when every recorded client has sent RECLAIM_COMPLETE, or after Grace_Period seconds.
- The verifiers and client IDs contain the start time in seconds: two starts within one second would have the same.
  -E sets that time; every start here increases it.
- 6.5 calls PR_SET_IO_FLUSHER, which needs CAP_SYS_RESOURCE, and ends without it, as in most containers, unless
  Allow_Set_Io_Flusher_Fail is set; 4.3 knows neither.
- 6.5 exports nothing of a tmpfs ("Ignoring /mnt because type tmpfs"), and finds no file system without /etc/mtab.
"""

import dataclasses
import functools
import os
import re
import signal
import socket
import struct
import subprocess
import time

from . import pausing, steward
from .ports import free_port
from .steward import WORK


PORTMAPPER, NFS, MOUNT = 100000, 100003, 100005


def call(program, version, procedure, *arguments):
    """One record: an ONC RPC call without credentials whose arguments are 32-bit words."""
    words = (1, 0, 2, program, version, procedure, 0, 0, 0, 0, *arguments)
    return struct.pack(f">I{len(words)}I", 0x80000000 | 4 * len(words), *words)


def mapped_port(host, program, version):
    """The TCP port of a program from the portmapper (RFC 1833 section 3, PMAPPROC_GETPORT); 0: not registered."""
    with socket.create_connection((host, 111), 2) as sock:
        sock.sendall(call(PORTMAPPER, 2, 3, program, version, socket.IPPROTO_TCP, 0))
        reply = sock.recv(64)
    return struct.unpack(">I", reply[28:32])[0] if len(reply) >= 32 else 0


@dataclasses.dataclass
class Export:
    """One exported directory. `options` is copied into its EXPORT block."""

    pseudo: str = "/export"
    squash: str = "No_Root_Squash"
    access: str = "RW"
    sectype: str = "sys"
    mode: int = 0o1777
    options: str = ""


@functools.cache
def version():
    """(major, minor)"""
    said = subprocess.run(["ganesha.nfsd", "-v"], capture_output=True, text=True).stdout
    return tuple(map(int, re.search(r"= *V(\d+)\.(\d+)", said).groups()))


def backing(path):
    """Mounts a file system with handles at path: tmpfs, or ext4 where tmpfs has no stable directory offsets or Ganesha does not support
    tmpfs."""
    kind = os.environ.get("NFSRDMA_TEST_BACKING")
    if not kind:
        release = tuple(int(x) for x in os.uname().release.split("-")[0].split(".")[:2])
        lasting = release >= (6, 6) or not os.path.exists("/dev/loop-control")
        kind = "tmpfs" if lasting and version() < (5, 0) else "ext4"
    if kind == "tmpfs":
        steward.run(["mount", "-t", "tmpfs", "-o", "mode=755,size=80%,nr_inodes=0", "nfsrdma-export", path])
        return
    image = os.path.join("/var/tmp", f"nfsrdma-export.{os.uname().nodename}.{time.monotonic_ns()}")
    try:
        # Unlinked once it is mounted: its blocks are freed with the world's last mount.
        steward.run(["truncate", "-s", "40G", image])
        steward.run(["mkfs.ext4", "-q", "-F", "-m0", "-E", "lazy_itable_init=1,nodiscard", image])
        steward.run(["mount", "-o", "loop,noatime", image, path])
    finally:
        steward.run(["rm", "-f", image])


class Ganesha:
    """One server. Directories: WORK/<name>/{export*,recovery,run}; `log` is its log file."""

    epoch = int(time.time()) - 100000

    def __init__(self, name="server", exports=None, lease=10, grace=10, graceless=False, delegations=False,
                 minor_versions="1,2", port=None, core="", nfsv4="", v3=False, bind="127.0.0.1", numeric_owners=True):
        self.name = name
        self.exports = exports if exports is not None else [Export()]
        self.lease, self.grace = lease, grace
        self.graceless, self.delegations = graceless, delegations
        self.minor_versions = minor_versions
        self.port = port or free_port()
        self.mount_port = free_port() if v3 else 0
        self.core, self.nfsv4, self.v3 = core, nfsv4, v3
        self.bind, self.numeric_owners = bind, numeric_owners
        self.root = os.path.join(WORK, name)
        self.log = os.path.join(self.root, "ganesha.log")
        self.pid = None
        self.starts = 0
        steward.call("mkdir", self.root, 0o755)
        backing(self.root)
        for directory in ("recovery", "run"):
            steward.call("mkdir", os.path.join(self.root, directory), 0o755)
        for export in self.exports:
            steward.call("mkdir", self.path(export), 0o755)
            steward.call("chmod", self.path(export), export.mode)
            for outer in self.exports:  # a nested export needs a directory in the outer one
                if export.pseudo.startswith(outer.pseudo + "/"):
                    steward.run(["mkdir", "-p", self.path(outer) + export.pseudo[len(outer.pseudo):]])

    def path(self, export=None):
        """The directory of an export's files at the server, to compare a mount with."""
        export = export or self.exports[0]
        return os.path.join(self.root, "export" + export.pseudo.replace("/", "_"))

    def source(self, export=None, host="127.0.0.1"):
        return f"{host}:{(export or self.exports[0]).pseudo}"

    def config(self):
        protocols = "3" if self.v3 == "only" else "3,4" if self.v3 else "4"
        flusher = "Allow_Set_Io_Flusher_Fail = true;" if version() >= (5, 0) else ""
        blocks = [f"""NFS_CORE_PARAM {{
  NFS_Port = {self.port}; Bind_addr = {self.bind}; Protocols = {protocols};
  Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; MNT_Port = {self.mount_port};
  Mount_Path_Pseudo = true; {flusher}
  {self.core}
}}
NFSv4 {{
  Minor_Versions = {self.minor_versions}; Lease_Lifetime = {self.lease}; Grace_Period = {self.grace};
  Graceless = {str(self.graceless).lower()}; Delegations = {str(self.delegations).lower()};
  RecoveryBackend = fs; RecoveryRoot = "{self.root}/recovery"; Only_Numeric_Owners = {str(self.numeric_owners).lower()};
  Allow_Numeric_Owners = {str(self.numeric_owners).lower()};
  {self.nfsv4}
}}
LOG {{ Default_Log_Level = EVENT; }}
"""]
        for number, export in enumerate(self.exports, 1):
            blocks.append(f"""EXPORT {{
  Export_Id = {number}; Path = "{self.path(export)}"; Pseudo = "{export.pseudo}"; Filesystem_Id = {number}.{number};
  Protocols = {protocols}; Transports = TCP; Access_Type = {export.access}; Squash = {export.squash};
  SecType = {export.sectype}; {export.options}
  FSAL {{ Name = VFS; }}
}}
""")
        return "".join(blocks)

    def start(self, timeout=20):
        config = os.path.join(self.root, "ganesha.conf")
        steward.write_file(config, self.config())
        if self.v3 and not os.path.exists("/run/rpcbind.sock"):
            steward.run(["rpcbind", "-w"])
        Ganesha.epoch += 10
        self.pid = steward.spawn(["ganesha.nfsd", "-F", "-f", config, "-L", self.log, "-p",
                                  os.path.join(self.root, "run", f"ganesha.pid.{self.starts}"), "-E", str(Ganesha.epoch)],
                                 os.path.join(self.root, "output"), nofile=65536)
        self.starts += 1
        deadline = time.monotonic() + timeout
        while not self.answers():
            if steward.wait(self.pid, 0) is not None or time.monotonic() > deadline:
                raise RuntimeError(f"ganesha did not start:\n{self.log_text()[-4000:]}")
            time.sleep(0.02)
        return self

    def answers(self):
        """Whether the server answers a NULL call, and, with NFSv3, the portmapper knows its ports."""
        try:
            with socket.create_connection((self.bind, self.port), 2) as sock:
                sock.sendall(call(NFS, 3 if self.v3 == "only" else 4, 0))
                if len(sock.recv(64)) < 28:
                    return False
            return not self.v3 or (mapped_port(self.bind, MOUNT, 3) == self.mount_port and mapped_port(self.bind, NFS, 3) == self.port)
        except OSError:
            return False

    def kill(self, signum=signal.SIGKILL, timeout=20):
        """Ends the server. With SIGKILL it cannot write any state."""
        if self.pid is None:
            return
        steward.kill(self.pid, signum)
        if steward.wait(self.pid, timeout) is None:
            steward.kill(self.pid, signal.SIGKILL)
            steward.wait(self.pid, timeout)
        self.pid = None

    def restart(self, down=0.0, forget=False):
        """Kills it with SIGKILL, waits `down` seconds and starts it again. forget: it does not know its clients any more."""
        self.kill()
        if forget:
            steward.run(["sh", "-c", f"rm -rf {self.root}/recovery/*"])
        time.sleep(down)
        return self.start()

    def pause(self):
        pausing.pause(self.pid, steward.kill)

    def resume(self):
        pausing.resume(self.pid, steward.kill)

    def cpu_seconds(self):
        with open(f"/proc/{self.pid}/stat") as stat:
            fields = stat.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def log_text(self):
        texts = []
        for path in (self.log, os.path.join(self.root, "output")):
            if os.path.exists(path):
                texts.append(steward.run(["cat", path], check=False)[1])
        return "".join(texts)
