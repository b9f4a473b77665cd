# SPDX-License-Identifier: Apache-2.0
"""Types every command of README.md and docs as a reader pastes it: each document's code blocks, in one shell, from top to bottom.

tests/docs/commands.py finds the commands, and gives the reason for those that are not typed. `filer` is the name of a running server.
"""

import os
import re
import shutil
import subprocess
import sys

from harness.case import HOME, SystemCase, WORK, daemons, is_mounted, needs_mount, needs_root, steward
from harness.filer import Filer
from harness.mount import mounts

sys.path.append(os.path.join(WORK, "src", "docs"))
import commands  # noqa: E402

sys.path.append(os.path.join(WORK, "src", "packaging"))
import install_notes  # noqa: E402

ADDRESS = "192.0.2.1"  # the world's second address
# A shell that echoes each line and ends with the first failure. sudo is for ordinary users, and may not be installed.
SHELL = """\
set -e
sudo() { "$@"; }
"""


@needs_mount()
class Documents(SystemCase):
    LIMIT = 280  # seconds: for the bench on a busy machine

    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="named", address=ADDRESS, port=2049).start()
        hosts = os.path.join(WORK, "hosts")
        steward.write_file(hosts, f"127.0.0.1 localhost\n::1 localhost\n{ADDRESS} filer\n", 0o644)
        steward.run(["mount", "--bind", hosts, "/etc/hosts"])

    def setUp(self):
        super().setUp()
        self.clone = self.local("clone")
        os.mkdir(os.path.join(self.clone, "build"))
        os.symlink(os.path.join(WORK, "build"), os.path.join(self.clone, "build", "release"))

    def paste(self, lines, **more):
        """Types the lines into one shell and returns its output. Its background processes end with it."""
        script = SHELL + "".join(f"echo '$' {quoted(line)}\n{line}\n" for line in lines) + "[ -z \"$(jobs -p)\" ] || { kill $(jobs -p); wait; }\n"
        said = os.path.join(self.local("said"), "said")
        env = {**os.environ, "PATH": f"{self.clone}/build/release/cli:{os.environ['PATH']}", **more}
        with open(said, "w") as file:
            process = self.start_program("bash", "-c", script, cwd=self.clone, stdout=file, stderr=subprocess.STDOUT, env=env)
            status = process.wait(250)
        with open(said) as file:
            text = file.read()
        self.assertEqual(status, 0, text)
        return text

    def typed(self, document):
        """The lines of the document's blocks that are typed here."""
        lines, _ = commands.of(document, WORK)
        return [] if document in commands.NO_COMMANDS else [line for line in lines if not commands.why_not_run(line)]

    def test_readme_from_its_top(self):
        """As an ordinary user: all commands that need no root. test_installed does the installation."""
        lines = [line for line in self.typed("README.md") if not line.startswith("sudo ") and line.split()[2:3] != ["nfsrdma-fuse"]]
        self.assertGreater(len(lines), 6, lines)
        parts = {part.partition("\n")[0]: part.partition("\n")[2] for part in ("\n" + self.paste(lines)).split("\n$ ")}
        for verb in ("probe", "status", "stats", "bench"):
            command, = [line for line in lines if f"nfsrdma-fuse {verb} " in line]
            self.assertTrue(parts[command].strip(), command)
        self.assertEqual([kind for _, _, kind, _ in mounts() if kind == "fuse.rpcrdma"], [])
        report, = re.findall(r"--html ~/(\S+)", "\n".join(lines))
        self.assertTrue(os.path.getsize(os.path.join(HOME, report)))

    @needs_root()
    def test_installed(self):
        """README's lines with sudo. What they install goes to a separate directory, where mount(8) finds its helpers in this test."""
        lines = [line for line in self.typed("README.md") if line.startswith("sudo ")]
        self.assertGreater(len(lines), 1, lines)
        root = self.local("root")
        with install_notes.kept(os.path.join(WORK, "build")):
            self.paste([line for line in lines if "cmake --install" in line], DESTDIR=root)
        for helper in ("mount.nfsrdma-fuse", "mount.fuse.rpcrdma", "umount.fuse.rpcrdma"):
            link = os.path.join(WORK, "sbin", helper)
            os.unlink(link)
            os.symlink(os.path.join(root, "usr/sbin", helper), link)
        self.paste([line for line in lines if "cmake --install" not in line])
        where, = [point for _, point, kind, _ in mounts() if kind == "fuse.rpcrdma"]
        self.works_and_ends(where)
        line, = [line for line in self.typed("README.md") if line.split()[2:3] == ["nfsrdma-fuse"]]
        table = os.path.join(HOME, "fstab.readme")
        with open(table, "w") as file:
            file.write(line + "\n")
        self.run_program("mount", "-T", table, where)
        self.works_and_ends(where)

    def works_and_ends(self, where):
        self.assertTrue(is_mounted(where))
        name = os.path.join(where, "made")
        os.mkdir(name)
        self.assertTrue(os.path.isdir(os.path.join(self.server.path(), "made")))
        os.rmdir(name)
        self.run_program("umount", where)
        self.wait_until(lambda: not daemons(), "the daemon ends")

    def test_other_documents(self):
        for document in commands.documents(WORK)[1:]:
            # README's line for an installation as root is typed by test_installed.
            lines = [line for line in self.typed(document) if not line.startswith("sudo cmake --install ")]
            if lines:
                with self.subTest(document=document):
                    self.paste(lines)

    def test_commands_within_sentences(self):
        typed = {span for document in commands.documents(WORK) for span in commands.of(document, WORK)[1] if not commands.why_not_run(span)}
        self.assertIn("nfsrdma-fuse mount --help", typed)
        for line in sorted(typed):
            with self.subTest(line=line):
                self.assertTrue(self.paste([line]))

    def test_completions_name_the_mounts(self):
        """Only mounts of this program; here one with a blank in its name."""
        where = os.path.join(self.local("completed"), "a b")
        os.mkdir(where)
        self.run_program(f"{self.clone}/build/release/cli/mount.nfsrdma-fuse", "filer:/export", where)
        for shell, function in (("bash", "_nfsrdma_fuse_mounts"), ("fish", "__nfsrdma_fuse_mounts")):
            if shell == "bash" or shutil.which(shell):
                script = f"source {WORK}/build/packaging/man/completion.{shell}; {function}"
                said = subprocess.run([shell, "-c", script], check=True, capture_output=True, text=True).stdout
                self.assertEqual(said.splitlines(), [where], shell)
        self.run_program(f"{self.clone}/build/release/cli/nfsrdma-fuse", "umount", where)

    def test_options_of_the_server_within_sentences(self):
        """The server accepts README's `--export memory:1G` and similar options."""
        with open(os.path.join(WORK, "README.md")) as file:
            text = file.read().split("## A server, too\n")[1].split("\n## ")[0]
        spans = re.findall(r"`(--(?:export|fault) [^`]+)`", text)
        self.assertEqual(len(spans), 2, text)
        program = os.path.join(WORK, "bin", "nfsrdma-filer")
        for span in spans:
            export = "" if "--export" in span else "--export memory:1M"
            process = self.start_program("bash", "-c", f"exec {program} --listen 127.0.0.1:0 {export} {span}", stdout=subprocess.PIPE)
            self.addCleanup(process.stdout.close)
            self.assertIn("listening", process.stdout.readline())
            process.terminate()
            process.wait(20)


def quoted(line):
    return "'" + line.replace("'", "'\\''") + "'"
