#!/usr/bin/env bash
# build_probes.sh ENGINE OUT: compiles the probes against an engine that fetch_engine.sh fetched.
# Writes OUT/llama_probe, OUT/decode_speed, OUT/compare_logits, and OUT/common_probe where the release has
# libllama-common; compiles check_abi.cc, which fails where ggml_abi.h is not the release's.
set -euo pipefail
engine=$1
out=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
mkdir -p "$out"

includes=(-I"$engine/src/include" -I"$engine/src/ggml/include")
libraries=("$engine"/bin/libllama.*.so "$engine"/bin/libggml.*.so "$engine/bin/libggml-base.so"
  "-Wl,-rpath,$engine/bin")
compile=(g++ -std=c++17 -O1 -Wall -Wextra)

definitions=()
grep -q "enum llama_load_mode" "$engine/src/include/llama.h" && definitions+=(-DPROBE_HAS_LOAD_MODE)
grep -q set_tensor_2d "$engine/src/ggml/src/ggml-backend-impl.h" && definitions+=(-DPROBE_ABI_V2)

"${compile[@]}" -Wno-invalid-offsetof -Wno-enum-compare -fsyntax-only "${definitions[@]}" -I"$root" "${includes[@]}" \
  -I"$engine/src/ggml/src" "$here/check_abi.cc"
"${compile[@]}" "${definitions[@]}" "${includes[@]}" "$here/llama_probe.cc" "$here/probe_run.cc" \
  -o "$out/llama_probe" "${libraries[@]}"
"${compile[@]}" "${includes[@]}" "$here/decode_speed.cc" -o "$out/decode_speed" "${libraries[@]}"
if [[ -e $engine/bin/libllama-common.so ]]; then
  "${compile[@]}" "${includes[@]}" -I"$engine/src/common" -I"$engine/src/vendor" \
    "$here/common_probe.cc" "$here/probe_run.cc" -o "$out/common_probe" \
    "$engine/bin/libllama-common.so" "${libraries[@]}"
fi
"${compile[@]}" "$here/compare_logits.cc" -o "$out/compare_logits"
