#!/usr/bin/env bash
# The CUDA backend on a GPU: the kernels' tests, the daemon's bits with slots in VRAM, then the
# kernels' speed against plain reads of memory and link.
set -uo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
readonly ROOT
readonly PROGRAMS=(kernels_gpu_tests moetierd moetierctl kernels_gpu_bench)
export CUDA_DEVICE_ORDER=PCI_BUS_ID  # GPU 0 is then the same for nvidia-smi and for the programs

usage() {
  cat <<'TEXT'
usage: tests/gpu/run.sh [--programs FOLDER]
Builds what it needs in build/gpu, for this machine's GPU alone, runs every test of the kernels on
it, replays recorded layers through the daemon and compares every bit, and then measures the
kernels; a table stands at the end. About 5 minutes, the build included.
  --programs FOLDER  build nothing: run the programs of that folder, which is build/*/gpu of a build
                     with MOETIER_CUDA on and may have been carried here from another machine
Exit status: 0 all passed; 1 a test failed, bits are wrong or the build broke; 2 bad arguments;
77 there is no GPU or no nvcc (the reason is printed).
TEXT
}

skip() {
  echo "skipped: $1"
  exit 77
}

# The first GPU's compute capability as CMake spells it: 90-real.
architecture() {
  nvidia-smi --query-gpu=compute_cap --format=csv,noheader --id=0 2>/dev/null |
    sed -n 's/^\([0-9]*\)\.\([0-9]\)$/\1\2-real/p'
}

build() {
  local real
  real="$(architecture)"
  cmake -S "$ROOT" -B "$ROOT/build/gpu" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMOETIER_CUDA=ON \
    ${real:+"-DMOETIER_CUDA_ARCHITECTURES=$real"} >"$ROOT/build/gpu-configure.log" 2>&1 ||
    { cat "$ROOT/build/gpu-configure.log"; return 1; }
  cmake --build "$ROOT/build/gpu" --target gpu_programs
}

# report NAME STATUS: what is to be said of a program that has ended; ends the script unless it
# passed.
report() {
  case "$2" in
    0) ;;
    77) skip "$1 found no GPU" ;;
    *)
      echo "FAILED: $1 ended with status $2"
      exit 1
      ;;
  esac
}

# run NAME COMMAND...: and ends the script unless it passes.
run() {
  printf '\n== %s\n' "$1"
  "${@:2}"
  report "$1" "$?"
}

main() {
  local folder="" program
  while (($# > 0)); do
    case "$1" in
      --programs)
        folder="${2:-}"
        [[ -n "$folder" ]] || { usage >&2; exit 2; }
        shift
        ;;
      --help | -h)
        usage
        exit 0
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
    shift
  done

  nvidia-smi -L || skip "no GPU answers (nvidia-smi -L)"
  if [[ -z "$folder" ]]; then
    nvcc_answers || skip "no nvcc found: set CUDACXX to its path, or give --programs"
    mkdir -p "$ROOT/build"
    build || { echo "FAILED: the build"; exit 1; }
    folder="$ROOT/build/gpu/gpu"
  fi
  for program in "${PROGRAMS[@]}"; do
    [[ -x "$folder/$program" ]] || { echo "$folder holds no $program" >&2; exit 2; }
  done
  folder="$(cd "$folder" && pwd)"
  run kernels_gpu_tests "$folder/kernels_gpu_tests"
  run daemon_test.sh env LD_LIBRARY_PATH="$folder" "$ROOT/tests/gpu/daemon_test.sh" \
    "$folder/moetierctl" "$folder/moetierd" "$ROOT/tests/data"
  run kernels_gpu_bench "$folder/kernels_gpu_bench"
  echo "all passed in $SECONDS s"
}

# Where CMake looks for it (cmake/cuda.cmake).
nvcc_answers() {
  if [[ -n "${CUDACXX+set}" ]]; then
    "$CUDACXX" --version >/dev/null 2>&1
    return
  fi
  local folder
  for folder in "${CUDA_HOME:-}" "${CUDA_PATH:-}" /usr/local/cuda; do
    [[ -n "$folder" && -x "$folder/bin/nvcc" ]] && return
  done
  command -v nvcc >/dev/null
}

main "$@"
