# SPDX-License-Identifier: Apache-2.0
"""The commands that README.md and the other documents tell people to type.

Two kinds: lines of code blocks (indented by four, or fenced), and code spans within sentences that begin with a program's name. A fence of
another language than sh (ini, text) holds no commands. A span with "…" is a message.
"""

import glob
import os
import re

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PROGRAM = re.compile(r"(sudo |build/release/cli/|scripts/|tests/\S+\.py|nfsrdma-fuse |nfsrdma-filer |mount(\.nfsrdma-fuse)? |umount |cmake |"
                     r"ctest |clang-\w+ |apt(-get)? |git |systemctl )")


def documents(root=ROOT):
    """The paths of the documents below the root, README.md first."""
    found = [path for pattern in ("docs/*.md", "docs/*/*.md", "tests/*/README.md") for path in glob.glob(os.path.join(root, pattern))]
    return ["README.md", "CONTRIBUTING.md", *sorted(os.path.relpath(path, root) for path in found)]


def code_lines(text):
    """The lines of code blocks, without comments."""
    fenced, commands = False, True
    for line in text.splitlines():
        if line.startswith("```"):
            fenced, commands = not fenced, line[3:].strip() in ("", "sh")
        elif line.strip() and (commands if fenced else line.startswith("    ")):
            yield re.sub(r"\s+# .*", "", line).strip()


def spans(text):
    """Code spans that are commands."""
    prose = "\n".join(line for line in re.sub(r"(?ms)^```.*?^```$", "", text).splitlines() if not line.startswith("    "))
    for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", prose):
        span = " ".join(span.split())
        if PROGRAM.match(span) and " " in span and "…" not in span:
            yield span


def of(document, root=ROOT):
    with open(os.path.join(root, document), encoding="utf-8") as file:
        text = file.read()
    return list(code_lines(text)), list(spans(text))


NOT_RUN = {  # pattern of a whole command: why no test types it, and which test covers it instead
    r"scripts/(demo|test)": ".ci/run types both in a clean clone, scripts/fresh on a new system; system.scripts interrupts them",
    r"scripts/fresh( .*)?": "makes whole systems, an hour each",
    r"scripts/test debug( tsan)?|scripts/test tsan": "the sanitized presets are hours of building",
    r"scripts/fuzz TARGET": "TARGET is one of many; clang is not installed for the tests",
    r"gdb -p PID .*": "PID has no number; system.gdb types it",
    r"scripts/setup --(style|site|pictures)": "installs packages on the machine that tests",
    r"scripts/bench( .*)?": "minutes to hours; docs_test.py holds its words, system.bench and system.ceilings its parts",
    r"cmake --preset release && cmake --build build/release": "what scripts/lib.sh does before every test",
    r"ctest --test-dir build/release -R .*": "a part of every run of the tests",
    r"tests/system/run\.py --build build/release --as user test_\S+": "how every system test is called",
    r"clang-tidy -p build/release FILE\.cc": "a tool that is not installed for the tests",
    r"build/release/cli/nfsrdma-fuse bench --report docs/bench/NAME\.json report\.html": "docs_test.py types it for each run",
    r"nfsrdma-fuse bench DIR \[.*": "a summary of the words; README's line with them is typed",
    r"nfsrdma-fuse bench DIR --json FILE": "FILE has no name yet; system.bench",
    r"tests/interop/(kernel|run)\.py( .*)?": "a guest, or what it boots: ctest -L interop",
    r"ctest (-L (fuzz|interop|property)|-R packaging)": "a part of every run of the tests",
    r"umount -a -t (nfsrdma-fuse|fuse\.rpcrdma)": "ends every mount that there is; system.words.Mounting",
    r"scripts/setup": "installs packages on the machine that tests; scripts/fresh types it on a new one",
    r"sudo apt (install ./build/packages/nfsrdma-fuse_\*\.deb|purge nfsrdma-fuse nfsrdma-filer)": "tests/packaging/life.sh does it on a new system",
    r"scripts/package (deb|rpm)( --nopgo)?": "compiles everything twice, by a profile; scripts/package --try tries what it has built",
    r"sudo cmake --build build/release --target uninstall": "tests/packaging/packaging_test.py uninstalls what it has installed",
    r"systemctl --user (en|dis)able --now nfsrdma-fuse@home": "the tests have no systemd; packaging_test.py verifies the unit",
    r"(nfsrdma-fuse )?(mount --persist( .*)?|umount --forget( DIR)?)": "writes down what is there already; system.persist",
    r"podman .*": "an image takes Debian's archive: tests/packaging/container_test.py types these lines",
    r"mount --bind /srv/shared /srv/shared": "container_test.py makes a shared mount elsewhere",
    r"nfsrdma-fuse stats --format prometheus": "there is no mount where a sentence is typed; system.command",
    r"nfsrdma-fuse top( \S+)?": "wants a terminal; system.live.Top has one",
    r"histogram_quantile\(.*": "a question to Prometheus",
    # Not commands of this project, or only a command's name in a sentence.
    r"git (clone|status)|cmake --install|mount -o( remount)?|umount --force|nfsrdma-fuse (mount|umount|probe|status|stats)|nfsrdma-filer --ccp": "a name, not a line to type",
}
# Documents whose code blocks hold no commands.
NO_COMMANDS = {"docs/user/options.md": "the text of `nfsrdma-fuse mount --help`, which option_docs_test compares"}


def why_not_run(command):
    return next((why for pattern, why in NOT_RUN.items() if re.fullmatch(pattern, command)), None)
