#!/usr/bin/env bash
# moetierctl against a running daemon with memory for a quarter of the experts: the output's hash is
# the reference's for every batch size, session count and store kind; status is JSON; exit codes.
# usage: ctl_replay_test.sh MOETIERCTL MOETIERD DATA_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"

import_demo packed
import_demo in-place --in-place
check "the daemon starts" start_daemon "models:
  load:
    - {name: packed, path: packed, ram: 25%}
    - {name: in-place, path: in-place, ram: 25%}
    - {name: whole, path: packed, ram: 100%}"
check "status" exits 0 "$ctl" status --json
check "status is JSON" out_is_json
check "a watched status" exits 0 "$ctl" status --watch --interval 0.1 --count 2 --json
check "has a line each" equal "$(wc -l <"$work/out")" 2
check "models" exits 0 "$ctl" models --json
check "all are loaded" equal "$(json_value '["models"].__len__()')" 3

reference=""
for shape in "packed 1 1" "packed 7 3" "packed 64 2" "in-place 1 2" "in-place 64 1"; do
  read -r model rows sessions <<<"$shape"
  check "replay $shape" exits 0 "$ctl" replay --golden "$demo/golden" --model "$model" \
    --rows "$rows" --sessions "$sessions" --json
  hash="$(json_value '["hash"]')"
  reference="${reference:-$(json_value '["reference_hash"]')}"
  check "its hash is the reference's" equal "$hash" "$reference"
  check "its error is that of int8 activations" \
    python3 -c "import sys; sys.exit(not 0 < $(json_value '["relative_l2"]') < 0.03)"
done
# What was routed is recorded: the golden rows at once, so that they are 64 tokens of one session. They
# are resident by then: replay has many calls in flight, and those that read are answered out of order.
check "replay of all that is resident" exits 0 "$ctl" replay --golden "$demo/golden" --model whole
: >"$work/trace.err"
"$ctl" trace record whole "$work/trace" --tokens 64 --seconds 60 >"$work/trace.out" 2>"$work/trace.err" &
recording=$!
for ((i = 0; i < 500; ++i)); do
  grep -q 'recording' "$work/trace.err" && break
  sleep 0.02
done
check "replay while it is recorded" exits 0 "$ctl" replay --golden "$demo/golden" --model whole \
  --rows 64 --sessions 1
wait "$recording"
check "the recording ends by itself" equal $? 0
check "and has the golden routes" python3 - "$work/trace" "$demo/golden" <<'PY'
import ast, array, json, sys

def load(path):  # version 1, <i4, C order
    data = open(path, "rb").read()
    end = 10 + int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:end].decode())
    assert header["descr"] == "<i4" and end % 64 == 0, header
    return header["shape"], array.array("i", data[end:]).tolist()

trace, golden = sys.argv[1:]
assert load(trace + "/routes.npy") == load(golden + "/experts.npy")
manifest = json.load(open(trace + "/manifest.json"))
assert manifest["tokens"] == 64, manifest
assert manifest["incomplete_tokens"] == manifest["lost_calls"] == 0, manifest
assert load(trace + "/segments.npy") == ((2,), [0, 64])
PY
check "a directory that exists is not written to" exits 4 "$ctl" trace record whole "$work/trace"
check "a directory that cannot be made is said before anything is recorded" exits 4 \
  "$ctl" trace record whole "$work/no/such"
check "no time is recorded for nan seconds" exits 2 "$ctl" trace record whole "$work/nan" --seconds nan
check "nothing is left of a recording without a token" exits 4 \
  "$ctl" trace record whole "$work/none" --seconds 0.1
check "not even the directory" test ! -e "$work/none"
check "status tells where the time went" exits 0 "$ctl" status
check "by model" out_has "LAYER RUNS OF"

# A model file that is not quite the store's: the output is wrong, and no speed is claimed for it.
cp "$demo/moetier-demo-Q4_K_M.gguf" "$work/other.gguf"
printf '\125\252\125\252' | dd of="$work/other.gguf" bs=1 seek=12000000 conv=notrunc status=none
check "field_63: wrong bits are exit 1" exits 1 "$ctl" replay --golden "$demo/golden" \
  --model packed --gguf "$work/other.gguf"
check "field_63: and give no speed" out_has "speed: none is claimed for a wrong output"
check "field_63: nor in JSON" exits 1 "$ctl" replay --golden "$demo/golden" --model packed \
  --gguf "$work/other.gguf" --json
check "field_63: it is null" equal "$(json_value '["calls_per_second"]')" None
check "a model that is not there" exits 4 "$ctl" replay --golden "$demo/golden" --model nope
check "a model must be named when there are several" exits 4 "$ctl" replay --golden "$demo/golden"

check "the daemon ends well on SIGTERM" stop_daemon
check "then nothing answers" exits 3 "$ctl" status
((failures == 0)) || tail -n 30 "$work/log"
finish
