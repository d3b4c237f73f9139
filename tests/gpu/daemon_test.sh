#!/usr/bin/env bash
# A GPU's experts have the CPU's bits: the daemon with `devices: [{kind: cuda}]`, with slots in VRAM
# and experts read over the link, one session and several, and budgets that change under the calls.
# usage: daemon_test.sh MOETIERCTL MOETIERD DATA_DIR
# MOETIERD is built over CUDA's runtime, or over the emulator (tests/support/emulated_gpus.cc).
set -uo pipefail
readonly HARNESS="$(dirname "${BASH_SOURCE[0]}")/../integration"
source "$HARNESS/daemon_setup.sh" "$@"
source "$HARNESS/device_checks.sh"

import_demo packed
# setup RAM VRAM
setup() {
  echo "models: {load: [{name: m, path: packed, ram: $1, vram: $2}]}"
  echo "devices: [{kind: cuda, budget: 64MiB}]"
  echo "cpu: {workers: 1, tune: false}"
}
readonly GPU_LANE=2 LINK_LANE=1  # indices into the status's list
experts() { json_value "[\"lanes\"][$1][\"experts\"]"; }

check "no GPU wanted: the CPU alone" same "$(setup 25% none)"$'\n'"gpu: off" -- --rows 1
check "and none is listed" equal "$(json_value '["lanes"].__len__()')" 1
for vram in 20% 50% 100%; do  # a size class takes 2 MiB of a GPU at least
  check "RAM 25%, VRAM $vram" same "$(setup 25% "$vram")"$'\n'"gpu: required" -- --rows 1
  check "the GPU computed some of them" test "$(experts "$GPU_LANE")" -gt 0
done
check "all experts on the GPU" same "$(setup 100% 100%)" -- --rows 1 --lane gpu0 --repeat 4
check "and they ran there" test "$(experts "$GPU_LANE")" -gt "$(experts 0)"
check "all experts over the link" same "$(setup 100% none)" -- --rows 1 --lane 'gpu0 zero-copy'
check "and they ran there" test "$(experts "$LINK_LANE")" -gt "$(experts 0)"
check "64 rows, 4 sessions" same "$(setup 25% 30%)" -- --rows 64 --sessions 4
check "budgets of RAM and VRAM that change under the calls" lending "$(setup 50% 60%)" gpu0
check "and VRAM was used" test "$(json_value '["pools"][1]["copies_in"]')" -gt 0
echo "hash of all output bits: $hash"
((failures == 0)) || tail -n 20 "$work/log"
finish
