# SPDX-License-Identifier: Apache-2.0
# Shell shared by the scripts of this folder; sourced, never run.

set -euo pipefail

NFSRDMA_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

say() { printf '%s\n' "$*"; }
step() { printf '\n== %s\n' "$*"; }
die() {
  printf '%s: %s\n' "$(basename "$0")" "$*" >&2
  exit 1
}

# help_if_asked "$@": with -h or --help prints the comment at the top of the script and exits.
help_if_asked() {
  case "${1-}" in
    -h | --help)
      sed -n -e '2{/^# SPDX-/d}' -e '2,/^[^#]/s/^# \{0,1\}//p' "$0"
      exit 0
      ;;
  esac
}

# as_root CMD...: runs CMD as root, or says what is missing.
as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  else
    command -v sudo >/dev/null || die "needs root: run it as root or install sudo"
    sudo "$@"
  fi
}

# stoppable CMD...: runs CMD in its own process group. A signal to this script, or the script's end, ends the whole
# group. (bash runs a trap only after its foreground command has ended, which may take an hour.) setpriv covers
# SIGKILL.
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

# Asks for sudo's password once and keeps the ticket fresh: later steps run without a terminal.
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

# Runs at the end of every script of this folder, whatever ends it: ends what the script started and waits until it is
# gone.
clean_up() {
  trap - EXIT INT TERM HUP
  local group
  for group in "$STOPPABLE" "$SUDO_KEEPER"; do
    [ -z "$group" ] || kill -TERM -- "-$group" 2>/dev/null || true
  done
  for group in "$STOPPABLE" "$SUDO_KEEPER"; do
    [ -z "$group" ] || wait "$group" 2>/dev/null || true
  done
  # The processes that the keeper started got the signal, too; wait until they are gone.
  [ -z "$SUDO_KEEPER" ] || for _ in {1..100}; do
    kill -0 -- "-$SUDO_KEEPER" 2>/dev/null || break
    sleep 0.02
  done
}
trap clean_up EXIT
trap 'exit 130' INT TERM HUP

# The number of parallel jobs: one per core, but at most one per GiB of available memory (sanitized coroutine code
# takes up to 1 GiB per compiler).
jobs() {
  local cores gib
  cores=$(nproc)
  gib=$(awk '/^MemAvailable:/ {print int($2 / 1048576)}' /proc/meminfo)
  [ "$gib" -ge 1 ] || gib=1
  [ "$cores" -le "$gib" ] && echo "$cores" || echo "$gib"
}

# The programs that the demo and every measurement start; `cmake --install` installs them.
PROGRAMS=(nfsrdma-fuse nfsrdma-filer)

# Core seconds per ninja step: a full release build of 245 steps takes some 2,100 core seconds.
SECONDS_PER_STEP=9

# steps PRESET [TARGET...]: prints how many steps ninja would take, or nothing if that is unknown. Leaves out the rule
# that runs CMake again: a dry run would stop at it.
steps() {
  local tree=build/$1
  shift
  sed '/^build .*: RERUN_CMAKE /,/^$/d' "$tree/build.ninja" | ninja -C "$tree" -f /dev/stdin -n "$@" 2>/dev/null | sed -n 's/^\[[0-9]*\/\([0-9]*\)\].*/\1/p' | tail -n 1
}

# minutes SECONDS: the duration in words.
minutes() {
  case $((($1 + 30) / 60)) in
    0) echo "less than a minute" ;;
    1) echo "about a minute" ;;
    *) echo "about $((($1 + 30) / 60)) minutes" ;;
  esac
}

# progress EVERY: filters ninja's output on a pipe. Passes everything except progress lines, and one of those every
# EVERY seconds.
progress() {
  local line now begin=$SECONDS next=$1
  while IFS= read -r line || [ -n "$line" ]; do
    if ! [[ $line =~ ^\[([0-9]+)/([0-9]+)\]\  ]]; then
      printf '%s\n' "$line"
      continue
    fi
    now=$((SECONDS - begin))
    [ "$now" -ge "$next" ] && [ "${BASH_REMATCH[1]}" -gt 0 ] || continue
    next=$((now + $1))
    printf '[%s/%s], %s left\n' "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}" \
      "$(minutes $((now * (BASH_REMATCH[2] - BASH_REMATCH[1]) / BASH_REMATCH[1])))"
  done
}

# build PRESET [TARGET...]: configures and builds into build/PRESET. Prints ninja's own progress line on a terminal,
# else one line a minute.
build() {
  local preset=$1 count
  shift
  # Makes a compiler cache, if there is one, treat compilations in different clones as the same.
  export CCACHE_BASEDIR=$NFSRDMA_ROOT CCACHE_NOHASHDIR=1
  cd "$NFSRDMA_ROOT"
  stoppable cmake --preset "$preset" --log-level=WARNING >/dev/null
  count=$(steps "$preset" "$@" || true)
  [ -z "$count" ] || say "$count steps, $(minutes $((count * SECONDS_PER_STEP / $(jobs)))) at most, with $(jobs) at a time"
  local command=(cmake --build "build/$preset" --parallel "$(jobs)" ${1:+--target "$@"})
  if [ -t 1 ]; then
    NINJA_STATUS='[%f/%t, %e s] ' stoppable "${command[@]}"
  else
    NINJA_STATUS='[%f/%t] ' stoppable bash -c "set -o pipefail; $(declare -f progress minutes)"'
      setpriv --pdeathsig TERM "$@" 2>&1 | progress 60' progress "${command[@]}"
  fi
}
