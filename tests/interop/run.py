#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs test modules of this folder as tests/system/run.py does, or says why no guest can run here.

usage: run.py --build BUILDDIR [--as root|user] [--timeout SECONDS] [--verbose] MODULE[.CLASS[.TEST]]...
       run.py --fetch     runs kernel.py
       run.py --shell     a root shell in a guest, on this terminal; needs neither root nor a build; `exit` ends it
"""

import os
import sys
import tempfile

import kernel
import machine

HERE = os.path.dirname(os.path.abspath(__file__))


def shell():
    with tempfile.TemporaryDirectory() as folder:
        initrd = os.path.join(folder, "initrd")
        machine.make_initrd(initrd)
        return os.spawnvp(os.P_WAIT, "qemu-system-x86_64",
                          [*machine.qemu(initrd, "lab_shell=1"), "-serial", "mon:stdio", "-netdev", "user,id=link",
                           "-device", "virtio-net-pci,netdev=link"])


def main():
    if sys.argv[1:] == ["--fetch"]:
        os.execv("/usr/bin/python3", ["/usr/bin/python3", os.path.join(HERE, "kernel.py")])
    if problem := kernel.why_none():
        print(f"skipped: {problem}", file=sys.stderr)
        return kernel.SKIPPED
    if sys.argv[1:] == ["--shell"]:
        return shell()
    program = os.path.join(os.path.dirname(HERE), "system", "run.py")
    os.execv("/usr/bin/python3", ["/usr/bin/python3", program, *sys.argv[1:]])


if __name__ == "__main__":
    sys.exit(main())
