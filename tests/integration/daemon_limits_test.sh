#!/usr/bin/env bash
# moetierd at the limits of its host, and stopped while it starts.
# usage: daemon_limits_test.sh MOETIERCTL MOETIERD DATA_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
config="$work/moetierd.yaml"
pool_value() { "$ctl" status --json | python3 -c "import json, sys; print(json.load(sys.stdin)['pools'][0].get('$1', 0))"; }
log_has() { grep -qF -- "$1" "$work/log" || { tail -n 3 "$work/log"; return 1; }; }

echo "-- open files"
check "a store" import_demo m
cat >"$config" <<YAML
state_directory: $work/state
socket: {path: $work/moetierd.sock}
store_root: $work/stores
models: {load: [{name: m, path: m}]}
YAML
mkdir -p "$work/state"
check "too few open files are refused" exits 1 timeout -s KILL 60 bash -c 'ulimit -n 8; exec "$0" --config "$1"' "$daemon" "$config"
check "with what to raise" err_has "8 are allowed: raise LimitNOFILE"
check "moetierctl too" exits 4 bash -c 'ulimit -n 8; exec "$0" status --socket "$1"' "$ctl" "$work"
check "says it" err_has "8 are allowed: raise LimitNOFILE"

echo "-- stopped while it tunes"
"$daemon" --config "$config" >"$work/log" 2>&1 &
daemon_pid=$!
for ((i = 0; i < 600; i++)); do grep -q "tuning kernels" "$work/log" && break; sleep 0.02; done
check "it says who it is" log_has ", configuration $config"
check "and what it does" log_has "tuning kernels"
check "SIGTERM ends it well" stop_daemon
check "before it serves" log_has "stopped while starting"
check "no model was loaded" equal "$(grep -c 'loading m' "$work/log")" 0

echo "-- budgets"
soft="$(ulimit -S -n)"
ulimit -S -n 64
check "it starts" start_daemon 'cpu: {tune: false}
models: {roots: [/no/such/root], load: [{name: all, path: m, ram: 3TiB}]}'
ulimit -S -n "$soft"
check "and has raised the soft limit to the hard one" equal \
  "$(awk '/Max open files/ {print ($4 == $5)}' "/proc/$daemon_pid/limits")" 1
check "a root that is not there is named" log_has "models.roots: /no/such/root is no directory"
check "it says what it loads" log_has "loading all"
total="$(pool_value budget)"
check "a budget above the model is the model" test "$total" -lt 100000000
check "a share by the tool" exits 0 "$ctl" load quarter "$work/stores/m" --ram 25%
check "is that share" equal "$((($(pool_value budget) - total - total / 4) / 4096))" 0
check "too little" exits 4 "$ctl" load small "$work/stores/m" --ram 4KiB
check "names the model" err_has "--ram of model small: a budget of"
check "and what bytes are" err_has "a number without a unit is bytes"
check "pin two" exits 0 "$ctl" pin all 0 1 2
check "are two" out_has "pinned: 2 experts of blk.0"
check "pin them again" exits 0 "$ctl" pin all 0 1 2
check "changes nothing" out_has "nothing to do: these experts of blk.0 are pinned already"
check "unpin the layer" exits 0 "$ctl" unpin all 0
check "counts those two" out_has "unpinned: 2 experts of blk.0"
check "unpin it again" exits 0 "$ctl" unpin all 0
check "changes nothing" out_has "nothing to do: the experts of blk.0 are not pinned"
check "a small share" exits 0 "$ctl" load eighth "$work/stores/m" --ram 12.5%
check "pin more than fits" exits 4 "$ctl" pin eighth 0
check "pins nothing" err_has "nothing was pinned: 32 more are wanted"
sed -i 's/3TiB/2TiB/' "$config"
check "reload" exits 0 "$ctl" reload
check "says what to do" out_has "not applied: models.load; restart moetierd, or use"
check "the daemon ends well" stop_daemon

echo "-- locked memory"
# A limit that not even the superuser passes: no capability, 64 KiB.
lock_daemon() {
  setpriv --bounding-set -ipc_lock --inh-caps -ipc_lock bash -c 'ulimit -l 64; exec "$0" --config "$1"' \
    "$daemon" "$config"
}
cat >"$config" <<YAML
state_directory: $work/state
socket: {path: $work/moetierd.sock}
store_root: $work/stores
cpu: {tune: false}
memory: {lock: true}
models: {load: [{name: m, path: m}]}
YAML
if setpriv --bounding-set -ipc_lock true 2>/dev/null; then
  check "memory that must be locked and may not" exits 1 timeout -s KILL 60 bash -c "$(declare -f lock_daemon); daemon='$daemon' config='$config' lock_daemon"
  check "is refused with the limit to raise" err_has "raise LimitMEMLOCK"
else
  echo "skipped: no setpriv that may drop CAP_IPC_LOCK"
fi
finish
