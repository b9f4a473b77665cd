# SPDX-License-Identifier: Apache-2.0
"""Mounts in another mount namespace (mount -N), and mounts by root of a user namespace."""

import json
import os
import stat
import subprocess
import sys

from harness.case import HOME, SystemCase, needs_mount, needs_root
from harness.filer import Filer
from harness.mount import HELPER, TOOL, daemons

ALICE, BOB = 1 << 20, (1 << 20) + 1
TEAM, OTHERS = 3_000_000, 3_000_001


def text_of(path):
    with open(path, errors="replace") as file:
        return file.read()


@needs_mount()
@needs_root("root, who mounts in namespaces that are others'")
class OtherMountNamespace(SystemCase):
    """The owner of the namespace has replaced /etc, /run and /proc. The daemon must read and write the machine's own."""

    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="filer.namespaces").start()

    def setUp(self):
        super().setUp()
        os.chmod(HOME, 0o755)
        self.logs, self.place = self.local("logs"), self.local("place")
        script = ("for d in /etc /run /proc \"$1\"; do mount -t tmpfs none $d; done\n"
                  "echo 'nonsense=1' > /etc/nfsrdma-fuse.conf\n"
                  "echo ready; exec sleep 1000")
        self.owner = self.start_program("unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", self.logs,
                                        stdout=subprocess.PIPE)
        self.assertEqual(self.owner.stdout.readline(), "ready\n")
        self.log = os.path.join(self.logs, "log")

    def inside(self, program, **user):
        """Runs Python in the namespace, without reading the namespace's /proc."""
        code = "import os,sys\n"
        if user:
            code += f"os.setgroups({user['groups']}); os.setgid({TEAM}); os.setuid({user['uid']})\n"
        done = subprocess.run(["nsenter", f"--mount=/proc/{self.owner.pid}/ns/mnt", sys.executable, "-c", code + program,
                               self.place], capture_output=True, text=True, timeout=60)
        return done.returncode, (done.stdout + done.stderr).strip()

    def mount_there(self, options=""):
        self.run_program(HELPER, self.server.source(), self.place, "-N", self.owner.pid, "-o",
                         f"port={self.server.port},proto=tcp,log={self.log}{options}")

    def umount_there(self):
        helper = os.path.join(os.path.dirname(TOOL), "umount.fuse.rpcrdma")
        self.run_program(helper, self.place, "-N", self.owner.pid)
        self.assertEqual(daemons(), [])

    def test_everything_but_the_mount_is_outside(self):
        self.mount_there()
        self.assertFalse(os.path.ismount(self.place))
        self.assertEqual(self.inside("open(sys.argv[1] + '/file', 'x').write('text')"), (0, ""))
        with open(os.path.join(self.server.path(), "file")) as file:
            self.assertEqual(file.read(), "text")
        status, device = self.inside("print(os.stat(sys.argv[1]).st_dev)")
        self.assertEqual(status, 0, device)
        socket = f"/run/nfsrdma-fuse/{os.major(int(device))}-{os.minor(int(device))}.sock"
        self.assertTrue(stat.S_ISSOCK(os.stat(socket).st_mode))
        self.assertIn("mounted", text_of(self.log))
        self.assertEqual(self.inside("print(os.path.exists('/run/nfsrdma-fuse'), os.listdir(%r))" % self.logs), (0, "False []"))
        self.umount_there()
        self.assertFalse(os.path.exists(socket))

    def test_the_log_is_opened_anew_outside(self):
        self.mount_there()
        os.rename(self.log, self.log + ".1")
        pid = daemons(self.place)[0]
        os.kill(pid, 1)
        self.wait_until(lambda: os.path.exists(self.log) and "reloaded" in text_of(self.log), "a new log")
        self.assertEqual(self.inside("print(os.listdir(%r))" % self.logs), (0, "[]"))
        self.umount_there()

    def test_groups_are_those_of_the_machines_proc(self):
        shared = os.path.join(self.server.path(), "shared")
        os.mkdir(shared)
        os.chown(shared, 0, OTHERS)
        os.chmod(shared, 0o770)
        self.mount_there()
        writes = "open(sys.argv[1] + '/shared/by-group', 'w').write('x')"
        self.assertEqual(self.inside(writes, uid=ALICE, groups=[OTHERS]), (0, ""))
        self.assertIn("PermissionError", self.inside(writes, uid=ALICE, groups=[])[1])
        self.umount_there()

    def test_auto_unmount_and_remount_reach_inside(self):
        self.mount_there(",auto_unmount")
        self.run_program(HELPER, self.server.source(), self.place, "-N", self.owner.pid, "-o", "remount,ro")
        self.assertIn("Read-only", self.inside("open(sys.argv[1] + '/none', 'x')")[1])
        mounted = f"/proc/{self.owner.pid}/mountinfo"
        self.assertIn(self.place, text_of(mounted))
        guard, daemon = None, None
        for pid in daemons(self.place):  # the guard is the daemon's child
            with open(f"/proc/{pid}/task/{pid}/children") as children:
                found = [int(c) for c in children.read().split()]
            guard, daemon = (found[0], pid) if found else (guard, daemon)
        os.kill(daemon, 9)
        self.wait_until(lambda: self.place not in text_of(mounted), "the guard unmounts")
        self.wait_until(lambda: daemons() == [], "the guard ends")

    def tearDown(self):
        for pid in daemons(self.place):
            os.kill(pid, 15)
        super().tearDown()


@needs_mount()
@needs_root("root, whose server acts as its callers")
class UserNamespace(SystemCase):
    """Root of a user namespace is another user outside; the server gets that user's ID."""

    @classmethod
    def setUpClass(cls):
        cls.server = Filer(name="filer.userns").start()

    def setUp(self):
        super().setUp()
        os.chmod(HOME, 0o755)
        device = os.path.join(self.local("device"), "fuse")
        os.mknod(device, stat.S_IFCHR | 0o666, os.makedev(10, 229))
        os.chmod(device, 0o666)
        self.run_program("mount", "--bind", device, "/dev/fuse")
        self.addCleanup(self.run_program, "umount", "/dev/fuse")
        self.place = self.local("alice")
        os.chown(self.place, ALICE, TEAM)
        os.mkdir(os.path.join(self.place, "mnt"))
        os.chown(os.path.join(self.place, "mnt"), ALICE, TEAM)

    def test_the_outer_identity_goes_over_the_wire(self):
        theirs = os.path.join(self.server.path(), "theirs")
        open(theirs, "w").close()
        os.chown(theirs, BOB, OTHERS)
        secret = os.path.join(self.server.path(), "secret")
        with open(secret, "w") as file:
            file.write("root's")
        os.chmod(secret, 0o600)
        program = (f"import json, os, subprocess, sys\n"
                   f"mnt = {self.place!r} + '/mnt'\n"
                   f"done = subprocess.run([{HELPER!r}, {self.server.source()!r}, mnt, '-o',\n"
                   f"    'port={self.server.port},proto=tcp,log=' + {self.place!r} + '/log'])\n"
                   "if done.returncode: sys.exit(done.returncode)\n"
                   "open(mnt + '/mine', 'x').close()\n"
                   "os.chown(mnt + '/mine', 0, 0)\n"
                   "seen = {name: os.stat(mnt + '/' + name).st_uid for name in ('mine', 'theirs')}\n"
                   "try: open(mnt + '/secret').read(); seen['secret'] = True\n"
                   "except PermissionError: seen['secret'] = False\n"
                   f"seen['umount'] = subprocess.run([{TOOL!r}, 'umount', mnt]).returncode\n"
                   "print(json.dumps(seen))\n")
        done = subprocess.run(["unshare", "-Urm", sys.executable, "-c", program], user=ALICE, group=TEAM, extra_groups=[],
                              capture_output=True, text=True, timeout=60)
        log = os.path.join(self.place, "log")
        self.assertEqual(done.returncode, 0, done.stderr + (text_of(log) if os.path.exists(log) else ""))
        self.assertEqual(json.loads(done.stdout), {"mine": 0, "theirs": 65534, "secret": False, "umount": 0})
        mine = os.stat(os.path.join(self.server.path(), "mine"))
        self.assertEqual((mine.st_uid, mine.st_gid), (ALICE, TEAM))
