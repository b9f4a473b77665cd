# SPDX-License-Identifier: Apache-2.0
"""Checks the files of packaging/ against the code and with the tools that will read them: versions, units, rules, profiles, installation.

usage: packaging_test.py BUILDDIR     A missing tool is a skip that names it; scripts/setup --packages installs them.
"""

import contextlib
import glob
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import unittest

import install_notes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PACKAGING = os.path.join(ROOT, "packaging")
PATH = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
UNITS = ("systemd/nfsrdma-fuse@.service.in", "systemd/nfsrdma-filer.service.in", "systemd/user/nfsrdma-fuse@.service.in",
         "examples/mnt-files.mount", "examples/mnt-files.automount")


def text_of(*path):
    with open(os.path.join(ROOT, *path), encoding="utf-8") as file:
        return file.read()


def tool(test, name):
    found = shutil.which(name, path=PATH)
    if not found:
        test.skipTest(f"{name} is not installed; scripts/setup --packages installs it")
    return found


def run(*argv, **more):
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    return done.returncode, done.stdout


class Version(unittest.TestCase):
    """project() of CMakeLists.txt has the version; every other file must name the same one."""

    def setUp(self):
        self.version = re.search(r"^project\(nfsrdma-fuse VERSION ([\d.]+)", text_of("CMakeLists.txt"), re.M).group(1)

    def test_changelog(self):
        self.assertEqual(re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", text_of("CHANGELOG.md"), re.M).group(1), self.version)

    def test_debian(self):
        version, = re.search(r"\Anfsrdma-fuse \((\S+)\) ", text_of("packaging/debian/changelog")).groups()
        self.assertEqual(re.fullmatch(r"(.+)-\d+", version).group(1), self.version)

    def test_rpm(self):
        self.assertEqual(re.search(r"^Version: *(\S+)$", text_of("packaging/rpm/nfsrdma-fuse.spec"), re.M).group(1), self.version)

    def test_supported_versions(self):
        first = re.search(r"^\| (\S+) \| yes \|$", text_of("SECURITY.md"), re.M).group(1)
        self.assertEqual(first, ".".join(self.version.split(".")[:2]))

    def test_programs(self):
        for program in ("nfsrdma-fuse", "nfsrdma-filer"):
            self.assertEqual(run(os.path.join(BUILD, "cli", program), "--version"), (0, f"{program} {self.version}\n"))

    def test_named_nowhere_else(self):
        """No literal in the programs' code names the version."""
        for path in glob.glob(os.path.join(ROOT, "cli", "**", "*"), recursive=True):
            if path.endswith((".cc", ".h", ".in")):
                self.assertNotIn(f'"{self.version}"', text_of(path), path)


class Copyright(unittest.TestCase):
    def paragraphs(self):
        for paragraph in re.split(r"\n\n+", text_of("packaging/debian/copyright").strip()):
            yield dict(re.findall(r"^(\S+?): *(.*(?:\n .*)*)", paragraph, re.M))

    def test_form(self):
        header, *others = self.paragraphs()
        self.assertEqual(header["Format"], "https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/")
        for paragraph in others:
            self.assertIn("License", paragraph)
            self.assertTrue("Files" not in paragraph or "Copyright" in paragraph, paragraph)
        named = {paragraph["License"].split("\n")[0] for paragraph in others}
        told = {paragraph["License"].split("\n")[0] for paragraph in others if "\n" in paragraph["License"]}
        self.assertEqual(named, told, "each licence has its text once")

    def test_everything_is_covered(self):
        self.assertIn("*", [paragraph.get("Files") for paragraph in self.paragraphs()])


class Units(unittest.TestCase):
    """The units as systemd reads them, with the programs of this build."""

    def setUp(self):
        self.directory = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.directory)
        for folder in ("system", "user"):
            os.mkdir(os.path.join(self.directory, folder))

    def put(self, name):
        folder = "user" if "/user/" in name else "system"
        path = os.path.join(self.directory, folder, os.path.basename(name).removesuffix(".in"))
        path = path.replace("@.service", "@home.service")
        with open(path, "w", encoding="utf-8") as file:
            file.write(text_of("packaging", name).replace("@BINDIR@", os.path.join(BUILD, "cli")))
        return path

    def test_verify(self):
        program = tool(self, "systemd-analyze")
        for name in UNITS:
            with self.subTest(unit=name):
                mode = ["--user"] if "/user/" in name else []
                status, said = run(program, "verify", "--man=no", "--recursive-errors=no", *mode, self.put(name),
                                   env={**os.environ, "XDG_RUNTIME_DIR": self.directory, "HOME": self.directory})
                self.assertEqual((status, said), (0, ""))

    def test_verify_finds_mistakes(self):
        """Shows that the test above would see a mistake."""
        program = tool(self, "systemd-analyze")
        path = self.put(UNITS[0])
        with open(path, "a", encoding="utf-8") as file:
            file.write("[Service]\nRestrat=always\n")
        self.assertIn("Restrat", run(program, "verify", "--man=no", "--recursive-errors=no", path)[1])

    def test_filer_is_confined(self):
        program = tool(self, "systemd-analyze")
        status, said = run(program, "security", "--offline=true", "--threshold=20", self.put("systemd/nfsrdma-filer.service.in"))
        self.assertEqual(status, 0, said)

    def test_options_are_ones_that_the_programs_take(self):
        taken = run(os.path.join(BUILD, "cli", "nfsrdma-filer"), "--help")[1]
        words = re.findall(r"--[\w-]+", re.search(r"^ExecStart=.*$", text_of("packaging", UNITS[1]), re.M).group(0) +
                           re.search(r"^OPTIONS=.*$", text_of("packaging/nfsrdma-filer.conf"), re.M).group(0))
        self.assertGreaterEqual(len(words), 4)
        for word in words:
            self.assertRegex(taken, rf"(?<![\w-]){word}\b")


class Ready(unittest.TestCase):
    def test_filer_tells_the_service_manager(self):
        with tempfile.TemporaryDirectory() as directory, socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as listener:
            path = os.path.join(directory, "notify")
            listener.bind(path)
            listener.settimeout(60)
            with subprocess.Popen([os.path.join(BUILD, "cli", "nfsrdma-filer"), "--export", "memory:1M", "--listen", "127.0.0.1:0"],
                                  env={**os.environ, "NOTIFY_SOCKET": path}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as filer:
                try:
                    self.assertEqual(listener.recv(100), b"READY=1")
                finally:
                    filer.terminate()
                self.assertEqual(listener.recv(100), b"STOPPING=1")
                self.assertEqual(filer.wait(60), 0)


class Monitoring(unittest.TestCase):
    def metrics(self):
        """{name} of all metrics that `stats --format=prometheus` can print."""
        source = text_of("cli", "stats", "stats_prometheus.cc")
        names = set(re.findall(r'(?:single|x\.metric)\(\s*"(\w+)"', source)) | set(re.findall(r'^ *\{"(\w+)",\s*"(?:counter|gauge)"', source, re.M))
        names |= {f"nfs_operations_{name}" for name in re.findall(r'^ *\{"(\w+_total)", "', source, re.M)}
        names |= {f"{name}_{part}" for name in re.findall(r'x\.histogram\(\s*"(\w+)"', source) for part in ("bucket", "sum", "count")}
        self.assertGreater(len(names), 40, "the source was not understood")
        return {f"nfsrdma_fuse_{name}" for name in names}

    def expressions(self):
        yield from re.findall(r"^ *expr: *(?:>-\n((?:  +(?!labels|for|annotations).*\n)+)|(.*))", text_of("packaging/monitoring/nfsrdma-fuse.rules.yml"), re.M)
        for panel in json.loads(text_of("packaging/monitoring/nfsrdma-fuse.dashboard.json"))["panels"]:
            for target in panel["targets"]:
                yield target["expr"], ""

    def test_each_query_uses_metrics_that_there_are(self):
        metrics, expressions = self.metrics(), ["".join(parts) for parts in self.expressions()]
        self.assertGreater(len(expressions), 20)
        for expression in expressions:
            used = re.findall(r"nfsrdma_fuse_\w+", expression)
            self.assertTrue(used, expression)
            self.assertLessEqual(set(used), metrics, expression)

    def test_labels(self):
        """The program prints every label that queries group by or compare with."""
        source = text_of("cli", "stats", "stats_prometheus.cc")
        for parts in self.expressions():
            expression = "".join(parts)
            labels = re.findall(r"by \(([\w, ]+)\)", expression) + re.findall(r"(\w+)=~?\"", expression)
            for label in set(re.findall(r"\w+", " ".join(labels))) - {"instance"}:  # Prometheus adds this label
                self.assertRegex(source, rf'"{label}"|\b{label}=', expression)

    def test_rules(self):
        promtool = tool(self, "promtool")
        status, said = run(promtool, "check", "rules", os.path.join(PACKAGING, "monitoring", "nfsrdma-fuse.rules.yml"))
        self.assertEqual(status, 0, said)

    def test_queries_of_the_dashboard(self):
        """Converted to rules, which promtool can check."""
        promtool = tool(self, "promtool")
        panels = json.loads(text_of("packaging/monitoring/nfsrdma-fuse.dashboard.json"))["panels"]
        rules = [{"record": "a:b", "expr": target["expr"].replace("$__rate_interval", "1m"), "labels": {"n": f"{panel['id']}{target['refId']}"}}
                 for panel in panels for target in panel["targets"]]
        with tempfile.NamedTemporaryFile("w", suffix=".yml") as file:
            json.dump({"groups": [{"name": "dashboard", "rules": rules}]}, file)  # JSON is YAML
            file.flush()
            status, said = run(promtool, "check", "rules", "--lint=none", file.name)
        self.assertEqual(status, 0, said)


class Desktop(unittest.TestCase):
    def test_entry(self):
        status, said = run(tool(self, "desktop-file-validate"), os.path.join(PACKAGING, "desktop", "nfsrdma-fuse.desktop"))
        self.assertEqual((status, said), (0, ""))

    def test_what_the_entry_names_is_there(self):
        entry = text_of("packaging/desktop/nfsrdma-fuse.desktop")
        for key, suffix in (("Exec", ""), ("Icon", ".svg")):
            name = re.search(rf"^{key}=(\S+)$", entry, re.M).group(1)
            self.assertTrue(os.path.exists(os.path.join(PACKAGING, "desktop", name + suffix)), name)

    def test_script(self):
        script = os.path.join(PACKAGING, "desktop", "nfsrdma-fuse-connect")
        self.assertTrue(os.access(script, os.X_OK))
        self.assertEqual(run("sh", "-n", script), (0, ""))


class AppArmor(unittest.TestCase):
    def test_profile(self):
        parser = tool(self, "apparmor_parser")
        if not os.path.isdir("/etc/apparmor.d/abstractions"):
            self.skipTest("apparmor's abstractions are not installed; scripts/setup --packages installs them")
        status, said = run(parser, "--skip-kernel-load", "--skip-cache", "--quiet", os.path.join(PACKAGING, "apparmor", "nfsrdma-fuse"))
        self.assertEqual(status, 0, said)

    def test_unit_names_the_profile(self):
        name = re.search(r"^profile (\S+) ", text_of("packaging/apparmor/nfsrdma-fuse"), re.M).group(1)
        self.assertIn(f"\nAppArmorProfile=-{name}\n", text_of("packaging", UNITS[0]))


def tree(directory):
    """{path: checksum of the contents, or link target} of all files, and the directories with the project's name."""
    found = {}
    for folder, folders, names in os.walk(directory):
        for name in folders + names:
            path = os.path.join(folder, name)
            below = os.path.relpath(path, directory)
            if os.path.islink(path):
                found[below] = os.readlink(path)
            elif os.path.isfile(path):
                with open(path, "rb") as file:
                    found[below] = hashlib.sha256(file.read()).hexdigest()
            elif "nfsrdma" in name:
                found[below] = "directory"
    return found


class Install(unittest.TestCase):
    """`cmake --install` and the target `uninstall`."""

    def setUp(self):
        self.root = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.root)
        stack = contextlib.ExitStack()
        stack.enter_context(install_notes.kept(BUILD))
        self.addCleanup(stack.close)

    def cmake(self, *words):
        status, said = run("cmake", *words, env={**os.environ, "DESTDIR": self.root})
        self.assertEqual(status, 0, said)
        return said

    def uninstall(self):
        return self.cmake(f"-DMANIFEST={BUILD}/install_manifest.txt", f"-DPLACED={BUILD}/install_placed.txt", "-P",
                          os.path.join(PACKAGING, "uninstall.cmake"))

    def test_files(self):
        self.cmake("--install", BUILD, "--prefix", "/usr")
        there = tree(self.root)
        for path in ("usr/bin/nfsrdma-fuse", "usr/bin/nfsrdma-filer", "usr/sbin/mount.nfsrdma-fuse", "etc/nfsrdma-fuse.conf",
                     "etc/nfsrdma-filer.conf", "etc/apparmor.d/nfsrdma-fuse", "usr/lib/systemd/system/nfsrdma-fuse@.service",
                     "usr/lib/systemd/system/nfsrdma-filer.service", "usr/lib/systemd/user/nfsrdma-fuse@.service",
                     "usr/lib/tmpfiles.d/nfsrdma-fuse.conf", "usr/lib/sysusers.d/nfsrdma-filer.conf",
                     "usr/share/nfsrdma-fuse/nfsrdma-fuse.rules.yml", "usr/share/nfsrdma-fuse/nfsrdma-fuse.dashboard.json",
                     "usr/share/doc/nfsrdma-fuse/LICENSE", "usr/share/doc/nfsrdma-fuse/SECURITY.md",
                     "usr/share/doc/nfsrdma-fuse/examples/mnt-files.mount", "usr/share/pkgconfig/nfsrdma-fuse.pc", "usr/share/man/man1/nfsrdma-fuse.1",
                     "usr/share/man/man8/umount.fuse.rpcrdma.8", "usr/share/bash-completion/completions/nfsrdma-fuse"):
            self.assertIn(path, there)
        with open(os.path.join(self.root, "usr/lib/systemd/system/nfsrdma-fuse@.service"), encoding="utf-8") as file:
            self.assertIn("\nExecStart=/usr/bin/nfsrdma-fuse mount ", file.read())
        # Every placeholder of the templates was replaced.
        self.assertEqual(run("grep", "-rIlE", "@[A-Z_]+@", os.path.join(self.root, "usr/lib"), os.path.join(self.root, "usr/share"))[1], "")

    def test_a_prefix_of_its_own_holds_everything(self):
        self.cmake("--install", BUILD, "--prefix", "/opt/nfs")
        self.assertEqual([path for path in tree(self.root) if not path.startswith("opt/nfs/")], [])
        with open(os.path.join(self.root, "opt/nfs/lib/systemd/user/nfsrdma-fuse@.service"), encoding="utf-8") as file:
            self.assertIn("\nExecStart=/opt/nfs/bin/nfsrdma-fuse mount ", file.read())

    def test_uninstall_removes_what_was_installed(self):
        theirs = os.path.join(self.root, "usr/share/doc/other/README")
        os.makedirs(os.path.dirname(theirs))
        with open(theirs, "w", encoding="utf-8") as file:
            file.write("of another program")
        before = tree(self.root)
        self.cmake("--install", BUILD, "--prefix", "/usr")
        self.assertGreater(len(tree(self.root)), len(before) + 20)
        self.uninstall()
        self.assertEqual(tree(self.root), before)

    def test_what_an_administrator_wrote_stays(self):
        self.cmake("--install", BUILD, "--prefix", "/usr")
        conf = os.path.join(self.root, "etc/nfsrdma-fuse.conf")
        with open(conf, "a", encoding="utf-8") as file:
            file.write("proto = tcp\n")
        with open(os.path.join(self.root, "usr/share/doc/nfsrdma-fuse/notes"), "w", encoding="utf-8"):
            pass
        theirs = tree(self.root)
        self.cmake("--install", BUILD, "--prefix", "/usr")
        self.assertEqual(tree(self.root), theirs)
        self.uninstall()
        kept = ("etc/nfsrdma-fuse.conf", "usr/share/doc/nfsrdma-fuse", "usr/share/doc/nfsrdma-fuse/notes")
        self.assertEqual(tree(self.root), {path: theirs[path] for path in kept})

    def test_pkg_config(self):
        program = tool(self, "pkg-config")
        self.cmake("--install", BUILD, "--prefix", "/usr")
        env = {**os.environ, "PKG_CONFIG_PATH": os.path.join(self.root, "usr/share/pkgconfig")}
        ask = lambda *words: run(program, *words, "nfsrdma-fuse", env=env)
        version = re.search(r"^project\(nfsrdma-fuse VERSION ([\d.]+)", text_of("CMakeLists.txt"), re.M).group(1)
        self.assertEqual(ask("--validate"), (0, ""))
        self.assertEqual(ask("--modversion"), (0, version + "\n"))
        self.assertEqual(ask("--variable=program"), (0, "/usr/bin/nfsrdma-fuse\n"))
        self.assertEqual(ask("--variable=mount_helper"), (0, "/usr/sbin/mount.nfsrdma-fuse\n"))
        self.assertIn(f'places.run + "{ask("--variable=control_directory")[1].strip().removeprefix("/run")}"',
                      text_of("cli", "control", "control_path.cc").replace("directories.push_back(", ""))


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    unittest.main()
