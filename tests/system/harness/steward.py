# SPDX-License-Identifier: Apache-2.0
"""Root's operations, done by init.py over its socket. One test process, one request at a time."""

import json
import os
import signal
import socket
import threading
import time

WORK = os.environ["NFSRDMA_WORK"]
_lock = threading.Lock()
_socket = socket.socket(fileno=int(os.environ["NFSRDMA_STEWARD"]))
_socket.set_inheritable(False)
_buffer = b""


class StewardError(Exception):
    """The command could not be run."""


def _ask(call, **arguments):
    global _buffer
    with _lock:
        _socket.sendall(json.dumps({"call": call, **arguments}).encode() + b"\n")
        while b"\n" not in _buffer:
            data = _socket.recv(1 << 20)
            if not data:
                raise StewardError("process 1 is gone")
            _buffer += data
        line, _buffer = _buffer.split(b"\n", 1)
    answer = json.loads(line)
    if "error" in answer:
        raise StewardError(answer["error"])
    return answer


def spawn(argv, stdout, env=None, cwd="/", nofile=None):
    """Starts argv as root with both outputs appended to the file stdout; returns its pid."""
    return _ask("spawn", argv=list(argv), stdout=stdout, env=env, cwd=cwd, nofile=nofile)["pid"]


def kill(pid, signum=signal.SIGTERM):
    """Signals a spawned process; True when it had already ended."""
    return _ask("kill", pid=pid, signum=int(signum))["gone"]


def wait(pid, timeout):
    """Exit status of a spawned process (negative: signal), None when it has not ended within timeout seconds."""
    deadline = time.monotonic() + timeout
    while True:  # in slices, so that other threads of the test can ask, too
        left = deadline - time.monotonic()
        status = _ask("wait", pid=pid, timeout=max(0, min(left, 0.2)))["status"]
        if status is not None or left <= 0:
            return status


def run(argv, timeout=120, check=True, env=None, cwd="/"):
    """Runs argv as root to its end; returns (status, output)."""
    out = os.path.join(WORK, f"steward.{os.getpid()}.{threading.get_ident()}.out")
    write_file(out, "")
    pid = spawn(argv, out, env=env, cwd=cwd)
    status = wait(pid, timeout)
    if status is None:
        kill(pid, signal.SIGKILL)
        wait(pid, 10)
    with open(out, errors="replace") as file:
        output = file.read()
    call("unlink", out)
    if check and status != 0:
        raise StewardError(f"{' '.join(argv)}: status {status}: {output.strip()}")
    return status, output


def call(name, *args):
    """Calls os.<name>(*args) as root; returns integers, strings and lists."""
    return _ask("call", name=name, args=list(args))["result"]


def write_file(path, text, mode=0o644):
    """Creates or replaces path with this text as root."""
    _ask("write", path=path, text=text, mode=mode)
