# shellcheck shell=bash disable=SC2154
# Sourced by tests that start moetierd: $ctl, $daemon and $demo are set, $work is a folder of theirs.

daemon_pid=""
export MOETIER_SOCKET="$work/moetierd.sock"

# start_daemon CONFIG_TEXT: the text stands below the keys that every test needs.
# One that a failed check has left running is ended first.
start_daemon() {
  [[ -z "${daemon_pid:-}" ]] || stop_daemon
  mkdir -p "$work/state"
  cat >"$work/moetierd.yaml" <<YAML
state_directory: $work/state
socket: {path: $work/moetierd.sock, mode: "0600"}
store_root: $work/stores
$1
YAML
  "$daemon" --config "$work/moetierd.yaml" >>"$work/log" 2>&1 &
  daemon_pid=$!
  local i
  for ((i = 0; i < 600; i++)); do
    "$ctl" status >/dev/null 2>&1 && return 0
    kill -0 "$daemon_pid" 2>/dev/null || break
    sleep 0.05
  done
  echo "moetierd did not answer; the end of its log:"
  tail -n 5 "$work/log"
  return 1
}

# stop_daemon: SIGTERM, and its exit status.
stop_daemon() {
  [[ -n "$daemon_pid" ]] || return 0
  kill -TERM "$daemon_pid" 2>/dev/null
  wait "$daemon_pid"
  local status=$?
  daemon_pid=""
  return "$status"
}

import_demo() { "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --store "$work/stores/$1" "${@:2}" >/dev/null 2>&1; }

# replay_hash ARGS...: the hash of all output bits; empty, and the reason shown, if a bit differed.
replay_hash() {
  if ! "$ctl" replay --golden "$demo/golden" --json "$@" >"$work/replay" 2>"$work/replay.err"; then
    cat "$work/replay.err" >&2
    return 1
  fi
  python3 -c 'import json, sys; print(json.load(sys.stdin)["hash"])' <"$work/replay"
}
