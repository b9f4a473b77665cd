# SPDX-License-Identifier: Apache-2.0
"""The image of packaging/container: built by podman, and started as docs/user/containers.md says, by root and by an ordinary user.

usage: container_test.py BUILDDIR     Needs root, or sudo without a password. It runs in its own world, with an ordinary user that this
machine does not have; afterwards no container and no image is left.

Types each line with podman of the document, with this test's filer in place of `filer`, and with additions for a world without access to
Debian's registry: debootstrap makes the base image, and the package has the programs of BUILDDIR.
"""

import os
import re
import resource
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import install_notes

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED = 77
DOCUMENT = "docs/user/containers.md"
NEEDED = {"podman": "podman", "crun": "crun", "slirp4netns": "slirp4netns", "newuidmap": "uidmap", "dpkg-shlibdeps": "dpkg-dev",
          "debootstrap": "debootstrap"}
USER = 4321  # of the world only
# podman would raise these limits, which needs a capability that root may not have here.
LIMITS = [f"--ulimit={name}={hard}:{hard}" for name, which in (("nofile", resource.RLIMIT_NOFILE), ("nproc", resource.RLIMIT_NPROC))
          for hard in resource.getrlimit(which)[1:]]
OUT_OF_REACH = re.compile(r"^.*(Could not resolve|Temporary failure resolving|Unable to connect|Could not connect|Failed to fetch).*$", re.M)


def run(*argv, check=True, stdin=subprocess.DEVNULL, **more):
    done = subprocess.run(argv, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, **more)
    if check and done.returncode != 0:
        raise AssertionError(f"{shlex.join(argv)}: status {done.returncode}:\n{done.stdout[-4000:]}")
    return done.stdout if check else (done.returncode, done.stdout)


def typed():
    """The document's podman lines, split into words."""
    with open(os.path.join(ROOT, DOCUMENT), encoding="utf-8") as file:
        return [shlex.split(line, comments=True) for line in file if line.startswith("podman ")]


# --- The world

def private_world():
    """Runs this test again in its own mount and process namespaces. Returns the exit status."""
    missing = sorted(package for program, package in NEEDED.items() if not shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/sbin"))
    if missing:
        return skipped(f"missing: {' '.join(missing)}; scripts/setup --containers installs them")
    if not os.access("/dev/fuse", os.W_OK):
        return skipped("/dev/fuse is not there, or not for this user")
    sudo = []
    if os.getuid() != 0:
        if subprocess.call(["sudo", "-n", "true"], stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) != 0:
            return skipped("needs root, or sudo that does not ask")
        sudo = ["sudo", "-n"]
    keep = [f"{name}={os.environ[name]}" for name in ("XDG_CACHE_HOME", "http_proxy", "https_proxy") if name in os.environ]
    # Packages of a build are for the system that built it.
    with open("/etc/os-release", encoding="utf-8") as file:
        release = re.search(r"^VERSION_CODENAME=(\w+)", file.read(), re.M)
    if not release:
        return skipped("this is no Debian system, of which the image could have a package")
    with tempfile.TemporaryDirectory(prefix="nfsrdma-container.", dir="/var/tmp") as logs:
        base = subprocess.run(["bash", "-c", '. scripts/lib.sh; . scripts/systems.sh; logs=$1; begin_systems >&2; base "$2" >&2; '
                               'echo "$cache/$2.tar"', "base", logs, release[1]], cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    if base.returncode != 0:
        return skipped("debootstrap makes no base here, see above")
    # In a directory that is removed with the world: the files of images belong to users who exist only there.
    folder = tempfile.mkdtemp(prefix="nfsrdma-container.", dir="/var/tmp")
    try:
        return subprocess.call([*sudo, "env", *keep, "unshare", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc", "--propagation", "private",
                                sys.executable, os.path.abspath(__file__), BUILD, "--inside", folder, base.stdout.strip(), *sys.argv[1:]])
    finally:
        subprocess.call([*sudo, "rm", "-rf", "--one-file-system", folder])


def skipped(why):
    print(f"skipped: {why}", file=sys.stderr)
    return SKIPPED


def settle(folder):
    """Makes the world's own cgroup tree and accounts."""
    os.chmod(folder, 0o755)
    if run("stat", "-f", "-c", "%T", "/sys/fs/cgroup").strip() != "cgroup2fs":  # crun does not support a mixture of both versions
        run("mount", "-t", "cgroup2", "none", "/sys/fs/cgroup")
    home = os.path.join(folder, "home")
    for name, line in (("passwd", f"tester:x:{USER}:{USER}::{home}:/bin/sh"), ("group", f"tester:x:{USER}:"),
                       ("subuid", "tester:500000:65536"), ("subgid", "tester:500000:65536")):
        copy, there = os.path.join(folder, name), f"/etc/{name}"
        with open(there, encoding="utf-8") as old, open(copy, "w", encoding="utf-8") as file:
            file.write(old.read() + line + "\n")
        os.chmod(copy, 0o644)
        run("mount", "--bind", copy, there)
    for path in (home, os.path.join(home, "run")):
        os.mkdir(path, 0o700)
        os.chown(path, USER, USER)
    # podman reads it; the machine's own file may name other networks and directories.
    with open(os.path.join(folder, "containers.conf"), "w", encoding="utf-8") as file:
        file.write('[containers]\ncgroups = "disabled"\n[engine]\ncgroup_manager = "cgroupfs"\nruntime = "crun"\n')
    return home


def storage(path, folder):
    """Writes the place of the images: podman's fallback would copy a whole image for each container."""
    with open(path, "w", encoding="utf-8") as file:
        file.write(f'[storage]\ndriver = "overlay"\ngraphroot = "{folder}/images"\nrunroot = "{folder}/run"\n')
    os.chmod(path, 0o644)
    return path


def make_package(folder):
    """Makes the client's package of the build's programs, as `cmake --install` installs them."""
    package, source, out = (os.path.join(folder, name) for name in ("package", "source", "packages"))
    for path in (os.path.join(package, "DEBIAN"), os.path.join(source, "debian"), out):
        os.makedirs(path)
    with install_notes.kept(BUILD):
        run("cmake", "--install", BUILD, "--prefix", "/usr", "--strip", env={**os.environ, "DESTDIR": package})
    shutil.rmtree(os.path.join(package, "usr/share/doc"))
    os.remove(os.path.join(package, "usr/bin/nfsrdma-filer"))
    shutil.copy(os.path.join(ROOT, "packaging/debian/control"), os.path.join(source, "debian"))
    with open(os.path.join(ROOT, "packaging/debian/control"), encoding="utf-8") as file:
        depends = re.search(r"^Package: nfsrdma-fuse\n(?:.*\n)*?Depends: (.*)$", file.read(), re.M)[1]
    libraries = run("dpkg-shlibdeps", "-O", "--warnings=0", os.path.join(package, "usr/bin/nfsrdma-fuse"), cwd=source)
    depends = depends.replace("${misc:Depends}, ", "").replace("${shlibs:Depends}", re.search(r"^shlibs:Depends=(.*)$", libraries, re.M)[1])
    with open(os.path.join(package, "DEBIAN/control"), "w", encoding="utf-8") as file:
        file.write(f"Package: nfsrdma-fuse\nVersion: 0-0\nArchitecture: {run('dpkg', '--print-architecture').strip()}\n"
                   f"Maintainer: tests <tests@nfsrdma-fuse.invalid>\nDepends: {depends}\nDescription: programs of a build\n")
    run("dpkg-deb", "-Znone", "--root-owner-group", "--build", package, out)
    return out


class Filer:
    def __init__(self, folder):
        self.export = os.path.join(folder, "export")
        os.mkdir(self.export)
        os.chmod(self.export, 0o777)
        says, log_file = os.path.join(folder, "says"), os.path.join(folder, "filer.log")
        with open(says, "w", encoding="utf-8") as out, open(log_file, "w", encoding="utf-8") as log:
            self.process = subprocess.Popen([os.path.join(BUILD, "cli/nfsrdma-filer"), "--export", f"/export={self.export}", "--listen", "127.0.0.1:0",
                                             "--rdma", "127.0.0.1:0", "--grace", "0", "--insecure",
                                             "--state-dir", os.path.join(folder, "state")], stdout=out, stderr=log)
        wait_until(lambda: re.search("^listening.*\n", text_of(says)), lambda: f"the filer listens: {text_of(log_file)}")
        words = text_of(says).split()
        self.ports = {"tcp": words[2].rsplit(":", 1)[1], "rdma": words[4].rsplit(":", 1)[1]}


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def wait_until(condition, what, seconds=60):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.1)
    return found


# --- The tests

class Containers:
    """Runs `podman` as one identity of the machine."""

    @classmethod
    def setUpClass(cls):
        for _ in range(3):
            with open(BASE, "rb") as base:  # in root's cache
                status, said = cls.podman("import", "--quiet", "-", "debian-base", stdin=base)
            if "cleaning up after pivot" not in said:  # an occasional error of containers/storage 1.43
                break
        if status != 0:
            raise unittest.SkipTest(f"podman: {said.strip()[-500:]}")
        status, said = cls.podman("run", *LIMITS, "--rm", "--network=host", "localhost/debian-base", "true")
        if status != 0:
            raise unittest.SkipTest(f"podman runs no container here: {said.strip()[-500:]}")
        build, = (words for words in typed() if words[1] == "build")
        # Packages come from the archives that apt uses here.
        status, said = cls.podman(*build[1:2], *cls.BUILD_AS, "--network=host", "--volume=/etc/apt:/etc/apt:ro", "--volume=/etc/ssl/certs:/etc/ssl/certs:ro",
                                  "--build-arg=BASE=localhost/debian-base",
                                  *(word.replace("packages=build/packages", f"packages={PACKAGES}") for word in build[2:]), cwd=ROOT)
        if status != 0 and (why := OUT_OF_REACH.search(said)):
            raise unittest.SkipTest(why[0])
        assert status == 0, said[-4000:]

    @classmethod
    def podman(cls, *words, **more):
        return run(*cls.AS, "podman", "--log-level=error", *words, check=False, **{"cwd": "/", **more})

    def start(self, *words, at="127.0.0.1", proto="tcp", more=("--network=host",)):
        """Runs a line of the document with the test's server."""
        self.assertEqual(words[:2], ("podman", "run"))
        options = f"proto={proto},port={FILER.ports[proto]}"
        for i, word in enumerate(words):
            if word.startswith("OPTIONS="):
                options += "," + word.removeprefix("OPTIONS=")
                words = (*words[:i - 1], *words[i + 1:])
        words = (word.replace("filer:/export", f"{at}:/export") for word in words[2:])
        return self.podman("run", *LIMITS, *more, f"--env=OPTIONS={options}", *words)

    def line(self, *having):
        """The document's line that contains these words."""
        found, = (words for words in typed() if set(having) <= set(words))
        return found

    def command(self, script, *more, **others):
        """The document's line that runs a command, with another command."""
        words = self.line("run", "--")
        words[words.index("nfsrdma-fuse"):words.index("nfsrdma-fuse")] = more
        return self.start(*words[:words.index("--")], "--", "sh", "-c", script, **others)

    def test_a_command_with_the_mount(self):
        with open(os.path.join(FILER.export, "seen"), "w", encoding="utf-8"):
            pass
        status, said = self.start(*self.line("run", "--"))
        self.assertEqual(status, 0, said)
        self.assertIn("\nseen\n", said)

    def test_the_commands_status_is_the_containers(self):
        status, said = self.command("exit 7")
        self.assertEqual(status, 7, said)
        self.assertIn("unmounted", said)

    def test_it_is_nobody_special_who_mounts_and_writes(self):
        for proto in ("tcp", "rdma"):
            name = f"{proto}.{type(self).__name__}"
            status, said = self.command(f"id -u; grep ' /mnt/nfs fuse.rpcrdma .*user_id=1000' /proc/mounts && echo content >/mnt/nfs/{name}", proto=proto)
            self.assertEqual(status, 0, said)
            self.assertIn("\n1000\n", said)
            self.assertIn(f"proto={proto}", said)
            self.assertEqual(text_of(os.path.join(FILER.export, name)), "content\n")

    def test_another_user_of_the_container(self):
        for user in ("root", "1234:1234"):
            status, said = self.command("id -u; grep ' /mnt/nfs fuse.rpcrdma' /proc/mounts", f"--user={user}")
            self.assertEqual(status, 0, said)

    def test_detached_looked_at_and_stopped(self):
        run_line, exec_line, stop = self.line("run", "files"), self.line("exec"), self.line("stop")
        name = stop[-1]
        with open(os.path.join(FILER.export, "seen"), "w", encoding="utf-8"):
            pass
        status, said = self.start(*run_line)
        self.assertEqual(status, 0, said)
        self.addCleanup(self.podman, "rm", "--force", name)
        wait_until(lambda: "mounted" in self.podman("logs", name)[1], "it mounts")
        status, said = self.podman(*exec_line[1:])
        self.assertEqual(status, 0, said)
        self.assertIn("seen\n", said)
        begin = time.monotonic()
        status, said = self.podman(*stop[1:])
        self.assertEqual(status, 0, said)
        status, log = self.podman("logs", name)
        self.assertIn("signal 15: unmounting", log)
        self.assertTrue(log.rstrip().endswith("unmounted"), log)
        self.assertEqual(self.podman("inspect", "--format={{.State.ExitCode}}", name), (0, "0\n"), f"within {time.monotonic() - begin:.1f} s")

    def test_a_signal_goes_to_the_command_too(self):
        words = self.line("run", "files")
        name = self.line("stop")[-1]
        status, said = self.start(*words, "--", "sh", "-c", "trap 'echo told; exit 5' TERM; while :; do sleep 0.1; done")
        self.assertEqual(status, 0, said)
        self.addCleanup(self.podman, "rm", "--force", name)
        wait_until(lambda: "mounted" in self.podman("logs", name)[1], "it mounts")
        time.sleep(1)
        self.assertEqual(self.podman("stop", name)[0], 0)
        log = self.podman("logs", name)[1]
        self.assertIn("told", log)
        self.assertIn("unmounted", log)
        self.assertEqual(self.podman("inspect", "--format={{.State.ExitCode}}", name), (0, "5\n"))

    def refused(self, without=(), more=(), words=("filer:/export",)):
        line = self.line("run", "--")
        line = [word for word in line[:line.index("nfsrdma-fuse")] if word not in without]
        status, said = self.start(*line, *more, "nfsrdma-fuse", *words)
        self.assertNotEqual(status, 0, said)
        return said

    def test_what_is_missing_is_named(self):
        self.assertIn("a container needs '--device /dev/fuse --cap-add SYS_ADMIN'", self.refused(without=("--cap-add", "SYS_ADMIN")))
        self.assertIn("a container needs '--device /dev/fuse'", self.refused(without=("--device", "/dev/fuse")))
        self.assertIn("started without no-new-privileges", self.refused(more=("--security-opt=no-new-privileges",)))
        self.assertIn("name what to mount", self.refused(words=()))
        self.assertIn("unknown argument ls", self.refused(words=("filer:/export", "/mnt/nfs", "ls")))
        self.assertIn("unknown argument -o", self.refused(words=("-o", "ro")))


class Root(Containers, unittest.TestCase):
    AS = ()
    # Without it crun loads a device filter, and for that raises a limit, which root may not be allowed to.
    BUILD_AS = ("--isolation=chroot",)

    def test_a_mount_that_the_host_sees(self):
        shared = os.path.join(FOLDER, "shared")
        os.mkdir(shared)
        run("mount", "-t", "tmpfs", "shared", shared)
        self.addCleanup(run, "umount", shared)
        run("mount", "--make-shared", shared)
        os.mkdir(os.path.join(shared, "nfs"))
        words = self.line("run", "shared")
        name = words[words.index("--name") + 1]
        status, said = self.start(*(word.replace("/srv/shared", shared) for word in words))
        self.assertEqual(status, 0, said)
        self.addCleanup(self.podman, "rm", "--force", name)
        wait_until(lambda: f" {shared}/nfs fuse.rpcrdma " in text_of("/proc/mounts"), "the mount is seen")
        with open(os.path.join(shared, "nfs/from-the-host"), "w", encoding="utf-8"):
            pass
        self.assertTrue(os.path.exists(os.path.join(FILER.export, "from-the-host")))
        self.assertEqual(self.podman("stop", name)[0], 0)
        self.assertNotIn(f" {shared}/nfs ", text_of("/proc/mounts"))


class User(Containers, unittest.TestCase):
    BUILD_AS = ()

    @classmethod
    def setUpClass(cls):
        settings = storage(os.path.join(HOME, "storage.conf"), HOME)
        cls.AS = ("setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups", "env", "-i", f"PATH={os.environ['PATH']}:/usr/sbin:/sbin",
                  f"HOME={HOME}", "USER=tester", f"XDG_RUNTIME_DIR={HOME}/run", f"CONTAINERS_CONF={FOLDER}/containers.conf",
                  f"CONTAINERS_STORAGE_CONF={settings}",
                  *(f"{name}={os.environ[name]}" for name in ("http_proxy", "https_proxy") if name in os.environ))
        super().setUpClass()

    def test_a_network_of_its_own(self):
        """podman's default network, in which 10.0.2.2 is the host."""
        status, said = self.command("touch /mnt/nfs/from-far", at="10.0.2.2", more=("--network=slirp4netns:allow_host_loopback=true",))
        self.assertEqual(status, 0, said)
        self.assertTrue(os.path.exists(os.path.join(FILER.export, "from-far")))


if __name__ == "__main__":
    BUILD = os.path.abspath(sys.argv.pop(1))
    if sys.argv[1:2] != ["--inside"]:
        sys.exit(private_world())
    FOLDER, BASE = sys.argv[2:4]
    del sys.argv[1:4]
    HOME = settle(FOLDER)
    # Root's containers and images are in the world, too.
    os.environ.update({"CONTAINERS_CONF": f"{FOLDER}/containers.conf", "XDG_RUNTIME_DIR": FOLDER})
    Root.AS = ("env", f"CONTAINERS_STORAGE_CONF={storage(os.path.join(FOLDER, 'storage.conf'), FOLDER)}")
    PACKAGES = make_package(FOLDER)
    FILER = Filer(FOLDER)
    try:
        unittest.main()
    finally:
        FILER.process.terminate()
        FILER.process.wait(60)
