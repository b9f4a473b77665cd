# SPDX-License-Identifier: Apache-2.0
"""usage: locks_test.py BUILD FOLDER...

clang finds no error in these folders' files, and each access to what a mutex guards has that mutex (transport/runtime/mutex.h).
It takes the compiler's commands of the build, checks syntax and locks, and writes nothing. Skipped without clang."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
CHECKS = ("-fsyntax-only", "-Wno-everything", "-Wthread-safety", "-Werror=thread-safety", "-ferror-limit=0", "-x", "c++")

GUARDED = """
#include "transport/runtime/mutex.h"
struct Guarded {
  nfsrdma::Mutex mutex;
  int value NFSRDMA_GUARDED_BY(mutex) = 0;
};
int %s(Guarded& g) {
  %s
  return g.value;
}
"""


def clang_command(entry, clang):
    """The build's command for these files, as clang's check of them."""
    words = shlex.split(entry["command"])
    while os.path.basename(words[0]) == "ccache":
        words = words[1:]
    kept = [word for word in words[1:] if word.startswith(("-D", "-I", "-isystem", "-std"))]
    systems = [f"-isystem{words[i + 1]}" for i, word in enumerate(words) if word == "-isystem"]
    return [clang, *CHECKS, *(word for word in kept if word != "-isystem"), *systems, entry["file"]]


def folder_of(entry):
    """xdr, transport, ...: by the library that the file is compiled for."""
    found = re.match(r"(\w+)/CMakeFiles/", entry["command"].split(" -o ")[1])
    return found.group(1) if found else ""


def check_itself(clang):
    """A read without the lock is an error; with it, it is none."""
    for name, lock, status in (("locked", "nfsrdma::MutexLock lock(g.mutex);", 0), ("unlocked", "", 1)):
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
            file.write(GUARDED % (name, lock))
            file.flush()
            done = subprocess.run([clang, *CHECKS, "-std=c++20", f"-I{ROOT}", file.name], capture_output=True, text=True)
        assert (done.returncode != 0) == (status != 0), (name, done.stderr)
        assert status == 0 or "requires holding mutex 'g.mutex'" in done.stderr, done.stderr


def main(build, folders):
    clang = shutil.which("clang++")
    if not clang:
        print("skipped: clang++ is not installed; scripts/setup --style installs it")
        return SKIPPED
    check_itself(clang)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        entries = [entry for entry in json.load(file) if folder_of(entry) in folders]
    assert {folder_of(entry) for entry in entries} == set(folders), folders
    wrong = set()
    for entry in entries:
        done = subprocess.run(clang_command(entry, clang), cwd=entry["directory"], capture_output=True, text=True)
        if done.returncode != 0:
            wrong.update(re.findall(r"^.*(?:error|note): .*$", done.stderr, re.M) or [done.stderr])
    for line in sorted(wrong):
        print(line.replace(ROOT + "/", ""))
    print(f"{len(entries)} compilations of {', '.join(folders)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
