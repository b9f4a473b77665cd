# SPDX-License-Identifier: Apache-2.0
"""Generated trees of files to work on: the same ones each time, without a network."""

import hashlib
import os
import random
import stat
import subprocess


def text(generator, size):
    """Text like source code: it compresses and makes deltas as real files do."""
    lines = ["static int count;", "return count < 0 ? -1 : 0;", "{", "}", "struct entry *next = NULL;", "for (;;) break;",
             "size_t length = strlen(name);", "if (length > limit)", "/* why this is so */", ""]
    picked = generator.choices(lines, k=max(1, size // 18))
    return "\n".join(picked).encode() + b"%d\n" % generator.getrandbits(64)


def git_repository(path, files=4000, commits=60, seed=1):
    """A minimal history by git fast-import: `files` files in nested directories, changed over `commits` commits."""
    generator = random.Random(seed)
    names = [f"dir{i % 23}/sub{i % 7}/file{i}.c" for i in range(files)]
    stream = []

    def blob(name, data, mode="100644"):
        stream.append(f"M {mode} inline {name}\n".encode() + f"data {len(data)}\n".encode() + data + b"\n")

    for commit in range(commits):
        message = f"Change {commit}\n".encode()
        stream.append(f"commit refs/heads/main\nmark :{commit + 1}\ncommitter A <a@example.com> {1700000000 + commit} +0000\n"
                      .encode() + f"data {len(message)}\n".encode() + message)
        if commit:
            stream.append(f"from :{commit}\n".encode())
        for name in names if commit == 0 else generator.sample(names, 40):
            blob(name, text(generator, generator.choice([50, 800, 3000, 12000])))
        if commit == 0:
            blob("run.sh", b"#!/bin/sh\necho fine\n", "100755")
            blob("link", b"run.sh", "120000")
    os.makedirs(path)
    subprocess.run(["git", "init", "-q", "-b", "main", path], check=True)
    subprocess.run(["git", "-C", path, "fast-import", "--quiet"], input=b"".join(stream), check=True)
    subprocess.run(["git", "-C", path, "checkout", "-q", "main"], check=True)


def small_files(path, count, seed=1, per_directory=100):
    """`count` files of 0 to 8 KiB, some executable, some symbolic links, with various times."""
    generator = random.Random(seed)
    for i in range(count):
        directory = os.path.join(path, f"d{i // per_directory}")
        if i % per_directory == 0:
            os.makedirs(directory)
        name = os.path.join(directory, f"file {i}.txt")
        if i % 50 == 49:
            os.symlink(f"file {i - 1}.txt", name)
            continue
        with open(name, "wb") as file:
            file.write(generator.randbytes(generator.randint(0, 8192)))
        os.chmod(name, generator.choice([0o600, 0o644, 0o755]))
        os.utime(name, ns=(1500000000123456789 + i, 1600000000987654321 + i * 1000003))


def describe(path, times=True, contents=True):
    """{relative path: lstat's fields and the contents}, to compare two trees."""
    found = {}
    for directory, names, files in os.walk(path):
        for name in names + files:
            full = os.path.join(directory, name)
            st = os.lstat(full)
            entry = [stat.filemode(st.st_mode)]
            if stat.S_ISLNK(st.st_mode):
                entry.append(os.readlink(full))
            elif stat.S_ISREG(st.st_mode):
                entry.append(st.st_size)
                if contents:
                    with open(full, "rb") as file:
                        entry.append(hashlib.sha1(file.read()).hexdigest())
                if times:
                    entry.append(st.st_mtime_ns)
            found[os.path.relpath(full, path)] = entry
    return found


def differences(one, two, limit=10):
    """The first differences of two descriptions as text; empty when they are equal."""
    lines = []
    for name in sorted(set(one) | set(two)):
        if one.get(name) != two.get(name):
            lines.append(f"{name}: {one.get(name)} != {two.get(name)}")
            if len(lines) == limit:
                break
    return "\n".join(lines)
