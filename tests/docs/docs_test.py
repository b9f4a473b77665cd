# SPDX-License-Identifier: Apache-2.0
"""Checks the documents against the tree: promises name existing tests, and README's files and installation are right.

usage: docs_test.py BUILDDIR     tests/system/test_documents.py types their commands.
"""

import functools
import glob
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest

import commands
import messages

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "packaging"))
import install_notes  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def text_of(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def code_lines(document):
    return commands.of(document)[0]


class Commands(unittest.TestCase):
    """Each command is typed by a test, or commands.py gives the reason why not."""

    def test_reasons_are_of_commands_that_there_are(self):
        there = [command for document in commands.documents() for part in commands.of(document) for command in part]
        self.assertGreater(len(there), 30, "the documents were not understood")
        for pattern in commands.NOT_RUN:
            self.assertTrue(any(re.fullmatch(pattern, command) for command in there), pattern)
        for document in commands.NO_COMMANDS:
            self.assertTrue(commands.of(document)[0], document)

    def test_words_of_the_benchmark(self):
        """Commands that no test types, because they would take hours, use only options that the script and bench.py accept."""
        taken = set(re.findall(r'add_argument\("(--[\w-]+)"', text_of("tests", "bench", "bench.py"))) | {"--lab", "--profiled"}
        for document in commands.documents():
            for command in sum(map(list, commands.of(document)), []):
                if command.startswith("scripts/bench"):
                    self.assertLessEqual(set(re.findall(r"--[\w-]+", command)), taken, f"{document}: {command}")

    def test_targets_of_the_tests(self):
        labels = "".join(text_of("tests", part, "CMakeLists.txt") for part in ("fuzz", "interop", "property"))
        for label in re.findall(r"`ctest -L (\w+)`", "".join(text_of(document) for document in commands.documents())):
            self.assertRegex(labels, rf"LABELS \"?{label}\b")


class Conformance(unittest.TestCase):
    """docs/conformance: the last column of each table of rules names tests that there are and that are run, or says why there is none."""

    REASON = re.compile(r"\b(none|open): \S|\bsee [SVX]\d")

    @staticmethod
    def rules():
        """(page, rule, text of the last column) for each row."""
        for path in sorted(glob.glob(os.path.join(ROOT, "docs", "conformance", "*.md"))):
            page, held = os.path.basename(path), False
            for line in text_of(path).splitlines():
                cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
                if not line.startswith("|"):
                    held = False
                elif cells[-1] in ("test", "tests", "held by"):
                    held = True
                elif held and not set(cells[0]) <= set("-: "):
                    yield page, cells[0], cells[-1]

    def test_every_rule_has_a_test_that_exists_or_a_reason(self):
        rules, wrong = list(self.rules()), []
        self.assertGreater(len(rules), 300, "the pages were not understood")
        for page, rule, held in rules:
            named = [name for name in re.findall(r"`([^`]+)`", held) if re.fullmatch(r"\w+(\.\w+)*", name) and not name.endswith((".h", ".cc", ".py"))]
            tests = [name for name in named if test_exists(name)]
            wrong += [f"{page}: there is no {name}: {rule}" for name in named if name not in tests and re.match(r"[A-Z]\w*\.|[a-z]\w*\.([A-Z]|test_)|\w+_test$", name)]
            if all(name.endswith("_test") for name in tests) and not self.REASON.search(held):
                wrong.append(f"{page}: neither a test (a whole program says nothing) nor a reason: {rule}")
        self.assertEqual(wrong, [])

    def test_every_named_test_is_run(self):
        """ctest runs system tests by module or class: its list contains each module that a page names."""
        listed = re.findall(r"^nfsrdma_system_test\((\w+)(?:\.(\w+))?", text_of("tests", "system", "CMakeLists.txt"), re.M)
        for _, rule, held in self.rules():
            for name in re.findall(r"`([a-z]\w*(?:\.\w+)*)`", held):
                module, _, rest = name.partition(".")
                if not os.path.exists(system_module(module)):
                    continue
                classes = {c for m, c in listed if m == module}
                self.assertTrue(classes, f"{name} is not run: {rule}")
                if "" not in classes and rest[:1].isupper():
                    self.assertIn(rest.split(".")[0], classes, f"{name} is not run: {rule}")

    def test_the_index_has_each_page(self):
        there = {name for name in os.listdir(os.path.join(ROOT, "docs", "conformance")) if name != "README.md"}
        self.assertEqual(set(re.findall(r"\]\(([\w-]+\.md)\)", text_of("docs", "conformance", "README.md"))), there)


def system_module(name):
    return os.path.join(ROOT, "tests", "system", f"test_{name}.py")


@functools.lru_cache(None)
def unit_tests():
    """{"Suite.Test", "Suite"} of all GoogleTest programs, {"FuzzCorpus.target"}, and the programs."""
    sources = subprocess.run(["grep", "-rhoE", r"^(TEST|TEST_F|TEST_P)\(\w+, *\w+\)", os.path.join(ROOT, "tests", "unit")],
                             capture_output=True, text=True).stdout
    tests = {tuple(re.findall(r"\w+", line)[1:]) for line in sources.splitlines()}
    programs = subprocess.run(["grep", "-rhoE", r"nfsrdma_test\(\w+", os.path.join(ROOT, "tests")], capture_output=True, text=True).stdout
    return ({f"{suite}.{test}" for suite, test in tests} | {suite for suite, _ in tests} |
            {"FuzzCorpus." + name for name in re.findall(r"nfsrdma_fuzz_target\((\w+) ", text_of("tests", "fuzz", "CMakeLists.txt"))} |
            set(re.findall(r"\((\w+)", programs)))


def test_exists(name):
    """A GoogleTest test, suite or program, or a module, class or test of tests/system."""
    if name in unit_tests():
        return True
    module, _, rest = name.partition(".")
    if not os.path.exists(system_module(module)):
        return False
    source = text_of(system_module(module))
    return all(re.search(rf"^ *(class|def) {re.escape(part)}\b", source, re.M) for part in rest.split(".") if part)


class Benchmarks(unittest.TestCase):
    def test_each_run_gives_its_page_by_the_command_that_is_named(self):
        line, = [line for line in code_lines("docs/bench/README.md") if "--report" in line]
        runs = glob.glob(os.path.join(ROOT, "docs", "bench", "*.json"))
        self.assertGreaterEqual(len(runs), 4, runs)
        for run in runs:
            with self.subTest(run=os.path.basename(run)), tempfile.TemporaryDirectory() as directory:
                name = os.path.basename(run).removesuffix(".json")
                argv = line.replace("build/release", BUILD).replace("NAME", name).replace("report.html", os.path.join(directory, "report.html")).split()
                text = subprocess.run(argv, cwd=ROOT, check=True, capture_output=True, text=True).stdout
                with open(run) as file, open(os.path.join(directory, "report.html")) as page:
                    kept, page = json.load(file), page.read()
                embedded = json.loads(re.search(r'id="document">(.*?)</script>', page, re.S).group(1))
                self.assertEqual(by_what(embedded["measurements"]), by_what(kept["measurements"]))
                for target in kept["targets"]:
                    self.assertIn(target["what"] + ":", text)
                self.assertIsNone(re.search(r"(?:src|href)=\"?(?!#)\w+:", page.replace(embedded["title"], "")), "it needs nothing else")

    def test_the_command_that_makes_a_run(self):
        """The README's command for a whole run leaves no part out, and tests/bench/bench.py accepts its options."""
        line, = [line for line in code_lines("docs/bench/README.md") if line.startswith("scripts/bench")]
        taken = re.findall(r'add_argument\("(--[\w-]+)"', text_of("tests", "bench", "bench.py"))
        self.assertLess(set(re.findall(r"--\S+", line)), set(taken))
        self.assertNotIn("--only", line)


def by_what(measurements):
    """{(metric, contender, point): runs in order}; does not depend on the order of the measurements or runs."""
    return {(m["metric"], m["contender"], tuple(sorted(m.get("at", {}).items()))): sorted(m["runs"], key=lambda run: run["round"]) for m in measurements}


class Messages(unittest.TestCase):
    """docs/user/troubleshooting.md has an entry for each message of the programs, and for no other (messages.py)."""

    def test_each_message_has_its_entry(self):
        there, page = messages.of_source(), messages.of_page(text_of("docs", "user", "troubleshooting.md"))
        self.assertGreater(len(there), 200, "the sources were not understood")
        missing = [f"{place}: - `{message}`" for message, place in there.items() if message not in page]
        self.assertEqual(missing, [], "docs/user/troubleshooting.md says of each what causes it and what to do next")
        twice = {message for message in page if page.count(message) > 1}
        self.assertEqual(twice, set())

    def test_each_entry_is_a_message(self):
        texts = messages.texts()
        self.assertEqual([message for message in messages.of_page(text_of("docs", "user", "troubleshooting.md")) if message not in texts], [])


class UserPages(unittest.TestCase):
    def test_each_metric_is_explained(self):
        source = text_of("cli", "stats", "stats_prometheus.cc")
        there = set(re.findall(r'(?:metric|single|histogram)\(\s*"([a-z_]+)"', source)) | set(re.findall(r'\{\s*"(rdma_[a-z_]+)",\s*"', source))
        there |= {"nfs_operations_" + name for name in re.findall(r'\{\s*"([a-z_]+_total)", "', source) if not name.startswith("rdma_")}
        self.assertGreater(len(there), 45, "the source was not understood")
        page = re.findall(r"(?m)^\| `([a-z_]+)` \|", text_of("docs", "user", "metrics.md"))
        self.assertEqual(sorted(page), sorted(there))

    def test_every_picture_is_small_described_and_used(self):
        """And no page names a picture that does not exist."""
        for part in ("user", "dev"):
            folder = os.path.join(ROOT, "docs", part)
            shown = {}
            for page in glob.glob(os.path.join(folder, "*.md")):
                for words, image in re.findall(r"!\[([^]]*)\]\((img/[^)]+)\)", text_of(page)):
                    shown.setdefault(image, []).append((os.path.basename(page), words))
            self.assertEqual(set(shown), {"img/" + name for name in os.listdir(os.path.join(folder, "img"))})
            for image, uses in shown.items():
                self.assertLess(os.path.getsize(os.path.join(folder, image)), 150 << 10, image)
                for page, words in uses:
                    self.assertGreater(len(words.split()), 3, f"{page}: what does {image} show?")

    def test_plots_are_what_the_runs_say_and_diagrams_what_is_described(self):
        for script in ("plots", "diagrams"):
            subprocess.run([os.path.join(ROOT, "scripts", script), "--check"], check=True)

    def test_every_page_is_in_the_index(self):
        named = set(re.findall(r"\]\(([a-z-]+\.md)\)", text_of("docs", "user", "index.md")))
        self.assertEqual(named | {"index.md"}, {name for name in os.listdir(os.path.join(ROOT, "docs", "user")) if name.endswith(".md")})


class Decisions(unittest.TestCase):
    """docs/adr: numbered without a gap, short, of one form, and in the index."""

    def test_each_has_its_form_and_is_in_the_index(self):
        folder = os.path.join(ROOT, "docs", "adr")
        names = sorted(name for name in os.listdir(folder) if name != "README.md")
        self.assertEqual([int(name[:4]) for name in names], list(range(1, len(names) + 1)))
        index = re.findall(r"(?m)^- \[(.*)\]\((.*)\)$", text_of("docs", "adr", "README.md"))
        self.assertEqual(sorted(name for _, name in index), names)
        for title, name in index:
            text = text_of("docs", "adr", name)
            self.assertEqual(text.splitlines()[0], f"# {title}", name)
            self.assertEqual(re.findall(r"(?m)^## (.*)", text), ["Context", "Decision", "Measured", "Consequence"], name)
            self.assertRegex(text, r"(?m)^Status: \w", name)
            self.assertLessEqual(len(text.splitlines()), 35, f"{name}: one decision, one page")


class Readme(unittest.TestCase):
    def test_what_it_names_is_there(self):
        text = text_of("README.md")
        names = set(re.findall(r"`((?:[a-z]+/)+[A-Za-z_.-]*)`", text)) | set(re.findall(r"\b((?:scripts|docs|tests)/[A-Za-z_.-]+\w)", text))
        self.assertGreater(len(names), 8, names)
        for name in names - {"build/release/cli/", "build/profiled/cli/"}:
            self.assertTrue(os.path.exists(os.path.join(ROOT, name)), name)

    def test_presets(self):
        line = re.search(r"Presets: (.*?)\.\n", text_of("README.md"), re.S).group(1)
        presets = {p["name"] for p in json.loads(text_of("CMakePresets.json"))["configurePresets"] if not p.get("hidden")}
        self.assertEqual(set(re.findall(r"`(\w+)`", line)), presets)

    def test_install_line(self):
        line, = [line for line in code_lines("README.md") if "cmake --install" in line]
        argv = line.removeprefix("sudo ").replace("build/release", BUILD).split()
        with install_notes.kept(BUILD), tempfile.TemporaryDirectory() as root:
            subprocess.run(argv, check=True, env={**os.environ, "DESTDIR": root}, stdout=subprocess.DEVNULL)
            tool = os.path.join(root, "usr/bin/nfsrdma-fuse")
            version = subprocess.run([tool, "--version"], check=True, capture_output=True, text=True).stdout
            self.assertRegex(version, r"^nfsrdma-fuse \d+\.\d+\.\d+\n$")
            # mount(8) looks in /sbin, which is a link to /usr/sbin.
            for helper in ("mount.nfsrdma-fuse", "mount.fuse.rpcrdma", "umount.fuse.rpcrdma"):
                path = os.path.join(root, "usr/sbin", helper)
                self.assertEqual(os.path.realpath(path), os.path.realpath(tool))
                self.assertIn(f"Usage: {helper} ", subprocess.run([path, "-h"], check=True, capture_output=True, text=True).stdout)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
