#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Fetches what a guest boots and what this host lacks: Debian's kernel, its software iWARP (siw), nfs-utils.

usage: kernel.py      once; about a minute of CPU and 220 MB from the Debian archive, of which 80 MB are kept

Nothing is installed: packages are unpacked in the cache, $NFSRDMA_LAB or ${XDG_CACHE_HOME:-~/.cache}/nfsrdma-fuse-lab,
and only guests see them. Debian's kernel has rxe, knfsd and the NFS client, but leaves siw out: it is built from
linux-source, against the kernel's headers. Exit status 77, with the reason, where a guest cannot be had.

What lies in the cache, in a folder named after the contents of this file:
  vmlinux      the kernel, unpacked (the guest would take seconds to do it)
  initrd       busybox and the modules that reach the root; guest.py adds the guest's first program
  root/        laid over the host's root in the guest: modules, nfs-utils
"""

import fcntl
import glob
import hashlib
import lzma
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile

SKIPPED = 77
PROGRAMS = {"qemu-system-x86_64": "qemu-system-x86", "busybox": "busybox-static", "kmod": "kmod", "ip": "iproute2", "rdma": "iproute2",
            "apt-get": "apt", "dpkg-deb": "dpkg", "make": "make", "gcc": "gcc", "strip": "binutils", "zstd": "zstd"}
BOOT_MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay", "virtio_console"]
MODULES = ["virtio_net", "fuse", "autofs4", "nfsv4", "nfsd", "rpcrdma", "ib_uverbs", "rdma_ucm", "rdma_rxe", "siw", "crc32c_generic",
           "crc32_generic"]
NFS_UTILS = ["nfs-common", "nfs-kernel-server"]  # libraries they need come with what scripts/setup installs
SIW = "drivers/infiniband/sw/siw/"


class Unavailable(Exception):
    """Why no guest can be had here."""


def cache():
    base = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.environ.get("NFSRDMA_LAB") or os.path.join(base, "nfsrdma-fuse-lab")


def current():
    """The folder described above; it may not exist."""
    with open(__file__, "rb") as file:
        return os.path.join(cache(), hashlib.sha256(file.read()).hexdigest()[:16])


def check_host():
    if platform.machine() != "x86_64":
        raise Unavailable(f"guests are made for x86_64, this is {platform.machine()}")
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({package for program, package in PROGRAMS.items() if not shutil.which(program, path=path)})
    if missing:
        raise Unavailable(f"missing: {' '.join(missing)}; scripts/setup --guests installs them")


def why_none():
    """Why no guest can be had here, now; None if one can."""
    try:
        check_host()
    except Unavailable as problem:
        return str(problem)
    if not os.path.exists("/dev/net/tun"):
        return "needs /dev/net/tun"
    if not os.path.isdir(current()):
        return f"no kernel for guests in {cache()}: tests/interop/kernel.py fetches it"
    return None


def run(*argv, **more):
    return subprocess.run(argv, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True, **more).stdout


def depends(package, pattern):
    found = re.search(rf"Depends: ({pattern})", run("apt-cache", "depends", package))
    if not found:
        raise Unavailable(f"apt-cache knows no {package}: apt-get update has not been run, or this is no Debian")
    return found[1]


def download(packages, folder):
    os.mkdir(folder)
    done = subprocess.run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "-o", "Acquire::Retries=3", "download", *packages],
                          cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise Unavailable(f"cannot fetch {' '.join(packages)}: {done.stderr.strip()[-300:]}")


def package_file(folder, package):
    return glob.glob(os.path.join(folder, package + "_*.deb"))[0]


def kmod(name, *argv):
    """modprobe and depmod: kmod under another name."""
    return subprocess.run([name, *argv], executable=shutil.which("kmod"), check=True, capture_output=True, text=True).stdout


def modprobe_order(base, release, names):
    """Files of these modules and of what they need, in the order of loading."""
    lines = "".join(kmod("modprobe", "-d", base, "-S", release, "--show-depends", name) for name in names).splitlines()
    return list(dict.fromkeys(line.split()[1] for line in lines if line.startswith("insmod")))


def extract_siw(package, target):
    """Its files from linux-source: the archive is read only up to them."""
    fetch = subprocess.Popen(["dpkg-deb", "--fsys-tarfile", package], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    found = False
    with tarfile.open(fileobj=fetch.stdout, mode="r|") as outer:
        inner = next(member for member in outer if member.name.endswith(".tar.xz"))
        with tarfile.open(fileobj=outer.extractfile(inner), mode="r|xz") as source:
            for member in source:
                inside = member.name.split("/", 1)[-1]
                if inside.startswith(SIW) and member.isfile():
                    found = True
                    with open(os.path.join(target, os.path.basename(inside)), "wb") as file:
                        shutil.copyfileobj(source.extractfile(member), file)
                elif found:
                    break
    fetch.kill()
    fetch.wait()


def build_siw(work, release, packages):
    headers, common, kbuild = packages
    tree = os.path.join(work, "headers")
    for package in packages:
        run("dpkg-deb", "-x", package_file(os.path.join(work, "deb"), package), tree)
    makefile = os.path.join(tree, "usr/src", headers, "Makefile")  # it includes the common one by its absolute path
    with open(makefile) as file:
        text = file.read()
    with open(makefile, "w") as file:
        file.write(text.replace("/usr/src/", f"{tree}/usr/src/"))
    source = os.path.join(work, "siw")
    os.mkdir(source)
    extract_siw(package_file(os.path.join(work, "deb"), "linux-source-" + ".".join(release.split(".")[:2])), source)
    # Type information of modules (Debian 13 has it) takes pahole.
    settings = ["CONFIG_RDMA_SIW=m", "CONFIG_DEBUG_INFO_BTF_MODULES="]
    done = subprocess.run(["make", "-s", "-C", os.path.dirname(makefile), f"M={source}", *settings, "modules"],
                          stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if done.returncode != 0:
        raise Unavailable(f"siw does not build: {done.stderr[-2000:]}")
    run("strip", "-g", os.path.join(source, "siw.ko"))
    return os.path.join(source, "siw.ko")


def unpack_kernel(image, path):
    """The ELF file within a bzImage, which is where the header says (the kernel's Documentation/arch/x86/boot.rst)."""
    with open(image, "rb") as file:
        data = file.read()
    begin = (data[0x1f1] + 1) * 512 + int.from_bytes(data[0x248:0x24c], "little")
    packed = data[begin:begin + int.from_bytes(data[0x24c:0x250], "little") - 4]  # its size unpacked is behind it
    with open(path, "wb") as file:
        if packed.startswith(b"\xfd7zXZ\x00"):
            file.write(lzma.LZMADecompressor().decompress(packed))
        else:  # from Debian 13 on
            subprocess.run(["zstd", "-dc"], check=True, input=packed, stdout=file, stderr=subprocess.PIPE)


def keep_modules(full, root, release, siw):
    """Of all modules those that are used, and what they need, to root."""
    extra = os.path.join(full, "lib/modules", release, "extra")
    os.makedirs(extra)
    shutil.copy(siw, extra)
    kmod("depmod", "-b", full, release)
    kept = os.path.join(root, "usr/lib/modules", release)
    for path in modprobe_order(full, release, BOOT_MODULES + MODULES):
        target = os.path.join(kept, os.path.relpath(path, os.path.join(full, "lib/modules", release)))
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy(path, target)
    for name in ("modules.builtin", "modules.order", "modules.builtin.modinfo"):
        shutil.copy(os.path.join(full, "lib/modules", release, name), kept)
    kmod("depmod", "-b", os.path.join(root, "usr"), release)  # it looks for lib/modules


def make_initrd(work, full, release, path):
    tree = os.path.join(work, "initrd.tree")
    for name in ("bin", "dev", "proc", "mod", "host", "lab", "ram", "new"):
        os.makedirs(os.path.join(tree, name))
    shutil.copy(shutil.which("busybox"), os.path.join(tree, "bin"))
    order = modprobe_order(full, release, BOOT_MODULES)
    for module in order:
        shutil.copy(module, os.path.join(tree, "mod"))
    with open(os.path.join(tree, "mod/order"), "w") as file:
        file.writelines(os.path.basename(module) + "\n" for module in order)
    with open(path, "wb") as out:
        subprocess.run("find . | busybox cpio -o -H newc", shell=True, check=True, cwd=tree, stdout=out, stderr=subprocess.DEVNULL)


def make(work):
    image = depends("linux-image-amd64", r"linux-image-\d\S+")
    release = image.removeprefix("linux-image-")
    headers = f"linux-headers-{release}"
    building = [headers, depends(headers, r"linux-headers-\S+-common"), depends(headers, r"linux-kbuild-\S+")]
    deb, full, root = (os.path.join(work, name) for name in ("deb", "full", "root"))
    download([image, *building, "linux-source-" + ".".join(release.split(".")[:2]), *NFS_UTILS], deb)
    siw = build_siw(work, release, building)
    run("dpkg-deb", "-x", package_file(deb, image), full)
    if not os.path.exists(os.path.join(full, "lib")):  # from Debian 13 on
        os.symlink("usr/lib", os.path.join(full, "lib"))
    unpack_kernel(os.path.join(full, f"boot/vmlinuz-{release}"), os.path.join(work, "vmlinux"))
    for package in NFS_UTILS:
        unpacked = os.path.join(work, package)
        run("dpkg-deb", "-x", package_file(deb, package), unpacked)
        for name in ("sbin", "usr/sbin"):
            if os.path.isdir(os.path.join(unpacked, name)):
                shutil.copytree(os.path.join(unpacked, name), os.path.join(root, "usr/sbin"), dirs_exist_ok=True, symlinks=True)
    # A set-user-ID mount.nfs would run as whoever has unpacked it.
    for entry in os.scandir(os.path.join(root, "usr/sbin")):
        if not entry.is_symlink():
            os.chmod(entry.path, 0o755)
    keep_modules(full, root, release, siw)
    make_initrd(work, full, release, os.path.join(work, "initrd"))
    for name in ("deb", "full", "headers", "siw", "initrd.tree", *NFS_UTILS):
        shutil.rmtree(os.path.join(work, name))
    os.chmod(work, 0o755)


def main():
    check_host()
    target = current()
    os.makedirs(cache(), exist_ok=True)
    with open(os.path.join(cache(), "lock"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # several builds are tested at a time
        if os.path.isdir(target):
            return 0
        for old in os.scandir(cache()):
            if old.is_dir():
                shutil.rmtree(old)
        with tempfile.TemporaryDirectory(dir=cache()) as work:
            make(work)
            os.rename(work, target)
            os.mkdir(work)  # for its end to remove
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except (Unavailable, OSError, subprocess.CalledProcessError) as problem:
        print(f"skipped: {problem}", file=sys.stderr)
        sys.exit(SKIPPED)
