# SPDX-License-Identifier: Apache-2.0
"""usage: clang_test.py BUILD FOLDER...

clang and clang-tidy find no error in these folders' files: neither by the checks of fast.clang-tidy nor by the thread-safety analysis
(each access to what a mutex guards has that mutex: transport/runtime/mutex.h). Both take the compiler's commands of the build, in one
pass, and write nothing. Skipped without clang-tidy, and for the tests' own files without NFSRDMA_TEST_FULL=1 (four minutes of two
processors)."""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
SKIPPED = 77
CONFIGURATION = ("--quiet", f"--config-file={HERE}/fast.clang-tidy")
# The build's own warnings are g++'s.
CLANG = ("-x", "c++", "-Wno-everything", "-Wthread-safety", "-ferror-limit=0")

HEAD = """
#include <string>
#include <utility>
#include "transport/runtime/mutex.h"
struct Guarded {
  nfsrdma::Mutex mutex;
  int value NFSRDMA_GUARDED_BY(mutex) = 0;
};
"""
EXAMPLES = {  # each with a part of what is found in it; "": nothing
    "int read(Guarded& g) { nfsrdma::MutexLock lock(g.mutex); return g.value; }": "",
    "int read(Guarded& g) { return g.value; }": "requires holding mutex 'g.mutex'",
    "size_t use(std::string a) { std::string b = std::move(a); return a.size() + b.size(); }": "used after it was moved",
    "int broken() { return nowhere; }": "undeclared identifier",
}


def find(tidy, file, flags, directory):
    """The findings in a file, a line each."""
    done = subprocess.run([tidy, *CONFIGURATION, file, "--", *CLANG, *flags], cwd=directory, capture_output=True, text=True)
    if done.returncode == 0:
        return []
    return re.findall(r"^.*(?:error|note): .*$", done.stdout, re.M) or [done.stdout + done.stderr]


def flags_of(entry):
    """What clang needs of the build's command."""
    words = shlex.split(entry["command"])
    systems = [f"-isystem{words[i + 1]}" for i, word in enumerate(words) if word == "-isystem"]
    return [word for word in words[1:] if word.startswith(("-D", "-I", "-std"))] + systems


def is_in(entry, folders):
    """Whether the file is compiled for a target of one of the folders."""
    folder = entry["command"].split(" -o ")[1].split("/CMakeFiles/")[0]
    return any(folder == one or folder.startswith(one + "/") for one in folders)


def check_itself(tidy):
    for code, expected in EXAMPLES.items():
        with tempfile.NamedTemporaryFile("w", suffix=".cc") as file:
            file.write(HEAD + code + "\n")
            file.flush()
            found = find(tidy, file.name, ["-std=c++20", f"-I{ROOT}"], ROOT)
        assert any(expected in line for line in found) if expected else not found, (code, found)


def main(build, folders):
    if any(folder.startswith("tests/") for folder in folders) and os.environ.get("NFSRDMA_TEST_FULL") != "1":
        print("skipped: needs NFSRDMA_TEST_FULL=1")
        return SKIPPED
    tidy = shutil.which("clang-tidy")
    if not tidy:
        print("skipped: clang-tidy is not installed; scripts/setup --style installs it")
        return SKIPPED
    check_itself(tidy)
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as file:
        every = json.load(file)
    for folder in folders:
        assert any(is_in(entry, [folder]) for entry in every), f"the build has nothing in {folder}"
    entries = [entry for entry in every if is_in(entry, folders)]
    wrong = set()
    for entry in entries:
        wrong.update(find(tidy, entry["file"], flags_of(entry), entry["directory"]))
    for line in sorted(wrong):
        print(line.replace(ROOT + "/", ""))
    print(f"{len(entries)} compilations of {', '.join(folders)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
