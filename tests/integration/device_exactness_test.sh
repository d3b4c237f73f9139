#!/usr/bin/env bash
# With a device beside the CPU the output bits are still the same: whatever VRAM and RAM hold, by
# every policy and rule of entry, for one session and for many, when the device is lost in mid-run,
# while the budgets of both change, and over several uneven devices. Each is compared with the
# reference that `moetierctl replay` computes from the model file.
# usage: device_exactness_test.sh MOETIERCTL MOETIERD DATA_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
source "$(dirname "${BASH_SOURCE[0]}")/device_checks.sh"

import_demo packed

# model RAM VRAM POLICY [ADMISSION]
model() {
  echo "models: {load: [{name: m, path: packed, ram: $1, policy: '$3', vram: $2, vram_policy: '$3', vram_admission: ${4:-always}}]}"
}
readonly MACHINE="cpu: {workers: 1, tune: false}"
# device [LOST_AFTER]
device() { echo "devices: [{kind: emulated, name: card, budget: 64MiB, lost_after: ${1:-0}}]"; }
setup() { printf '%s\n' "$(model "${@:2}")" "$(device "$1")" "$MACHINE"; }

for ram in 100% 25% 5%; do
  for vram in none 10% 30% 100%; do
    check "RAM $ram, VRAM $vram" same "$(setup 0 "$ram" "$vram" lru)" -- --rows 1
  done
done
for policy in clock lfu:8:16 heat:64 static; do
  check "policy $policy, second touch" \
    same "$(setup 0 10% 20% "$policy" second_touch)" -- --rows 2 --sessions 2
done
check "8 sessions" same "$(setup 0 25% 30% lru)" -- --rows 1 --sessions 8
check "the GPU's lane computed some of them" \
  test "$(json_value '["lanes"][2]["experts"]')" -gt 0
check "status lists the device's pool" equal "$(json_value '["pools"][1]["name"]')" card
check "64 rows, 8 sessions, 5 % of RAM" same "$(setup 0 5% 10% lru)" -- --rows 64 --sessions 8
check "over the fast lane" same "$(setup 0 25% 30% lru)" -- --rows 1 --fastlane
for lost_after in 1 20 80; do
  check "lost after $lost_after copies and runs" \
    same "$(setup "$lost_after" 25% 30% lru)" -- --rows 1 --sessions 4
  check "and said" out_has device:lost
done

check "budgets of RAM and VRAM that change under the calls" \
  lending "$(setup 0 50% 30% lru)" card
check "and VRAM was used" test "$(json_value '["pools"][1]["copies_in"]')" -gt 0

# three LAST_BUDGET LOST_AFTER RAM VRAM: uneven devices, of which the last may be lost.
three() {
  printf '%s\n' "$(model "$3" "$4" lru)" "$MACHINE" "devices:" \
    "  - {kind: emulated, name: big, budget: 8MiB}" \
    "  - {kind: emulated, name: middle, budget: 3MiB}" \
    "  - {kind: emulated, name: small, budget: $1, lost_after: $2}"
}
card_used() { json_value "[\"pools\"][1][\"cards\"][$1][\"bytes_used\"]"; }
check "three uneven devices, 8 sessions" same "$(three 1MiB 0 25% 100%)" -- --rows 1 --sessions 8
check "each has experts, within its own budget" eval \
  '(($(card_used 0) > $(card_used 1) && $(card_used 1) > $(card_used 2) && $(card_used 2) > 0 &&
     $(card_used 0) <= 8 << 20 && $(card_used 1) <= 3 << 20 && $(card_used 2) <= 1 << 20))'
check "and they computed some" test "$(json_value '["lanes"][2]["experts"]')" -gt 0
check "a device with room for next to nothing" same "$(three 64KiB 0 10% 100%)" -- --rows 2 --sessions 2
for lost_after in 1 10 30; do
  check "one of three lost after $lost_after" \
    same "$(three 3MiB "$lost_after" 25% 100%)" -- --rows 1 --sessions 4
  check "and said" out_has "all of big+middle+small are given up"
done
check "budgets of RAM and of three devices that change under the calls" \
  lending "$(three 3MiB 0 50% 60%)" big+middle+small

start_daemon "$(setup 0 25% 30% lru)"
"$ctl" status >"$work/table"
check "the status names pool and lanes" grep -qE '^card zero-copy +0' "$work/table"
stop_daemon
start_daemon "$(three 1MiB 0 25% 30%)"
"$ctl" status >"$work/table"
check "and each of several devices" \
  grep -qE '^  middle: .* of 3\.00 MiB in use, emulated$' "$work/table"
stop_daemon
echo "hash of all output bits: $hash"
((failures == 0)) || tail -n 20 "$work/log"
finish
