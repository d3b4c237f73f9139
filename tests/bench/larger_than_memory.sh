#!/usr/bin/env bash
# larger_than_memory.sh BUILD_DIR [--dir DIR] [options of larger_than_memory.py]
# A synthetic qwen3moe of 8.3 GB through an unmodified llama.cpp 3.21.1, stock and with moetierd, in
# memory cgroups of 75, 50 and 33 % of its size. Needs root, npm (or its cache), fio, numpy, and
# 17 GB below DIR (/var/tmp/moetier-larger-than-memory), which are left there for the next run.
# Exit status: 0 figures printed, 1 an output was wrong or a step failed, 77 no engine can be had.
set -euo pipefail
build=$(cd "${1:?usage: larger_than_memory.sh BUILD_DIR [--dir DIR] [options]}" && pwd)
shift
here=$(cd "$(dirname "$0")" && pwd)
dir=/var/tmp/moetier-larger-than-memory
if [[ ${1:-} == --dir ]]; then
  dir=$2
  shift 2
fi
status=0
engine=$("$here/../engine/fetch_engine.sh" 3.21.1) || status=$?
((status == 0)) || exit "$status"
"$here/../engine/build_probes.sh" "$engine" "$dir/probes" decode_speed
exec /usr/bin/python3 "$here/larger_than_memory.py" --dir "$dir" \
  --engine "$dir/probes/decode_speed" --libraries "$engine/bin" \
  --plugin "$build/adapters/llama_cpp/libggml-moetier.so" \
  --daemon "$build/daemon/moetierd" --ctl "$build/daemon/ctl/moetierctl" "$@"
