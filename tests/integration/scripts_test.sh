#!/usr/bin/env bash
# The scripts that a newcomer runs first: they explain themselves, and say what is wrong with what
# they are given.
# usage: scripts_test.sh
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source "$root/tests/integration/ctl_checks.sh"

for script in deploy/quickstart.sh deploy/install-deps.sh tests/run.sh; do
  check "$script --help" exits 0 timeout 10 "$root/$script" --help
  check "$script prints how it is used" out_has "usage: $script"
  check "$script knows no --nonsense" exits 2 timeout 10 "$root/$script" --nonsense
  check "$script then says how it is used" err_has "usage: $script"
done

quickstart() { timeout 10 "$root/deploy/quickstart.sh" --build-dir "$1"; }
check "quickstart of no folder" exits 2 quickstart "$work/none"
check "it says so" err_has "$work/none is no folder"
check "quickstart of a folder without programs" exits 2 quickstart "$work"
check "it names what is missing" err_has "$work holds no daemon/moetierd"
check "it says how to build" err_has "cmake --build --preset release"
finish
