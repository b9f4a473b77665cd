# SPDX-License-Identifier: Apache-2.0
"""A mount and sandboxes: programs confined by bubblewrap and Flatpak, and an image on the mount that is mounted itself, like an AppImage."""

import os
import shutil
import subprocess
import unittest

from harness.case import SystemCase, needs_mount, needs_user, steward
from harness.filer import Filer
from harness.mount import TOOL

LOOK = 'cat "$1/there" && echo new >"$1/made" && cat "$1/made" && stat -c %u:%g "$1/there" "$1/made"'


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, f"{', '.join(missing)} missing; scripts/setup installs it")


@needs_user()
@needs_mount()
class SandboxCase(SystemCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="sandboxes").start()
        with open(os.path.join(cls.server.path(), "there"), "w") as file:
            file.write("old\n")

    def setUp(self):
        super().setUp()
        self.me = f"{os.getuid()}:{os.getgid()}"

    def mount_words(self, place):
        """The mount command as a person would type it in a sandbox."""
        return f'"{TOOL}" mount -o port={self.server.port},proto=tcp {self.server.source()} "{place}"'


@needs("bwrap")
class Bubblewrap(SandboxCase):
    SYSTEM = ("--ro-bind", "/", "/", "--proc", "/proc", "--dev", "/dev")

    def setUp(self):
        super().setUp()
        if subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True).returncode != 0:
            self.skipTest("bubblewrap may make no user namespace here")

    def sandbox(self, *options, script, place="", status=0):
        return self.run_program("bwrap", *self.SYSTEM, *options, "sh", "-c", script, "sh", place, status=status)

    def test_reading_and_writing(self):
        mounted = self.mount()
        for options in ((), ("--unshare-all",)):
            with self.subTest(options=options):
                said = self.sandbox(*options, "--bind", mounted.path, "/srv", script=LOOK, place="/srv")
                self.assertEqual(said.split(), ["old", "new", self.me, self.me])
        with open(os.path.join(self.server.path(), "made")) as file:
            self.assertEqual(file.read(), "new\n")

    def test_a_mount_that_may_only_be_read(self):
        mounted = self.mount()
        said = self.sandbox("--ro-bind", mounted.path, "/srv", script='cat "$1/there"; ! echo x >"$1/not made" 2>/dev/null', place="/srv")
        self.assertEqual(said, "old\n")
        self.assertFalse(os.path.exists(os.path.join(self.server.path(), "not made")))

    def test_who_is_root_inside_has_roots_number(self):
        mounted = self.mount()
        said = self.sandbox("--unshare-user", "--uid", "0", "--gid", "0", "--bind", mounted.path, "/srv", script=LOOK, place="/srv")
        self.assertEqual(said.split(), ["old", "new", "0:0", "0:0"])
        self.assertEqual(os.stat(os.path.join(self.server.path(), "made")).st_uid, os.getuid())

    def test_what_is_mounted_later_is_seen_where_mounts_are_shared(self):
        """Mount propagation is shared, as systemd sets it."""
        steward.run(["mount", "--make-rshared", "/"])
        self.addCleanup(steward.run, ["mount", "--make-rprivate", "/"])
        place, ready = self.local("later"), os.path.join(self.local("ready"), "ready")
        wait = 'echo >"$2"; while [ ! -e "$1/there" ]; do sleep 0.1; done; cat "$1/there"'
        inside = self.start_program("bwrap", "--dev-bind", "/", "/", "sh", "-c", wait, "sh", place, ready, stdout=subprocess.PIPE)
        self.wait_until(lambda: os.path.exists(ready), "the sandbox runs")
        self.mount(path=place)
        self.assertEqual(inside.communicate(timeout=60)[0], "old\n")

    def test_mounting_inside_as_its_root(self):
        home = self.local("inside")
        script = self.mount_words(home) + f' && ls "$1" && echo new >"$1/by root" && "{TOOL}" umount "$1" && echo gone'
        said = self.sandbox("--unshare-user", "--uid", "0", "--gid", "0", "--cap-add", "CAP_SYS_ADMIN", "--dev-bind", "/dev/fuse", "/dev/fuse",
                            "--tmpfs", "/tmp", script=script, place=home)
        self.assertIn("there", said)
        self.assertTrue(said.endswith("gone\n"), said)
        self.assertEqual(os.stat(os.path.join(self.server.path(), "by root")).st_uid, os.getuid())

    def refused(self, *argv):
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout, done.stderr.count("\n")), (2, "", 1), done.stderr)
        return done.stderr

    def test_mounting_inside_as_a_user_names_the_cause(self):
        script = self.mount_words(self.local("refused"))
        said = self.refused("bwrap", "--dev-bind", "/", "/", "sh", "-c", script)
        self.assertIn("no_new_privs", said)
        self.assertIn("for a sandbox (bubblewrap, Flatpak) mount outside of it", said)
        said = self.refused("bwrap", *self.SYSTEM, "sh", "-c", script)
        self.assertIn("/dev/fuse: No such file or directory", said)

    def test_a_user_namespace_without_root_names_the_cause(self):
        said = self.refused("unshare", "--user", "sh", "-c", self.mount_words(self.local("refused")))
        self.assertIn("the machine's root is not in this user namespace", said)


@needs("flatpak", "busybox", "dbus-daemon")
class Flatpak(SandboxCase):
    """An application on a runtime of busybox. Both are made here: nothing is downloaded."""

    MAKE = r"""set -e
mkdir -p runtime/usr/bin runtime/files runtime/var app/files/bin
cp "$(command -v busybox)" runtime/usr/bin/busybox
for name in sh cat ls stat; do ln -s busybox runtime/usr/bin/$name; done
arch=$(flatpak --default-arch)
printf '[Runtime]\nname=org.example.Platform\nruntime=org.example.Platform/%s/1\nsdk=org.example.Platform/%s/1\n' "$arch" "$arch" >runtime/metadata
flatpak build-export --runtime repository runtime 1
flatpak --user remote-add --no-gpg-verify here repository
flatpak --user install -y --noninteractive here org.example.Platform//1
rm -r app
flatpak build-init app org.example.App org.example.Platform org.example.Platform 1
mkdir -p app/files/bin
printf '#!/bin/sh\nexec sh -c "$@"\n' >app/files/bin/run
chmod +x app/files/bin/run
flatpak build-finish --command=run app
flatpak build-export repository app 1
flatpak --user install -y --noninteractive here org.example.App//1
"""

    def setUp(self):
        super().setUp()
        if subprocess.run(["bwrap", "--ro-bind", "/", "/", "true"], capture_output=True).returncode != 0:
            self.skipTest("bubblewrap may make no user namespace here")
        work = self.local("flatpak")
        bus = "unix:path=" + os.path.join(work, "bus")
        # Flatpak's helpers end with the bus and with the world.
        self.start_program("dbus-daemon", "--session", "--nofork", "--nopidfile", f"--address={bus}", stderr=subprocess.DEVNULL)
        self.wait_until(lambda: os.path.exists(bus.partition("=")[2]), "the bus listens")
        self.environment = {**os.environ, "FLATPAK_USER_DIR": os.path.join(work, "installed"), "XDG_RUNTIME_DIR": work,
                            "DBUS_SESSION_BUS_ADDRESS": bus, "DBUS_SYSTEM_BUS_ADDRESS": bus}
        self.run_program("sh", "-c", self.MAKE, cwd=work, env=self.environment)

    def run_app(self, *permissions, script, place, status=0):
        return self.run_program("flatpak", "run", *permissions, "org.example.App//1", script, "sh", place, env=self.environment, status=status)

    def test_an_application_sees_what_it_is_permitted(self):
        mounted = self.mount()
        none = self.run_app(script='ls "$1" 2>&1 || true', place=mounted.path)
        self.assertIn("No such file or directory", none)
        for permission in (f"--filesystem={mounted.path}", "--filesystem=home", "--filesystem=host"):
            with self.subTest(permission=permission):
                self.assertEqual(self.run_app(permission, script=LOOK, place=mounted.path).split(), ["old", "new", self.me, self.me])
        said = self.run_app(f"--filesystem={mounted.path}:ro", script='cat "$1/there"; ! echo x 2>/dev/null >"$1/not made"', place=mounted.path)
        self.assertEqual(said, "old\n")
        self.assertFalse(os.path.exists(os.path.join(self.server.path(), "not made")))

    def test_mounting_inside_names_the_cause(self):
        """The program runs with the host's libraries, because the runtime has none."""
        loader = os.path.realpath(next(line.split()[0] for line in self.run_program("ldd", TOOL).splitlines() if "ld-linux" in line))
        libraries = ":".join("/run/host" + place for place in ("/lib/" + os.path.basename(os.path.dirname(loader)),
                                                                "/usr/lib/" + os.path.basename(os.path.dirname(loader))))
        program = os.path.join(self.local("program"), "nfsrdma-fuse")
        shutil.copy(TOOL, program)
        script = f'/run/host{loader} --library-path {libraries} {program} mount {self.server.source()} "$1"'
        done = subprocess.run(["flatpak", "run", "--filesystem=host", "--device=all", "org.example.App//1", script, "sh", self.local("refused")],
                              env=self.environment, capture_output=True, text=True, timeout=60)
        self.assertEqual((done.returncode, done.stdout), (2, ""), done.stderr)
        self.assertRegex(done.stderr, r"^nfsrdma-fuse: [^\n]*no_new_privs[^\n]*Flatpak[^\n]*\n$")


@needs("squashfuse", "mksquashfs", "fusermount3")
class Image(SandboxCase):
    """An AppImage is a program followed by a squashfs image, which it mounts with FUSE and runs from."""

    def test_an_image_on_the_mount_is_mounted_and_run_from(self):
        mounted, tree, inside = self.mount(), self.local("tree"), self.local("image")
        with open(os.path.join(tree, "AppRun"), "w") as file:
            file.write("#!/bin/sh\necho from the image\n")
        os.chmod(file.name, 0o755)
        image = os.path.join(mounted.path, "app.image")
        self.run_program("mksquashfs", tree, image, "-quiet", "-no-progress")
        self.run_program("squashfuse", image, inside)
        try:
            self.assertEqual(self.run_program(os.path.join(inside, "AppRun")), "from the image\n")
        finally:
            self.run_program("fusermount3", "-u", inside)
        # squashfuse closes the image when it ends, which is after its unmount.
        self.wait_until(lambda: subprocess.run(["pgrep", "-x", "squashfuse"], capture_output=True).returncode != 0, "squashfuse has ended")

    def test_a_program_on_the_mount_runs(self):
        mounted = self.mount()
        program = os.path.join(mounted.path, "App Image")
        shutil.copy(shutil.which("true"), program)
        os.chmod(program, 0o755)
        self.run_program(program)


del SandboxCase
