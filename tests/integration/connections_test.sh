#!/usr/bin/env bash
# Who holds the sockets: more connections than the process may have descriptors, and two daemons
# that want one path. usage: connections_test.sh MOETIERCTL MOETIERD
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
crowd_pid=""
second_pid=""
trap '[[ -z "$crowd_pid$second_pid" ]] || kill $crowd_pid $second_pid 2>/dev/null; stop_daemon; rm -rf "$work"' EXIT

# crowd TYPE PATH: 800 connections that say nothing, held until crowd_goes; returns when all have been
# tried. Those that the queue does not take fail.
crowd() {
  rm -f "$work/crowded"
  python3 -c '
import socket, sys, time
held = []
for _ in range(800):
    s = socket.socket(socket.AF_UNIX, getattr(socket, sys.argv[1]))
    s.setblocking(False)
    for _ in range(5):
        try:
            s.connect(sys.argv[2])
            break
        except BlockingIOError:
            time.sleep(0.01)
    held.append(s)
open(sys.argv[3], "w").close()
time.sleep(600)
' "$1" "$2" "$work/crowded" &
  crowd_pid=$!
  local i
  for ((i = 0; i < 600; i++)); do
    [[ -e "$work/crowded" ]] && return 0
    sleep 0.05
  done
  return 1
}
crowd_goes() {
  kill "$crowd_pid"
  wait "$crowd_pid" 2>/dev/null
  crowd_pid=""
}
answers_again() {
  local i
  for ((i = 0; i < 20; i++)); do
    "$ctl" status >"$work/out" 2>"$work/err" && return 0
    sleep 0.1
  done
  cat "$work/err"
  return 1
}
log_lines() { wc -l <"$work/log"; }
cpu_ticks() { awk '{print $14 + $15}' "/proc/$daemon_pid/stat"; }
descriptors() { find "/proc/$daemon_pid/fd" -mindepth 1 | wc -l; }
few() { (($1 <= $2)) || { echo "$1, more than $2"; false; }; }

echo "-- 800 silent connections and 600 descriptors"
# The daemon alone is short.
printf '#!/bin/bash\nulimit -n 600\nexec %q "$@"\n' "$daemon" >"$work/short"
chmod +x "$work/short"
whole="$daemon"
daemon="$work/short"
check "the daemon starts" start_daemon $'limits: {sessions: 8}\nfastlane: {max_sessions: 8}'
daemon="$whole"
for type in SOCK_STREAM SOCK_SEQPACKET; do
  socket="$MOETIER_SOCKET"
  [[ "$type" == SOCK_STREAM ]] || socket+=".fastlane"
  before="$(log_lines)"
  idle="$(descriptors)"
  check "$type: the crowd comes" crowd "$type" "$socket"
  ticks="$(cpu_ticks)"
  sleep 1
  check "$type: waiting for descriptors takes no time" few $(($(cpu_ticks) - ticks)) 20
  check "$type: descriptors are left" few "$(descriptors)" 580
  crowd_goes
  check "$type: the daemon answers once the crowd is gone" answers_again
  check "$type: the log is not flooded" few $(($(log_lines) - before)) 90
done
check "the log says what was short" grep -q 'connections are held' "$work/log"
check "the daemon ends well" stop_daemon

echo "-- two daemons, one path"
check "the first starts" start_daemon "models: {}"
inode="$(stat -c %i "$MOETIER_SOCKET")"
sed "s|^state_directory: .*|state_directory: $work/other|" "$work/moetierd.yaml" >"$work/second.yaml"
timeout 20 "$daemon" --config "$work/second.yaml" >"$work/second.log" 2>&1
check "the second is refused" equal "$?" 1
check "by its reason" grep -q ALREADY_RUNNING "$work/second.log"
check "with the first one's process" grep -q "pid $daemon_pid" "$work/second.log"
check "the socket is the first one's" equal "$(stat -c %i "$MOETIER_SOCKET")" "$inode"
check "which answers" exits 0 "$ctl" status --json
for path in "$MOETIER_SOCKET" "$MOETIER_SOCKET.fastlane"; do
  rm "$path"
  python3 -c 'import socket, sys; socket.socket(socket.AF_UNIX).bind(sys.argv[1])' "$path"
done
check "it ends well" stop_daemon
check "and leaves what is not its own" test -S "$MOETIER_SOCKET"
check "nor the fast lane's" test -S "$MOETIER_SOCKET.fastlane"

echo "-- a path where something else listens"
rm -f "$MOETIER_SOCKET" "$MOETIER_SOCKET.fastlane"
python3 -c '
import socket, sys, time
s = socket.socket(socket.AF_UNIX)
s.bind(sys.argv[1])
s.listen()
time.sleep(600)' "$MOETIER_SOCKET" &
second_pid=$!
for ((i = 0; i < 200; i++)); do [[ -S "$MOETIER_SOCKET" ]] && break; sleep 0.05; done
check "is not taken over" exits 1 timeout 20 "$daemon" --config "$work/moetierd.yaml"
check "by its reason" err_has ALREADY_RUNNING
check "moetierctl says that something is there" exits 3 "$ctl" status
check "and does not answer" err_has "does not answer"
kill "$second_pid"
wait "$second_pid" 2>/dev/null
second_pid=""
check "what is left behind is replaced" start_daemon "models: {}"
check "it ends well" stop_daemon
((failures == 0)) || tail -n 30 "$work/log"
finish
