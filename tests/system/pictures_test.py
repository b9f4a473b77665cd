#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The pictures of the documents can be made: each shows something, has a size for a page, and nothing is left behind.

usage: pictures_test.py --build BUILDDIR     Skipped where the programs are not installed (scripts/setup --pictures).
"""

import argparse
import os
import struct
import subprocess
import sys
import tempfile
import unittest
import zlib

from leftovers import LeftoverCase

HERE = os.path.dirname(os.path.abspath(__file__))
SKIPPED = 77
# The minimum width and height of each.
SIZES = {"top": (640, 300), "doctor": (640, 300), "bench-telephone": (390, 1000), "notice": (200, 50), "dialog": (300, 200)}
MOST = 150 << 10
arguments = None


def size_and_pixels(path):
    with open(path, "rb") as file:
        data = file.read()
    width, height = struct.unpack(">II", data[16:24])
    pixels, at = b"", 8
    while at < len(data):
        length, kind = struct.unpack(">I4s", data[at:at + 8])
        pixels += data[at + 8:at + 8 + length] if kind == b"IDAT" else b""
        at += length + 12
    return (width, height), zlib.decompress(pixels)


class Pictures(LeftoverCase):
    def test_each_is_taken(self):
        with tempfile.TemporaryDirectory() as out:
            os.chmod(out, 0o777)
            done = subprocess.run([sys.executable, os.path.join(HERE, "run.py"), "--build", arguments.build, "--as", "user", "--timeout", "500",
                                   "--out", out, "--script", os.path.join(HERE, "pictures.py")], capture_output=True, text=True,
                                  env={**os.environ, **dict([self.mark.split("=")])})
            if done.returncode == SKIPPED:
                self.skipTest(done.stderr.strip())
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(sorted(os.listdir(out)), sorted(name + ".png" for name in SIZES))
            for name, (width, height) in SIZES.items():
                path = os.path.join(out, name + ".png")
                size, pixels = size_and_pixels(path)
                self.assertTrue(size[0] >= width and size[1] >= height, (name, size))
                self.assertLess(os.path.getsize(path), MOST, name)
                self.assertGreater(len(set(pixels)), 20, f"{name} is empty")
        self.nothing_left()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", required=True)
    arguments, rest = parser.parse_known_args()
    result = unittest.main(argv=[sys.argv[0], *rest], exit=False, verbosity=2).result
    sys.exit(1 if not result.wasSuccessful() else SKIPPED if result.skipped else 0)
