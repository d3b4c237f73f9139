#!/usr/bin/env bash
# The example engine computes the demo model's experts in the daemon's memory, with RAM for a quarter
# of them, and gets the daemon's bits.
# usage: residency_example_test.sh MOETIERCTL MOETIERD DATA_DIR EXAMPLE
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
example="$4"

import_demo packed
import_demo in-place --in-place
model() { echo "models: {load: [{name: demo, path: $1, ram: $2}]}"; }
shared() { printf 'memory: {arena: shared%s}\ncpu: {tune: false}\n' "${1:+, $1}"; }
engine() { timeout 120 "$example" --golden "$demo/golden" "$@"; }

check "a daemon with shared memory" start_daemon "$(model packed 25%)"$'\n'"$(shared)"
check "the example gets the daemon's bits" exits 0 engine
check "it computed each pick of 64 tokens in 6 layers" out_has "384 layer calls: 1536 experts computed"
# 48 of 192 experts fit: what it needs is evicted and read again.
evicts() { local reads; reads="$(grep -o '[0-9]* reads' "$work/out" | grep -o '[0-9]*')"; ((reads > 100)); }
check "with RAM for a quarter it had experts read again and again" evicts
two_engines() {
  engine >"$work/second" 2>&1 &
  local second=$!
  engine && wait "$second"
}
check "two engines at once" exits 0 two_engines
check "the daemon stops" stop_daemon

# One slot of 128 KiB and what is read to it: the example leases one expert at a time.
check "a daemon over the model file in place, small pages, a small quota" start_daemon \
  "$(model in-place 10%)"$'\n'"$(shared 'huge_pages: false')"$'\n''limits: {leased: 256KiB}'
check "the same bits" exits 0 engine
check "one lease at a time" out_has "in 1536 groups of leases"
check "the daemon stops" stop_daemon

check "a daemon with private memory" start_daemon "$(model packed 25%)"
check "the example is refused" exits 1 engine
check "it is told which key to set" err_has "set memory.arena to shared"
check "the daemon stops" stop_daemon
finish
