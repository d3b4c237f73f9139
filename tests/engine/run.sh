#!/usr/bin/env bash
# Unmodified llama.cpp engines, fetched from npm, with their experts computed by a moetierd of this
# build: compares logits with the engine alone, over releases, ways of placing tensors, evaluation
# callbacks and a daemon that is killed. Everything runs on one thread. Prints a table.
# usage: run.sh MOETIERCTL MOETIERD PLUGIN DATA FASTLANE_LIBRARY
# Exit status: 0 all rows good, 1 a row is not, 77 the engine cannot be had (the reason is printed).
set -uo pipefail
ctl=$1
daemon=$2
plugin=$3
demo=$4/demo-moe
lane_library=$5
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'stop_daemon; rm -rf "$work"' EXIT
source "$here/../integration/daemon_harness.sh"
source "$here/run_checks.sh"
source "$here/shared_checks.sh"

command -v g++ >/dev/null || { echo "skipped: g++ is not installed"; exit 77; }
model=$demo/moetier-demo-Q4_K_M.gguf
unset GGML_BACKEND_PATH MOETIER_MODEL
python3 - "$demo/routing-trace.json" "$work" <<'PY' || exit 1
import json, sys
tokens = json.load(open(sys.argv[1]))["tokens"]
for name, count in (("tokens", 256), ("512_tokens", 512)):
    open(f"{sys.argv[2]}/{name}", "w").write(" ".join(map(str, tokens[:count])))
PY

import_demo demo || exit 1
# serve [RAM]
serve() {
  start_daemon "models: {load: [{name: demo, path: demo, ram: ${1:-50%}}]}
cpu: {workers: 1, tune: false}"
}
serve || exit 1

heading
for version in 3.21.1 3.18.1 3.22.1; do
  engine=$("$here/fetch_engine.sh" "$version" 2>"$work/fetch")
  status=$?
  if ((status == 77)); then
    echo "skipped: $(cat "$work/fetch")"
    [[ $version == 3.21.1 ]] && exit 77
    continue
  fi
  probes=$work/$version
  if ((status != 0)) || ! "$here/build_probes.sh" "$engine" "$probes" >"$work/build" 2>&1; then
    row "$version" "binary layout, probes compile" bad
    head -n 5 "$work/fetch" "$work/build"
    continue
  fi
  row "$version" "binary layout is ggml_abi.h's" good

  alone stock tokens --prompt 200
  served layers tokens --prompt 200
  alike "experts by moetierd" stock layers
  [[ $version == 3.21.1 ]] || continue

  served repeated tokens --prompt 200 --two-contexts
  equal "two contexts in one process" layers repeated
  served placed tokens --prompt 200 --override exps=MOETIER
  equal "tensors placed by buffer name" layers placed
  alone stock_long 512_tokens --prompt 512
  served long 512_tokens --prompt 512
  alike "512 rows at once" stock_long long
  alone stock_last tokens --prompt 200 --last-only
  served last tokens --prompt 200 --last-only
  alike "last layer with one row" stock_last last
  served called tokens --prompt 200 --callback
  close_to "evaluation callback, single operations" layers called

  for flags in "" "-ot exps=MOETIER" "--cpu-moe" "--n-cpu-moe 3"; do
    # shellcheck disable=SC2086
    parsed parsed tokens --prompt 200 $flags
    equal "llama.cpp's command line: ${flags:-no option}" layers parsed
  done

  check_unmapped
  check_shell
  check_memory
  check_shared
  check_killed_engine
  check_killed_daemon
  check_budgets
  check_node
done
((bad_rows == 0))
