#!/usr/bin/env bash
# The daemon over emulated GPUs: what hardware does not do on demand. Drawn orders of blocks, threads
# and streams, a card that fails in mid-run, and cards that are asked for and not there.
# usage: emulated_gpu_test.sh MOETIERCTL MOETIERD_OVER_EMULATED_GPUS DATA_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/device_checks.sh"

import_demo packed
# setup [DEVICE_KEYS]
setup() {
  echo "models: {load: [{name: m, path: packed, ram: 25%, vram: 30%}]}"
  echo "devices: [{kind: cuda${1:-, budget: 64MiB}}]"
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

gpu_experts() { json_value '["lanes"][2]["experts"]'; }

check "the CPU alone" same "$(setup)"$'\n'"gpu: off" -- --rows 1
for seed in 1 7; do
  export MOETIER_EMULATED_GPU_SEED=$seed
  check "order $seed of blocks, threads and streams" same "$(setup)" -- --rows 1 --sessions 4
done
unset MOETIER_EMULATED_GPU_SEED
export MOETIER_EMULATED_GPU_WAITS=1  # one less than the start's own
check "a card that fails at the start" same "$(setup | grep -v devices)" -- --rows 1
check "is a named fallback though none is listed" out_has gpu:none
export MOETIER_EMULATED_GPU_WAITS=2
check "a card that fails when a model is admitted" same "$(setup)" -- --rows 1
check "leaves the model to the CPU, and that is said" out_has device:none
# A lane is forced, for how often the planner has the card compute depends on what it measures.
for failure in "12 gpu0" "20 gpu0 zero-copy" "60 gpu0"; do
  export MOETIER_EMULATED_GPU_WAITS=${failure%% *}
  check "the card fails at wait and lane $failure" \
    same "$(setup)" -- --rows 1 --sessions 4 --lane "${failure#* }"
  check "and that is said" out_has device:lost
done
export MOETIER_EMULATED_GPU_HANGS=100
for failure in "14 gpu0" "31 gpu0 zero-copy"; do
  export MOETIER_EMULATED_GPU_WAITS=${failure%% *}
  check "the card hangs at wait and lane $failure" \
    same "$(setup)" -- --rows 1 --sessions 4 --lane "${failure#* }"
  check "and is given up by name" out_has "the GPU has not answered"
done
export MOETIER_EMULATED_GPU_WAITS=30 MOETIER_EMULATED_GPU_HANGS=60000
# hung_stop: SIGTERM while a call waits for the card; a second without any run says that it does.
hung_stop() {
  local experts="" still=0
  start_daemon "$(setup)" || return 1
  find "$work" -name '*.heat' -delete
  replay_hash --rows 1 --lane gpu0 >"$work/hash" 2>&1 &
  while ((still < 5)); do
    sleep 0.2
    "$ctl" status --json >"$work/out"
    if [[ "$(gpu_experts)" != 0 && "$(gpu_experts)" == "$experts" ]]; then
      still=$((still + 1))
    else
      still=0
    fi
    experts="$(gpu_experts)"
  done
  stop_daemon && grep -qF "has not ended; ending without it" "$work/log"
}
check "a stop while a card hangs ends in time, and says what it left" hung_stop
check "with the heat saved" test -s "$(find "$work" -name '*.heat' | head -n 1)"
unset MOETIER_EMULATED_GPU_WAITS MOETIER_EMULATED_GPU_HANGS

readonly UUID=GPU-00000000-0000-0000-0000-00000000000  # and a digit
readonly SECOND=${UUID}1 OTHER=${UUID}9
# cards DEVICE_KEYS...: a GPU each, by their numbers.
cards() {
  local number=0
  echo "models: {load: [{name: m, path: packed, ram: 50%, vram: 100%}]}"
  echo "cpu: {workers: 1, tune: false}"
  echo "devices:"
  for keys in "$@"; do
    echo "  - {kind: cuda, name: card$number, uuid: ${UUID}$number, $keys}"
    number=$((number + 1))
  done
}
check "two GPUs, 4 sessions" \
  same "$(cards "budget: 16MiB" "budget: 64MiB")"$'\n'"gpu: required" -- --rows 1 --sessions 4
check "and they computed some" test "$(gpu_experts)" -gt 0
check "three uneven GPUs, 64 rows" \
  same "$(cards "budget: 16MiB" "reserve: 100MiB" "budget: 4MiB")" -- --rows 64 --sessions 2
check "all experts on three GPUs" same "$(cards "budget: 16MiB" "budget: 24MiB" "budget: 12MiB")" \
  -- --rows 1 --lane card0+card1+card2 --repeat 2
check "all experts over two links" same "$(cards "budget: 4MiB" "budget: 4MiB")" \
  -- --rows 1 --lane 'card0+card1 zero-copy'
check "budgets of RAM and of two GPUs that change under the calls" \
  lending "$(cards "budget: 16MiB" "budget: 32MiB")" card0+card1
export MOETIER_EMULATED_GPU_FAILS=1
for waits in 12 24; do
  export MOETIER_EMULATED_GPU_WAITS=$waits
  check "the second of three GPUs fails at its wait $waits" \
    same "$(cards "budget: 16MiB" "budget: 16MiB" "budget: 16MiB")" \
    -- --rows 1 --sessions 4 --lane card0+card1+card2
  check "and that is said, with what it means for the others" \
    out_has "all of card0+card1+card2 are given up"
done
unset MOETIER_EMULATED_GPU_WAITS MOETIER_EMULATED_GPU_FAILS
start_daemon "$(setup ", uuid: $OTHER")"
"$ctl" status >"$work/out"
check "a GPU that is not there is a named fallback" out_has gpu:none
check "with those there are" out_has "$SECOND"
stop_daemon
check "the GPUs that are there are used without one that is not" \
  same "$(cards "budget: 16MiB")"$'\n'"  - {kind: cuda, name: gone, uuid: $OTHER}" -- --rows 1
check "which is named" out_has "no GPU has the UUID $OTHER"
check "or, if required, the end of the start" \
  fails_to_start "$(setup ", uuid: $OTHER")"$'\n'"gpu: required" "no GPU has the UUID"
start_daemon "$(setup ", uuid: $SECOND, reserve: 96MiB")"
check "a budget of what is free less the reserve, on the card by its UUID" grep -qF \
  "device gpu0: Emulated GPU 1, $SECOND, compute capability 9.0, 32.0 MiB for experts" "$work/log"
stop_daemon
((failures == 0)) || tail -n 20 "$work/log"
finish
