# SPDX-License-Identifier: Apache-2.0
"""The targets of the documents' links exist: pages, headings, files, and the functions that docs/dev names."""

import functools
import os
import re
import tempfile
import unittest

import commands

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SOURCES = ("xdr", "transport", "client", "fuse", "filer", "cli", "tests", "scripts", "packaging", "cmake", "docs")
# What a document may name in backticks although the tree does not have it, and why.
NOT_HERE = {
    r"build/.*|.*\bNAME\b.*|.*\bFILE\b.*": "made by the command beside it",
    r"(bench|lab|report|run|costs)\.(json|html|txt)|.*page\.html": "written by the benchmark",
    r"infiniband/.*|.*fuse_lowlevel\.h": "a header of a library",
    r"bench_operations\.json": "written by the benchmark",
}


@functools.lru_cache(None)
def tree():
    """(paths of all files and folders below the root, their base names)"""
    paths = set()
    for top in SOURCES:
        for folder, folders, names in os.walk(os.path.join(ROOT, top)):
            folders[:] = set(folders) - {"__pycache__"}
            relative = os.path.relpath(folder, ROOT)
            paths |= {relative, *(os.path.join(relative, name) for name in [*names, *folders])}
            folders[:] = set(folders) - {"corpus"}  # thousands of inputs
    paths |= set(os.listdir(ROOT))
    return paths, {os.path.basename(path) for path in paths}


@functools.lru_cache(None)
def identifiers():
    """{word: files that have it} of all sources."""
    found = {}
    for path in tree()[0]:
        if path.endswith((".h", ".cc", ".py", ".def", ".cmake", ".txt")) or path.startswith("scripts/") and os.path.isfile(os.path.join(ROOT, path)):
            with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
                for word in set(re.findall(r"\w+", file.read())):
                    found.setdefault(word, set()).add(path)
    return found


def documents():
    return [*commands.documents(), "CHANGELOG.md", "SECURITY.md", "packaging/README.md"]


def text_of(document, root=ROOT):
    with open(os.path.join(root, document), encoding="utf-8") as file:
        return re.sub(r"(?ms)^```.*?^```$", "", file.read())


def anchors(text):
    """The anchors of a page's headings, as GitHub and mkdocs make them."""
    found = set()
    for heading in re.findall(r"(?m)^#+ +(.*?) *$", text):
        heading = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").lower()
        found.add(re.sub(r"[ ]", "-", re.sub(r"[^\w\- ]", "", heading)))
    return found | set(re.findall(r'<a (?:id|name)="([^"]+)"', text))


def broken_links(document, root=ROOT):
    """Links of the page that lead nowhere."""
    text = text_of(document, root)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"\w+:", target):
            continue
        path, _, anchor = target.partition("#")
        page = os.path.normpath(os.path.join(os.path.dirname(document), path)) if path else document
        if not os.path.exists(os.path.join(root, page)):
            yield f"{document}: {target}: there is no {page}"
        elif anchor and page.endswith(".md") and anchor not in anchors(text_of(page, root)):
            yield f"{document}: {target}: there is no such heading"


def spans(document):
    return [" ".join(span.split()) for span in re.findall(r"(?<!`)`([^`]+)`(?!`)", text_of(document))]


def missing_files(document):
    """Files and folders that the page names and the tree does not have."""
    paths, names = tree()
    for span in spans(document):
        if any(re.fullmatch(pattern, span) for pattern in NOT_HERE):
            continue
        if re.fullmatch(rf"(?:{'|'.join(SOURCES)})(?:/[\w.@{{}}-]+)*/?", span) and "/" in span:
            if span.rstrip("/") not in paths and f"docs/user/{span}" not in paths:
                yield f"{document}: there is no {span}"
        elif re.fullmatch(r"[\w./-]*\w\.(?:h|cc|py|md|cmake)", span) and not span.startswith("/"):
            if os.path.basename(span) not in names or "/" in span and not any(path.endswith("/" + span) for path in paths):
                yield f"{document}: there is no {span}"


def missing_names(document):
    """Functions, classes and members that the page names and no source contains."""
    words = identifiers()
    for span in spans(document):
        if not re.fullmatch(r"~?[A-Za-z_]\w*(?:(?:::|\.)~?[A-Za-z_]\w*)*(?:\(\))?", span) or span.endswith((".h", ".cc", ".py", ".md")):
            continue
        parts = re.findall(r"\w+", span)
        if not set.intersection(*(words.get(part, set()) for part in parts)):
            yield f"{document}: no source has {span}"


class Links(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertGreater(len(documents()), 20)
        self.assertEqual([], [link for document in documents() for link in broken_links(document)])

    def test_a_broken_link_is_seen(self):
        with tempfile.TemporaryDirectory() as root:
            with open(os.path.join(root, "a.md"), "w") as page:
                page.write("# A `word`, two\n[here](#a-word-two) [there](#b) [page](b.md) [web](https://example.org/)\n```\n[code](c.md)\n```\n")
            self.assertEqual(len(list(broken_links("a.md", root))), 2)

    def test_files_in_backticks_are_there(self):
        self.assertEqual([], [name for document in documents() for name in missing_files(document)])

    def test_pages_that_sources_name_are_there(self):
        missing = []
        for path in tree()[0]:
            if path.endswith((".h", ".cc", ".py", ".md", ".txt", ".cmake")) or path.startswith("scripts/") and os.path.isfile(os.path.join(ROOT, path)):
                with open(os.path.join(ROOT, path), encoding="utf-8", errors="replace") as file:
                    missing += [f"{path}: there is no {page}" for page in set(re.findall(r"\bdocs/[\w/-]+\.md\b", file.read()))
                                if not os.path.exists(os.path.join(ROOT, page))]
        self.assertEqual([], missing)

    def test_members_that_the_gdb_commands_read_are_in_the_headers(self):
        with open(os.path.join(ROOT, "scripts", "gdb", "nfsrdma.py"), encoding="utf-8") as file:
            text = file.read()
        flags = re.search(r"^FLAGS = (.*)$", text, re.M).group(1)
        members = set(re.findall(r'\["([a-z]\w*)"\]', text)) | {part for path in re.findall(r'\("([\w.]+)", ', flags) for part in path.split(".")}
        self.assertGreater(len(members), 10, members)
        headers = {word for word, paths in identifiers().items() if any(path.endswith(".h") for path in paths)}
        self.assertEqual([], sorted(members - headers))

    def test_what_developers_pages_name_is_in_the_sources(self):
        pages = [document for document in documents() if document.startswith("docs/dev/")]
        self.assertEqual([], [name for document in pages for name in missing_names(document)])


if __name__ == "__main__":
    unittest.main()
