# SPDX-License-Identifier: Apache-2.0
"""Every C++ file has the layout of clang-format (.clang-format). Skipped where clang-format 14, Debian 12's, is missing."""

import os
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
FOLDERS = ("xdr", "transport", "client", "fuse", "cli", "filer", "tests")


def main():
    program = shutil.which("clang-format-14") or shutil.which("clang-format")
    if not program:
        print("skipped: clang-format is not installed; scripts/setup --style installs it")
        return SKIPPED
    version = subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout
    if not re.search(r"version 14\.", version):
        print(f"skipped: every version lays out differently, this is not 14: {version.strip()}")
        return SKIPPED
    files = sorted(os.path.join(folder, name) for top in FOLDERS for folder, _, names in os.walk(os.path.join(ROOT, top))
                   for name in names if name.endswith((".cc", ".h")))
    assert len(files) > 300, len(files)
    done = subprocess.run([program, "--dry-run", "-Werror", *files], capture_output=True, text=True)
    wrong = sorted(set(re.findall(r"^(/.*?):\d+:\d+: error", done.stderr, re.M)))
    for path in wrong:
        print(f"clang-format -i {os.path.relpath(path, ROOT)}")
    return 1 if wrong or done.returncode else 0


if __name__ == "__main__":
    sys.exit(main())
