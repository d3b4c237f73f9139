#!/usr/bin/env bash
# tests/gpu/run.sh where it cannot run: it says what is missing, and skips. And all of it with
# kernels' programs that are planted and the daemon over emulated GPUs.
# usage: run_test.sh MOETIERCTL MOETIERD_OVER_EMULATED_GPUS
set -uo pipefail
here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source "$here/../integration/ctl_checks.sh"

# run_with DRIVER ARGS...: with a driver's tool that answers (yes), or fails (no).
run_with() {
  local status=1
  [[ "$1" == yes ]] && status=0
  mkdir -p "$work/bin"
  printf '#!/bin/sh\necho "GPU 0: planted"\nexit %s\n' "$status" >"$work/bin/nvidia-smi"
  chmod +x "$work/bin/nvidia-smi"
  PATH="$work/bin:$PATH" CUDACXX="$work/none" timeout 120 "$here/run.sh" "${@:2}"
}

check "--help" exits 0 run_with no --help
check "it prints how it is used" out_has "usage: tests/gpu/run.sh"
check "--nonsense" exits 2 run_with yes --nonsense
check "it then says how it is used" err_has "usage: tests/gpu/run.sh"
check "without a GPU" exits 77 run_with no
check "it says so" out_has "skipped: no GPU answers"
check "without nvcc" exits 77 run_with yes
check "it says so" out_has "skipped: no nvcc found"
check "it says what to do" out_has "CUDACXX"
check "with programs that are not there" exits 2 run_with yes --programs "$work"
check "it names what is missing" err_has "$work holds no kernels_gpu_tests"

# Programs that stand for the real ones.
mkdir "$work/programs"
plant() {
  printf '#!/bin/sh\necho "%s ran"\nexit %s\n' "$1" "$2" >"$work/programs/$1"
  chmod +x "$work/programs/$1"
}
plant kernels_gpu_tests 0
plant kernels_gpu_bench 0
cp "$1" "$work/programs/moetierctl"
cp "$2" "$work/programs/moetierd"
check "with programs" exits 0 run_with yes --programs "$work/programs"
check "the tests run" out_has "kernels_gpu_tests ran"
check "the daemon's bits are compared" out_has "15 checks, 0 failed"
check "the bench runs" out_has "kernels_gpu_bench ran"
check "it says that all passed" out_has "all passed"
plant kernels_gpu_tests 77
check "a program that finds no GPU" exits 77 run_with yes --programs "$work/programs"
plant kernels_gpu_tests 1
check "wrong bits" exits 1 run_with yes --programs "$work/programs"
check "no speed is measured then" eval '! out_has "kernels_gpu_bench ran"'
check "it says what failed" out_has "FAILED"
finish
