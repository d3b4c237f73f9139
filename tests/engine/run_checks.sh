# shellcheck shell=bash disable=SC2154
# Sourced by run.sh: runs probes and prints the rows of its table.

bad_rows=0
# What the engine alone is apart from another engine with the same weights is of this size
# (tests/data/demo-moe/README.md): both round activations to 8 bits, not alike.
# Against the unpacked weights in float32 either is off by mean 0.051 and at most 1.67 of a logit, with
# a KL of 0.0013; two such errors add up to twice the difference and four times the KL at most. Less is asked.
most_kl=0.004
most_mean=0.102
most_difference=3.34
least_same=0.97

heading() {
  printf '%-8s %-42s %6s %10s %10s %10s %10s %8s  %s\n' engine check tokens 'mean|d|' 'max|d|' \
    'mean KL' 'max KL' 'same' ''
}
# row ENGINE CHECK VERDICT [FIGURES...]
row() {
  local engine=$1 check=$2 verdict=$3
  shift 3
  printf '%-8s %-42s %6s %10s %10s %10s %10s %8s  %s\n' "$engine" "$check" "${1--}" "${2--}" \
    "${3--}" "${4--}" "${5--}" "${6--}" "$verdict"
  [[ $verdict == good* || $verdict == skipped* ]] || bad_rows=$((bad_rows + 1))
}

# alone NAME TOKENS ARGS...: logits of the engine as it comes, in $work/NAME.
alone() {
  "$probes/llama_probe" "$engine/bin" "$model" --tokens "$work/$2" --out "$work/$1" "${@:3}" \
    >"$work/$1.log" 2>&1 || tail -n 3 "$work/$1.log"
}
with_plugin() { env GGML_BACKEND_PATH="$plugin" "$@"; }
served() {
  rm -f "$work/$1"
  with_plugin "$probes/llama_probe" "$engine/bin" "$model" --tokens "$work/$2" \
    --out "$work/$1" "${@:3}" >"$work/$1.log" 2>&1 || tail -n 3 "$work/$1.log"
}
parsed() {
  rm -f "$work/$1"
  with_plugin "$probes/common_probe" "$engine/bin" -m "$model" -t 1 -tb 1 --tokens "$work/$2" \
    --out "$work/$1" "${@:3}" >"$work/$1.log" 2>&1 || tail -n 3 "$work/$1.log"
}

# was_served NAME: moetierd computed it, and whole layers of it.
was_served() {
  grep -q "experts are computed by moetierd" "$work/$1.log" &&
    ! grep -q "multiplied in the engine" "$work/$1.log"
}
compare() { read -r -a figures < <("$probes/compare_logits" "$work/$1" "$work/$2" 2048); }
# within KL SAME: whether the figures are.
within() {
  ((${#figures[@]} == 6)) &&
    awk -v kl="${figures[3]}" -v same="${figures[5]}" -v most="$1" -v least="$2" \
      -v mean="${figures[1]}" -v most_mean="$most_mean" \
      -v difference="${figures[2]}" -v most_difference="$most_difference" \
      'BEGIN { exit !(kl <= most && same >= least && mean <= most_mean &&
                      difference <= most_difference) }'
}
alike() {
  local verdict=bad
  compare "$2" "$3"
  within "$most_kl" "$least_same" && was_served "$3" && verdict=good
  row "$version" "$1" "$verdict" "${figures[@]}"
}
equal() {
  local verdict=bad
  compare "$2" "$3"
  cmp -s "$work/$2" "$work/$3" && was_served "$3" && verdict="good, same bits"
  row "$version" "$1" "$verdict" "${figures[@]}"
}
# The same arithmetic but for the last step of the sum.
close_to() {
  local verdict=bad
  compare "$2" "$3"
  within 0.00001 0.99 && grep -q "multiplied in the engine" "$work/$3.log" && verdict=good
  row "$version" "$1" "$verdict" "${figures[@]}"
}

check_unmapped() {
  local verdict=bad
  with_plugin "$probes/llama_probe" "$engine/bin" "$model" --tokens "$work/tokens" \
    --out "$work/unmapped" --no-mmap >"$work/unmapped.log" 2>&1
  [[ $? == 3 ]] && grep -q "must load the model by memory mapping" "$work/unmapped.log" &&
    verdict="good, refused in words"
  row "$version" "model not mapped" "$verdict"
}

# A shell in place of the model: its experts are holes that only the daemon can fill.
check_shell() {
  local verdict=bad whole=$model
  "$ctl" shell "$whole" "$work/shell.gguf" >"$work/shell.log" 2>&1 || tail -n 3 "$work/shell.log"
  model=$work/shell.gguf
  served shell tokens --prompt 200
  equal "shell made by moetierctl" layers shell
  with_plugin "$probes/llama_probe" "$engine/bin" "$model" --tokens "$work/tokens" \
    --out "$work/hollow" --callback >"$work/hollow.log" 2>&1
  [[ $? == 3 ]] && grep -qE "is a shell|cannot be computed" "$work/hollow.log" &&
    verdict="good, refused in words"
  row "$version" "shell, evaluation callback" "$verdict"
  model=$whole
}

# start_paused NAME AT ARGS...: a probe that waits before token AT; its output is read from fd 4, a
# line to fd 3 lets it go on.
start_paused() {
  rm -f "$work/to" "$work/from"
  mkfifo "$work/to" "$work/from"
  "${@:3}" "$probes/llama_probe" "$engine/bin" "$model" --tokens "$work/tokens" --prompt 200 \
    --out "$work/$1" --pause-at "$2" <"$work/to" >"$work/from" 2>"$work/$1.log" &
  probe_pid=$!
  exec 3>"$work/to" 4<"$work/from"
  read -r -t 60 line <&4 && [[ $line == paused ]]
}
mapped_kib() { awk '/^RssFile/ { print $2 }' "/proc/$probe_pid/status"; }
finish_probe() {
  echo >&3
  exec 3>&- 4<&-
  wait "$probe_pid"
}

# Of the model's 24 MB about 22 are experts, which the engine must not keep.
check_memory() {
  local verdict=bad alone_kib=0 served_kib=0
  start_paused memory 0 env && alone_kib=$(mapped_kib)
  finish_probe
  start_paused memory 0 with_plugin && served_kib=$(mapped_kib)
  finish_probe
  ((served_kib > 0 && served_kib + 18000 < alone_kib)) && verdict=good
  row "$version" "file pages kept after load, KiB" "$verdict, $alone_kib alone, $served_kib served"
}

check_killed_daemon() {
  local verdict=bad line=
  start_paused killed 220 with_plugin
  kill -KILL "$daemon_pid"
  wait "$daemon_pid" 2>/dev/null
  echo >&3
  read -r -t 60 line <&4
  serve
  if finish_probe && [[ $line == "decode -3" ]] && cmp -s "$work/layers" "$work/killed" &&
    grep -q "is gone" "$work/killed.log"; then
    verdict="good, same bits"
  fi
  row "$version" "moetierd killed, decode fails, goes on" "$verdict"
}

check_node() {
  local node verdict=bad same
  if ! node=$("$here/fetch_node_engine.sh" 2>"$work/fetch"); then
    row "$version" "node-llama-cpp" "skipped: $(cat "$work/fetch")"
    return
  fi
  cp "$here/node/greedy.mjs" "$node"
  with_plugin node "$node/greedy.mjs" "$model" >"$work/node" 2>"$work/node.log"
  same=$(python3 - "$demo/known-answers.json" "$work/node" <<'PY'
import json, sys
known = [answer["greedy_ids_50"] for answer in json.load(open(sys.argv[1]))["answers"]]
got = [[int(token) for token in line.split()] for line in open(sys.argv[2])]
print(sum(a == b for a, b in zip(known, got)), len(known))
PY
  )
  was_served node && [[ $same == "3 3" ]] && verdict="good, 3 of 3 texts of 50 tokens"
  row "$version" "node-llama-cpp, greedy" "$verdict"
}
