# SPDX-License-Identifier: Apache-2.0
"""Everyday work in a mount: clone, copy, pack, build, a database."""

import os
import shutil
import sqlite3
import subprocess
import sys
import textwrap
import unittest

import trees
from harness.case import HOME, WORK, SystemCase, scaled


class Git(SystemCase):
    LIMIT = 600
    FILES = scaled(4000)

    def git(self, *argv, **more):
        return self.run_program("git", "-c", "user.name=A", "-c", "user.email=a@example.com", "-c", "safe.directory=*",
                                "-c", "gc.autoDetach=false", *argv, **more)

    def test_clone_gc_fsck(self):
        source = os.path.join(HOME, "source")
        trees.git_repository(source, files=self.FILES)
        clone = os.path.join(self.mount().path, "clone")
        self.git("clone", "-q", "file://" + source, clone)
        self.git("-C", clone, "gc", "-q", "--prune=now")
        self.git("-C", clone, "fsck", "--full", "--strict")
        self.assertEqual(self.git("-C", clone, "status", "--porcelain"), "")
        head = self.git("-C", source, "rev-parse", "HEAD")
        self.assertEqual(self.git("-C", clone, "rev-parse", "HEAD"), head)
        self.run_program("diff", "-r", "--no-dereference", "--exclude=.git", source, clone)

    def test_work_within_the_mount(self):
        source = os.path.join(HOME, "small")
        trees.git_repository(source, files=min(300, self.FILES), commits=5)
        mount = self.mount().path
        one, two = os.path.join(mount, "one"), os.path.join(mount, "two")
        self.git("clone", "-q", "--bare", "file://" + source, one)
        self.git("clone", "-q", one, two)  # hard links
        self.git("-C", two, "checkout", "-q", "-b", "topic", "HEAD~3")
        for name in ("new 1", "new 2"):
            with open(os.path.join(two, name), "w") as file:
                file.write(name)
        self.git("-C", two, "mv", "link", "moved")
        self.git("-C", two, "add", "-A")
        self.git("-C", two, "commit", "-q", "-m", "topic")
        self.git("-C", two, "rebase", "-q", "main")
        self.git("-C", two, "push", "-q", "origin", "topic")
        self.git("-C", one, "fsck", "--full")
        self.git("-C", two, "stash", "list")
        self.git("-C", two, "worktree", "add", "-q", os.path.join(mount, "tree"), "main")
        self.assertEqual(self.git("-C", two, "status", "--porcelain"), "")
        self.assertEqual(self.git("-C", two, "log", "-1", "--format=%s").strip(), "topic")


class Copy(SystemCase):
    LIMIT = 600

    def test_cp_and_diff_of_usr_include(self):
        self.run_program("cp", "-a", "/usr/include", os.path.join(self.mount().path, "include"))
        self.mounted[0].umount()  # so that everything is read from the server again
        copy = os.path.join(self.mount().path, "include")
        self.run_program("diff", "-r", "--no-dereference", "/usr/include", copy)
        want, got = (trees.describe(tree, contents=False) for tree in ("/usr/include", copy))
        self.assertEqual(trees.differences(want, got), "")
        self.run_program("rm", "-r", copy)
        self.assertEqual(os.listdir(self.server.path()), [])


class Tar(SystemCase):
    LIMIT = 600
    FILES = scaled(10000)

    def left(self):
        """The names at the server at the end."""
        return os.listdir(self.server.path())

    def test_ten_thousand_small_files(self):
        source = self.local("small")
        trees.small_files(source, self.FILES)
        archive = os.path.join(HOME, "small.tar")
        self.run_program("tar", "-C", source, "--format=posix", "-cf", archive, ".")
        mounted = self.mount()
        target = self.directory(mounted)
        self.run_program("tar", "-C", target, "-xpf", archive)
        self.run_program("tar", "-C", target, "--compare", "-f", archive)
        mounted.umount()  # so that everything is read from the server again
        mounted = self.mount()
        target = os.path.join(mounted.path, os.path.basename(target))
        self.assertEqual(trees.differences(trees.describe(source), trees.describe(target)), "")
        packed = os.path.join(mounted.path, "again.tar")
        self.run_program("tar", "-C", target, "--format=posix", "-cf", packed, ".")
        self.run_program("tar", "-C", source, "--compare", "-f", packed)
        self.run_program("rm", "-r", target)
        self.assertEqual(self.left(), ["again.tar"])


class Build(SystemCase):
    LIMIT = 600

    @unittest.skipUnless(shutil.which("cmake") and shutil.which("ninja"), "needs cmake and ninja")
    def test_build_run_and_nothing_to_do_after(self):
        project = self.directory(self.mount())
        shutil.copytree(os.path.join(WORK, "src/system/chaosproxy"), os.path.join(project, "chaosproxy"))
        with open(os.path.join(project, "CMakeLists.txt"), "w") as file:
            file.write(textwrap.dedent("""\
                cmake_minimum_required(VERSION 3.25)
                project(built LANGUAGES CXX)
                set(CMAKE_CXX_STANDARD 20)
                file(GLOB sources chaosproxy/*.cc)
                add_executable(chaosproxy ${sources})
                """))
        build = os.path.join(project, "build")
        env = {**os.environ, "CCACHE_DISABLE": "1"}
        self.run_program("cmake", "-G", "Ninja", "-S", project, "-B", build, env=env)
        self.run_program("cmake", "--build", build, "-j2", env=env)
        self.run_program(os.path.join(build, "chaosproxy"), status=2)  # it runs, and prints its usage
        self.assertIn("no work to do", self.run_program("ninja", "-C", build))
        os.utime(os.path.join(project, "chaosproxy/proxy.h"))
        self.assertNotIn("no work to do", self.run_program("ninja", "-C", build, "-n"))


WRITER = """\
import sqlite3, sys
path, writer, count = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
db = sqlite3.connect(path, timeout=120, isolation_level=None)
for i in range(count):
    db.execute("BEGIN IMMEDIATE")
    total = db.execute("SELECT total FROM sums").fetchone()[0]
    db.execute("INSERT INTO rows VALUES (?, ?, ?)", (writer, i, "x" * (i % 900)))
    db.execute("UPDATE sums SET total = ?", (total + 1,))
    db.execute("COMMIT")
db.close()
"""


class Sqlite(SystemCase):
    LIMIT = 600

    def work(self, paths, count, journal):
        first = sqlite3.connect(paths[0])
        self.assertEqual(first.execute(f"PRAGMA journal_mode={journal}").fetchone()[0], journal)
        first.executescript("CREATE TABLE rows (writer, number, text); CREATE TABLE sums (total); INSERT INTO sums VALUES (0);")
        first.close()
        writers = [self.start_program(sys.executable, "-c", WRITER, path, number, count, stderr=subprocess.PIPE)
                   for number, path in enumerate(paths)]
        for writer in writers:
            self.assertEqual(writer.wait(600), 0, writer.stderr.read())
            writer.stderr.close()
        for path in paths:
            with sqlite3.connect(path) as db:
                self.assertEqual(db.execute("PRAGMA integrity_check").fetchone()[0], "ok")
                self.assertEqual(db.execute("SELECT total FROM sums").fetchone()[0], len(paths) * count)
                for number in range(len(paths)):
                    rows = db.execute("SELECT number FROM rows WHERE writer = ? ORDER BY number", (number,)).fetchall()
                    self.assertEqual([row[0] for row in rows], list(range(count)))
            db.close()

    def test_two_processes_one_mount(self):
        path = os.path.join(self.directory(self.mount()), "db")
        self.work([path, path], scaled(300, 3000), "delete")

    def test_two_processes_two_mounts(self):
        one, two = self.mount(), self.mount()
        directory = self.directory(one)
        self.work([os.path.join(directory, "db"), os.path.join(two.path, os.path.basename(directory), "db")],
                  scaled(150, 1500), "delete")

    def test_two_processes_with_a_write_ahead_log(self):
        # SQLite's index is shared memory: mmap of one file by two processes.
        path = os.path.join(self.directory(self.mount()), "db")
        self.work([path, path], scaled(300, 3000), "wal")


if __name__ == "__main__":
    unittest.main()
