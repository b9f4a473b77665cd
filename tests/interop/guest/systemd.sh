#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Process 1 of a guest with systemd, started by init with lab_systemd=DIR. The root is the host's. This makes it a
# system on which DIR/root is installed and nothing else is enabled, runs DIR/prepare, and becomes systemd. The agent
# is a service.
mount -o remount,mode=755 /run
find /etc/systemd/system /etc/systemd/user /etc/apparmor.d -mindepth 1 -maxdepth 1 \
  ! -name abi ! -name abstractions ! -name tunables ! -name local -exec rm -rf {} +
cp -a --remove-destination "$lab_systemd/root/." /
echo 5f1d7c3e9b8a4c6d8e2f0a1b2c3d4e5f >/etc/machine-id
: >/etc/fstab
# If the host is a container it has this file, and systemd would leave out what containers do not have.
rm -f /.dockerenv
# Units that take an emulated processor long, or look for hardware.
for unit in systemd-{udevd,udev-trigger,hwdb-update,timesyncd,random-seed,update-utmp,journal-flush,binfmt,sysctl,modules-load,pstore} \
  keyboard-setup kmod-static-nodes ldconfig getty@tty1 serial-getty@ttyS0 polkit e2scrub_reap rpc-statd-notify; do
  ln -sf /dev/null "/etc/systemd/system/$unit.service"
done
for unit in systemd-udevd-{kernel,control}.socket rpcbind.socket getty.target timers.target proc-sys-fs-binfmt_misc.automount \
  dev-hugepages.mount dev-mqueue.mount sys-kernel-{debug,tracing,config}.mount; do
  ln -sf /dev/null "/etc/systemd/system/$unit"
done
mkdir -p /etc/systemd/system/multi-user.target.wants
cat >/etc/systemd/system/lab-agent.service <<END
[Service]
Environment=PATH=$PATH HOME=/root LC_ALL=C.UTF-8
ExecStart=/usr/bin/python3 -S $lab_scripts/agent.py
END
ln -s ../lab-agent.service /etc/systemd/system/multi-user.target.wants
modprobe -a fuse autofs4
bash -e "$lab_systemd/prepare" || { echo "prepare failed" && /run/busybox poweroff -f; }
exec /lib/systemd/systemd --system --unit=multi-user.target --log-target=console --log-level=notice --show-status=false
