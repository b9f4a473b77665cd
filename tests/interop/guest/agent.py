# SPDX-License-Identifier: Apache-2.0
"""Runs commands in the guest for guest.py. One JSON line per request and answer over a virtio port; any number at a time.

{"id": 1, "command": "...", "user": "nobody"?} -> {"id": 1, "status": 0, "output": "..."}
A command is bash, with the functions of lib.sh. {"id": 1, "kill": true} ends it, and the processes that it started.
"""

import glob
import json
import os
import signal
import subprocess
import sys
import threading

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "lib.sh")


def find_port(name):
    for entry in glob.glob("/sys/class/virtio-ports/*"):
        with open(entry + "/name") as file:
            if file.read().strip() == name:
                return "/dev/" + os.path.basename(entry)
    sys.exit(f"no port {name}")


class Agent:
    def __init__(self):
        self.port = open(find_port("lab"), "r+b", buffering=0)
        self.lock = threading.Lock()
        self.running = {}

    def answer(self, message):
        with self.lock:
            data = json.dumps(message).encode() + b"\n"
            while data:
                data = data[self.port.write(data):]

    def execute(self, ident, command, user):
        identity = ["setpriv", f"--reuid={user}", f"--regid={user}", "--clear-groups"] if user is not None else []
        with subprocess.Popen([*identity, "bash", "-c", f". {LIB}\n{command}"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, cwd="/", start_new_session=True) as process:
            self.running[ident] = process
            output = process.stdout.read().decode(errors="replace")
        del self.running[ident]
        return process.returncode, output

    def run(self, ident, command, user=None):
        try:
            status, output = self.execute(ident, command, user)
        except OSError as problem:
            status, output = 126, f"could not be begun: {problem}"
        self.answer({"id": ident, "status": status, "output": output})

    def serve(self):
        self.answer({"id": 0, "status": 0, "output": os.uname().release})
        buffer = b""
        while True:
            data = self.port.read(65536)
            if not data:
                return
            *lines, buffer = (buffer + data).split(b"\n")
            for line in lines:
                request = json.loads(line)
                ident = request.pop("id")
                if request.get("kill"):
                    if process := self.running.get(ident):
                        os.killpg(process.pid, signal.SIGKILL)
                else:
                    threading.Thread(target=self.run, args=(ident,), kwargs=request, daemon=True).start()


Agent().serve()
