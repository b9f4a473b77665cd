#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Packs and unpacks the kept inputs of the fuzz targets: one archive per target, corpus/NAME.tar.xz.

usage: corpus.py unpack NAME DIR            the inputs become files of DIR
       corpus.py pack NAME DIR              the files of DIR become the inputs; the same files give the same archive
       corpus.py replay NAME PROGRAM        runs PROGRAM with a temporary directory of the inputs
"""

import io
import lzma
import os
import subprocess
import sys
import tarfile
import tempfile

CORPUS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "corpus")
SUFFIX = ".tar.xz"


def names():
    return sorted(entry[: -len(SUFFIX)] for entry in os.listdir(CORPUS) if entry.endswith(SUFFIX))


def archive(name):
    return os.path.join(CORPUS, name + SUFFIX)


def unpack(name, directory):
    """Members are plain files without a path; anything else is an error. A target without an archive has no inputs."""
    if not os.path.exists(archive(name)):
        return
    with tarfile.open(archive(name)) as tar:
        for member in tar:
            if not member.isfile() or member.name != os.path.basename(member.name):
                raise ValueError(f"{archive(name)}: {member.name} is not a plain file")
            with open(os.path.join(directory, member.name), "wb") as out:
                out.write(tar.extractfile(member).read())


def pack(name, directory):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.USTAR_FORMAT) as tar:
        for entry in sorted(os.listdir(directory)):
            with open(os.path.join(directory, entry), "rb") as source:
                data = source.read()
            member = tarfile.TarInfo(entry)
            member.size = len(data)
            tar.addfile(member, io.BytesIO(data))
    temporary = archive(name) + ".new"
    with open(temporary, "wb") as out:
        out.write(lzma.compress(content.getvalue(), preset=9))
    os.replace(temporary, archive(name))


def replay(name, program):
    with tempfile.TemporaryDirectory() as directory:
        unpack(name, directory)
        return subprocess.run([program, directory], check=False).returncode


def main(arguments):
    if len(arguments) != 3 or arguments[0] not in ("unpack", "pack", "replay"):
        print(__doc__, file=sys.stderr)
        return 1
    what, name, where = arguments
    if what == "replay":
        return replay(name, where)
    {"unpack": unpack, "pack": pack}[what](name, where)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
