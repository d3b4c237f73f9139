#!/usr/bin/env bash
# From a clean clone to an engine that generates text: builds, imports the demo model, serves it with
# memory for a quarter of its experts, replays recorded rows and compares every bit, then has an
# unmodified llama.cpp (from npm) write text with its experts in the daemon. Leaves nothing behind but
# the build folder and the engine's cache, unless --keep is given.
set -euo pipefail

ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
readonly ROOT
readonly DEMO="$ROOT/tests/data/demo-moe"
readonly START_SECONDS=60  # longest wait for the daemon to answer

keep=no
build_dir="$ROOT/build/release"
work=""
daemon_pid=""
generated=""
finished=no

usage() {
  cat <<'TEXT'
usage: deploy/quickstart.sh [--keep] [--build-dir DIR]
  --keep           leave the daemon running, and say how to talk to it
  --build-dir DIR  use the programs of this build instead of building build/release
Exit status: 0 every output bit was right; anything else: it was not, or a step failed.
TEXT
}

say() { printf '\n== %s\n' "$*"; }

# Stops the daemon and removes the folder, however the script ends.
cleanup() {
  local status=$?
  trap - EXIT
  if [[ "$keep" == yes && "$finished" == yes ]]; then
    exit "$status"
  fi
  if [[ -n "$daemon_pid" ]] && kill -0 "$daemon_pid" 2>/dev/null; then
    kill -TERM "$daemon_pid" 2>/dev/null || true
    local waited
    for ((waited = 0; waited < 100; waited++)); do
      kill -0 "$daemon_pid" 2>/dev/null || break
      sleep 0.1
    done
    kill -KILL "$daemon_pid" 2>/dev/null || true
    wait "$daemon_pid" 2>/dev/null || true
  fi
  if [[ "$finished" != yes ]]; then
    if [[ -n "$work" && -s "$work/moetierd.log" ]]; then
      echo "-- the end of the daemon's log:" >&2
      tail -n 20 "$work/moetierd.log" >&2
    fi
    echo "quickstart: FAILED (exit status $status)" >&2
    ((status == 0)) && status=1
  fi
  [[ -n "$work" ]] && rm -rf "$work"
  exit "$status"
}

# require_programs DIR: says what is missing there, and how to make it.
require_programs() {
  local program reason=""
  if [[ ! -d "$1" ]]; then
    reason="$1 is no folder"
  else
    for program in daemon/moetierd daemon/ctl/moetierctl adapters/llama_cpp/libggml-moetier.so; do
      [[ -n "$reason" || -e "$1/$program" ]] || reason="$1 holds no $program"
    done
  fi
  [[ -z "$reason" ]] && return
  cat >&2 <<TEXT
quickstart: --build-dir: $reason; name the folder of a build that is done, such as build/release after
  cmake --preset release -DMOETIER_TESTS=OFF && cmake --build --preset release
TEXT
  exit 2
}

parse_arguments() {
  while (($# > 0)); do
    case "$1" in
      --keep) keep=yes ;;
      --build-dir)
        [[ $# -ge 2 ]] || { usage >&2; exit 2; }
        require_programs "$2"
        build_dir="$(cd "$2" && pwd)"
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
}

build() {
  say "1/7 dependencies"
  "$ROOT/deploy/install-deps.sh"
  say "2/7 build (release preset, in build/release)"
  (cd "$ROOT" && cmake --preset release -DMOETIER_TESTS=OFF >"$work/configure.log" 2>&1) || {
    cat "$work/configure.log" >&2
    return 1
  }
  cmake --build "$build_dir"  # everything, so that it can be installed
}

write_config() {
  cat >"$work/moetierd.yaml" <<YAML
state_directory: $work/state
socket:
  path: $work/moetierd.sock
  mode: "0600"
store_root: $work/stores
models:
  load:
    - name: demo
      path: demo
      ram: 25%
      policy: lru
      verify_on_landing: first
YAML
}

wait_until_ready() {
  local deadline=$((SECONDS + START_SECONDS))
  until "$ctl" status --socket "$work/moetierd.sock" >/dev/null 2>&1; do
    if ! kill -0 "$daemon_pid" 2>/dev/null; then
      echo "quickstart: moetierd ended while starting" >&2
      return 1
    fi
    if ((SECONDS >= deadline)); then
      echo "quickstart: moetierd did not answer within $START_SECONDS s" >&2
      return 1
    fi
    sleep 0.1
  done
}

# The engine knows nothing of moetierd: GGML_BACKEND_PATH is llama.cpp's own way to load a backend.
generate() {
  local engine status=0
  engine="$("$ROOT/tests/engine/fetch_engine.sh" 3.21.1)" || status=$?
  if ((status == 77)); then
    generated="no text was generated: the engine could not be fetched"
    echo "skipped: $generated"
    return
  fi
  ((status == 0)) || return "$status"
  "$ROOT/tests/engine/build_probes.sh" "$engine" "$work/engine" generate
  local model="$DEMO/moetier-demo-Q4_K_M.gguf" prompt="And it came to pass"
  env -u GGML_BACKEND_PATH "$work/engine/generate" "$engine/bin" "$model" "$prompt" 50 | head -n -1 >"$work/alone"
  env -u MOETIER_MODEL MOETIER_SOCKET="$work/moetierd.sock" \
    GGML_BACKEND_PATH="$build_dir/adapters/llama_cpp/libggml-moetier.so" \
    "$work/engine/generate" "$engine/bin" "$model" "$prompt" 50 2>"$work/engine.log" | tee "$work/served"
  cat "$work/engine.log" >&2
  if ! grep -q "experts are computed by moetierd" "$work/engine.log"; then
    echo "quickstart: the engine ran without the plug-in" >&2
    return 1
  fi
  if ! head -n -1 "$work/served" | cmp -s - "$work/alone"; then
    echo "quickstart: the same engine alone writes another text:" >&2
    cat "$work/alone" >&2
    return 1
  fi
  generated="llama.cpp wrote the text that it writes alone"
  echo "the same text as llama.cpp writes alone"
}

main() {
  parse_arguments "$@"
  local started=$SECONDS
  # Short: a socket's path has at most 107 bytes.
  work="$(mktemp -d /tmp/moetier-quickstart.XXXXXX)"
  trap cleanup EXIT
  trap 'exit 130' INT
  trap 'exit 143' TERM
  if [[ "$build_dir" == "$ROOT/build/release" ]]; then
    build
  else
    say "1/7, 2/7 using the programs in $build_dir"
  fi
  ctl="$build_dir/daemon/ctl/moetierctl"
  local daemon="$build_dir/daemon/moetierd"
  mkdir -p "$work/state" "$work/stores"

  say "3/7 import the demo model (6 layers, 192 experts)"
  "$ctl" import "$DEMO/moetier-demo-Q4_K_M.gguf" --store "$work/stores/demo"

  say "4/7 start moetierd with RAM for 25 % of the experts"
  write_config
  "$daemon" --config "$work/moetierd.yaml" >"$work/moetierd.log" 2>&1 &
  daemon_pid=$!
  wait_until_ready
  echo "moetierd runs as process $daemon_pid"

  say "5/7 replay recorded rows; every bit must be the reference's"
  "$ctl" replay --socket "$work/moetierd.sock" --model demo --golden "$DEMO/golden" --sessions 2

  say "6/7 a stock llama.cpp generates, its experts in moetierd"
  generate

  say "7/7 moetierctl status"
  "$ctl" status --socket "$work/moetierd.sock"

  finished=yes
  say "done in $((SECONDS - started)) s: every bit equals the reference; $generated"
  if [[ "$keep" == yes ]]; then
    cat <<TEXT
moetierd goes on as process $daemon_pid. Talk to it:
  export MOETIER_SOCKET=$work/moetierd.sock
  $ctl status --watch
  $ctl replay --golden $DEMO/golden --rows 8 --sessions 4 --repeat 10
Stop it and remove its files:
  kill $daemon_pid; rm -r $work
TEXT
  else
    echo "moetierd is stopped and its files are removed; --keep would leave it running"
  fi
}

main "$@"
