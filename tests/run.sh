#!/usr/bin/env bash
# The default test command: dependencies, build, every header alone, default tests (source checks
# included), in the dev preset. Prints a summary; exits 0 only if every step passed.
set -uo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
cd "$ROOT" || exit 1

usage() {
  cat <<'TEXT'
usage: tests/run.sh
Installs what is missing from Debian, builds the dev preset in build/dev and runs the default tests.
Exit status: 0 every step passed; 1 one did not; 2 bad arguments.
TEXT
}
if [[ "${1:-}" == --help || "${1:-}" == -h ]]; then
  usage
  exit 0
elif (($# > 0)); then
  usage >&2
  exit 2
fi

names=()
verdicts=()
times=()
failed=no

# step NAME COMMAND...: runs it unless an earlier step failed that it needs.
step() {
  local name="$1" begin=$SECONDS verdict
  shift
  printf '\n== %s\n' "$name"
  if "$@"; then
    verdict=passed
  else
    verdict=FAILED
    failed=yes
  fi
  names+=("$name")
  verdicts+=("$verdict")
  times+=("$((SECONDS - begin)) s")
  [[ "$verdict" == passed ]]
}

summary() {
  local i
  printf '\n== summary\n'
  for i in "${!names[@]}"; do
    printf '%-8s %7s  %s\n' "${verdicts[$i]}" "${times[$i]}" "${names[$i]}"
  done
  if [[ "$failed" == no ]]; then
    echo "all passed in $SECONDS s"
  else
    echo "FAILED after $SECONDS s"
  fi
}

run_all() {
  step "dependencies" deploy/install-deps.sh || return
  step "configure" cmake --preset dev || return
  step "build" cmake --build --preset dev || return
  step "every header compiles alone" \
    cmake --build --preset dev --target all_verify_interface_header_sets
  step "tests" ctest --preset dev -j "$(nproc)"
}

run_all
summary
[[ "$failed" == no ]]
