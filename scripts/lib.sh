# Shell shared by the scripts of this folder; sourced, never run.

set -euo pipefail

NFSRDMA_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# help_if_asked "$@": with -h or --help says what the comment above the script says, before anything is done.
help_if_asked() {
  case "${1-}" in
    -h | --help)
      sed -n '2,/^[^#]/s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
  esac
}

# as_root CMD...: runs CMD with root's rights, or says what is missing.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    command -v sudo >/dev/null || die "needs root: run it as root or install sudo"
    sudo "$@"
  fi
}

# stoppable CMD...: runs CMD in a process group of its own, which a signal to this script, or its end, ends as a whole.
# (bash runs a trap only when its foreground command is over, which may be an hour away.) setpriv covers SIGKILL.
STOPPABLE=
stoppable() {
  local status=0
  set -m
  setpriv --pdeathsig TERM "$@" </dev/null &
  STOPPABLE=$!
  set +m
  wait "$STOPPABLE" || status=$?
  STOPPABLE=
  return "$status"
}

# Asks for sudo's password once, here, and keeps the ticket fresh: later steps run without a terminal.
SUDO_KEEPER=
keep_sudo() {
  [ "$(id -u)" = 0 ] && return 0
  command -v sudo >/dev/null || die "needs root: run it as root or install sudo"
  sudo -v || die "needs sudo: the test servers run as root"
  local parent=$$
  set -m
  (while kill -0 "$parent" 2>/dev/null && sudo -n -v 2>/dev/null; do sleep 50; done) </dev/null >/dev/null 2>&1 &
  SUDO_KEEPER=$!
  set +m
}

# What a script of this folder does at its end, however that comes: ends what it started, and sees it gone.
clean_up() {
  trap - EXIT INT TERM HUP
  local group
  for group in "$STOPPABLE" "$SUDO_KEEPER"; do
    [ -z "$group" ] || kill -TERM -- "-$group" 2>/dev/null || true
  done
  for group in "$STOPPABLE" "$SUDO_KEEPER"; do
    [ -z "$group" ] || wait "$group" 2>/dev/null || true
  done
  # What the keeper started has been told, too.
  [ -z "$SUDO_KEEPER" ] || for _ in {1..100}; do
    kill -0 -- "-$SUDO_KEEPER" 2>/dev/null || break
    sleep 0.02
  done
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# How many jobs the machine carries: its cores, but no more than one per GiB of free memory (sanitized
# coroutine code takes up to 1 GiB per compiler).
jobs() {
  local cores gib
  cores=$(nproc)
  gib=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$gib" -ge 1 ] || gib=1
  [ "$cores" -le "$gib" ] && echo "$cores" || echo "$gib"
}

# build PRESET [TARGET...]: configures and builds into build/PRESET; prints only what a person wants to see.
build() {
  local preset=$1
  shift
  # Compilations are the same in every clone: let a compiler cache, where there is one, see them so.
  export CCACHE_BASEDIR=$NFSRDMA_ROOT CCACHE_NOHASHDIR=1
  cd "$NFSRDMA_ROOT"
  stoppable cmake --preset "$preset" --log-level=WARNING >/dev/null
  stoppable cmake --build "build/$preset" --parallel "$(jobs)" ${1:+--target "$@"} -- --quiet
}
