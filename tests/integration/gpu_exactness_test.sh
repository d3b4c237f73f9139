#!/usr/bin/env bash
# A GPU's experts have the CPU's bits: the daemon with `devices: [{kind: cuda}]`, built over the
# emulator instead of CUDA's runtime, so that every kernel, stream and event is the shipped source.
# Slots in VRAM and experts read over the link, several sessions, and the card failing in mid-run.
# usage: gpu_exactness_test.sh MOETIERCTL MOETIERD_OVER_EMULATED_GPUS DATA_DIR
set -uo pipefail
ctl="$1"
daemon="$2"
demo="$3/demo-moe"
work="$(mktemp -d /tmp/moetier-gpu.XXXXXX)"
source "$(dirname "${BASH_SOURCE[0]}")/ctl_checks.sh"
source "$(dirname "${BASH_SOURCE[0]}")/daemon_harness.sh"
source "$(dirname "${BASH_SOURCE[0]}")/device_checks.sh"
trap 'stop_daemon; rm -rf "$work"' EXIT

import_demo packed

# setup RAM VRAM [DEVICE_KEYS]
setup() {
  echo "models: {load: [{name: m, path: packed, ram: $1, vram: $2}]}"
  echo "devices: [{kind: cuda${3:-, budget: 64MiB}}]"
  echo "cpu: {workers: 1, tune: false}"
}
# fails_to_start CONFIG TEXT: the daemon ends with TEXT in its last words.
fails_to_start() {
  if start_daemon "$1" >/dev/null; then
    stop_daemon
    return 1
  fi
  daemon_pid=""
  tail -n 3 "$work/log" | grep -qF -- "$2"
}
experts() { json_value "[\"lanes\"][$1][\"experts\"]"; }

readonly GPU_LANE=2 LINK_LANE=1  # indices into the status's list

check "no GPU wanted: the CPU alone" same "$(setup 25% none)"$'\n'"gpu: off" -- --rows 1
check "and none is listed" equal "$(json_value '["lanes"].__len__()')" 1
for vram in 10% 100%; do
  check "RAM 25%, VRAM $vram" same "$(setup 25% "$vram")" -- --rows 1
  check "the GPU computed some of them" test "$(experts "$GPU_LANE")" -gt 0
done
check "all experts on the GPU" same "$(setup 100% 100%)" -- --rows 1 --lane gpu0 --repeat 4
check "and they ran there" test "$(experts "$GPU_LANE")" -gt "$(experts 0)"
check "all experts over the link" same "$(setup 100% none)" -- --rows 1 --lane 'gpu0 zero-copy'
check "and they ran there" test "$(experts "$LINK_LANE")" -gt "$(experts 0)"
check "budgets of RAM and VRAM that change under the calls" lending "$(setup 50% 30%)" gpu0
check "and VRAM was used" test "$(json_value '["pools"][1]["copies_in"]')" -gt 0
export MOETIER_EMULATED_GPU_SEED=7
check "64 rows, 4 sessions, a drawn order of blocks, threads and streams" \
  same "$(setup 25% 30%)" -- --rows 64 --sessions 4
unset MOETIER_EMULATED_GPU_SEED
for waits in 2 20 60; do
  export MOETIER_EMULATED_GPU_WAITS=$waits
  check "the card fails at its wait $waits" same "$(setup 25% 30%)" -- --rows 1 --sessions 4
  check "and that is said" out_has device:lost
done
unset MOETIER_EMULATED_GPU_WAITS

# What the configuration can ask for and not get.
readonly OTHER=GPU-00000000-0000-0000-0000-000000000009
start_daemon "$(setup 25% 30% ", uuid: $OTHER")"
"$ctl" status >"$work/out"
check "a GPU that is not there is a named fallback" out_has gpu:none
check "with those there are" out_has GPU-00000000-0000-0000-0000-000000000001
stop_daemon
check "or, if required, the end of the start" \
  fails_to_start "$(setup 25% 30% ", uuid: $OTHER")"$'\n'"gpu: required" "no GPU has the UUID"
start_daemon "$(setup 25% 30% ', uuid: GPU-00000000-0000-0000-0000-000000000001, reserve: 96MiB')"
"$ctl" status >"$work/out"
check "a budget of what is free less the reserve, on the card by its UUID" \
  grep -q "device gpu0: Emulated GPU 1, GPU-00000000-0000-0000-0000-000000000001, compute capability 9.0, 32.0 MiB" "$work/log"
stop_daemon
echo "hash of all output bits: $hash"
((failures == 0)) || tail -n 20 "$work/log"
finish
