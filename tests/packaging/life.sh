#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# The life of the packages on a new system, as root: install, use, upgrade during a mount, purge.
# usage: life.sh OLD NEW     directories with the debs of both versions. scripts/package --try runs it on a system
# that it removes afterwards.
set -euo pipefail
old=$1
new=$2
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
export DEBIAN_FRONTEND=noninteractive

step() { printf '\n-- %s\n' "$*"; }
fail() {
  local process
  for process in /proc/[0-9]*; do
    case $(readlink "$process/exe" || true) in *nfsrdma*) tr '\0' ' ' <"$process/cmdline" && echo ;; esac
  done
  printf 'life.sh: %s\n' "$*" >&2
  exit 1
}
trap 'printf "life.sh: failed: %s\n" "$BASH_COMMAND" >&2' ERR
# debs DIR: all packages except debug symbols.
debs() { find "$1" -name '*.deb' ! -name '*-dbgsym_*' | sort; }
version() { dpkg-query -W -f '${Version}' "$1"; }
# Every file with its kind and, in /etc, its contents; without files that the system's own programs write all the
# time.
state() {
  {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /root -o -path /packages \
      -o -path /mnt -o -path /home -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/cache -o -path /var/log \
      -o -path '/etc/*-' -o -path /var/lib/systemd -o -path /var/tmp -o -name alive -o -name clone.tar \) -prune -o -printf '%y %p\n'
    find /run -xdev -path '*nfsrdma*' -printf '%y %p\n'
    # Accounts stay, because files in exported directories belong to their IDs.
    find /etc -xdev -type f ! -name 'passwd*' ! -name 'group*' ! -name 'shadow*' ! -name 'gshadow*' ! -name 'sub?id*' \
      ! -name ld.so.cache ! -name .pwd.lock -exec sha256sum {} +
  } | sort
}
# works: runs the packages' own tests, as root and as an ordinary user.
works() {
  local test
  for test in as-root as-user; do
    step "packaging/debian/tests/$test, version $(version nfsrdma-fuse)"
    "$root/packaging/debian/tests/$test"
  done
}

step "What the packages need"
apt-get -q -y update >/dev/null
for deb in $(debs "$new"); do
  needed=$(dpkg-deb -f "$deb" Depends)
  [ -z "$needed" ] || apt-get -q -y satisfy --no-install-recommends "$needed" >/dev/null
done
before=$(state)

step "Install $(debs "$new" | xargs -n 1 basename | xargs)"
dpkg --install $(debs "$new") >/dev/null
for package in nfsrdma-fuse nfsrdma-filer nfsrdma-fuse-doc; do
  [ -z "$(dpkg --verify "$package")" ] || fail "$package is not as it was packed: $(dpkg --verify "$package")"
done
id nfsrdma-filer
works

step "Purge"
dpkg --purge nfsrdma-fuse nfsrdma-filer nfsrdma-fuse-doc >/dev/null
diff <(printf '%s\n' "$before") <(state) || fail "the lines above were changed, and stay"

step "Install what is older, and use it"
dpkg --install $(debs "$old") >/dev/null
[[ $(version nfsrdma-fuse) == 0.1.0-* ]] || fail "the older version is $(version nfsrdma-fuse)"
[ "$(nfsrdma-fuse --version)" = "nfsrdma-fuse 0.1.0" ] || fail "$(nfsrdma-fuse --version)"
sed -i 's/^#timeo = .*/timeo = 300/' /etc/nfsrdma-fuse.conf
cp /etc/nfsrdma-fuse.conf /root/nfsrdma-fuse.conf
printf 'SOURCE=localhost:/export\nDIRECTORY=/mnt\n' >/etc/nfsrdma-fuse/home.conf
mkdir -p /var/lib/nfsrdma-filer/export
chown nfsrdma-filer: /var/lib/nfsrdma-filer /var/lib/nfsrdma-filer/export
mountpoint=/mnt/files
mkdir -p "$mountpoint"
# As nfsrdma-filer.service starts it. Root's mount is another user for it, whom only --insecure admits.
(
  options=$(sed -n 's/^OPTIONS=//p' /etc/nfsrdma-filer.conf)
  exec setpriv --reuid=nfsrdma-filer --regid=nfsrdma-filer --clear-groups \
    nfsrdma-filer --state-dir /var/lib/nfsrdma-filer/state --insecure $options
) >/run/says 2>/run/filer.log &
filer=$!
for _ in $(seq 300); do
  ! grep -q ^listening /run/says || break
  sleep 0.1
done
[ ! -e /dev/fuse ] || {
  mount -t nfsrdma-fuse localhost:/export "$mountpoint" -o rw
  [[ $(nfsrdma-fuse status "$mountpoint") == *timeo=300* ]] || fail "the configuration file is not read"
  echo precious >"$mountpoint/file"
}

step "Upgrade, beneath the mount"
dpkg --install $(debs "$new") >/dev/null
[ "$(nfsrdma-fuse --version)" != "nfsrdma-fuse 0.1.0" ] || fail "still 0.1.0"
cmp /root/nfsrdma-fuse.conf /etc/nfsrdma-fuse.conf || fail "the administrator's configuration was replaced"
[ ! -e /dev/fuse ] || {
  [ "$(cat "$mountpoint/file")" = precious ] || fail "the mount lost its file"
  [[ $(nfsrdma-fuse status "$mountpoint") == *'version 0.1.0'* ]] || fail "status does not say which version the mount is of"
  umount "$mountpoint"
}
kill "$filer"
wait "$filer" || fail "the filer: $(cat /run/filer.log)"
works

step "Purge, when something was written"
dpkg --purge nfsrdma-fuse nfsrdma-filer nfsrdma-fuse-doc >/dev/null
changed=$(diff <(printf '%s\n' "$before") <(state) || true)
left=$(sed -n 's/^> //p' <<<"$changed" | sed 's/^[0-9a-f]\{64\} */contents /' | sort -u)
wanted='contents /etc/nfsrdma-fuse/home.conf
d /etc/nfsrdma-fuse
d /var/lib/nfsrdma-filer
d /var/lib/nfsrdma-filer/export
f /etc/nfsrdma-fuse/home.conf
f /var/lib/nfsrdma-filer/export/file'
[ -e /dev/fuse ] || wanted=$(grep -v 'export/file' <<<"$wanted")
[ "$left" = "$wanted" ] || {
  diff <(printf '%s\n' "$wanted") <(printf '%s\n' "$left") || true
  fail "what is left is not what was written"
}
! grep '^<' <<<"$changed" || fail "that is gone"

printf '\nEverything was installed, worked, was upgraded and is gone.\n'
