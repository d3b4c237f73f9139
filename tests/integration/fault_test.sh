#!/usr/bin/env bash
# What breaks beside the daemon: damaged bytes in a store, clients killed in mid-stream, the daemon
# itself killed. usage: fault_test.sh MOETIERCTL MOETIERD DATA_DIR [CLIENTS] [DAEMON_KILLS]
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
clients="${4:-20}"
kills="${5:-8}"
readonly MODEL='models: {load: [{name: m, path: packed, ram: 25%, verify_on_landing: always}]}'

import_demo packed
find "$work/stores/packed" -type f ! -name lock -exec sha256sum {} + | sort >"$work/sums"
unchanged() { find "$work/stores/packed" -type f ! -name lock -exec sha256sum {} + | sort | diff - "$work/sums"; }

# Slots held by calls or loading, over all size classes.
busy_slots() {
  "$ctl" status --json | python3 -c '
import json, sys
pools = json.load(sys.stdin)["pools"]
print(sum(int(c.get(k, 0)) for p in pools for c in p["classes"] for k in ("reserved", "loading", "draining")))'
}
quiet() {
  local i
  for ((i = 0; i < 100; i++)); do
    [[ "$(busy_slots)" == 0 ]] && return 0
    sleep 0.05
  done
  echo "$(busy_slots) slots are still busy"
  return 1
}
sessions() { "$ctl" status --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin).get("sessions", [])))'; }

echo "-- clients killed in mid-stream while another decodes"
check "the daemon starts" start_daemon "$MODEL"
# It goes on until the last client has been killed, and prints a hash a round.
decode_steadily() {
  until [[ -e "$work/all_killed" ]]; do
    replay_hash --rows 1 --repeat 20 || return 1
  done
}
decode_steadily >"$work/steady" &
steady=$!
for ((i = 0; i < clients; i++)); do
  "$ctl" replay --golden "$demo/golden" --rows $((1 + i % 9)) --sessions 3 --repeat 1000 >/dev/null 2>&1 &
  victim=$!
  sleep "0.$((5 + RANDOM % 20))"
  kill -KILL "$victim"
  wait "$victim" 2>/dev/null
done
check "one still decodes beside the last of them" kill -0 "$steady"
touch "$work/all_killed"
check "it ends well" wait "$steady"
check "no slot is held" quiet
for ((i = 0; i < 100; i++)); do [[ "$(sessions)" == 0 ]] && break; sleep 0.05; done
check "no session is left" equal "$(sessions)" 0
reference="$(replay_hash --rows 1)"
check "its bits are the reference's" equal "$(sort -u "$work/steady")" "$reference"
check "the daemon ends well" stop_daemon

echo "-- the daemon killed while it loads, reads and serves"
for ((i = 0; i < kills; i++)); do
  if ((i % 4 == 0)); then
    mkdir -p "$work/state"
    "$daemon" --config "$work/moetierd.yaml" >>"$work/log" 2>&1 &  # killed while it loads
    daemon_pid=$!
    sleep "0.0$((RANDOM % 9))"
  else
    check "it starts after kill $i" start_daemon "$MODEL"
    "$ctl" replay --golden "$demo/golden" --rows 4 --repeat 1000 >/dev/null 2>"$work/client.err" &
    client=$!
    sleep "0.$((RANDOM % 30))"
  fi
  kill -KILL "$daemon_pid"
  wait "$daemon_pid" 2>/dev/null
  daemon_pid=""
  if [[ -n "${client:-}" ]]; then wait "$client"; client=""; fi
done
check "the stores are as they were" unchanged
check "it starts again" start_daemon "$MODEL"
check "and serves the same bits" equal "$(replay_hash --rows 1)" "$reference"

echo "-- a damaged record"
check "the daemon stops" stop_daemon
data="$(find "$work/stores/packed" -type f -size +10M | head -n 1)"
python3 - "$data" <<'PY'
import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(50000)
    byte = f.read(1)[0]
    f.seek(50000)
    f.write(bytes([byte ^ 1]))
PY
check "it starts with a damaged store" start_daemon "$MODEL"
check "replay finds calls that fail" exits 1 "$ctl" replay --golden "$demo/golden" --rows 1 --json
check "with DATA_LOSS, the file and the offset" \
  python3 - "$work/out" "$data" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
few = 0 < int(report["faults"]) < int(report["calls"]) // 10
named = "CHECKSUM" in report["first_problem"] and sys.argv[2] in report["first_problem"]
sys.exit(0 if few and named and int(report["differing_rows"]) == 0 else print(report) or 1)
PY
check "status lists the quarantined expert" exits 0 "$ctl" status
check "by file" out_has "$data"
check "verify names it" exits 1 "$ctl" verify "$work/stores/packed"
check "verify --repair mends it" exits 0 "$ctl" verify "$work/stores/packed" --repair
check "the store is as it was" unchanged
check "reload lifts the quarantine" exits 0 "$ctl" reload
check "the bits are right again, without a restart" equal "$(replay_hash --rows 1)" "$reference"
check "the daemon ends well" stop_daemon
((failures == 0)) || tail -n 20 "$work/log"
finish
