#!/usr/bin/env bash
# moetierctl without a daemon: help, exit codes, import, verify and repair of the demo model.
# usage: ctl_cli_test.sh MOETIERCTL DATA_DIR
set -uo pipefail
ctl="$1"
demo="$2/demo-moe"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source "$(dirname "${BASH_SOURCE[0]}")/ctl_checks.sh"
unset MOETIER_SOCKET

check "help" exits 0 "$ctl" --help
check "version" exits 0 "$ctl" --version
for command in status import shell verify models load unload pin unpin reload replay doctor "heat show" \
  "heat export" "heat import" yield; do
  # shellcheck disable=SC2206  # the words are meant
  words=($command)
  check "the app's help names $command" grep -q "^  ${words[0]} " <("$ctl" --help)
  check "$command --help" exits 0 "$ctl" "${words[@]}" --help
  check "$command documents its exit status" out_has "Exit status"
  check "$command knows --json" out_has "--json"
  check "$command refuses an unknown option" exits 2 "$ctl" "${words[@]}" --no-such-option
  check "$command says so on stderr" out_is_empty
done
check "no subcommand" exits 2 "$ctl"
check "an unknown subcommand" exits 2 "$ctl" nonsense
check "a mistyped subcommand" exits 2 "$ctl" pinn demo 0
check "is named, with the nearest" err_has "moetierctl: pinn is no subcommand; did you mean pin?"
check "a mistyped option" exits 2 "$ctl" status --sokcet x
check "is named, with the nearest" err_has "--sokcet is no option of status; did you mean --socket?"
check "a mistyped subcommand of heat" exits 2 "$ctl" heat shwo demo
check "is named, with the nearest" err_has "moetierctl: shwo is no subcommand; did you mean show?"
check "rows out of range" exits 2 "$ctl" replay --golden "$demo/golden" --rows 65
check "layout unknown" exits 2 "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --layout x
check "layout and in place" exits 2 "$ctl" import x --layout source --in-place

for command in status models "pin demo 0" "unload demo" reload "load demo $work" "heat show demo" \
  "yield --bytes 1MiB --for 1s"; do
  # shellcheck disable=SC2086  # the words are meant
  check "$command without a daemon" exits 3 "$ctl" $command --json --socket "$work/none.sock"
  check "$command says what to do" err_has "start moetierd"
  check "$command leaves stdout empty" out_is_empty
done
check "replay without a daemon" exits 3 "$ctl" replay --golden "$demo/golden" \
  --socket "$work/none.sock"
check "replay of no rows" exits 4 "$ctl" replay --golden "$work" --socket "$work/none.sock"

check "doctor finds no failure here" exits 0 "$ctl" doctor --store-root "$work" --json
check "doctor's JSON" out_is_json
check "doctor looks for the plug-in" out_has '"plug-in"'

check "import of no file" exits 4 "$ctl" import "$work/none.gguf" --store "$work/store"
check "the error names the file" err_has "$work/none.gguf"
check "import" exits 0 "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --store "$work/store" --json
check "import's JSON" out_is_json
check "it is below no store root" equal "$(json_value '["below_store_root"]')" False
check "192 experts" equal "$(json_value '["experts"]')" 192
fingerprint="$(json_value '["fingerprint"]')"
check "import again" exits 0 "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --store "$work/store" \
  --json
check "it was already there" equal "$(json_value '["already_complete"]')" True
check "in place" exits 0 "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --in-place \
  --store "$work/in-place" --json
check "the same fingerprint" equal "$(json_value '["fingerprint"]')" "$fingerprint"
check "shell" exits 0 "$ctl" shell "$demo/moetier-demo-Q4_K_M.gguf" "$work/shell.gguf" --json
check "shell's JSON" out_is_json
check "the shell's fingerprint" equal "$(json_value '["fingerprint"]')" "$fingerprint"
check "18 expert tensors" equal "$(json_value '["hole_tensors"]')" 18
check "shell onto a file" exits 4 "$ctl" shell "$demo/moetier-demo-Q4_K_M.gguf" "$work/shell.gguf"
check "it says how" err_has "--force"
check "shell with --force" exits 0 "$ctl" shell "$demo/moetier-demo-Q4_K_M.gguf" "$work/shell.gguf" \
  --force
check "it says how to start an engine" out_has "-ot exps=MOETIER"
check "shell of a shell" exits 4 "$ctl" shell "$work/shell.gguf" "$work/again.gguf"
rm "$work/shell.gguf"

check "import to a place of its own" exits 0 "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" \
  --store "$work/store/"
check "it says that the daemon needs to be told" out_has "name it under models.load (path: $work/store"
export MOETIER_STORE_ROOT="$work/root"
check "import to the default place" exits 0 "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --in-place
check "it says that the daemon finds it" out_has "below the default store root $work/root"
check "and where another looks" out_has "the system's daemon looks in /var/lib/moetierd/stores"
check "again, with a slash" exits 0 "$ctl" import "$demo/moetier-demo-Q4_K_M.gguf" --in-place --json \
  --store "$(find "$work/root" -mindepth 1 -maxdepth 1)/"
check "it is below the store root" equal "$(json_value '["below_store_root"]')" True
check "import below a folder below the root" exits 0 "$ctl" import \
  "$demo/moetier-demo-Q4_K_M.gguf" --in-place --store "$work/root/deeper/store"
check "it says that it does not" out_has "name it under models.load"
unset MOETIER_STORE_ROOT
rm -r "$work/root"

check "models of a folder" exits 0 "$ctl" models --stores "$work" --json
check "both stores are listed" equal "$(json_value '["stores"].__len__()')" 2

check "verify" exits 0 "$ctl" verify "$work/store" --json
check "it is good" equal "$(json_value '["good"]')" True
data="$(find "$work/store" -type f -size +1M | head -n 1)"
printf 'spoilt' | dd of="$data" bs=1 seek=1000000 conv=notrunc status=none
check "verify finds a spoilt record" exits 1 "$ctl" verify "$work/store" --json
check "one record" equal "$(json_value '["damaged"].__len__()')" 1
check "repair" exits 0 "$ctl" verify "$work/store" --repair
check "verify after the repair" exits 0 "$ctl" verify "$work/store"
check "verify of no store" exits 4 "$ctl" verify "$work/nowhere"
finish
