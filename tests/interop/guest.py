# SPDX-License-Identifier: Apache-2.0
"""A temporary guest with Debian's kernel, in the world of a test (tests/system/run.py).

It sees the world's files, including the build. A tap device connects it with the world: host 10.9.9.1, guest 10.9.9.2. Or a cable connects
two guests.
"""

import json
import os
import queue
import socket
import threading
import time

import machine
from harness import steward
from harness.steward import WORK

HOST, GUEST = "10.9.9.1", "10.9.9.2"
TAP = "guest0"
# Longer than Ethernet's: the guest needs its time for each packet, whatever its length.
MTU = 9000


class Command:
    """A command that was started in the guest."""

    def __init__(self, guest, ident, text):
        self.guest, self.ident, self.text = guest, ident, text
        self.answers = queue.Queue()

    def wait(self, timeout=1200, check=True):
        """Returns (status, output). Ends the command, and fails, when it takes longer."""
        try:
            answer = self.answers.get(timeout=timeout)
        except queue.Empty:
            self.kill()
            raise RuntimeError(f"guest: not within {timeout} s: {self.text}\n{self.guest.console()[-3000:]}") from None
        if check and answer["status"] != 0:
            raise RuntimeError(f"guest: {self.text}: status {answer['status']}: {answer['output'][-6000:]}\n"
                               f"{self.guest.console()[-1000:]}")
        return answer["status"], answer["output"]

    def kill(self):
        self.guest.request({"id": self.ident, "kill": True})


class Guest:
    """Runs from start() to end(), at most as long as the world."""

    address = GUEST

    def __init__(self, name="guest", counted=False, words=()):
        """`counted`, `words`: see machine.qemu()."""
        self.counted, self.words = counted, words
        self.folder = os.path.join(WORK, name)
        self.pid = None
        self.socket = socket.socket(socket.AF_UNIX)
        self.commands = {}
        self.last = 0
        self.lock = threading.Lock()

    def start(self, timeout=1200):
        steward.call("mkdir", self.folder, 0o755)
        steward.call("chmod", self.folder, 0o1777)
        initrd, port = (os.path.join(self.folder, name) for name in ("initrd", "port"))
        # As root, because an ordinary user's test cannot read root's cache.
        steward.run(["/usr/bin/python3", machine.__file__, initrd])
        argv = [*machine.qemu(initrd, *self.words, counted=self.counted), "-serial", f"file:{self.folder}/console",
                "-netdev", self.network(), "-device", f"virtio-net-pci,netdev=link,host_mtu={MTU},mac={self.mac()}",
                *self.devices(), "-device", "virtio-serial-pci", "-chardev", f"socket,id=port,path={port},server=on,wait=off",
                "-device", "virtserialport,chardev=port,name=lab"]
        # QEMU runs as root even in an ordinary user's test: it uses the tap device, and gives the guest access to all
        # files.
        self.pid = steward.spawn(["sh", "-c", 'umask 0; exec "$@"', "sh", *argv], os.path.join(self.folder, "output"))
        deadline = time.monotonic() + timeout
        while self.socket.connect_ex(port) != 0:
            self.check_alive(deadline)
            time.sleep(0.05)
        started = Command(self, 0, "boot")
        self.commands[0] = started
        threading.Thread(target=self.listen, daemon=True).start()
        self.release = started.wait(timeout)[1]
        self.run(f"link_up {self.address}/24 {MTU}")
        return self

    def mac(self):
        return f"52:54:00:00:00:{int(self.address.split('.')[-1]):02x}"

    def network(self):
        """Makes the connection with the world, and returns QEMU's arguments for it."""
        for line in (f"tuntap add dev {TAP} mode tap", f"addr add {HOST}/24 dev {TAP}", f"link set {TAP} mtu {MTU} up"):
            steward.run(["ip", *line.split()])
        return f"tap,id=link,ifname={TAP},script=no,downscript=no"

    def devices(self):
        """Further arguments for QEMU."""
        return []

    def check_alive(self, deadline=float("inf")):
        if steward.wait(self.pid, 0) is not None or time.monotonic() > deadline:
            raise RuntimeError(f"the guest did not start or has ended:\n{self.console()[-3000:]}")

    def listen(self):
        buffer = b""
        while True:
            try:
                data = self.socket.recv(65536)
            except OSError:
                data = b""
            if not data:
                for command in self.commands.values():
                    command.answers.put({"status": 125, "output": "the guest has ended"})
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                answer = json.loads(line)
                self.commands.pop(answer["id"]).answers.put(answer)

    def request(self, message):
        with self.lock:
            self.socket.sendall(json.dumps(message).encode() + b"\n")

    def begin(self, text, user=None):
        """Starts bash commands in the guest, as root or as this user number, and returns a Command."""
        with self.lock:
            self.last += 1
            ident = self.last
        command = Command(self, ident, text)
        self.commands[ident] = command
        self.request({"id": ident, "command": text, **({"user": user} if user is not None else {})})
        return command

    def run(self, text, timeout=1200, user=None):
        """Runs commands to their end and returns their output; raises RuntimeError when they fail."""
        return self.begin(text, user).wait(timeout)[1]

    def console(self):
        texts = []
        for name in ("console", "output"):
            path = os.path.join(self.folder, name)
            if os.path.exists(path):
                with open(path, errors="replace") as file:
                    texts.append(file.read())
        return "".join(texts)

    def end(self):
        if self.pid is not None:
            steward.kill(self.pid, 9)
            steward.wait(self.pid, 20)
            self.pid = None
            steward.run(["ip", "link", "del", TAP], check=False)


class CabledGuest(Guest):
    """One of two guests that are connected only by a cable. The first one must be started first."""

    def __init__(self, address, first=None):
        super().__init__(f"guest.{address}")
        self.address, self.first = address, first
        self.cable = first.cable if first else os.path.join(self.folder, "cable")
        self.pcap = os.path.join(self.folder, "pcap")  # the traffic in both directions

    def network(self):
        return f"stream,id=link,server={'off' if self.first else 'on'},addr.type=unix,addr.path={self.cable}"

    def devices(self):
        return ["-object", f"filter-dump,id=record,netdev=link,file={self.pcap}"] if not self.first else []
