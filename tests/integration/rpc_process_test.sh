#!/usr/bin/env bash
# The daemon as a process: who may reach its socket, that there is one daemon a state directory, what
# it tells systemd, what signals do, and that TCP needs TLS and a token.
# usage: rpc_process_test.sh MOETIERCTL MOETIERD
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
notify_pid=""
trap 'stop_daemon; [[ -z "$notify_pid" ]] || kill "$notify_pid"; rm -rf "$work"' EXIT
umask 0000  # careless on purpose

# Waits until `grep -q PATTERN FILE`, ten seconds at most.
appears() {
  local i
  for ((i = 0; i < 200; i++)); do
    grep -qE -- "$1" "$2" 2>/dev/null && return 0
    sleep 0.05
  done
  echo "no \"$1\" in $2:"
  tail -n 5 "$2"
  return 1
}
mode_is() { equal "$(stat -c %a "$1")" "$2"; }
gone() { [[ ! -e "$1" ]]; }

# What the daemon sends to systemd, one datagram a block.
python3 - "$work/notify" >"$work/notified" <<'PY' &
import socket, sys
listener = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
listener.bind(sys.argv[1])
while True:
    print(listener.recv(65536).decode(), flush=True)
PY
notify_pid=$!
for ((i = 0; i < 200; i++)); do [[ -S "$work/notify" ]] && break; sleep 0.05; done
export NOTIFY_SOCKET="$work/notify" WATCHDOG_USEC=200000

mkdir -m 0700 "$work/run"
export MOETIER_SOCKET="$work/run/deeper/moetierd.sock"
check "the daemon starts without models" start_daemon "models: {}"
check "its log names the empty pool" appears 'pool ram0: 0 B of 0 B in use$' "$work/log"
check "it says READY" appears '^READY=1' "$work/notified"
check "it pings the watchdog" appears '^WATCHDOG=1' "$work/notified"
check "the socket's folder is its own" mode_is "$work/run/deeper" 700
check "the socket has the configured mode" mode_is "$MOETIER_SOCKET" 600
check "the lock is its own" mode_is "$work/state/lock" 600

cp "$work/moetierd.yaml" "$work/second.yaml"
inode="$(stat -c %i "$MOETIER_SOCKET")"
check "a second daemon is refused" exits 1 "$daemon" --config "$work/second.yaml"
check "by its reason" err_has "ALREADY_RUNNING"
check "with the first one's pid" err_has "pid $daemon_pid"
check "the first one's socket is untouched" equal "$(stat -c %i "$MOETIER_SOCKET")" "$inode"
check "the first one still answers" exits 0 "$ctl" status --json

echo "log: {level: debug}" >>"$work/moetierd.yaml"
kill -HUP "$daemon_pid"
check "SIGHUP reloads" appears 'RELOADING=1' "$work/notified"
check "and says that it is done" appears 'reload: done' "$work/log"
echo "nonsense: 1" >>"$work/moetierd.yaml"
kill -HUP "$daemon_pid"
check "a bad file leaves the running configuration" appears 'running configuration stays' "$work/log"
check "and the daemon" exits 0 "$ctl" status --json

check "SIGTERM ends it with 0" stop_daemon
check "it says STOPPING" appears '^STOPPING=1' "$work/notified"
check "its socket is gone" gone "$MOETIER_SOCKET"

check "it starts again" start_daemon "models: {}"
kill -KILL "$daemon_pid"
wait "$daemon_pid" 2>/dev/null
check "SIGKILL leaves the socket file" test -S "$MOETIER_SOCKET"
check "which the next daemon replaces" start_daemon "models: {}"
check "SIGTERM ends that one too" stop_daemon

check "no configuration stops the start" exits 1 "$daemon" --config "$work/none.yaml"
check "with what to do" err_has "copy config/moetierd.yaml from its source"
printf 'precious' >"$MOETIER_SOCKET"
check "a file that is no socket stops the start" exits 1 "$daemon" --config "$work/moetierd.yaml"
check "and stays" equal "$(cat "$MOETIER_SOCKET")" precious
rm "$MOETIER_SOCKET"

printf 'state_directory: %s\ntcp: {address: "127.0.0.1:0"}\n' "$work/state" >"$work/tcp.yaml"
check "TCP without TLS and a token is refused" exits 1 "$daemon" --config "$work/tcp.yaml"
check "by its reason" err_has "BAD_CONFIG"
check "and nothing listens" gone "$MOETIER_SOCKET"
((failures == 0)) || tail -n 30 "$work/log"
finish
