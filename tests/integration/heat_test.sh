#!/usr/bin/env bash
# What a model's experts were used for is kept over restarts, shown, exported and imported; a file
# that is damaged or another model's is no obstacle. Budgets change under load: the same bits, and
# memory that really goes back.
# usage: heat_test.sh MOETIERCTL MOETIERD DATA_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"

import_demo packed
machine=$'\n'"cpu: {workers: 2, tune: false}"
model() { echo "models: {load: [{name: m, path: packed, ram: $1, preheat: $2}]}$machine"; }
# of_class FIELD: its sum over the model's size classes.
of_class() {
  "$ctl" status --json | python3 -c "import json, sys
print(sum(int(c['$1']) for c in json.load(sys.stdin)['pools'][0]['classes']))"
}
# eventually COMMAND...: it succeeds within five seconds.
eventually() {
  local i
  for ((i = 0; i < 100; i++)); do
    "$@" && return 0
    sleep 0.05
  done
  return 1
}
resident_is() { [[ "$(of_class resident)" == "$1" ]]; }
slots_are() { [[ "$(of_class slots)" == "$1" ]]; }
rss_kib() { awk '/^VmRSS:/ {print $2}' "/proc/$daemon_pid/status"; }

# Heat over restarts.
start_daemon "$(model 50% on)"
hash="$(replay_hash --rows 1)"
check "a replay" test -n "$hash"
check "heat show" exits 0 "$ctl" heat show m
check "it has a line a layer" equal "$(wc -l <"$work/out")" 8
check "heat export" exits 0 "$ctl" heat export m "$work/before.json"
check "the daemon stops" stop_daemon
check "heat is kept in the state directory" compgen -G "$work/state/heat/*.heat" >/dev/null
start_daemon "$(model 50% off)"
check "without preheat nothing is resident" equal "$(of_class resident)" 0
check "heat export after a restart" exits 0 "$ctl" heat export m "$work/after.json"
check "the heat is what it was" cmp "$work/before.json" "$work/after.json"
stop_daemon
start_daemon "$(model 50% on)"
check "with preheat all slots are filled" eventually resident_is "$(of_class slots)"
check "the log says so" eventually grep -q "model m: preheated with" "$work/log"
check "the same bits" equal "$(replay_hash --rows 1)" "$hash"
check "the hottest were resident" test "$(of_class misses)" -lt 700

# Export and import.
python3 - "$work" <<'PY'
import json, sys
work = sys.argv[1]
export = json.load(open(work + "/before.json"))
layers = sorted(export["layers"], key=int)
json.dump(dict(export, fingerprint="00000000000000ff"), open(work + "/other.json", "w"))
topics = {"description": "", "model": "m", "top_k": 4, "domains": {
    "general": {"per_layer_domain_preferred": {layer: [9, 3, 27, 1] for layer in layers}},
    "code": {"per_layer_domain_preferred": {layer: [3, 9, 30] for layer in layers}}}}
json.dump(topics, open(work + "/topics.json", "w"))
topics["domains"]["code"]["per_layer_domain_preferred"]["0"] = [9, 3, 27, 1]
json.dump(topics, open(work + "/suspect.json", "w"))
topics["domains"]["code"]["per_layer_domain_preferred"]["5"] = [32]
json.dump(topics, open(work + "/experts.json", "w"))
del topics["domains"]["code"]["per_layer_domain_preferred"]["5"]
del topics["domains"]["general"]["per_layer_domain_preferred"]["5"]
json.dump(topics, open(work + "/layers.json", "w"))
PY
check "import of topics" exits 0 "$ctl" heat import m "$work/topics.json" --json
check "its JSON" out_is_json
check "nothing is suspect" err_is_empty
check "show as JSON" exits 0 "$ctl" heat show m --json
check "what was imported is the heat" equal "$(json_value '["layers"]["4"][9]')" 96.0
check "import of a broken router's rows" exits 0 "$ctl" heat import m "$work/suspect.json"
check "it says which" err_has "suspect: blk.0: the same 4 experts in all 2 topics"
check "import of other layers" exits 4 "$ctl" heat import m "$work/layers.json"
check "it says the numbers" err_has "layers 5 (blk.0 to blk.4) does not fit a model with layers 6 (blk.0 to blk.5)"
check "import of other experts" exits 4 "$ctl" heat import m "$work/experts.json"
check "it says the numbers" err_has "blk.5: a map of topics names expert 32, the model has 32"
check "import of another model's export" exits 4 "$ctl" heat import m "$work/other.json"
check "it says both fingerprints" err_has "00000000000000ff does not fit"
check "import of nothing" exits 4 "$ctl" heat import m "$work/log"
check "import of an export" exits 0 "$ctl" heat import m "$work/before.json"
check "export to standard output" exits 0 "$ctl" heat export m -
check "it is the imported heat" cmp "$work/out" "$work/before.json"
check "heat of no model" exits 4 "$ctl" heat show nope
stop_daemon

# A damaged file.
file="$(compgen -G "$work/state/heat/*.heat")"
printf 'spoilt' | dd of="$file" bs=1 seek=40 conv=notrunc status=none
check "with damaged heat the daemon starts" start_daemon "$(model 50% on)"
check "it says so" grep -q "heat file .* is damaged: its bytes are not those that were written" "$work/log"
check "the file is kept aside" test -f "$file.damaged"
stop_daemon

# Budgets under load.
start_daemon "$(model 100% on)"
check "all slots" equal "$(of_class slots)" 192
replay_hash --rows 1 --repeat 30 --sessions 4 >"$work/under_load" &
load=$!
sleep 1  # until the sessions' own memory is there
full="$(rss_kib)"
check "yield" exits 0 "$ctl" yield --pool ram0 --bytes 15MiB --for 6s --model m
less="$(rss_kib)"
check "fewer slots" test "$(of_class slots)" -lt 80
check "most of 15 MiB less of the daemon is resident" test $((full - less)) -gt 9000
wait "$load"
check "the same bits while budgets changed" equal "$(cat "$work/under_load")" "$hash"
sleep 4
check "the daemon restores it by itself" eventually slots_are 192
check "memory is back" test $(($(rss_kib) - less)) -gt 10000
check "the same bits" equal "$(replay_hash --rows 64 --sessions 2)" "$hash"
check "yield of too much" exits 4 "$ctl" yield --bytes 22MiB --for 1m
check "it says what is needed" err_has "at least"
check "yield of all" exits 4 "$ctl" yield --bytes 1GiB --for 1m
check "yield from no pool" exits 4 "$ctl" yield --pool vram7 --bytes 1MiB --for 1m
check "it says which there are" err_has "there is ram0"
check "yield for no time" exits 2 "$ctl" yield --bytes 1MiB --for soon
check "pins" exits 0 "$ctl" pin m 0
check "yield of pins" exits 4 "$ctl" yield --bytes 20MiB --for 1m
check "it says the numbers" err_has "are pinned"
check "the daemon stops well" stop_daemon
echo "hash of all output bits: $hash; resident with 192 slots $full KiB, 15 MiB less $less KiB"
((failures == 0)) || tail -n 20 "$work/log"
finish
