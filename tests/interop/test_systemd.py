# SPDX-License-Identifier: Apache-2.0
"""packaging/'s files for systemd, autofs and AppArmor, on a system that boots with them: a guest whose first program is systemd.

It has the host's root, plus the files of `cmake --install`, and only the units that these tests enable. Everything is in the guest: the
filer's unit serves /export, and the units mount it. One boot for all tests of the module.
"""

import os
import subprocess
import sys
import unittest

from guest import GUEST, Guest
from harness.case import WORK

sys.path.append(os.path.join(WORK, "src", "packaging"))
import install_notes  # noqa: E402

USER = 4321  # "tester", in the guest only
NEEDED = {"/lib/systemd/systemd": "systemd", "/usr/lib/pam.d/systemd-user": "libpam-systemd", "/usr/bin/dbus-daemon": "dbus",
          "/usr/lib/systemd/user/dbus.socket": "dbus-user-session", "/usr/sbin/automount": "autofs", "/usr/sbin/apparmor_parser": "apparmor"}
PREPARE = f"""
systemd-sysusers
# The root is an overlay, which gives a file another number when it is written to: nothing to export.
mkdir -p /var/lib/nfsrdma-filer
mount -t tmpfs -o mode=755,uid=$(id -u nfsrdma-filer),gid=$(id -g nfsrdma-filer) filer /var/lib/nfsrdma-filer
useradd --uid {USER} --create-home tester
sed -i '/^OPTIONS=/s/$/ --insecure/' /etc/nfsrdma-filer.conf
mkdir -p /var/lib/systemd/linger /home/tester/.config/nfsrdma-fuse
printf 'SOURCE=localhost:/export\\nDIRECTORY=/media/boot\\nOPTIONS=rw\\n' >/etc/nfsrdma-fuse/boot.conf
sed 's/filer:/localhost:/; s,^DIRECTORY=.*,DIRECTORY=files,; s,/export/home,/export,' /usr/share/doc/nfsrdma-fuse/examples/home.conf \\
  >/home/tester/.config/nfsrdma-fuse/home.conf
chown -R tester: /home/tester
for unit in mnt-files.mount mnt-files.automount; do
  sed 's/=filer:/=localhost:/' /usr/share/doc/nfsrdma-fuse/examples/$unit >/etc/systemd/system/$unit
done
sed 's/:filer/:localhost/' /usr/share/doc/nfsrdma-fuse/examples/auto.nfsrdma >/etc/auto.nfsrdma
rm -rf /etc/auto.master.d
mkdir /etc/auto.master.d
sed -n 's/^# *\\(.net.nfsrdma *.etc.*\\)/\\1/p' /usr/share/doc/nfsrdma-fuse/examples/auto.nfsrdma >/etc/auto.master.d/nfsrdma.autofs
systemctl --quiet enable nfsrdma-filer.service nfsrdma-fuse@boot.service apparmor.service remote-fs.target
"""
MAIN_PID = "systemctl show --value -p MainPID"
guest = None


def install(target):
    with install_notes.kept(os.path.join(WORK, "build")):
        subprocess.run(["cmake", "--install", os.path.join(WORK, "build"), "--prefix", "/usr", "--strip"], check=True,
                       stdout=subprocess.DEVNULL, env={**os.environ, "DESTDIR": target})
    os.mkdir(os.path.join(target, "etc/nfsrdma-fuse"))


def setUpModule():
    global guest
    missing = sorted(package for path, package in NEEDED.items() if not os.path.exists(path))
    if missing:
        raise unittest.SkipTest(f"missing: {' '.join(missing)}; scripts/setup --guests installs them")
    folder = os.path.join(WORK, "systemd")
    os.mkdir(folder)
    install(os.path.join(folder, "root"))
    with open(os.path.join(folder, "prepare"), "w", encoding="utf-8") as file:
        file.write(PREPARE)
    guest = Guest(words=(f"lab_systemd={folder}", "lsm=apparmor", "audit=1")).start()


def tearDownModule():
    guest.end()


class Units(unittest.TestCase):
    maxDiff = None

    def tearDown(self):
        said = guest.run("dmesg -c | grep -a 'apparmor=\"DENIED\"' || true")
        self.assertEqual(said, "", "AppArmor refused something")

    def run_as_user(self, command):
        return guest.run(f"export XDG_RUNTIME_DIR=/run/user/{USER} HOME=/home/tester; cd; {command}", user=USER)

    def wait_active(self, unit):
        guest.run(f"""for i in $(seq 150); do ! systemctl is-active --quiet {unit} || exit 0; sleep 0.2; done
            systemctl status --no-pager --full {unit}; journalctl --no-pager -n 40 -u {unit}; exit 1""")

    def test_1_the_filer_serves_confined(self):
        self.wait_active("nfsrdma-filer.service")
        said = guest.run("""set -e
            systemd-analyze security --no-pager --threshold=20 nfsrdma-filer.service | tail -n 1
            pid=$(systemctl show --value -p MainPID nfsrdma-filer.service)
            [ "$(stat -c %U /proc/$pid)" = nfsrdma-filer ]
            grep -E '^(CapBnd|NoNewPrivs|Seccomp):' /proc/$pid/status""")
        self.assertRegex(said, r"CapBnd:\s*0{16}\n")
        self.assertRegex(said, r"NoNewPrivs:\s*1\n")
        self.assertRegex(said, r"Seccomp:\s*2\n")

    def test_2_it_is_mounted_at_boot_under_its_profile(self):
        self.wait_active("nfsrdma-fuse@boot.service")
        self.assertIn(" /media/boot fuse.rpcrdma ", guest.run("cat /proc/mounts"))
        said = guest.run(f"cat /proc/$({MAIN_PID} nfsrdma-fuse@boot.service)/attr/current")
        self.assertEqual(said, "nfsrdma-fuse (enforce)\n")
        guest.run("""set -e; cd /media/boot
            mkdir folder; head -c 300000 /dev/urandom >folder/data; sync folder/data; cmp folder/data /var/lib/nfsrdma-filer/export/folder/data
            mv folder/data folder/moved; ln -s moved folder/link; flock folder/moved cat folder/link >/dev/null; rm -r folder; df . >/dev/null
            cd /
            nfsrdma-fuse status /media/boot; nfsrdma-fuse stats /media/boot >/dev/null; nfsrdma-fuse doctor /media/boot || true""")

    def test_3_it_is_stopped_and_started_again(self):
        guest.run(f"""set -e
            systemctl reload nfsrdma-fuse@boot
            systemctl stop nfsrdma-fuse@boot; ! mountpoint -q /media/boot
            systemctl start nfsrdma-fuse@boot; mountpoint -q /media/boot""")

    def test_4_the_filer_restarts_beneath_the_mount(self):
        guest.run("set -e; echo text >/media/boot/kept; systemctl restart nfsrdma-filer; [ \"$(cat /media/boot/kept)\" = text ]; rm /media/boot/kept")

    def test_5_an_rdma_device(self):
        """Both units can use it: the filer in its sandbox, the client under its AppArmor profile."""
        guest.run(f"""set -e
            systemctl stop nfsrdma-fuse@boot  # else the filer waits for what it may reclaim
            rdma_up
            sed -i '/^OPTIONS=/s/--rdma 127.0.0.1/--rdma {GUEST} --rdma-fabrics verbs/' /etc/nfsrdma-filer.conf
            printf 'SOURCE={GUEST}:/export\\nDIRECTORY=/media/device\\nOPTIONS=proto=rdma,rdma_dev=rxe0\\n' >/etc/nfsrdma-fuse/device.conf
            systemctl restart nfsrdma-filer || {{ journalctl --no-pager -n 20 -u nfsrdma-filer; exit 1; }}
            timeout 60 systemctl start nfsrdma-fuse@device || {{ journalctl --no-pager -n 20 -u nfsrdma-filer -u nfsrdma-fuse@device; exit 1; }}
            head -c 300000 /dev/urandom >/media/device/data; cmp /media/device/data /var/lib/nfsrdma-filer/export/data
            nfsrdma-fuse status /media/device | grep rxe0
            systemctl stop nfsrdma-fuse@device""")

    def test_what_the_profile_refuses(self):
        """Shows that the other tests would see a refusal."""
        said = guest.run("aa-exec -p nfsrdma-fuse -- /usr/bin/nfsrdma-fuse mount -f -o log=/etc/elsewhere,retry=0 localhost:/export /mnt 2>&1 && exit 1; "
                         "dmesg -c | grep -a 'apparmor=\"DENIED\"'")
        self.assertIn('name="/etc/elsewhere"', said)

    def test_a_user_mounts_at_login(self):
        guest.run("loginctl enable-linger tester")
        guest.run(f"for i in $(seq 300); do [ ! -S /run/user/{USER}/systemd/private ] || exit 0; sleep 0.2; done; systemctl status user@{USER}; exit 1")
        self.run_as_user("systemctl --user enable --now nfsrdma-fuse@home && grep -q ' /home/tester/files fuse.rpcrdma ' /proc/mounts && "
                         "echo mine >files/of-a-user && systemctl --user is-enabled nfsrdma-fuse@home")
        self.assertEqual(guest.run("cat /var/lib/nfsrdma-filer/export/of-a-user"), "mine\n")
        self.run_as_user("systemctl --user disable --now nfsrdma-fuse@home && ! mountpoint -q files")

    def test_a_mount_unit_and_its_automount(self):
        guest.run("set -e; touch /var/lib/nfsrdma-filer/export/seen; systemctl daemon-reload; systemctl start mnt-files.mount; ls /mnt/files/seen; "
                  "systemctl stop mnt-files.mount; ! mountpoint -q /mnt/files; "
                  "systemctl start mnt-files.automount; ! grep -q ' /mnt/files fuse' /proc/mounts; ls /mnt/files/seen; "
                  "grep -q ' /mnt/files fuse.rpcrdma' /proc/mounts; systemctl stop mnt-files.automount mnt-files.mount; ! grep -q ' /mnt/files fuse' /proc/mounts")

    def test_autofs(self):
        guest.run("set -e; touch /var/lib/nfsrdma-filer/export/seen; systemctl start autofs; ! grep -q 'nfsrdma/files fuse' /proc/mounts; "
                  "ls /net/nfsrdma/files/seen; grep -q ' /net/nfsrdma/files fuse.rpcrdma' /proc/mounts; systemctl stop autofs; "
                  "! grep -q ' /net/nfsrdma/files fuse' /proc/mounts")


if __name__ == "__main__":
    unittest.main()
