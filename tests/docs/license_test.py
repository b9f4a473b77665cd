# SPDX-License-Identifier: Apache-2.0
"""Every tracked source file names its licence in its first lines, and LICENSE is that licence.

usage: license_test.py     Skipped where the tree is not a git checkout, because the tracked files are then unknown.
"""

import os
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
TAG = "SPDX-License-Identifier: Apache-2.0"
DOCUMENTS = (".md", ".json", ".hex", ".svg", ".png")  # prose, and data that has no comments
LISTS = ("LICENSE", ".gitignore", ".codespellignore")
INPUTS = "tests/fuzz/corpus/"
DEBIAN = "packaging/debian/"  # files with formats without comments, and packaging/debian/copyright; scripts have the line


def tracked():
    listed = subprocess.run(["git", "-c", "safe.directory=*", "-C", ROOT, "ls-files", "-z"], capture_output=True, text=True)
    return listed.stdout.split("\0")[:-1] if listed.returncode == 0 else None


def comment(name):
    """The licence line of a file with this name."""
    if name.endswith((".cc", ".h", ".in", ".def")) and not name.startswith("packaging/"):
        return f"// {TAG}"
    if name.endswith((".html", ".xml")):
        return f"<!-- {TAG} -->"
    if name.endswith(".css"):
        return f"/* {TAG} */"
    if name.endswith(".scd"):
        return f"; {TAG}"
    return f"# {TAG}"


def is_source(name):
    if name.endswith(DOCUMENTS) or name in LISTS or name.startswith(INPUTS):
        return False
    return not name.startswith(DEBIAN) or os.access(os.path.join(ROOT, name), os.X_OK)


def holds(name):
    """None if the file has its line; otherwise the missing line."""
    try:
        with open(os.path.join(ROOT, name), encoding="utf-8") as file:
            lines = [file.readline().rstrip("\n") for _ in range(2)]
    except FileNotFoundError:
        return None  # removed, and not committed yet
    wanted = comment(name)
    at = 1 if lines[0].startswith(("#!", "<!DOCTYPE", "<?xml")) else 0
    return None if lines[at] == wanted else f"{name}: line {at + 1} is not '{wanted}'"


class Licence(unittest.TestCase):
    def test_every_source_file_names_it(self):
        names = [name for name in FILES if is_source(name)]
        self.assertGreater(len(names), 900)
        self.assertEqual([], [missing for missing in map(holds, names) if missing])

    def test_the_text_is_the_licence(self):
        with open(os.path.join(ROOT, "LICENSE"), encoding="utf-8") as file:
            text = file.read()
        self.assertIn("Apache License\n                           Version 2.0, January 2004", text)
        self.assertIn("END OF TERMS AND CONDITIONS", text)


if __name__ == "__main__":
    FILES = tracked()
    if FILES is None:
        print("skipped: git does not list the files here")
        sys.exit(SKIPPED)
    unittest.main()
