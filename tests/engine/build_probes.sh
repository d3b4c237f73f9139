#!/usr/bin/env bash
# build_probes.sh ENGINE OUT [generate|decode_speed]: compiles the programs of this folder against an
# engine that fetch_engine.sh fetched, into OUT; the named one alone, else those that run.sh takes:
# llama_probe, compare_logits, and common_probe where the release has libllama-common. Compiles
# check_abi.cc too, which fails where ggml_abi.h is not the release's.
set -euo pipefail
engine=$1
out=$2
only=${3:-}
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$out"

includes=(-I"$engine/src/include" -I"$engine/src/ggml/include")
libraries=("$engine"/bin/libllama.*.so "$engine"/bin/libggml.*.so "$engine/bin/libggml-base.so"
  "-Wl,-rpath,$engine/bin")
compile=(g++ -std=c++17 -O1 -Wall -Wextra)

if [[ -n $only ]]; then
  exec "${compile[@]}" "${includes[@]}" "$here/$only.cc" -o "$out/$only" "${libraries[@]}"
fi

definitions=()
grep -q "enum llama_load_mode" "$engine/src/include/llama.h" && definitions+=(-DPROBE_HAS_LOAD_MODE)
grep -q set_tensor_2d "$engine/src/ggml/src/ggml-backend-impl.h" && definitions+=(-DPROBE_ABI_V2)

"${compile[@]}" -Wno-invalid-offsetof -Wno-enum-compare -fsyntax-only "${definitions[@]}" -I"$root" "${includes[@]}" \
  -I"$engine/src/ggml/src" "$here/check_abi.cc"
"${compile[@]}" "${definitions[@]}" "${includes[@]}" "$here/llama_probe.cc" "$here/probe_run.cc" \
  -o "$out/llama_probe" "${libraries[@]}"
if [[ -e $engine/bin/libllama-common.so ]]; then
  "${compile[@]}" "${includes[@]}" -I"$engine/src/common" -I"$engine/src/vendor" \
    "$here/common_probe.cc" "$here/probe_run.cc" -o "$out/common_probe" \
    "$engine/bin/libllama-common.so" "${libraries[@]}"
fi
"${compile[@]}" "$here/compare_logits.cc" -o "$out/compare_logits"
