# SPDX-License-Identifier: Apache-2.0
# Functions for commands in the guest; see guest.py. The link to the host is eth0.
# shellcheck shell=bash

# Sets eth0's addresses, by which the host reaches this guest.
link_up() {
  modprobe virtio_net || return
  ip addr add "${1:-10.9.9.2/24}" dev eth0 && ip link set eth0 mtu "${2:-1500}" up
}

# rxe or siw over eth0. Neither resolves addresses of the loopback interface, but both reach this guest by eth0's own.
# siw applies RLIMIT_MEMLOCK to all users, even root.
rdma_up() {
  modprobe -a ib_uverbs rdma_ucm rdma_rxe && rdma link add rxe0 type rxe netdev eth0
}
siw_up() {
  modprobe -a ib_uverbs rdma_ucm siw && rdma link add siw0 type siw netdev eth0
}
rdma_down() {
  for device in /sys/class/infiniband/*; do [ ! -e "$device" ] || rdma link del "${device##*/}"; done
}

# knfsd_up [LEASE_SECONDS [EXPORT_OPTIONS]]
# Starts the kernel's NFS server, 4.1 only, for a directory in RAM: TCP at 2049, and RDMA at 20049 of every RDMA
# device.
knfsd_up() {
  local lease=${1:-10}
  modprobe -a nfsd rpcrdma || return
  mkdir -p /srv/export /var/lib/nfs/v4recovery
  if ! mountpoint -q /srv/export; then
    mount -t tmpfs -o mode=1777,size=60% export /srv/export && mount -t nfsd nfsd /proc/fs/nfsd || return
    : >/var/lib/nfs/etab
    exportfs -i -o "${2:-rw,async,no_root_squash,no_subtree_check,insecure,fsid=0}" '*:/srv/export' && rpc.mountd -N 2 -N 3 || return
  fi
  knfsd_start "$lease"
}
knfsd_start() {
  rpc.nfsd --grace-time "${1:-10}" --lease-time "${1:-10}" -N 3 --no-udp --tcp --rdma=20049 4
}
knfsd_stop() {
  rpc.nfsd 0
}

# kernel_mount SERVER DIRECTORY OPTIONS: mounts with the kernel's own client.
kernel_mount() {
  mkdir -p "$2" && mount -t nfs -o "vers=4.1,$3" "$1" "$2"
}
