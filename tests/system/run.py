#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one system test module, or one command, in a private world that cannot leave anything behind.

usage: run.py --build BUILDDIR [--as root|user] [--timeout SECONDS] [--verbose] MODULE[.CLASS[.TEST]]...
       run.py --build BUILDDIR [--as root|user] --script FILE [ARG...]

The world is a mount, PID and network namespace: mounts, processes and ports of the test exist only inside, on tmpfs directories that
nobody outside sees. When the test ends, fails, hangs past its timeout, or this program or its caller is killed in whatever way, the kernel
ends every process and mount of it. Making the world needs root: an ordinary user's call goes through `sudo -n`, and is skipped where that
is not allowed. The test itself then runs as root or as an ordinary user (the calling one; `games` when the caller is root), and asks
harness/init.py, the world's process 1, for operations that need root.
"""

import argparse
import ctypes
import os
import signal
import subprocess
import sys

SKIPPED = 77  # ctest's SKIP_RETURN_CODE in CMakeLists.txt
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.append(os.path.join(os.path.dirname(HERE), "interop"))
import kernel  # noqa: E402


def parse(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", required=True, help="build directory with the programs under test")
    parser.add_argument("--as", dest="identity", choices=["root", "user"], default="root")
    parser.add_argument("--timeout", type=float, default=1200, help="seconds until the world is ended")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("--out", help="directory a --script may write its results to")
    parser.add_argument("modules", nargs="*")
    script = argv.index("--script") if "--script" in argv else len(argv)  # everything after it is the script's own
    args = parser.parse_args(argv[:script])
    args.script = argv[script + 1:]
    if bool(args.script) == bool(args.modules):
        parser.error("name test modules, or --script FILE")
    return args


def user_ids():
    """The uid:gid of the identity `user`."""
    if os.getuid() != 0:
        return f"{os.getuid()}:{os.getgid()}"
    if os.environ.get("SUDO_UID", "0") != "0":
        return f"{os.environ['SUDO_UID']}:{os.environ['SUDO_GID']}"
    return "games"


def is_sanitized(build):
    with open(os.path.join(build, "CMakeCache.txt")) as cache:
        return any(line.startswith("NFSRDMA_SANITIZE:") and line.split("=", 1)[1].strip() for line in cache)


def end_with(parent):
    """Sends us SIGTERM when the caller dies in any way; the lifeline below ends the rest."""
    PR_SET_PDEATHSIG = 1
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    if os.getppid() != parent:
        raise SystemExit(130)


def main():
    args = parse(sys.argv[1:])
    end_with(os.getppid())
    if os.getuid() != 0 and subprocess.call(["sudo", "-n", "true"], stdin=subprocess.DEVNULL) != 0:
        print("skipped: needs root, or sudo that does not ask", file=sys.stderr)
        return SKIPPED
    # The world ends when the write end of this pipe closes, which happens when we exit in any way.
    lifeline_read, lifeline_write = os.pipe()
    init = [sys.executable, os.path.join(HERE, "harness", "init.py"), os.path.abspath(args.build), args.identity,
            user_ids(), str(args.timeout), os.path.abspath(args.out) if args.out else "-"]
    if args.script:
        init += ["script", os.path.abspath(args.script[0]), *args.script[1:]]
    else:
        init += ["verbose" if args.verbose else "test", *args.modules]
    env = [f"{k}={v}" for k, v in os.environ.items() if k.startswith("NFSRDMA_")]
    env.append(f"NFSRDMA_LAB={kernel.cache()}")  # the caller's, not root's
    if is_sanitized(args.build):
        env.append("NFSRDMA_TEST_SANITIZED=1")
    command = ["env", *env, "unshare", "--mount", "--pid", "--net", "--fork", "--kill-child", "--propagation",
               "private", "--mount-proc", "--", *init]
    if os.getuid() != 0:
        command = ["sudo", "-n", *command]
    child = subprocess.Popen(command, stdin=lifeline_read, start_new_session=os.getuid() == 0)
    os.close(lifeline_read)

    def stop(_signum, _frame):
        os.close(lifeline_write)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        try:
            child.wait(20)
        except subprocess.TimeoutExpired:
            child.kill()
        os._exit(130)

    for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(signum, stop)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
