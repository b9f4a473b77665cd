# SPDX-License-Identifier: Apache-2.0
# New, minimal systems of Debian for scripts that try something there; sourced after lib.sh, never run. Each system
# has its own directory below ${TMPDIR:-/var/tmp}, which is removed when its script ends, even if the script is
# killed. Its mounts and processes have their own namespaces. Packages come from the archives that apt uses here. The
# script sets `logs`, a directory.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/nfsrdma-fuse-fresh

# Every script calls it before it makes the first system.
begin_systems() {
  keep_sudo
  command -v debootstrap >/dev/null || "$NFSRDMA_ROOT/scripts/setup" --fresh
  mkdir -p "$cache" "$logs"
}

# archives RELEASE: prints the lines of sources.list for the release, with the archives that apt uses here (this
# machine may have another release).
archives() {
  local uri suite component origin main= security=
  while read -r uri suite component origin; do
    [ "$component $origin" = 'main Debian' ] || continue
    case "$suite" in
      *-security) security=${security:-$uri} ;;
      *-*) ;;
      *) main=${main:-$uri} ;;
    esac
  done < <(apt-get indextargets --format '$(REPO_URI) $(RELEASE) $(COMPONENT) $(ORIGIN)' 'Identifier: Packages')
  [ -n "$main" ] || die "apt knows no archive of Debian: after apt-get update it does, on a Debian system"
  say "deb $main $1 main"
  [ -z "$security" ] || say "deb $security $1-security main"
}

# base RELEASE: makes the release's archive with debootstrap if it is missing.
base() {
  local tar=$cache/$1.tar mirror work
  [ ! -e "$tar" ] || return 0
  mirror=$(archives "$1" | awk 'NR == 1 {print $2}')
  say "debootstrap: $1, minbase"
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/nfsrdma-fresh.XXXXXX")
  watch_over "$work"
  # The proxy comes from apt's configuration or from the environment, which sudo does not pass on.
  local proxy
  proxy=$(apt-config shell proxy Acquire::http::Proxy)
  [ -z "$proxy" ] || eval "export http_$proxy"
  stoppable_as_root env ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
    debootstrap --variant=minbase "$1" "$work/root" "$mirror" >"$logs/debootstrap-$1.log" 2>&1 ||
    die "debootstrap failed: $logs/debootstrap-$1.log"
  stoppable_as_root tar --create --one-file-system --numeric-owner --exclude='./var/cache/apt/archives/*.deb' \
    --directory="$work/root" . >"$tar.part"
  mv "$tar.part" "$tar"
  forget "$work"
}

stoppable_as_root() {
  if [ "$(id -u)" = 0 ]; then
    stoppable "$@"
  else
    stoppable sudo "$@"
  fi
}

# watch_over DIR: removes DIR when this script ends, even by SIGKILL.
watch_over() {
  setsid bash -c '
    trap "" INT TERM HUP
    while kill -0 "$1" 2>/dev/null; do sleep 1; done
    cd /
    [ "$(id -u)" = 0 ] && sudo= || sudo="sudo -n"
    for _ in {1..60}; do  # what still ran there is being ended
      $sudo rm -rf --one-file-system "$2" 2>/dev/null
      [ -e "$2" ] || exit 0
      sleep 1
    done' watch $$ "$1" </dev/null >/dev/null 2>&1 &
  disown
  systems+=("$1")
}
forget() { as_root rm -rf --one-file-system "$1"; }
systems=()
end() {
  local system
  # Process 1 of the system looks for this file: a user cannot send signals to sudo's processes.
  for system in ${systems[@]+"${systems[@]}"}; do
    as_root rm -f "$system/root/alive"
  done
  clean_up
  for system in ${systems[@]+"${systems[@]}"}; do
    forget "$system"
  done
}
trap end EXIT

# The script of process 1 in the new system, run as root. $1: the root directory, $2: root or user, $3: the command,
# $4: the directory of this machine's compiler cache, or nothing.
read -r -d '' inside <<'INSIDE' || true
set -euo pipefail
root=$1 identity=$2 command=$3 ccache=${4-}
# pivot_root instead of chroot(2), because user namespaces do not work in a chroot.
mount --bind "$root" "$root"
mount --rbind /sys "$root/sys"
mount --make-rslave "$root/sys"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mkdir "$root/run/lock"
# With the mode that udev gives it.
[ ! -e /dev/fuse ] || {
  mknod -m 666 "$root/run/fuse" c 10 229
  mount --bind "$root/run/fuse" "$root/dev/fuse"
}
[ -z "$ccache" ] || {
  mkdir -p "$root/root/.cache/ccache"
  mount --bind "$ccache" "$root/root/.cache/ccache"
}
cd "$root"
pivot_root . mnt
cd /
mount -t proc proc /proc
umount -l /mnt
# systemd-tmpfiles and every container runtime make this link; Ganesha looks there for its file systems.
[ -e /etc/mtab ] || ln -s ../proc/self/mounts /etc/mtab
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
environment=(env -i "PATH=$PATH" LANG=C.UTF-8 TERM="${TERM:-dumb}")
if [ "$identity" = root ]; then
  home=/root/nfsrdma-fuse
  run=("${environment[@]}" HOME=/root USER=root bash -c)
else
  home=/home/somebody/nfsrdma-fuse
  id somebody >/dev/null 2>&1 || {
    { apt-get -q -y update && apt-get -q -y install --no-install-recommends sudo; } >/var/log/sudo.log 2>&1 || {
      cat /var/log/sudo.log
      exit 1
    }
    useradd --create-home --shell /bin/bash somebody
    echo "somebody ALL=(ALL) NOPASSWD: ALL" >/etc/sudoers.d/somebody
  }
  run=(setpriv --reuid=somebody --regid=somebody --init-groups "${environment[@]}" HOME=/home/somebody USER=somebody bash -c)
fi
[ -d "$home" ] || {
  mkdir "$home"
  tar --extract --file=/clone.tar --directory="$home"
  [ "$identity" = root ] || chown -R somebody: "$home"
}
# Process 1 gets only the signals that it handles. When it ends, everything in its namespace ends.
trap 'exit 130' INT TERM HUP
(while [ -e /alive ]; do sleep 1; done; kill -TERM 1) &
cd "$home"
"${run[@]}" "$command" </dev/null &
wait $!
INSIDE

# system RELEASE IDENTITY: makes a new system; NEW is its root directory.
system() {
  local work
  work=$(mktemp -d "${TMPDIR:-/var/tmp}/nfsrdma-fresh.XXXXXX")
  watch_over "$work"
  NEW=$work/root
  as_root mkdir "$NEW"
  as_root touch "$NEW/alive"
  as_root tar --extract --file="$cache/$1.tar" --numeric-owner --directory="$NEW"
  archives "$1" | as_root tee "$NEW/etc/apt/sources.list" >/dev/null
  # Name resolution and proxies are copied from this machine.
  as_root cp -L /etc/resolv.conf /etc/hosts "$NEW/etc/"
  [ ! -e /etc/hostname ] || as_root cp -L /etc/hostname "$NEW/etc/"
  local scheme proxy
  for scheme in http https; do
    proxy=${scheme}_proxy
    [ -z "${!proxy-}" ] || printf 'Acquire::%s::Proxy "%s";\n' "$scheme" "${!proxy}"
  done | as_root tee "$NEW/etc/apt/apt.conf.d/91fresh" >/dev/null
  apt-config dump | grep -iE '^Acquire::(http|https|ftp|Retries|Check-)' | as_root tee "$NEW/etc/apt/apt.conf.d/90fresh" >/dev/null || true
  if grep -q https: "$NEW/etc/apt/sources.list" && [ -e /etc/ssl/certs/ca-certificates.crt ]; then
    as_root mkdir -p "$NEW/etc/ssl/certs"
    as_root cp -L /etc/ssl/certs/ca-certificates.crt "$NEW/etc/ssl/certs/"
  fi
  git -c safe.directory='*' -C "$NFSRDMA_ROOT" archive HEAD | as_root tee "$NEW/clone.tar" >/dev/null
}

# run_in NEW IDENTITY COMMAND LOG: runs COMMAND (for bash) in the clone inside the system NEW, as root or user; its
# output also goes to LOG. With SHARE_CCACHE it uses this machine's compiler cache, if there is one.
run_in() {
  local out copier status=0 ccache=
  [ -z "${SHARE_CCACHE-}" ] || ccache=$(ccache --get-config cache_dir 2>/dev/null) || true
  exec {out}> >(tee "$4")
  copier=$!
  stoppable_as_root setpriv --pdeathsig KILL unshare --mount --pid --fork --kill-child --propagation private \
    -- bash -c "$inside" inside "$1" "$2" "$3" "$ccache" >&"$out" 2>&1 || status=$?
  exec {out}>&-
  wait "$copier" || true
  return "$status"
}
