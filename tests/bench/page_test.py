# SPDX-License-Identifier: Apache-2.0
"""The page of a report, and those of docs/bench, draw themselves in a browser: every plot, with a shape for each number, and no error. On
a telephone and on a screen nothing is cut off, and no text is too small to read.

usage: page_test.py BUILDDIR     Skipped where chromium is not installed: the build needs no browser.
"""

import glob
import html.parser
import json
import os
import subprocess
import sys
import tempfile
import unittest

SKIPPED = 77
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests", "docs"))
import browser  # noqa: E402

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


def measured(document, plot):
    """Whether the plot has any data: a run of some parts lists more plots than it has data for."""
    return any(m["metric"] in plot["metrics"] and plot.get("where", {}).items() <= m.get("at", {}).items()
               and m["contender"] in plot.get("contenders", [m["contender"]]) and any(plot["y"] in run for run in m["runs"])
               for m in document["measurements"])


class Page(html.parser.HTMLParser):
    """The page as the browser rendered it: SVGs, their tooltips (one for each drawn number), texts, badges, and the places of the targets'
    dots."""

    def __init__(self, text):
        super().__init__()
        self.drawn, self.plots, self.heads, self.badges, self.dots, self.inside = None, [], [], [], [], []
        self.end_at = None  # where the current text ends, if it is anchored at its end
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        attributes = dict(attributes)
        if tag == "body":
            self.drawn = attributes.get("data-drawn")
        if tag == "b" and "style" in attributes:
            self.dots.append(float(attributes["style"].removeprefix("left:").removesuffix("%")))
        if tag == "svg":
            self.plots.append({"label": attributes["aria-label"], "numbers": [], "texts": [], "ends": [], "bad": []})
        if self.plots and "svg" in self.inside + [tag]:
            self.plots[-1]["bad"] += [value for value in attributes.values() if value and ("NaN" in value or "undefined" in value)]
        if tag == "text":
            self.end_at = float(attributes["x"]) if attributes.get("text-anchor") == "end" else None
        if tag not in ("meta", "br", "hr", "img", "link"):
            self.inside.append(tag)

    def handle_endtag(self, tag):
        while self.inside and self.inside.pop() != tag:
            pass

    def handle_data(self, data):
        if "svg" in self.inside and self.inside[-1] in ("title", "text", "tspan"):
            self.plots[-1]["numbers" if self.inside[-1] == "title" else "texts"].append(data)
            if self.inside[-1] == "text" and self.end_at is not None:
                self.plots[-1]["ends"].append((self.end_at, data))
        elif self.inside[-1:] in (["h1"], ["h2"]):
            self.heads.append(data)
        elif self.inside[-1:] == ["span"] and data in ("met", "MISSED", "undecided"):
            self.badges.append(data)


def written(document, directory):
    """Writes the report's page."""
    run, page = os.path.join(directory, "run.json"), os.path.join(directory, "page.html")
    with open(run, "w") as file:
        json.dump(document, file)
    subprocess.run([os.path.join(BUILD, "cli/nfsrdma-fuse"), "bench", "--report", run, page], check=True, stdout=subprocess.DEVNULL)
    return page


class Drawn(unittest.TestCase):
    def page_of(self, document):
        with tempfile.TemporaryDirectory() as directory:
            page = written(document, directory)
            done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={directory}/profile",
                                   "--host-resolver-rules=MAP * ~NOTFOUND", "--dump-dom", f"file://{page}"],
                                  capture_output=True, text=True, timeout=240)
        self.assertEqual(done.returncode, 0, done.stderr)
        return Page(done.stdout)

    def test_runs_that_are_kept_draw_every_plot(self):
        runs = glob.glob(os.path.join(ROOT, "docs/bench/*.json"))
        self.assertGreaterEqual(len(runs), 4, runs)
        for run in runs:
            with self.subTest(run=run), open(run) as file:
                kept = json.load(file)
                seen = self.page_of(kept)
                self.assertEqual([p["label"] for p in seen.plots], [p["title"] for p in kept["plots"] if measured(kept, p)])
                self.assertEqual(seen.drawn, str(len(seen.plots)))
                self.assertTrue(all(p["numbers"] for p in seen.plots))
                self.assertEqual([p["bad"] for p in seen.plots], [[]] * len(seen.plots))

    def test_every_plot_is_there_with_its_numbers(self):
        seen = self.page_of(document())
        self.assertEqual(seen.drawn, "5", "the script did not reach its end")
        self.assertEqual(seen.heads[0], "<b>A test</b>", "text is text")
        self.assertEqual(seen.heads[1:-1], ["What was to be reached", "bars", "lines", "grid", "map", "cloud", "Machine and settings"])
        self.assertEqual([p["label"] for p in seen.plots], ["bars", "lines", "grid", "map", "cloud"])
        self.assertEqual([len(p["numbers"]) for p in seen.plots], [3, 6, 12, 6, 6])
        self.assertEqual([p["bad"] for p in seen.plots], [[]] * 5)
        bars, lines, _, map_of, cloud = (p["texts"] for p in seen.plots)
        self.assertIn("102 MiB/s", bars)
        self.assertTrue({"512 B", "4 KiB", "1 MiB", "Read size", "Throughput, MiB/s (more is better)", "RDMA", "TCP"} <= set(lines), lines)
        self.assertIn("no clear difference", map_of)
        self.assertTrue({"512 B", "1 MiB", "Throughput, MiB/s (more is better)", "RDMA", "TCP"} <= set(cloud), cloud)
        self.assertEqual((cloud.count("512 B"), cloud.count("1 MiB"), cloud.count("4 KiB")), (1, 1, 0), "there is no room for more beside each other")
        self.assertEqual(set(seen.badges), {"MISSED"})
        dot, = seen.dots
        self.assertTrue(45 < dot < 50, f"a little short of what was wanted, which is at 50: {dot}")

    def test_names_of_bars_are_not_cut_off(self):
        long = document()
        for part in (long["contenders"], long["measurements"]):
            for entry in part:
                key = "name" if "name" in entry else "contender"
                entry[key] = entry[key].replace("relay", "relay, with a name of " + "so " * 5 + "many words")
        bars = self.page_of(long).plots[0]
        (room, name), = [end for end in bars["ends"] if "relay" in end[1]]
        self.assertGreater(room, 6.5 * len(name), "of 12.5 pixels' type")


# Of a page, with everything unfolded: its width; the letter height of each text, in pixels of the window; and the
# texts of a drawing that exceed its edges.
MEASURE = """(() => {
  document.querySelectorAll("details").forEach(d => d.open = true);
  const smallest = {size: 1e9}, cut = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode());) {
    const parent = node.parentElement, box = parent.getBoundingClientRect();
    if (!node.data.trim() || !box.width || parent.closest("script, title")) continue;
    const svg = parent.closest("svg"), scale = svg ? svg.getScreenCTM().a : 1;
    const size = parseFloat(getComputedStyle(parent).fontSize) * scale;
    if (size < smallest.size) Object.assign(smallest, {size, text: node.data});
    if (!svg) continue;
    const edge = svg.getBoundingClientRect();
    if (box.left < edge.left - 1 || box.right > edge.right + 1) cut.push(svg.getAttribute("aria-label") + ": " + node.data);
  }
  return {width: document.documentElement.scrollWidth, smallest, cut, head: document.getElementById("top").innerText};
})()"""


class Legible(unittest.TestCase):
    def test_on_a_telephone_and_on_a_screen(self):
        pages = {"the sample": document()}
        for run in glob.glob(os.path.join(ROOT, "docs/bench/*.json")):
            with open(run) as file:
                pages[os.path.basename(run)] = json.load(file)
        with browser.Browser() as window:
            for name, run in pages.items():
                with tempfile.TemporaryDirectory() as directory:
                    page = written(run, directory)
                    for width in (browser.TELEPHONE, 768, 1280):
                        with self.subTest(page=name, width=width):
                            window.open(page, width)
                            seen = window.evaluate(MEASURE)
                            self.assertLessEqual(seen["width"], width, "it is scrolled to the side")
                            self.assertGreaterEqual(seen["smallest"]["size"], 12, seen["smallest"]["text"])
                            self.assertEqual(seen["cut"], [])

    def test_the_head_says_where_and_when_and_what(self):
        run = document()
        run["conditions"] = [["host", "filer7"], ["processor", "2 × a fast one"], ["kernel", "Linux 6.12.3"], ["program", "nfsrdma-fuse 9.8.7"],
                             ["libfuse", "3.17.1"]]
        with browser.Browser() as window, tempfile.TemporaryDirectory() as directory:
            window.open(written(run, directory), browser.TELEPHONE)
            head = window.evaluate(MEASURE)["head"]
        for text in ("2026-11-22 15:00:00 UTC", "filer7", "2 × a fast one", "Linux 6.12.3", "nfsrdma-fuse 9.8.7", "3.17.1"):
            self.assertIn(text, head)
        self.assertRegex(head, r"server\s+not recorded")

    def test_it_is_drawn_anew_when_the_telephone_is_turned(self):
        with browser.Browser() as window, tempfile.TemporaryDirectory() as directory:
            window.open(written(document(), directory), browser.TELEPHONE)
            before = window.evaluate("document.querySelector('svg').clientWidth")
            window.call("Emulation.setDeviceMetricsOverride", width=844, height=browser.TELEPHONE, deviceScaleFactor=1, mobile=True)
            after = window.evaluate("new Promise(done => setTimeout(() => done(document.querySelector('svg').clientWidth), 300))")
            self.assertLess(before, browser.TELEPHONE)
            self.assertGreater(after, browser.TELEPHONE)
            self.assertEqual(window.evaluate("document.querySelectorAll('svg').length"), 5)


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    BROWSER = browser.PROGRAM
    if not BROWSER:
        print("skipped: there is no chromium to draw the page with")
        sys.exit(SKIPPED)
    unittest.main()
