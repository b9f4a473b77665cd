# SPDX-License-Identifier: Apache-2.0
"""The command line of a guest: QEMU with Debian's kernel; its root is the host's root, read-only, with RAM over it.

Every program of the host and of the build runs there unchanged, and nothing is left when it ends. The processor is emulated and about ten
times slower than the host. Time measured there means nothing, unless the clock counts instructions.

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
# No ERMS, AVX or PCLMULQDQ: QEMU emulates these more slowly than the code that programs use without them.
PROCESSOR = "qemu64,+cx16,+lahf_lm,+popcnt,+ssse3,+sse4.1,+sse4.2,+rdrand"
# One nanosecond of the guest for each instruction. While it is idle its clock jumps to the next timer.
COUNTED = ["-icount", "shift=0,sleep=off"]
KERNEL_LINE = ("console=ttyS0 quiet mitigations=off nokaslr random.trust_cpu=on tsc=reliable no_timer_check audit=0 lsm= nowatchdog "
               "cryptomgr.notests rcupdate.rcu_expedited=1 panic=-1 oops=panic reboot=t net.ifnames=0 8250.nr_uarts=1")


def qemu(initrd, *words, counted=False):
    """The arguments except for the serial console, the agent's port and the network. `words` go to the kernel's command line, and so to
    guest/init; they replace the same settings of KERNEL_LINE.

    `counted`: the guest's time counts its instructions, so that measurements do not depend on what else the host does."""
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
    """Writes the cached initrd, followed by the current version of the guest's first program."""
    shutil.copy(os.path.join(kernel.current(), "initrd"), path)
    with open(path, "ab") as out:
        subprocess.run(["busybox", "cpio", "-o", "-H", "newc"], input=b"init\n", cwd=os.path.join(HERE, "guest"), check=True,
                       stdout=out, stderr=subprocess.DEVNULL)


if __name__ == "__main__":
    make_initrd(sys.argv[1])
