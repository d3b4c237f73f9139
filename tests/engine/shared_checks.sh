# shellcheck shell=bash disable=SC2154
# Sourced by run.sh: what the daemon promises several clients, and over its budgets.

# Where the two engines' best tokens part on the texts that the model's README has llama.cpp write,
# teacher-forced: at each place the best two of the engine alone must lie closer than twice the
# largest difference that was seen. The same bits whatever the daemon holds in RAM.
check_budgets() {
  local text ram count
  count=$(python3 - "$demo/known-answers.json" "$work" <<'PY'
import json, sys
answers = json.load(open(sys.argv[1]))["answers"]
for i, answer in enumerate(answers):
    tokens = answer["prompt_ids"] + answer["greedy_ids_50"]
    open(f"{sys.argv[2]}/text_{i}", "w").write(" ".join(map(str, tokens)))
print(len(answers))
PY
  )
  for ((text = 0; text < count; text++)); do
    alone "stock_$text" "text_$text" --prompt 1
  done
  for ram in 100% 25% 5%; do
    stop_daemon
    serve "$ram"
    for ((text = 0; text < count; text++)); do
      served "at_${ram%?}_$text" "text_$text" --prompt 1
    done
  done
  for ((text = 0; text < count; text++)); do
    alike "text $text, teacher-forced" "stock_$text" "at_100_$text"
    "$probes/compare_logits" "$work/stock_$text" "$work/at_100_$text" 2048 | tail -n +2
    equal "text $text, RAM 25 % against 100 %" "at_100_$text" "at_25_$text"
    equal "text $text, RAM 5 % against 100 %" "at_100_$text" "at_5_$text"
  done
  stop_daemon
  serve
}

# hold NAME: an engine that waits before token 220 until release NAME; its process in held_pid.
hold() {
  mkfifo "$work/$1.go"
  exec {held_fd}<>"$work/$1.go"
  : >"$work/$1.out"
  # Not by with_plugin: the process that a function in the background is would not be the engine.
  env GGML_BACKEND_PATH="$plugin" "$probes/llama_probe" "$engine/bin" "$model" --tokens "$work/tokens" --prompt 200 \
    --out "$work/$1" --pause-at 220 <"$work/$1.go" >"$work/$1.out" 2>"$work/$1.log" &
  held_pid=$!
  local i
  for ((i = 0; i < 600; i++)); do
    grep -q paused "$work/$1.out" && return 0
    sleep 0.1
  done
  return 1
}
sessions() { "$ctl" status --json | python3 -c 'import json, sys; print(len(json.load(sys.stdin).get("sessions", [])))'; }
arenas() { "$ctl" status --json | python3 -c 'import json, sys; print(json.load(sys.stdin)["pools"][0]["bytes_used"])'; }
daemon_kib() { awk '/^VmRSS/ { print $2 }' "/proc/$daemon_pid/status"; }

# A Python client over the same experts: gRPC and the fast lane must give the same bits.
python_client() {
  MOETIER_FASTLANE_LIBRARY="$lane_library" PYTHONPATH="$here/../../adapters/python" \
    /usr/bin/python3 - <<'PY'
import numpy, moetier
rng = numpy.random.default_rng(1)
hidden = rng.standard_normal((8, 256), dtype="f4")
experts = numpy.array([rng.permutation(32)[:4] for _ in range(8)])
weights = rng.random((8, 4), dtype="f4")
with moetier.connect() as daemon:
    outputs = []
    for transport in ("grpc", "fastlane"):
        with daemon.attach("demo", client="python", transport=transport) as session:
            outputs.append([session.layer(layer, hidden, experts, weights) for layer in range(6)])
assert all(numpy.array_equal(a, b) and a.any() for a, b in zip(*outputs))
PY
}

check_shared() {
  local verdict=bad before after first second first_fd used
  before=$(daemon_kib) used=$(arenas)
  hold together_1 && first=$held_pid first_fd=$held_fd
  hold together_2 && second=$held_pid
  if ! /usr/bin/python3 -c "import grpc, numpy" 2>/dev/null; then
    row "$version" "a Python client beside two engines" "skipped: no python3-grpcio or numpy"
  elif python_client >"$work/python.log" 2>&1; then
    row "$version" "a Python client beside two engines" "good, same bits on both transports"
  else
    row "$version" "a Python client beside two engines" bad
    tail -n 3 "$work/python.log"
  fi
  local at_once
  at_once=$(sessions) after=$(daemon_kib)
  echo >&"$first_fd"
  echo >&"$held_fd"
  # One arena for all: what the daemon grew by is its sessions' pages, not a second set of experts.
  if wait "$first" && wait "$second" && [[ $at_once == 2 && $(arenas) == "$used" ]] &&
    ((after - before < used / 1024)) && cmp -s "$work/layers" "$work/together_1" &&
    cmp -s "$work/layers" "$work/together_2"; then
    verdict="good, same bits; experts $((used / 1024)) KiB once, daemon grew by $((after - before)) KiB"
  fi
  row "$version" "two engines on one daemon" "$verdict"
}

check_killed_engine() {
  local verdict=bad i
  hold doomed && kill -KILL "$held_pid"
  wait "$held_pid" 2>/dev/null
  for ((i = 0; i < 50; i++)); do
    [[ $(sessions) == 0 ]] && break
    sleep 0.1
  done
  served survivor tokens --prompt 200
  [[ $(sessions) == 0 ]] && cmp -s "$work/layers" "$work/survivor" && verdict="good, same bits after"
  row "$version" "engine killed, its session is gone" "$verdict"
}
