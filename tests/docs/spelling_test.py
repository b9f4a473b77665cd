# SPDX-License-Identifier: Apache-2.0
"""No word of a document or a comment is a misspelling that codespell knows. .codespellignore lists the accepted words."""

import os
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
FOLDERS = ("xdr", "transport", "client", "fuse", "cli", "filer", "tests", "docs", "scripts", "packaging", "cmake")
TEXTS = (".md", ".h", ".cc", ".py", ".sh", ".cmake", ".txt", ".in", ".scd", ".service", ".desktop", ".yml")


def files():
    for top in FOLDERS:
        for folder, folders, names in os.walk(os.path.join(ROOT, top)):
            folders[:] = sorted(set(folders) - {"corpus", "golden", "__pycache__"})
            for name in sorted(names):
                if name.endswith(TEXTS) or top == "scripts" and "." not in name:
                    yield os.path.join(folder, name)
    for name in sorted(os.listdir(ROOT)):
        if name.endswith(".md"):
            yield os.path.join(ROOT, name)


def main():
    program = shutil.which("codespell")
    if not program:
        print("skipped: codespell is not installed; scripts/setup installs it")
        return SKIPPED
    found = list(files())
    assert len(found) > 500, len(found)
    return subprocess.run([program, "--ignore-words", os.path.join(ROOT, ".codespellignore"), *found]).returncode


if __name__ == "__main__":
    sys.exit(main())
