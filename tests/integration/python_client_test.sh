#!/usr/bin/env bash
# The Python client against real daemons on the demo model, from the tree and installed by pip.
# usage: python_client_test.sh MOETIERCTL MOETIERD DATA_DIR FASTLANE_LIBRARY
# Exit status: 77 where Python's gRPC, protobuf or numpy are missing (ctest: skipped).
set -uo pipefail
root="$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)"
source "$root/tests/integration/daemon_setup.sh" "$@"
# A Python that dies leaves its daemons, which would hold the caller's output open.
trap 'pkill -KILL -f -- "--config $work/"; rm -rf "$work"' EXIT

# Debian's packages belong to Debian's interpreter; another may come first in PATH.
python=""
for candidate in /usr/bin/python3 python3; do
  if "$candidate" -c 'import google.protobuf, grpc, numpy' 2>"$work/missing"; then
    python="$candidate"
    break
  fi
done
if [[ -z "$python" ]]; then
  echo "skipped: $(tail -n 1 "$work/missing"); deploy/install-deps.sh installs what is missing"
  exit 77
fi

export MOETIER_TEST_CTL="$ctl" MOETIER_TEST_DAEMON="$daemon" MOETIER_TEST_DATA="$3"
export MOETIER_TEST_WORK="$work" MOETIER_FASTLANE_LIBRARY="$4" PYTHONDONTWRITEBYTECODE=1
unset MOETIER_SOCKET  # it would win over the sockets that the daemons' configurations name
check "import" import_demo packed
in_tree() {
  PYTHONPATH="$root/adapters/python" timeout 480 "$python" -m unittest discover \
    -s "$root/tests/integration/python" -p '*_test.py'
}
check "the client, run from the tree" in_tree

# The README's examples, as a reader pastes them.
shell_example() {
  sed -n '/^PYTHONPATH=/,/^```/{/^```/d;p}' "$root/adapters/python/README.md" | sed "s|/usr/bin/python3|$python|"
}
python_example() { sed -n '/^```python/,/^```/{/^```/d;p}' "$root/adapters/python/README.md"; }
run_example() { (cd "$root" && PYTHONPATH=adapters/python timeout 60 "$@" </dev/null); }
export MOETIER_SOCKET="$work/moetierd.sock"
check "a daemon as the quick start leaves it" start_daemon \
  "models: {load: [{name: demo, path: packed, ram: 25%}]}"
check "the README's first example" exits 0 run_example bash -c "$(shell_example)"
check "it lists the demo model" equal "$(cat "$work/out")" "demo 256 6"
check "the README's second example" exits 0 run_example "$python" -c "$(python_example)"
check "it computes 64 rows" out_has "(64, 256)"
check "the daemon stops" stop_daemon
unset MOETIER_SOCKET

# The copy keeps pip's build folders out of the tree. Nothing is downloaded.
installs() {
  mkdir -p "$work/tree/adapters"
  cp -r "$root/adapters/python" "$work/tree/adapters/"
  cp -r "$root/proto" "$work/tree/"
  timeout 120 "$python" -m pip install --quiet --no-index --no-build-isolation --no-deps \
    --target "$work/site" "$work/tree/adapters/python" >"$work/pip" 2>&1 || { cat "$work/pip"; return 1; }
  rm -r "$work/tree"
  (cd / && PYTHONPATH="$work/site" "$python" -c '
import moetier, sys
sys.exit(0 if moetier.__file__.startswith(sys.argv[1]) else moetier.__file__)' "$work/site")
}
if "$python" -c 'import setuptools, wheel, pip' 2>/dev/null; then
  check "the client, installed by pip" installs
else
  echo "not checked: installing (python3-pip, python3-setuptools or python3-wheel is missing)"
fi
finish
