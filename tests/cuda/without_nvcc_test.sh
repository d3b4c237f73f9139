#!/usr/bin/env bash
# The build where there is no nvcc: AUTO says at configure that the CUDA backend is off and why, ON
# refuses and says what to do; the kernel report skips, or fails where it is required.
# usage: without_nvcc_test.sh CMAKE CXX
set -uo pipefail
cmake=$1
cxx=$2
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source "$root/tests/integration/ctl_checks.sh"
export CUDACXX="$work/none" PYTHONDONTWRITEBYTECODE=1

# configure ARGS...: the project without its tests, in a folder of its own.
configure() {
  timeout 200 "$cmake" -S "$root" -B "$work/build" -G Ninja -DCMAKE_CXX_COMPILER="$cxx" \
    -DMOETIER_TESTS=OFF "$@"
}
check "ON is refused" exits 1 configure -DMOETIER_CUDA=ON
check "it says why" err_has "MOETIER_CUDA=ON, but no nvcc found"
check "it says what to do" err_has "set CUDACXX to nvcc's path, or use AUTO"
check "AUTO configures" exits 0 configure -DMOETIER_CUDA=AUTO
check "it says that the backend is off, and why" out_has "CUDA backend: off (no nvcc found)"
check "OFF configures" exits 0 configure -DMOETIER_CUDA=OFF
check "it says so" out_has "CUDA backend: off (MOETIER_CUDA=OFF)"
check "a word that is none of these is refused" exits 1 configure -DMOETIER_CUDA=MAYBE
check "it says what is allowed" err_has "must be AUTO, ON or OFF"

report() { timeout 60 python3 "$root/tests/cuda/report_kernels.py" "$@"; }
check "the kernel report skips" exits 77 report
check "it says why" out_has "no nvcc found"
check "the kernel report fails where it is required" exits 1 report --require
finish
