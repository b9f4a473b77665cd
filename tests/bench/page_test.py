"""The page of a report draws itself in a browser: every plot, with a shape for each of its numbers, and no error.

usage: page_test.py BUILDDIR     Skipped where chromium is not installed: the build needs no browser.
"""

import html.parser
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
CONTENDERS = ("RDMA", "TCP", "relay")


def measurement(metric, contender, number, at=None):
    runs = [{"round": i, "mib_per_s": 100 + number + i, "cpu_percent": 50 + i} for i in range(5)]
    return {"metric": metric, "contender": contender, "runs": runs, **({"at": at} if at else {})}


def document():
    grid = [measurement("grid", who, n, {"block": block, "ahead": ahead})
            for n, who in enumerate(CONTENDERS[:2]) for block in (512, 4096, 1 << 20) for ahead in (0, 4)]
    plot = {"metrics": ["grid"], "y": "mib_per_s", "compare": [{"of": "RDMA", "over": "TCP"}]}
    over = {"x": "block", "along": "ahead"}
    return {
        "format": "nfsrdma-bench 1", "title": "<b>A test</b>", "date": "2026-11-22T15:00:00Z", "notes": ["a note"],
        "contenders": [{"name": who, "role": "ceiling" if who == "relay" else "ours"} for who in CONTENDERS],
        "measurements": [measurement("read", who, n) for n, who in enumerate(CONTENDERS)] + grid,
        "plots": [{**plot, "kind": "bars", "title": "bars", "metrics": ["read"]},
                  {**plot, "kind": "lines", "title": "lines", "x": "block", "where": {"ahead": 0}},
                  {**plot, "kind": "grid", "title": "grid", **over}, {**plot, "kind": "map", "title": "map", **over},
                  {**plot, "kind": "cloud", "title": "cloud", "x": "mib_per_s", "y": "cpu_percent", "along": "block", "where": {"ahead": 4}}],
        "targets": [{"what": "RDMA / TCP", "key": "mib_per_s", "of": {"metric": "read", "contender": "RDMA"},
                     "over": [{"metric": "read", "contender": "TCP"}], "at_least": 1}],
    }


class Page(html.parser.HTMLParser):
    """What the browser made of it: SVGs, their tooltips (one for each number that is drawn), texts, badges."""

    def __init__(self, text):
        super().__init__()
        self.drawn, self.plots, self.heads, self.badges, self.inside = None, [], [], [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "body":
            self.drawn = attributes.get("data-drawn")
        if tag == "svg":
            self.plots.append({"label": attributes["aria-label"], "numbers": [], "texts": [], "bad": []})
        if self.plots and "svg" in self.inside + [tag]:
            self.plots[-1]["bad"] += [value for value in attributes.values() if value and ("NaN" in value or "undefined" in value)]
        if tag not in ("meta", "br", "hr", "img", "link"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "svg" in self.inside and self.inside[-1] in ("title", "text", "tspan"):
            self.plots[-1]["numbers" if self.inside[-1] == "title" else "texts"].append(data)
        elif self.inside[-1:] in (["h1"], ["h2"]):
            self.heads.append(data)
        elif self.inside[-1:] == ["span"] and data in ("met", "MISSED", "undecided"):
            self.badges.append(data)


class Drawn(unittest.TestCase):
    def test_every_plot_is_there_with_its_numbers(self):
        with tempfile.TemporaryDirectory() as directory:
            run, page = os.path.join(directory, "run.json"), os.path.join(directory, "page.html")
            with open(run, "w") as file:
                json.dump(document(), file)
            subprocess.run([os.path.join(BUILD, "cli/nfsrdma-fuse"), "bench", "--report", run, page], check=True, stdout=subprocess.DEVNULL)
            done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory}/profile",
                                   "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", f"file://{page}"],
                                  capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        seen = Page(done.stdout)
        self.assertEqual(seen.drawn, "5", "the script did not reach its end")
        self.assertEqual(seen.heads[0], "<b>A test</b>", "text is text")
        self.assertEqual(seen.heads[1:-1], ["What was to be reached", "bars", "lines", "grid", "map", "cloud", "Machine and settings"])
        self.assertEqual([p["label"] for p in seen.plots], ["bars", "lines", "grid", "map", "cloud"])
        self.assertEqual([len(p["numbers"]) for p in seen.plots], [3, 6, 12, 6, 6])
        self.assertEqual([p["bad"] for p in seen.plots], [[]] * 5)
        bars, lines, _, map_of, _ = (p["texts"] for p in seen.plots)
        self.assertIn("102 MiB/s", bars)
        self.assertTrue({"512 B", "4 KiB", "1 MiB", "Read size", "Throughput, MiB/s (more is better)", "RDMA", "TCP"} <= set(lines), lines)
        self.assertIn("the spread swallows the difference", map_of)
        self.assertEqual(set(seen.badges), {"MISSED"})


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if not BROWSER:
        print("skipped: there is no chromium to draw the page with")
        sys.exit(SKIPPED)
    unittest.main()
