#!/usr/bin/env bash
# The programs on processors that this one is not, under qemu's user emulation: none of our code may
# need what the processor lacks, and what was asked for and is not there is an error.
# usage: old_cpu_test.sh MOETIERCTL MOETIERD DATA_DIR KERNELS_TEST
# Exit status: 0 passed, 1 failed, 77 there is no qemu-x86_64 (ctest: skipped).
set -uo pipefail
if ! command -v qemu-x86_64 >/dev/null; then
  echo "skipped: qemu-x86_64 is not installed (package qemu-user)"
  exit 77
fi
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
kernels_test="$4"
moetierd="$daemon"

on_cpu() { qemu-x86_64 -cpu "$@"; }
daemon="$work/moetierd" # what start_daemon runs: the daemon on the emulated processor
daemon_on() {
  printf '#!/bin/sh\nexec qemu-x86_64 -cpu %s "%s" "$@"\n' "$1" "$moetierd" >"$daemon"
  chmod +x "$daemon"
}

import_demo packed
# No AVX; AVX2 without AVX-512.
for processor in "Nehalem scalar" "Haswell avx2"; do
  read -r name best <<<"$processor"
  check "field_28: $name: moetierctl runs" exits 0 on_cpu "$name" "$ctl" doctor --json
  check "field_28: $name: its kernels give the reference's bits" exits 0 \
    on_cpu "$name" "$kernels_test" "ExpertFfn: biases*"
  daemon_on "$name"
  check "field_28: $name: moetierd serves" start_daemon \
    "models: {load: [{name: m, path: packed, ram: 25%}]}"$'\n'"cpu: {workers: 1, tune: false}"
  check "field_28: $name: status" exits 0 "$ctl" status --json
  check "field_28: $name: its best kernels are $best" equal "$(json_value '["cpu"]["instruction_set"]')" "$best"
  check "field_28: $name: every bit is right" exits 0 "$ctl" replay --golden "$demo/golden" --rows 64
  check "field_28: $name: it ends well" stop_daemon
done

daemon_on Haswell
start_daemon "cpu: {instruction_set: avx512}" >"$work/refused" 2>&1
check "field_30: a forced instruction set that is not there is refused" \
  grep -q "lacks avx512; the best here is avx2" "$work/log"
((failures == 0)) || tail -n 20 "$work/log"
finish
