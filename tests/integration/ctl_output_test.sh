#!/usr/bin/env bash
# moetierctl: a result that cannot be written is no success, and an empty value is no value.
# usage: ctl_output_test.sh MOETIERCTL DATA_DIR
set -uo pipefail
ctl="$1"
model="$2/demo-moe/moetier-demo-Q4_K_M.gguf"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source "$(dirname "${BASH_SOURCE[0]}")/ctl_checks.sh"
unset MOETIER_SOCKET
export XDG_RUNTIME_DIR="$work"
store="$work/store"

# to STDOUT CODE TEXT COMMAND...: stdout is that file, or closed (-).
to() {
  local where="$1" wanted="$2" text="$3" status=0
  shift 3
  case "$where" in
    -) "$@" >&- 2>"$work/err" || status=$? ;;
    *) "$@" >"$where" 2>"$work/err" || status=$? ;;
  esac
  if [[ "$status" != "$wanted" ]] || ! grep -qF -- "$text" "$work/err"; then
    echo "exit status $status, expected $wanted with \`$text\`: $*"
    cat "$work/err"
    return 1
  fi
}

check "import to a closed stdout" to - 4 "write standard output: Bad file descriptor" \
  "$ctl" import "$model" --store "$store"
check "the store is whole: nothing was printed into it" exits 0 "$ctl" verify "$store"
for command in "verify $store" "models --stores $work" "doctor --store-root $work" \
  "import $model --store $store" "verify $store --json" --help --version "verify --help"; do
  # shellcheck disable=SC2086  # the words are meant
  check "$command to a full disk" to /dev/full 4 "write standard output: No space left on device" "$ctl" $command
done
# Opened for reading and writing, then the reader is closed: a pipe that nobody reads.
mkfifo "$work/pipe"
check "nobody reads" equal "$(
  bash -c 'exec 3<>"$1/pipe" 4>"$1/pipe" 3<&-; shift; "$@" >&4 2>"$0"; echo $?' "$work/err" "$work" "$ctl" models --stores "$work"
)" 141
check "which is quiet" err_is_empty

echo "-- empty values"
for command in "import $model --store" "import $model --store-root" "models --stores" "status --socket" \
  "verify $store --repair --model" "doctor --store-root" "replay --golden $work --gguf" "replay --golden" \
  "load m $store --ram" "verify" "import" "unload" "load m" "pin"; do
  # shellcheck disable=SC2086  # the words are meant
  check "$command with an empty value" exits 2 "$ctl" $command ""
  check "it says so" err_has "the value is empty"
done
check "nothing was imported elsewhere" test ! -e "$work/moetierd/stores"

echo "-- budgets"
for ram in 0 0% 101% 12parsecs; do
  check "a budget of $ram" exits 2 "$ctl" load m "$store" --ram "$ram" --socket "$work/none.sock"
  check "it says what is allowed" err_has "a size such as 12GiB, or a share"
done
check "a share is a budget" exits 3 "$ctl" load m "$store" --ram 10% --socket "$work/none.sock"

echo "-- repair of what is gone"
cp -r "$store" "$work/cut"
truncate -s 1M "$work/cut/experts-0.bin"
check "a cut file" exits 1 "$ctl" verify "$work/cut"
check "is a line or two" test "$(wc -l <"$work/out")" -le 5
check "with the size it had" out_has "has 1048576 bytes, the index says"
check "its repair" exits 0 "$ctl" verify "$work/cut" --repair
check "is a line or two as well" test "$(wc -l <"$work/out")" -le 5
check "with the size it had, not what the repair made" equal "$(grep -c 'has 1048576 bytes' "$work/out")" "$(grep -c ' bytes, the index says' "$work/out")"
check "all is back" cmp "$work/cut/experts-0.bin" "$store/experts-0.bin"
rm "$work/cut/experts-0.bin" "$work/cut/routers.bin"
check "missing files are repaired" exits 0 "$ctl" verify "$work/cut" --repair
check "in a few lines" test "$(wc -l <"$work/out")" -le 6
check "experts as they were" cmp "$work/cut/experts-0.bin" "$store/experts-0.bin"
check "routers too" cmp "$work/cut/routers.bin" "$store/routers.bin"

cp "$model" "$work/moved.gguf"
check "import" exits 0 "$ctl" import "$work/moved.gguf" --store "$work/of-moved"
mv "$work/moved.gguf" "$work/there.gguf"
rm "$work/of-moved/experts-0.bin"
check "a model that has moved" exits 4 "$ctl" verify "$work/of-moved" --repair
check "is asked for" err_has "--model"
check "and taken" exits 0 "$ctl" verify "$work/of-moved" --repair --model "$work/there.gguf"
finish
