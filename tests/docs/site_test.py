# SPDX-License-Identifier: Apache-2.0
"""The site of scripts/site: every internal link has a target, and no page is wider than a telephone.

usage: site_test.py [Class[.test]...]     Skipped by name where mkdocs is missing, or chromium for the second.
"""

import functools
import html.parser
import http.server
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
WIDTH = 390
BROWSER = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
# Shows each page in a frame of that width, and reports the width of its content.
RULER = """<!DOCTYPE html><body><script>
const pages = PAGES, wide = {};
let left = pages.length;
for (const page of pages) {
  const frame = document.createElement("iframe");
  frame.width = WIDTH; frame.height = 800; frame.src = page;
  frame.onload = () => {
    const root = frame.contentDocument.documentElement;
    wide[page] = Math.max(root.scrollWidth, frame.contentDocument.body.scrollWidth);
    if (--left == 0) document.body.setAttribute("data-wide", JSON.stringify(wide));
  };
  document.body.append(frame);
}
</script></body>"""


class Page(html.parser.HTMLParser):
    def __init__(self, path):
        super().__init__()
        self.links, self.anchors = [], {""}
        with open(path, encoding="utf-8") as file:
            self.feed(file.read())

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name in ("href", "src") and value:
                self.links.append(value)
            if name in ("id", "name") and value:
                self.anchors.add(value)


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


class Site(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.mkdtemp()
        cls.addClassCleanup(shutil.rmtree, cls.directory)
        cls.site = os.path.join(cls.directory, "site")
        subprocess.run([os.path.join(ROOT, "scripts", "site"), cls.site], check=True, stdout=subprocess.DEVNULL)
        cls.pages = sorted(os.path.relpath(os.path.join(folder, name), cls.site) for folder, _, names in os.walk(cls.site)
                           for name in names if name.endswith(".html") and name not in ("404.html", "search.html"))

    def test_every_document_has_its_page(self):
        user = os.path.join(ROOT, "docs", "user")
        wanted = {f"user/{name[:-3]}.html" for name in os.listdir(user) if name.endswith(".md") and name != "index.md"} | {"index.html"}
        wanted |= {name[:-3] + ".html" for name in os.listdir(os.path.join(ROOT, "docs")) if name.endswith(".md")}
        indexed = set()  # by the index of their folder, not by the menu
        for folder in ("dev", "conformance", "adr", "bench"):
            names = [f"{folder}/{name[:-3].replace('README', 'index')}.html" for name in os.listdir(os.path.join(ROOT, "docs", folder))
                     if name.endswith(".md")]
            wanted |= set(names)
            indexed |= {name for name in names if folder != "dev" and not name.endswith("/index.html")}
        self.assertEqual(set(self.pages), wanted)
        menu = Page(os.path.join(self.site, "index.html")).links
        self.assertLessEqual(wanted - indexed - {"index.html"}, set(menu), "the menu has every page")
        for name in indexed:
            folder, page = name.split("/")
            self.assertIn(page, Page(os.path.join(self.site, folder, "index.html")).links, "the index of its folder has every page")

    def test_every_link_within_it_leads_somewhere(self):
        parsed = {page: Page(os.path.join(self.site, page)) for page in self.pages}
        count = 0
        for page, found in parsed.items():
            for link in found.links:
                if re.match(r"[a-z]+:|//", link):
                    continue
                target, _, anchor = link.partition("#")
                path = os.path.normpath(os.path.join(os.path.dirname(page), target)) if target else page
                path = "index.html" if path == "." else path
                self.assertTrue(os.path.exists(os.path.join(self.site, path)), f"{page}: {link}")
                if path in parsed:
                    self.assertIn(anchor, parsed[path].anchors, f"{page}: {link}")
                    count += 1
        self.assertGreater(count, 300)

    @unittest.skipUnless(BROWSER, "chromium is not installed")
    def test_no_page_is_wider_than_a_telephone(self):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=self.site))
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        with open(os.path.join(self.site, "ruler.html"), "w", encoding="utf-8") as file:
            file.write(RULER.replace("PAGES", repr(self.pages)).replace("WIDTH", str(WIDTH)))
        done = subprocess.run([BROWSER, "--headless", "--no-sandbox", "--disable-gpu", "--virtual-time-budget=60000", "--timeout=60000",
                               f"--user-data-dir={self.directory}/profile", "--dump-dom", f"http://127.0.0.1:{server.server_port}/ruler.html"],
                              capture_output=True, text=True, timeout=180)
        told = re.search(r'data-wide="([^"]*)"', done.stdout)
        self.assertTrue(told, done.stderr[-2000:])
        wide = dict(re.findall(r"([\w./-]+)&quot;:(\d+)", told.group(1)))
        self.assertEqual(set(wide), set(self.pages))
        self.assertEqual({page: width for page, width in wide.items() if int(width) > WIDTH}, {})


if __name__ == "__main__":
    if not shutil.which("mkdocs"):
        print("skipped: mkdocs is not installed; scripts/setup --site installs it")
        sys.exit(SKIPPED)
    unittest.main()
