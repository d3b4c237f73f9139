#!/usr/bin/env bash
# An engine in a process of its own maps slots that it has leased on an emulated GPU, and finds there
# the bytes that RAM has; users who are not trusted, private devices and killed engines.
# usage: exported_slot_test.sh MOETIERCTL MOETIERD_OVER_EMULATED_GPUS DATA_DIR SLOT_CLIENT
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
client="$4"

import_demo packed
# setup TRUSTED [DEVICE_KEYS]: a quarter of the experts in RAM, and not much more on the GPU: the engine goes through more.
setup() {
  echo "models: {load: [{name: demo, path: packed, ram: 25%, vram: 30%}]}"
  echo "memory: {arena: shared}"
  echo "cpu: {workers: 1, tune: false}"
  echo "fastlane: {trusted_users: [$1]}"
  echo "devices: ${2:-[{kind: cuda, budget: 64MiB\}]}"
}
engine() { timeout 120 "$client" "$MOETIER_SOCKET"; }
# status_is FIELD VALUE: of the status as JSON.
status_is() { "$ctl" status --json >"$work/out" && equal "$(json_value "$1")" "$2"; }
status_says() { "$ctl" status >"$work/out" && out_has "$1"; }
leased() {
  "$ctl" status --json | python3 -c 'import json, sys
print(sum(each["leased"] for pool in json.load(sys.stdin)["pools"] for each in pool["classes"]))'
}

readonly UUID=GPU-00000000-0000-0000-0000-00000000000  # and a digit
ME="$(id -u)"
check "a daemon that trusts this user" start_daemon "$(setup "$ME")"
check "an engine maps slots on the GPU" exits 0 engine
check "and finds the bytes of RAM in all" out_has "48 slots mapped"
check "the status counts them" status_is '["exports"]["exported"]' 48
check "and refusals, by their reason" status_is '["exports"]["refused"]' \
  "[{'reason': 'REASON_UNKNOWN_LEASE', 'count': '48'}]"
check "in words too" status_says "48 slots given to clients that map them; refused: UNKNOWN_LEASE 48"
check "all leases have ended" equal "$(leased)" 0
two_engines() {
  engine >"$work/second" 2>&1 &
  local second=$! first_status=0
  engine || first_status=$?
  wait "$second" && return "$first_status"
}
check "two engines at once" exits 0 two_engines

killed_while_mapped() {
  "$client" "$MOETIER_SOCKET" --hold >"$work/held" 2>&1 &
  local engine_pid=$! i
  for ((i = 0; i < 400; i++)); do
    grep -q held "$work/held" && break
    sleep 0.05
  done
  equal "$(leased)" 2 || return 1
  if "$ctl" unload demo >"$work/out" 2>&1; then return 1; fi
  kill -KILL "$engine_pid"
  wait "$engine_pid"
  for ((i = 0; i < 400; i++)); do
    [[ "$(leased)" == 0 ]] && return 0
    sleep 0.05
  done
  return 1
} 2>/dev/null  # the shell tells of what was killed
check "the leases of an engine that is killed with a slot mapped end" killed_while_mapped
check "and its model is unloaded" exits 0 "$ctl" unload demo
check "the daemon stops" stop_daemon

check "a daemon that trusts another user" start_daemon "$(setup "$((ME + 1))")"
check "refuses" exits 1 engine
check "with its reason" err_has "PERMISSION_DENIED: BAD_CONFIG: MAP_SLOT: the user $ME is not trusted"
check "and the key to set" err_has "list it under fastlane.trusted_users"
check "the refusal is counted" status_is '["exports"]["refused"]' \
  "[{'reason': 'REASON_BAD_CONFIG', 'count': '1'}]"
check "nothing was given" status_is '["exports"]["exported"]' 0
check "the log says why" grep -qF "is not trusted with a device's memory" "$work/log"
check "the daemon stops" stop_daemon

check "a daemon with two GPUs" start_daemon "$(setup "$ME" \
  "[{kind: cuda, name: one, budget: 4MiB, uuid: ${UUID}0}, {kind: cuda, name: two, budget: 16MiB, uuid: ${UUID}1}]")"
check "gives slots of both" exits 0 engine
check "all of them" out_has "48 slots mapped"
check "which the log names" grep -qF "on ${UUID}1 to map" "$work/log"
check "the daemon stops" stop_daemon

check "a daemon with an emulated device" start_daemon "$(setup "$ME" \
  '[{kind: emulated, budget: 64MiB}]')"
check "has nothing to give" exits 1 engine
check "and says so" err_has "NOT_YET: the memory of such a device cannot be mapped by others"
check "the daemon stops" stop_daemon
((failures == 0)) || tail -n 20 "$work/log"
finish
