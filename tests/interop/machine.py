# SPDX-License-Identifier: Apache-2.0
"""The command line of a guest: QEMU with Debian's kernel, its root the host's root, read-only, with RAM over it.

Every program of the host and of the build runs there unchanged, and nothing is left when it ends. The processor is emulated:
about ten times slower than the host, and no tool to measure time with, unless instructions are the clock.

usage: machine.py INITRD     makes that file
"""

import os
import shutil
import subprocess
import sys
import time

import kernel

HERE = os.path.dirname(os.path.abspath(__file__))
MEMORY_MIB = 1536
# No ERMS, AVX or PCLMULQDQ: QEMU emulates these more slowly than what programs do without them.
PROCESSOR = "qemu64,+cx16,+lahf_lm,+popcnt,+ssse3,+sse4.1,+sse4.2,+rdrand"
# One nanosecond of the guest for each instruction; while it has none to run, its clock goes on to the next timer at once.
COUNTED = ["-icount", "shift=0,sleep=off"]
KERNEL_LINE = ("console=ttyS0 quiet mitigations=off nokaslr random.trust_cpu=on tsc=reliable no_timer_check audit=0 lsm= nowatchdog "
               "cryptomgr.notests rcupdate.rcu_expedited=1 panic=-1 oops=panic reboot=t net.ifnames=0 8250.nr_uarts=1")


def qemu(initrd, *words, counted=False):
    """All but the serial console, the agent's port and the network. `words` go to the kernel's command line, and so to guest/init; they
    replace what KERNEL_LINE says of the same.

    `counted`: the guest's time is its instructions, so that what it measures is the same whatever else the host does.
    """
    lab = kernel.current()
    replaced = {word.split("=")[0] for word in words}
    usual = [word for word in KERNEL_LINE.split() if word.split("=")[0] not in replaced]
    line = " ".join([*usual, f"lab_date={int(time.time())}", f"lab_scripts={os.path.join(HERE, 'guest')}", *words])
    argv = ["qemu-system-x86_64", "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none",
            "-machine", "q35,usb=off,smbus=off,sata=off,vmport=off,hpet=off", "-accel", f"tcg,thread={'single' if counted else 'multi'},tb-size=256", *(COUNTED if counted else []),
            "-cpu", PROCESSOR, "-smp", "1", "-m", str(MEMORY_MIB), "-kernel", os.path.join(lab, "vmlinux"), "-initrd", initrd,
            "-append", line, "-device", "virtio-rng-pci"]
    for tag, path in (("host", "/"), ("lab", os.path.join(lab, "root"))):
        argv += ["-fsdev", f"local,id={tag},path={path},security_model=none,readonly=on,multidevs=remap",
                 "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
    return argv


def make_initrd(path):
    """The cached one and behind it the guest's first program, as it is now."""
    shutil.copy(os.path.join(kernel.current(), "initrd"), path)
    with open(path, "ab") as out:
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], input=b"init\n", cwd=os.path.join(HERE, "guest"), check=True,
                       stdout=out, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    make_initrd(sys.argv[1])
