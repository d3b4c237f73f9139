# shellcheck shell=bash disable=SC2154
# Sourced after daemon_setup.sh by tests of devices: replays whose output bits must never change.

hash=""
# same CONFIG -- REPLAY_ARGS: the daemon with that configuration gives the one hash; its last status
# stays in $work/out. A device that has memory of its own left at its end ends the daemon badly.
same() {
  local config="$1" got
  shift 2
  start_daemon "$config" || return 1
  got="$(replay_hash "$@")" || return 1
  "$ctl" status --json >"$work/out"
  stop_daemon || { echo "the daemon ended badly"; return 1; }
  hash="${hash:-$got}"
  equal "$got" "$hash"
}

# lending CONFIG POOL: the same while memory of RAM and of the device's pool is lent and taken again,
# over and over.
lending() {
  local replay lends=0 size=0
  start_daemon "$1" || return 1
  replay_hash --rows 1 --sessions 4 >"$work/hash" &
  replay=$!
  while kill -0 "$replay" 2>/dev/null; do
    size=$((size % 6 + 1))
    "$ctl" yield --pool "$2" --bytes "${size}MiB" --for 1s >/dev/null || return 1
    "$ctl" yield --pool ram0 --bytes "$((7 - size))MiB" --for 1s >/dev/null || return 1
    lends=$((lends + 1))
  done
  wait "$replay" || return 1
  "$ctl" status --json >"$work/out"
  stop_daemon || { echo "the daemon ended badly"; return 1; }
  ((lends > 1)) || { echo "$lends lends"; return 1; }
  equal "$(cat "$work/hash")" "$hash"
}
