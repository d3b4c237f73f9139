#!/usr/bin/env bash
# The output bits are the same whatever the daemon does: RAM budget, workers, instruction set, store
# kind, policy, I/O engine, rows in a call, sessions at once. Each is compared with the reference that
# `moetierctl replay` computes from the model file, and all with each other.
# usage: exactness_test.sh MOETIERCTL MOETIERD DATA_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"

import_demo packed
import_demo in-place --in-place

# Slots of top-4 experts in each of the two size classes: 4 x (108 + 128) KiB.
readonly LEAST=966656
sets="scalar"
grep -qw avx2 /proc/cpuinfo && sets="$sets avx2"
grep -qw avx512_vnni /proc/cpuinfo && sets="$sets avx512"

hash=""
# same CONFIG -- REPLAY_ARGS: the daemon with that configuration gives the one hash.
same() {
  local config="$1" got
  shift 2
  start_daemon "$config" || return 1
  got="$(replay_hash "$@")" || return 1
  stop_daemon || { echo "the daemon ended badly"; return 1; }
  hash="${hash:-$got}"
  equal "$got" "$hash"
}
model() { echo "models: {load: [{name: m, path: $1, ram: $2, policy: '$3'}]}"; }
machine() { echo "cpu: {instruction_set: $1, workers: $2, tune: false}"; }

for set in $sets; do
  for ram in 100% 25% 5% "$LEAST"; do
    check "$set, $ram" same "$(model packed "$ram" lru)"$'\n'"$(machine "$set" 2)" -- --rows 1
  done
  check "$set, in place, 64 rows, 8 sessions" \
    same "$(model in-place 25% lru)"$'\n'"$(machine "$set" 1)" -- --rows 64 --sessions 8
done
check "one worker" same "$(model packed 25% lru)"$'\n'"$(machine auto 1)" -- --rows 1
check "8 sessions on the least budget" \
  same "$(model packed "$LEAST" lru)"$'\n'"$(machine auto 2)" -- --rows 3 --sessions 8
check "64 rows on the least budget, in place" \
  same "$(model in-place "$LEAST" lru)"$'\n'"$(machine auto 2)" -- --rows 64
for policy in clock lfu:8:16 static; do
  check "policy $policy" same "$(model packed 10% "$policy")"$'\n'"$(machine auto 2)" -- --rows 2 --sessions 2
done
check "preadv, buffered" same "$(model packed 5% lru)"$'\n'"nvme: {engine: preadv, mode: buffered}" -- --rows 4
# Which kernels serve is said, not guessed: an instruction set that was forced stands in the status.
names_set() {
  start_daemon "$(model packed 25% lru)"$'\n'"$(machine "$1" 1)" || return 1
  "$ctl" status --json >"$work/out"
  stop_daemon
  equal "$(json_value '["cpu"]["instruction_set"]')" "$1"
}
for set in $sets; do
  check "field_29: the status names $set" names_set "$set"
done
check "over the fast lane" same "$(model packed 25% lru)"$'\n'"$(machine auto 2)" -- --rows 1 --fastlane
check "8 sessions over the fast lane, 64 rows" \
  same "$(model packed 25% lru)"$'\n'"$(machine auto 2)" -- --rows 64 --sessions 8 --fastlane
# Reading ahead changes what is resident when, and no bit.
for prefetch in "{enabled: false}" "{router: false, hints: false, history: true}" \
  "{depth: 3, guesses: 16, in_flight: 32}"; do
  check "prefetch $prefetch" same "$(model packed 25% lru)"$'\n'"prefetch: $prefetch" -- --rows 1
  check "prefetch $prefetch on the least budget" \
    same "$(model in-place "$LEAST" heat)"$'\n'"prefetch: $prefetch" -- --rows 2 --sessions 8
done
check "prefetch over the fast lane, one call at a time" \
  same "$(model packed 25% lru)"$'\n'"fastlane: {max_in_flight: 1}" -- --rows 1 --repeat 4 --fastlane
# The status says how good the guesses were: all 64 tokens and 5 layers that have one before them.
guesses_are_counted() {
  start_daemon "$(model packed 25% lru)"$'\n'"fastlane: {max_in_flight: 1}" || return 1
  replay_hash --rows 1 --repeat 4 --fastlane >"$work/guessed" || return 1
  "$ctl" status --json >"$work/out"
  stop_daemon
  equal "$(json_value '["prefetch"]["sources"][0]["name"]')" router || return 1
  python3 - "$work/out" <<'PY'
import json, sys
source = json.load(open(sys.argv[1]))["prefetch"]["sources"][0]
recall = int(source["right"]) / int(source["picks"])
print(f"recall {recall:.3f} over {source['calls']} calls")
sys.exit(0 if 0.55 < recall < 0.75 and int(source["calls"]) > 0 else 1)
PY
}
check "the status counts what the router guessed" guesses_are_counted
check "tuned kernels" same "$(model packed 100% lru)"$'\n'"cpu: {tune: true}" -- --rows 8 --sessions 2

# Room for one call a size class, and not one expert less.
start_daemon "$(model packed 960000 lru)" >"$work/refused" 2>&1
check "below the least budget the daemon refuses to start" grep -q BUDGET_TOO_SMALL "$work/log"
echo "hash of all output bits: $hash"
((failures == 0)) || tail -n 20 "$work/log"
finish
