# SPDX-License-Identifier: Apache-2.0
"""Checks the built manual pages and completions against the programs' own tables.

usage: pages_test.py BUILDDIR [Class[.test]...]    A missing program (man, zsh, fish) skips its test by name.
"""

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "packaging"))
import install_notes  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PAGES = ("nfsrdma-fuse.1", "nfsrdma-fuse-connect.1", "mount.nfsrdma-fuse.8", "nfsrdma-fuse.conf.5", "nfsrdma-filer.8")


def needs(program):
    return unittest.skipUnless(shutil.which(program), f"{program} is not installed")


def made(name):
    return os.path.join(BUILD, "packaging", "man", name)


def program(name):
    return os.path.join(BUILD, "cli", name)


def said(*argv):
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def source(page):
    """The scdoc source of a page, without escapes; a literal asterisk is ∗."""
    return text_of(made(page + ".scd")).replace("\\*", "∗").replace("\\", "")


def section(page, title):
    return source(page).split(f"\n# {title}\n")[1].split("\n# ")[0]


def entries(text):
    """{name: number} of the option names at the heads of entries: lines that an entry's text follows."""
    lines = text.splitlines()
    found = {}
    for head, below in zip(lines, lines[1:]):
        if below.startswith("\t") and head.startswith("*"):
            for name in re.findall(r"\*([^*]+)\*", head):
                found[name] = found.get(name, 0) + 1
    return found


def table():
    """[(names of a row)] of the mount options in docs/user/options.md, which option_docs_test compares with the option table."""
    page = text_of(os.path.join(ROOT, "docs", "user", "options.md"))
    block = page.split("```")[1]
    rows = [re.sub(r"=\S*", "", m).split(", ") for m in re.findall(r"(?m)^  (\S[^ \n]*(?:, [^ \n]+)?)(?:  |$)", block)]
    ignored = block.split("Accepted without effect:")[1].split()
    refused = [re.findall(r"`([^`]+)`", line.split(":")[0]) for line in page.split("## Known and refused")[1].splitlines() if line.startswith("- ")]
    return rows, ignored, [name for row in refused for name in row]


def commands(text):
    """[(name, help)] of the verbs in a help text."""
    return re.findall(r"(?m)^ *([a-z-]+)  +(\S.*)$", re.split(r"(?im)^(?:sub)?commands:$", text)[1].lstrip().split("\n\n")[0])


def statuses(title):
    """The numbers of an enum in cli/support/outcome.h, without those marked as never returned."""
    body = text_of(os.path.join(ROOT, "cli", "support", "outcome.h")).split(f"enum class {title}")[1].split("};")[0]
    return {number for number, comment in re.findall(r"= (\d+),(.*)", body) if "never returned" not in comment}


class ManPages(unittest.TestCase):
    def test_every_mount_option_has_one_entry(self):
        rows, ignored, refused = table()
        self.assertGreater(len(rows), 60, "docs/user/options.md was not understood")
        page = source("mount.nfsrdma-fuse.8")
        parts = page.split("\n# OPTIONS\n")[1].split("\n# ")[0]
        working, rest = parts.split("\n## Accepted without effect\n")
        without_effect, ending = rest.split("\n## Known and refused\n")
        heads = re.findall(r"(?m)^(\*\S+\*.*)\n\t", working)
        self.assertEqual(sorted(re.findall(r"\*([^*]+)\*", head) for head in heads), sorted(rows))
        self.assertEqual(entries(without_effect), dict.fromkeys([name.replace("*", "∗") for name in ignored], 1))
        self.assertEqual(entries(ending), dict.fromkeys(refused, 1))

    def test_every_letter_of_the_mount_helper(self):
        usage = said(program("mount.nfsrdma-fuse"), "-h")
        letters = set(re.findall(r"(?m)(?<=[ ,])-[a-zA-Z]\b", "\n".join(line for line in usage.splitlines() if line.startswith("  -"))))
        self.assertGreater(len(letters), 8, usage)
        self.assertEqual(set(entries(section("mount.nfsrdma-fuse.8", "COMMAND LINE"))), letters | {"-t"})

    def test_every_verb_and_its_options(self):
        verbs = [name for name, _ in commands(said(program("nfsrdma-fuse"), "--help"))]
        self.assertGreaterEqual(len(verbs), 7, verbs)
        parts = section("nfsrdma-fuse.1", "COMMANDS").split("\n## ")[1:]
        self.assertEqual(sorted(part.partition("\n")[0] for part in parts), sorted(verbs))
        for part in parts:
            verb = part.partition("\n")[0]
            with self.subTest(verb=verb):
                text = said(program("nfsrdma-fuse"), verb, "--help").split("Mount options, as")[0]
                options = set(re.findall(r"(?m)^  (?:-\w, )?(--[\w-]+)", text)) - {"--help"}
                self.assertEqual({name for name in entries(part) if name.startswith("--")}, options)
                self.assertTrue(set(entries(part).values()) <= {1})
                self.assertGreater(len(part.split("\n*nfsrdma-fuse ")[0].split()), 3, "a sentence says what it is for")

    def test_every_option_of_the_filer(self):
        options = set(re.findall(r"(?m)^  (?:-\w, )?(--[\w-]+)", said(program("nfsrdma-filer"), "--help")))
        self.assertGreater(len(options), 15, options)
        self.assertEqual({name for name in entries(section("nfsrdma-filer.8", "OPTIONS")) if name.startswith("--")}, options)

    def test_every_exit_status(self):
        for page, title in (("mount.nfsrdma-fuse.8", "MountExit"), ("nfsrdma-fuse.1", "ToolExit")):
            self.assertEqual(entries(section(page, "EXIT STATUS")), dict.fromkeys(statuses(title), 1), page)
        self.assertEqual(set(entries(section("nfsrdma-filer.8", "EXIT STATUS"))), {"0", "1", "2"})

    def test_sections_and_references(self):
        more = {"mount.nfsrdma-fuse.8": ["OPTIONS", "COHERENCE", "SECURITY", "EXIT STATUS", "EXAMPLES"]}
        for page in PAGES:
            titles = re.findall(r"(?m)^# (.*)$", source(page))
            for title in ["NAME", "SYNOPSIS", "FILES", "SEE ALSO", *more.get(page, [])]:
                self.assertIn(title, titles, page)
            own = {f"{name}({number})" for name, number in (one.rsplit(".", 1) for one in PAGES)}
            named = set(re.findall(r"((?:mount\.)?nfsrdma-[\w.-]+)\*\((\d)\)", source(page)))
            self.assertLessEqual({f"{name}({number})" for name, number in named}, own, page)

    @needs("man")
    def test_they_render_without_a_warning(self):
        for page in PAGES:
            done = subprocess.run(["man", "--warnings=w", "-P", "cat", "-l", made(page)], capture_output=True, text=True,
                                  env={**os.environ, "MANWIDTH": "80", "LC_ALL": "C.UTF-8"})
            self.assertEqual((done.returncode, done.stderr), (0, ""), page)
            wide = [line for line in re.sub(r".\x08", "", done.stdout).splitlines() if len(line) > 80]
            self.assertEqual(wide, [], page)
            self.assertGreater(len(done.stdout.splitlines()), 40, page)


class BashCompletion(unittest.TestCase):
    def offered(self, line, point=None):
        """The completions that bash gets at the end of the line, with the words as bash splits them."""
        words = re.findall(r"[=:]+|[^\s=:]+", line)
        if not line or line[-1].isspace() or line[-1] in "=:":
            words.append("")
        if line[-1:] in ("=", ":"):  # the separator itself is the current word
            words.pop()
        script = (f"source {made('completion.bash')}\n"
                  'COMP_LINE=$1; COMP_POINT=${#1}; shift; COMP_WORDS=("$@"); COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); COMPREPLY=()\n'
                  '_nfsrdma_fuse\n[ ${#COMPREPLY[@]} = 0 ] || printf "%s\\n" "${COMPREPLY[@]}"')
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", line, *words], capture_output=True, text=True)
        self.assertEqual((done.returncode, done.stderr), (0, ""), line)
        return done.stdout.splitlines()

    def test_verbs(self):
        verbs = [name for name, _ in commands(said(program("nfsrdma-fuse"), "--help"))]
        self.assertEqual(self.offered("nfsrdma-fuse "), verbs)
        self.assertEqual(self.offered("nfsrdma-fuse sta"), ["status", "stats"])

    def test_options_of_verbs(self):
        self.assertEqual(self.offered("nfsrdma-fuse umount --t"), ["--timeout"])
        self.assertEqual(self.offered("nfsrdma-fuse stats --format "), ["table", "json", "prometheus", "mountstats"])
        self.assertEqual(self.offered("nfsrdma-fuse stats --format=p"), ["prometheus"])
        self.assertEqual(self.offered("nfsrdma-fuse mount --softe"), ["--softerr"])
        self.assertEqual(self.offered("nfsrdma-filer --deleg"), ["--delegations"])
        self.assertEqual(self.offered("nfsrdma-filer --log-level w"), ["warning"])

    def test_mount_options_between_commas(self):
        for start in ("nfsrdma-fuse mount -o ", "nfsrdma-fuse probe -o ", "mount.nfsrdma-fuse filer:/export /mnt -o "):
            self.assertEqual(self.offered(start + "softe"), ["softerr"])
            self.assertEqual(self.offered(start + "ro,softe"), ["ro,softerr"])
            self.assertEqual(self.offered(start + "ro,xprt"), ["ro,xprtsec="])
            # bash has split off "ro,proto=".
            self.assertEqual(self.offered(start + "ro,proto=r"), ["rdma", "rdma6"])
            self.assertEqual(self.offered(start + "ro,proto="), ["rdma", "rdma6", "tcp", "tcp6", "auto"])
            self.assertEqual(self.offered(start + "proto=tcp,softe"), ["tcp,softerr"])

    def test_every_option_that_has_an_effect(self):
        rows, _, refused = table()
        offered = {name.rstrip("=") for name in self.offered("nfsrdma-fuse mount -o ")}
        self.assertLessEqual({name for row in rows for name in row}, offered)
        self.assertFalse(offered & set(refused))

    def test_directories_and_mounts(self):
        with tempfile.TemporaryDirectory() as directory:
            os.mkdir(os.path.join(directory, "inside"))
            self.assertEqual(self.offered(f"nfsrdma-fuse mount filer {directory}/in"), [f"{directory}/inside"])
            self.assertEqual(self.offered(f"nfsrdma-fuse status {directory}/in"), [], "it is no mount")

    def test_mounts_are_those_of_this_program(self):
        """Mount points may contain blanks. A file replaces the kernel's table of mounts, which lists none without real mounts."""
        lines = ("36 35 0:40 / /mnt/a\\040b rw,nosuid - fuse.rpcrdma filer:/export rw\n"
                 "37 35 0:41 / /mnt/c rw - nfs4 filer:/export rw\n38 35 0:42 / /mnt/d rw shared:1 - fuse.rpcrdma filer:/x rw\n")
        with tempfile.TemporaryDirectory() as directory:
            mounts = os.path.join(directory, "mountinfo")
            with open(mounts, "w") as file:
                file.write(lines)
            for shell, function in (("bash", "_nfsrdma_fuse_mounts"), ("fish", "__nfsrdma_fuse_mounts")):
                with self.subTest(shell=shell):
                    if not shutil.which(shell):
                        self.skipTest(f"{shell} is not installed")
                    script = text_of(made("completion." + shell)).replace("/proc/self/mountinfo", mounts)
                    self.assertEqual(said(shell, "-c", script + f"\n{function}\n").splitlines(), ["/mnt/a b", "/mnt/d"])

    def test_at_a_terminal(self):
        """In an interactive bash: TAB extends the list after -o, without a blank behind it."""
        pid, terminal = pty.fork()
        if pid == 0:
            os.environ.update(PS1="", TERM="dumb", INPUTRC="/dev/null")
            os.execvp("bash", ["bash", "--norc", "--noprofile", "-i"])
        self.addCleanup(os.waitpid, pid, 0)
        self.addCleanup(os.close, terminal)
        os.write(terminal, f"source {made('completion.bash')}; nfsrdma-fuse() {{ printf '<%s>' \"$@\"; }}; bind 'set bell-style none'\n".encode())
        os.write(terminal, b"nfsrdma-fuse mount -o ro,proto=tcp,softe\t,xprt\tn\t filer:/export /tm\t\n exit\n")
        text, end = b"", time.monotonic() + 30
        while time.monotonic() < end and select.select([terminal], [], [], max(0, end - time.monotonic()))[0]:
            try:
                text += os.read(terminal, 4096)
            except OSError:
                break
        self.assertIn("<mount><-o><ro,proto=tcp,softerr,xprtsec=none><filer:/export></tmp/>", re.sub(r"\s*[\r\n]+\s*", "", text.decode()))


class OtherShells(unittest.TestCase):
    @needs("zsh")
    def test_zsh_understands_it(self):
        self.assertEqual(said("zsh", "-n", made("completion.zsh")), "")

    @needs("fish")
    def test_fish_understands_and_completes(self):
        self.assertEqual(said("fish", "-n", made("completion.fish")), "")

        def offered(line):
            return [one.partition("\t")[0] for one in
                    said("fish", "--no-config", "-c", f"source {made('completion.fish')}; complete -C '{line}'").splitlines()]
        self.assertEqual(sorted(offered("nfsrdma-fuse sta")), ["stats", "status"])
        self.assertEqual(offered("nfsrdma-fuse mount -o ro,softe"), ["ro,softerr"])
        self.assertIn("ro,proto=tcp", offered("nfsrdma-fuse mount -o ro,proto="))
        self.assertEqual(offered("nfsrdma-fuse stats --format p"), ["prometheus"])


class Installed(unittest.TestCase):
    def test_where_man_and_the_shells_look(self):
        with install_notes.kept(BUILD), tempfile.TemporaryDirectory() as root:
            subprocess.run(["cmake", "--install", BUILD, "--prefix", "/usr"], check=True, env={**os.environ, "DESTDIR": root},
                           stdout=subprocess.DEVNULL)
            share = os.path.join(root, "usr", "share")
            for page in PAGES:
                self.assertTrue(os.path.exists(os.path.join(share, "man", "man" + page[-1], page)), page)
            for name in ("nfsrdma-fuse", "mount.nfsrdma-fuse", "nfsrdma-filer"):
                self.assertTrue(os.path.exists(os.path.join(share, "bash-completion", "completions", name)), name)
                self.assertTrue(os.path.exists(os.path.join(share, "fish", "vendor_completions.d", name + ".fish")), name)
            zsh, = [name for name in os.listdir(os.path.join(share, "zsh"))]
            self.assertEqual(os.listdir(os.path.join(share, "zsh", zsh)), ["_nfsrdma-fuse"])
            self.assertFalse(os.path.exists(os.path.join(root, "usr", "bin", "nfsrdma-pages")), "it is a tool of the build")


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
