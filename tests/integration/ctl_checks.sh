# shellcheck shell=bash disable=SC2154
# Sourced by the ctl tests: counts checks, and cleans up.

failures=0
checks=0

# check NAME COMMAND...: the command must succeed.
check() {
  local name="$1"
  shift
  checks=$((checks + 1))
  if ! "$@"; then
    echo "FAILED: $name"
    failures=$((failures + 1))
  fi
}

# exits CODE COMMAND...: runs it with its output kept in $work/out and $work/err.
exits() {
  local wanted="$1" status=0
  shift
  "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
  if [[ "$status" != "$wanted" ]]; then
    echo "exit status $status, expected $wanted: $*"
    sed 's/^/  | /' "$work/out" "$work/err"
    return 1
  fi
}

# What the last command wrote.
out_is_json() { python3 -c 'import json, sys; json.load(sys.stdin)' <"$work/out"; }
json_value() { python3 -c "import json, sys; print(json.load(sys.stdin)$1)" <"$work/out"; }
out_has() { grep -qF -- "$1" "$work/out"; }
err_has() { grep -qF -- "$1" "$work/err"; }
out_is_empty() { [[ ! -s "$work/out" ]]; }
err_is_empty() { [[ ! -s "$work/err" ]]; }
equal() { [[ "$1" == "$2" ]] || { echo "$1 is not $2"; return 1; }; }

finish() {
  echo "$checks checks, $failures failed"
  [[ "$failures" == 0 ]]
}
