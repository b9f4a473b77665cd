# SPDX-License-Identifier: Apache-2.0
"""POSIX's rules for names, modes, owners, times and errors: the mount must give the same answers as a local file system.

Each test does the same in the mount and on the local file system that holds the server's files, as several people, and compares every
answer (harness/twins.py). It leaves out what POSIX does not define or the server decides: set-ID bits after truncations, and of
directories that get another group; times after truncations to the same size and after chown(-1, -1); times of symbolic links (nfs-ganesha
does not set them); device and socket nodes with several names; sticky directories without search permission (nfs-ganesha takes these for
junctions); and hard links to other users' files (sysctl fs.protected_hardlinks).
"""

import itertools
import os
import re
import stat
import unittest

from harness import ganesha
from harness.case import HOME, SystemCase, needs_mount, needs_root
from harness.twins import TYPES, Twins

ALICE, BOB, TEAM, OTHERS = 1 << 20, (1 << 20) + 1, 3_000_000, 3_000_001
PEOPLE = {"root": (0, 0, []), "alice": (ALICE, TEAM, []), "mate": (BOB + 1, OTHERS, [TEAM]), "bob": (BOB, OTHERS, [])}
LONG = "n" * 255


class PosixCase(SystemCase):
    people = PEOPLE
    LINK_LENGTHS = (4095, 4096)
    LATEST = (1 << 32) + 5  # the latest time tested, in seconds
    # nfs-ganesha 6 refuses READDIR of a directory with read but without search permission (docs/known-issues.md).
    REFUSES_LISTS = ganesha.version() >= (5, 0)

    def setUp(self):
        super().setUp()
        os.chmod(HOME, 0o755)
        mounted, model = self.directory(self.mount()), self.local("model")
        for path in (mounted, model):
            os.chmod(path, 0o755)
        self.twins = Twins(model, mounted, self.people)
        self.do, self.changed = self.twins.do, self.twins.changed

    def tearDown(self):
        self.twins.close()
        super().tearDown()

    def finish(self):
        found = self.twins.differences
        if self.REFUSES_LISTS:
            found = [each for each in found if not re.search(r": listdir\(.*\): EACCES instead of \[", each)]
        self.assertEqual(found, [], "\n" + "\n".join(found))


class AnyUser(PosixCase):
    """Tests that need only one user."""

    people = {"me": None}
    MODES = (0o777, 0o644, 0o151, 0o7777, 0)
    NEW_MODES = (0o111, 0o6755, 0o1777, 0)

    def me(self, function, *args, **options):
        return self.do("me", function, *args, **options)

    def test_prefixes_that_are_no_directories_or_absent(self):
        self.me("make", "regular", "file")
        self.me("mkdir", "target", 0o755)
        for prefix in ("file", "absent", "target/absent", LONG + "n", "target/" + LONG + "n"):
            path = prefix + "/x"
            for call in (("mkdir", path, 0o755), ("rmdir", path), ("unlink", path), ("symlink", "x", path),
                         ("open", path, os.O_RDONLY), ("open", path, os.O_CREAT | os.O_WRONLY), ("chmod", path, 0o600),
                         ("lchown", path, -1, -1), ("truncate", path, 1), ("rename", path, "y"), ("rename", "file", path),
                         ("link", path, "y"), ("link", "file", path), ("lstat", path), ("stat", path), ("access", path, 0),
                         ("readlink", path), ("listdir", path), ("make", "fifo", path), ("utime", path)):
                self.me(*call)
        self.finish()

    def test_names_of_the_greatest_length_and_longer(self):
        for name in (LONG, LONG + "n"):
            for kind in ("regular", "directory", "fifo", "symlink"):
                self.me("make", kind, name)
                self.me("lstat", name)
                self.me("rename", name, "short")
                self.me("rename", "short", name)
                self.me("link", name, "other")
                self.me("remove", "other")
                self.me("remove", name)
        for length in self.LINK_LENGTHS:
            deep = ("d/" * 3000)[:length - 1] + "x"
            self.me("lstat", deep)
            self.me("symlink", "s" * length, "long")
            self.me("readlink", "long")
            self.me("remove", "long")
        self.finish()

    def test_loops_of_symbolic_links(self):
        self.me("symlink", "two", "one")
        self.me("symlink", "one", "two")
        for path in ("one", "one/x"):
            for call in (("stat", path), ("lstat", path), ("open", path, os.O_RDONLY), ("open", path, os.O_CREAT | os.O_WRONLY),
                         ("mkdir", path, 0o755), ("chmod", path, 0o600), ("chown", path, -1, -1), ("truncate", path, 0),
                         ("link", path, "y"), ("unlink", "y"), ("rename", path, "y"), ("rename", "y", path), ("rmdir", path),
                         ("access", path, 0), ("listdir", path), ("open", path, os.O_RDONLY | os.O_NOFOLLOW)):
                self.me(*call)
        self.finish()

    def test_what_exists_is_in_the_way(self):
        for kind in ("regular", "directory", "fifo", "socket", "symlink"):
            self.me("make", kind, "there", 0o755)
            for call in (("mkdir", "there", 0o755), ("symlink", "x", "there"), ("make", "fifo", "there"),
                         ("make", "regular", "there"), ("make", "socket", "there"), ("rmdir", "there/."), ("rmdir", "there/.."),
                         ("open", "there", os.O_CREAT | os.O_EXCL | os.O_RDWR), ("open", "there/", os.O_RDONLY),
                         ("open", "there", os.O_DIRECTORY), ("open", "there", os.O_NOFOLLOW), ("lstat", "there/"),
                         ("listdir", "there"), ("readlink", "there"), ("mkdir", "there/", 0o755), ("link", "there", "there")):
                self.me(*call)
            self.me("remove", "there")
        self.finish()

    def test_open_flags(self):
        self.me("mkdir", "dir", 0o755)
        self.me("write", "file", b"0123456789", os.O_CREAT)
        self.me("symlink", "file", "link")
        self.me("symlink", "absent", "dangling")
        self.me("mkfifo", "fifo", 0o644)
        for path, access, more in itertools.product(
                ("dir", "file", "link", "dangling", "fifo", "dir/", "file/", "link/", "."), (os.O_RDONLY, os.O_WRONLY, os.O_RDWR),
                (0, os.O_CREAT, os.O_CREAT | os.O_EXCL, os.O_TRUNC, os.O_APPEND, os.O_DIRECTORY, os.O_NOFOLLOW, os.O_SYNC,
                 os.O_CREAT | os.O_DIRECTORY, os.O_CREAT | os.O_NOFOLLOW, os.O_PATH)):
            if (path, access) == ("fifo", os.O_RDWR):
                continue
            self.me("open", path, access | more)
            self.me("lstat", "file")
            if path == "dangling":
                self.me("unlink", "absent")
        self.finish()

    def test_search_permission_is_taken_away(self):
        """From a directory whose names are cached."""
        self.me("mkdir", "dir", 0o755)
        self.me("mkdir", "dir/sub", 0o755)
        self.me("write", "dir/sub/file", b"data", os.O_CREAT)
        for path, mode in itertools.product(("dir", "dir/sub"), (0o644, 0o600, 0o400, 0o200, 0, 0o755, 0o100, 0o311, 0o700)):
            self.me("read", "dir/sub/file")
            self.me("chmod", path, mode)
            self.twins.settle("me", "lstat", "dir/sub/file")
            for call in (("lstat", "dir/sub/file"), ("open", "dir/sub/file", os.O_RDONLY), ("access", "dir/sub/file", 0),
                         ("listdir", "dir"), ("listdir", "dir/sub"), ("lstat", "dir/sub"), ("lstat", "dir/absent"),
                         ("chmod", "dir/sub/file", 0o644), ("rename", "dir/sub/file", "dir/sub/file"), ("mkdir", "dir/new", 0o755),
                         ("rmdir", "dir/new")):
                self.me(*call)
            self.me("chmod", path, 0o755)
        self.finish()

    def test_unlinked_while_open(self):
        self.me("write", "file", b"0123456789", os.O_CREAT)
        self.me("hold", "f", "file", os.O_RDWR)
        self.me("link", "file", "second")
        self.me("unlink", "file")
        self.me("held_do", "f", "fstat")
        self.me("held_do", "f", "ftruncate", 5)
        self.me("lstat", "second")
        self.me("rename", "second", "third")
        self.me("held_do", "f", "pread", 10, 0)
        self.me("held_do", "f", "fchmod", 0o600)
        self.me("lstat", "third")
        self.me("drop", "f")
        self.me("listdir", ".")
        self.finish()

    def test_mode_taken_away_while_open(self):
        """Permission is checked only when a file is opened."""
        self.me("write", "file", b"0123456789", os.O_CREAT)
        for name, flags in (("rw", os.O_RDWR), ("r", os.O_RDONLY), ("w", os.O_WRONLY), ("a", os.O_WRONLY | os.O_APPEND)):
            self.me("hold", name, "file", flags)
        for mode in (0, 0o444, 0o222, 0o600):
            self.me("chmod", "file", mode)
            for name in ("rw", "r", "w", "a"):
                for call in (("pread", 100, 0), ("pwrite", b"more", 8), ("fsync",), ("ftruncate", 12), ("fstat",)):
                    self.me("held_do", name, *call)
            for call in (("read", "file"), ("write", "file", b"x"), ("truncate", "file", 9), ("access", "file", os.W_OK)):
                self.me(*call)
            self.me("lstat", "file")
        for name in ("rw", "r", "w", "a"):
            self.me("drop", name)
        self.me("chmod", "file", 0o600)
        self.me("read", "file")
        self.finish()

    def test_made_without_permission_for_what_it_is_opened_for(self):
        for mode, flags in itertools.product((0, 0o444, 0o222, 0o111), (os.O_RDWR, os.O_RDONLY, os.O_WRONLY)):
            self.me("hold", "f", "file", flags | os.O_CREAT | os.O_EXCL, mode)
            self.me("held_do", "f", "pwrite", b"data", 0)
            self.me("held_do", "f", "pread", 10, 0)
            self.me("held_do", "f", "ftruncate", 2)
            self.me("open", "file", flags)
            self.me("open", "file", flags | os.O_CREAT)
            self.me("held_do", "f", "fsync")
            self.me("drop", "f")
            self.me("lstat", "file")
            self.me("unlink", "file")
        self.finish()

    def test_lengths(self):
        self.me("write", "file", b"0123456789", os.O_CREAT)
        self.me("hold", "f", "file", os.O_RDWR)
        self.me("hold", "r", "file", os.O_RDONLY)
        for length in (0, 1, 4095, 4096, 4097, 1 << 20, 5 << 30, 123, 0, -1):
            for call in (("truncate", "file", length), ("lstat", "file"), ("held_do", "f", "ftruncate", length + 1),
                         ("held_do", "f", "fstat"), ("held_do", "r", "ftruncate", 1), ("held_do", "r", "lseek", 0, os.SEEK_END)):
                self.me(*call)
        self.me("held_do", "f", "pwrite", b"x", 1 << 40)
        self.me("lstat", "file")
        self.me("held_do", "r", "write", b"x")
        self.me("mkdir", "dir", 0o755)
        self.me("truncate", "dir", 0)
        self.me("symlink", "file", "link")
        self.me("truncate", "link", 7)
        self.me("lstat", "link")
        self.me("lstat", "file")
        self.me("make", "fifo", "fifo")
        self.me("truncate", "fifo", 0)
        self.finish()

    def test_times_change_with_what_is_done(self):
        self.me("mkdir", "dir", 0o755)
        self.me("mkdir", "there", 0o755)
        for kind in ("regular", "directory", "fifo", "socket", "symlink"):
            self.changed([".", "dir"], "me", "make", kind, "dir/x")
            if kind != "symlink":
                self.changed(["dir", "dir/x"], "me", "chmod", "dir/x", 0o700)
            self.changed(["dir", "dir/x"], "me", "lchown", "dir/x", os.getuid(), os.getgid())
            if kind != "directory":
                self.changed(["dir", "there", "dir/x"], "me", "link", "dir/x", "there/y")
                self.changed(["dir", "there", "dir/x"], "me", "unlink", "there/y")
            self.changed(["dir", "there"], "me", "rename", "dir/x", "there/z")
            self.changed(["there", "there/z"], "me", "rename", "there/z", "there/z")
            if kind != "symlink":
                self.changed(["there", "there/z"], "me", "utime", "there/z")
            self.changed(["there", "there/z"], "me", "lstat", "there/z")
            self.changed(["there"], "me", "remove", "there/z")
            self.changed(["there"], "me", "remove", "there/z")
        self.finish()

    def test_times_of_regular_files(self):
        self.me("make", "regular", "file")
        for call in (("write", "file", b"data"), ("write", "file", b"data", os.O_APPEND), ("write", "file", b""),
                     ("open", "file", os.O_RDONLY), ("open", "file", os.O_WRONLY), ("truncate", "file", 100),
                     ("truncate", "file", 0),
                     ("open", "file", os.O_WRONLY | os.O_TRUNC), ("write", "file", b"data"),
                     ("open", "file", os.O_WRONLY | os.O_TRUNC), ("open", "file", os.O_WRONLY | os.O_CREAT),
                     ("open", "file", os.O_WRONLY | os.O_CREAT | os.O_EXCL), ("chmod", "file", 0o644), ("chmod", "file", 0o600),
                     ("read", "file"), ("truncate", "file", -1)):
            self.changed([".", "file"], "me", *call)
        self.me("hold", "f", "file", os.O_RDWR)
        for call in (("ftruncate", 10), ("pwrite", b"x", 0), ("fchmod", 0o644), ("pread", 10, 0), ("fsync",)):
            self.changed([".", "file"], "me", "held_do", "f", *call)
        self.finish()

    def test_times_that_are_set(self):
        for kind in ("regular", "directory", "fifo"):
            self.me("make", kind, "x")
            for atime, mtime in ((0, 0), (1, 999_999_999), (10**18, 2 * 10**18), ((1 << 31) * 10**9, self.LATEST * 10**9)):
                self.me("set_times", "x", atime, mtime)
                self.changed(["x"], "me", "chmod", "x", 0o600)
                self.me("set_times", "x", atime, mtime)
            self.me("remove", "x")
        self.finish()

    def test_renaming_one_over_another(self):
        for old, new in itertools.product((*TYPES, "full directory", "absent"), repeat=2):
            for name, kind in (("old", old), ("new", new)):
                if kind == "full directory":
                    self.me("mkdir", name, 0o755)
                    self.me("make", "regular", name + "/inside")
                elif kind != "absent":
                    self.me("make", kind, name)
            self.changed(["."], "me", "rename", "old", "new")
            for name in ("old", "new"):
                self.me("lstat", name)
                self.me("remove", name + "/inside")
                self.me("remove", name)
        self.finish()

    def test_renaming_directories(self):
        self.me("makedirs", "a/b/c")
        self.me("make", "regular", "a/file")
        for old, new in (("a", "a/b"), ("a", "a/b/c/d"), ("a/b/c", "a"), ("a", "a"), ("a/.", "x"), ("a/..", "x"), (".", "x"),
                         ("a", "."), ("a", "a/.."), ("a/b/c", "x/"), ("x", "a/file/"), ("a/file", "x/"), ("a/file/", "y"),
                         ("x", "a/b/"), ("a/b", "x")):
            self.me("rename", old, new)
            self.me("listdir", ".")
            for path in (".", "a", "a/b", "x"):
                self.me("lstat", path)
        self.finish()

    def test_links_are_counted(self):
        self.me("mkdir", "dir", 0o755)
        for kind in ("regular", "fifo", "symlink"):
            self.me("make", kind, "one")
            self.me("link", "one", "dir/two", follow_symlinks=False)
            self.me("lstat", "one")
            self.me("chmod", "dir/two", 0o600)
            self.me("lstat", "one")
            self.me("same_file", "one", "dir/two")
            self.me("rename", "one", "dir/two")
            self.me("listdir", ".")
            self.me("unlink", "one")
            self.me("lstat", "dir/two")
            self.me("unlink", "dir/two")
            self.me("lstat", "dir/two")
        for path in ("dir", "absent", "dir/absent"):
            self.me("link", path, "new")
        for _ in range(2):
            self.me("mkdir", "dir/sub", 0o755)
            self.me("lstat", "dir")
            self.me("rmdir", "dir/sub")
            self.me("lstat", "dir")
        self.finish()

    def test_directories_that_are_not_empty(self):
        self.me("mkdir", "dir", 0o755)
        for kind in ("regular", "directory", "fifo", "socket", "symlink"):
            self.me("make", kind, "dir/x")
            self.me("rmdir", "dir")
            self.me("unlink", "dir")
            self.me("remove", "dir/x")
        self.me("hold", "d", "dir", os.O_RDONLY)
        self.me("rmdir", "dir")
        self.me("held_do", "d", "listdir")
        self.me("drop", "d")
        self.finish()

    def test_modes_and_the_creation_mask(self):
        for mask, mode in itertools.product((0, 0o022, 0o077, 0o151, 0o777), self.MODES):
            self.me("umask", mask)
            for kind in ("regular", "directory", "fifo", "socket"):
                if kind == "directory" and mode & ~mask & 0o1111 == 0o1000:
                    continue
                self.me("make", kind, "x", mode)
                self.me("lstat", "x")
                for new in self.NEW_MODES:
                    self.me("chmod", "x", new)
                    self.me("lstat", "x")
                self.me("remove", "x")
        self.finish()


@needs_mount()
@needs_root("root, who serves every user of the machine with one mount")
class ManyUsers(PosixCase):
    """Tests that depend on the caller's identity."""

    def owned(self, kind, path, owner="alice", mode=0o644):
        self.do("root", "make", kind, path, mode)
        uid, gid, _ = PEOPLE[owner]
        self.do("root", "lchown", path, uid, gid)

    def test_access_by_mode(self):
        """Who may open (and how), search, list, create and remove, for each single permission bit."""
        for mode in (0, *(1 << bit for bit in range(9)), 0o700, 0o070, 0o007, 0o755):
            self.owned("regular", "file")
            self.owned("directory", "dir", mode=0o755)
            self.owned("regular", "dir/inside")
            self.do("root", "chmod", "file", mode)
            self.do("root", "chmod", "dir", mode)
            for who in PEOPLE:
                for call in (("open", "file", os.O_RDONLY), ("open", "file", os.O_WRONLY), ("open", "file", os.O_RDWR),
                             ("open", "file", os.O_RDONLY | os.O_TRUNC), ("truncate", "file", 0), ("listdir", "dir"),
                             ("lstat", "dir/inside"), ("lstat", "dir/absent"), ("open", "dir/inside", os.O_RDONLY),
                             ("make", "regular", "dir/new"), ("remove", "dir/new"), ("make", "directory", "dir/new"),
                             ("rename", "dir/inside", "dir/else"), ("rename", "dir/else", "dir/inside"), ("remove", "dir/new"),
                             ("run", "file"), ("symlink", "x", "dir/link"), ("unlink", "dir/link"), ("chmod", "dir/inside", 0o644),
                             ("utime", "dir/inside"), ("access", "dir/.", os.X_OK), *(("access", path, ask) for path in ("file", "dir") for ask in range(8))):
                    self.do(who, *call)
            for path in ("dir/inside", "dir/else", "dir", "file"):
                self.do("root", "remove", path)
        self.finish()

    def test_permissions_are_taken_away(self):
        """From other users, for files that all of them have used before."""
        self.owned("directory", "dir", mode=0o755)
        self.owned("regular", "dir/inside", mode=0o755)
        for path, mode in itertools.product(("dir", "dir/inside"), (0o750, 0o700, 0o705, 0o710, 0o701, 0o644, 0, 0o555)):
            for again in (mode, 0o755):
                for who in PEOPLE:
                    self.do(who, "lstat", "dir/inside")
                self.do("alice", "chmod", path, again)
                self.twins.settle("bob", "lstat", "dir/inside")
                for who in PEOPLE:
                    for call in (("lstat", "dir/inside"), ("read", "dir/inside"), ("open", "dir/inside", os.O_WRONLY),
                                 ("access", "dir/inside", os.R_OK), ("access", "dir/inside", os.X_OK), ("run", "dir/inside"),
                                 ("listdir", "dir"), ("chmod", "dir/inside", 0o755), ("mkdir", "dir/new", 0o755), ("rmdir", "dir/new")):
                        self.do(who, *call)
            self.do("root", "chmod", "dir/inside", 0o755)
        self.finish()

    def test_sticky_directories(self):
        for owner, file_owner, mode in itertools.product(("alice", "bob"), ("alice", "bob"), (0o1777, 0o777)):
            for kind in TYPES:
                self.owned("directory", "sticky", owner)
                self.do("root", "chmod", "sticky", mode)
                self.do("root", "mkdir", "open", 0o777)
                for who in ("alice", "bob", "mate"):
                    self.owned(kind, "sticky/x", file_owner)
                    self.owned("directory" if kind == "directory" else "regular", "open/y", who)
                    self.do(who, "rename", "sticky/x", "open/x")
                    self.do(who, "rename", "open/y", "sticky/x")
                    self.do(who, "remove", "sticky/x")
                    for path in ("sticky/x", "open/x", "open/y"):
                        self.do("root", "remove", path)
                self.do("root", "rmdir", "sticky")
                self.do("root", "rmdir", "open")
        self.finish()

    def test_who_may_change_modes_and_owners(self):
        for kind in TYPES:
            self.owned(kind, "x")
            for who in ("mate", "bob", "alice", "root"):
                for mode in (0o600, 0o4755, 0o2755, 0o6711, 0o1777):
                    if kind == "directory":
                        self.changed(["x"], who, "chmod", "x", mode & 0o777)
                    elif kind != "symlink":
                        self.changed(["x"], who, "chmod", "x", mode)
                        self.do("root", "lstat", "x")
                for uid, gid in ((ALICE, -1), (-1, TEAM), (-1, OTHERS), (BOB, -1), (BOB, OTHERS), (ALICE, TEAM)):
                    if kind not in ("symlink", "directory"):
                        self.do("root", "chmod", "x", 0o6755)
                    self.changed(["x"], who, "lchown", "x", uid, gid)
                    self.do("root", "lstat", "x")
                    self.do("root", "lchown", "x", ALICE, TEAM)
                self.do(who, "utime", "x", ns=(5, 5), follow_symlinks=False)
                self.do(who, "utime", "x", follow_symlinks=False)
            self.do("root", "remove", "x")
        self.finish()

    def test_a_group_one_belongs_to(self):
        """An owner may give a file to a group that he is a member of. The set-group-ID bit stays only if he is in the file's group."""
        for kind, who in itertools.product(("regular", "directory", "fifo"), ("mate", "alice", "bob")):
            uid, gid, groups = PEOPLE[who]
            self.do("root", "make", kind, "x")
            self.do("root", "lchown", "x", uid, gid)
            for group in (TEAM, OTHERS, 12345):
                self.do(who, "chown", "x", -1, group)
                self.do("root", "lstat", "x")
                self.do("root", "chown", "x", uid, group)
                self.do(who, "chmod", "x", 0o770 if kind == "directory" else 0o2770)
                self.do("root", "lstat", "x")
            self.do("root", "remove", "x")
        self.finish()

    def test_set_id_bits_go_with_a_write(self):
        for who, mode in itertools.product(("alice", "bob", "root"), (0o4777, 0o2777, 0o6777, 0o2767)):
            for call in (("write", "x", b"data"), ("write", "x", b""), ("open", "x", os.O_WRONLY)):
                self.owned("regular", "x")
                self.do("root", "chmod", "x", mode)
                self.do(who, *call)
                self.do("root", "lstat", "x")
                self.do("root", "remove", "x")
        self.finish()

    def test_what_is_made_in_a_set_group_id_directory(self):
        self.owned("directory", "dir")
        self.do("root", "chmod", "dir", 0o2777)
        for who, kind in itertools.product(PEOPLE, TYPES):
            self.do(who, "make", kind, "dir/x", 0o777)
            self.do("root", "lstat", "dir/x")
            self.do("root", "remove", "dir/x")
        self.finish()

    def test_nodes_only_root_may_make(self):
        self.do("root", "mkdir", "dir", 0o777)
        self.do("root", "chmod", "dir", 0o777)
        for who, kind in itertools.product(PEOPLE, TYPES):
            self.changed(["dir"], who, "make", kind, "dir/x", 0o640)
            self.do("root", "lstat", "dir/x")
            self.do("root", "remove", "dir/x")
        self.finish()

    def test_links_to_files_in_others_directories(self):
        self.do("root", "mkdir", "dir", 0o777)
        self.do("root", "chmod", "dir", 0o777)
        for kind, mode in itertools.product(("regular", "fifo", "symlink"), (0o600, 0o666)):
            self.owned(kind, "dir/x", mode=mode)
            for who in ("root", "alice"):
                self.do(who, "link", "dir/x", "dir/y", follow_symlinks=False)
                self.do(who, "remove", "dir/y")
            self.do("root", "remove", "dir/x")
            self.do("root", "remove", "dir/y")
        self.finish()


if __name__ == "__main__":
    unittest.main()
