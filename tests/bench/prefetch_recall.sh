#!/usr/bin/env bash
# prefetch_recall.sh BUILD_DIR [GUESSES...]
# The recall of the router's guesses while an unmodified llama.cpp decodes the 1024 tokens of the
# demo model's trace, one at a time, beside what the demo model's README found for them.
# Exit status: 0 within 0.02 of it, 1 not or a step failed, 77 no engine can be had.
set -euo pipefail
build=$(cd "${1:?usage: prefetch_recall.sh BUILD_DIR [GUESSES...]}" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
demo=$here/../data/demo-moe
# README.md of the demo model: "router input of layer l as it is, router l+1".
declare -A published=([4]=0.631 [8]=0.802 [12]=0.870 [16]=0.909)
(($# > 0)) || set -- 4 8 12 16

status=0
engine=$("$here/../engine/fetch_engine.sh" 3.21.1) || status=$?
((status == 0)) || exit "$status"
work=$(mktemp -d)
daemon_pid=
stop_daemon() {
  [[ -z $daemon_pid ]] && return
  kill "$daemon_pid" 2>/dev/null || true
  wait "$daemon_pid" 2>/dev/null || true
  daemon_pid=
}
trap 'stop_daemon; rm -rf "$work"' EXIT
"$here/../engine/build_probes.sh" "$engine" "$work/probes"
ctl=$build/daemon/ctl/moetierctl
export MOETIER_SOCKET=$work/moetierd.sock
"$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --store "$work/stores/demo" >"$work/import.log" 2>&1
# One file a segment: each is decoded from an empty context.
/usr/bin/python3 - "$demo/routing-trace.json" "$work" <<'PYTHON'
import json, sys
trace = json.load(open(sys.argv[1], encoding="utf-8"))
for number, segment in enumerate(trace["segments"]):
    tokens = trace["tokens"][segment["start"]:segment["start"] + segment["tokens"]]
    with open(f"{sys.argv[2]}/segment{number}", "w", encoding="utf-8") as file:
        file.write("\n".join(map(str, tokens)) + "\n")
PYTHON

worst=0
printf '%8s %8s %10s %8s\n' guesses recall published calls
for guesses in "$@"; do
  cat >"$work/moetierd.yaml" <<YAML
state_directory: $work/state
socket: {path: $MOETIER_SOCKET, mode: '0600'}
prefetch: {guesses: $guesses}
models: {load: [{name: demo, path: $work/stores/demo, ram: 50%, preheat: off}]}
YAML
  "$build/daemon/moetierd" --config "$work/moetierd.yaml" 2>>"$work/moetierd.log" &
  daemon_pid=$!
  until "$ctl" status >"$work/status" 2>&1; do
    kill -0 "$daemon_pid" 2>/dev/null || { cat "$work/moetierd.log" >&2; exit 1; }
    sleep 0.05
  done
  for segment in "$work"/segment?; do
    GGML_BACKEND_PATH=$build/adapters/llama_cpp/libggml-moetier.so "$work/probes/llama_probe" \
      "$engine/bin" "$demo/moetier-demo-Q4_K_M.gguf" --tokens "$segment" --prompt 1 \
      --out "$work/logits" >"$work/probe.log" 2>&1 || { tail -n 3 "$work/probe.log" >&2; exit 1; }
  done
  "$ctl" status --json >"$work/status.json"
  stop_daemon
  /usr/bin/python3 - "$work/status.json" "$guesses" "${published[$guesses]:-}" <<'PYTHON' || worst=1
import json, sys
sources = json.load(open(sys.argv[1], encoding="utf-8"))["prefetch"]["sources"]
router = next(source for source in sources if source["name"] == "router")
recall = int(router["right"]) / int(router["picks"])
print(f"{sys.argv[2]:>8} {recall:8.3f} {sys.argv[3] or '-':>10} {router['calls']:>8}")
sys.exit(bool(sys.argv[3]) and abs(recall - float(sys.argv[3])) > 0.02)
PYTHON
done
exit "$worst"
