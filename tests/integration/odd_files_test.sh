#!/usr/bin/env bash
# A FIFO, directory or socket in the place of a file: every program ends at once and names it.
# usage: odd_files_test.sh MOETIERCTL MOETIERD DATA_DIR
set -uo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/daemon_setup.sh" "$@"
model="$demo/moetier-demo-Q4_K_M.gguf"
readonly AT_ONCE=10  # seconds, of which a slow host needs most

# ends_naming TEXT COMMAND...: an error that has TEXT, before the time is up.
ends_naming() {
  local text="$1" status=0
  shift
  timeout -s KILL "$AT_ONCE" "$@" >"$work/out" 2>&1 </dev/null || status=$?
  if ((status == 0 || status > 128)) || ! grep -qF -- "$text" "$work/out"; then
    echo "exit status $status, expected an error with \`$text\`: $*"
    tail -n 4 "$work/out"
    return 1
  fi
}

check "a store is imported" import_demo whole
config() {
  mkdir -p "$work/state"
  cat >"$work/moetierd.yaml" <<YAML
state_directory: $work/state
socket: {path: $work/moetierd.sock}
store_root: $work/stores
cpu: {tune: false}
models: {load: [{name: m, path: odd}]}
YAML
}
config

for name in experts-0.bin index routers.bin; do
  rm -rf "$work/stores/odd"
  cp -r "$work/stores/whole" "$work/stores/odd"
  rm "$work/stores/odd/$name"
  mkfifo "$work/stores/odd/$name"
  check "verify of a FIFO $name" ends_naming "$name: it is a FIFO" "$ctl" verify "$work/stores/odd"
  check "moetierd with a FIFO $name" ends_naming "$name: it is a FIFO" "$daemon" --config "$work/moetierd.yaml"
  check "models ends with a FIFO $name" exits 1 timeout -s KILL "$AT_ONCE" "$ctl" models --stores "$work/stores"
  check "and names it" out_has "it is a FIFO"
  rm "$work/stores/odd/$name"
  mkdir "$work/stores/odd/$name"
  check "verify of a directory $name" ends_naming "$name: it is a directory" "$ctl" verify "$work/stores/odd"
done

mkfifo "$work/fifo"
check "a model" ends_naming "fifo: it is a FIFO" "$ctl" import "$work/fifo" --store "$work/stores/new"
check "a configuration" ends_naming "fifo: it is a FIFO" "$daemon" --config "$work/fifo"
check "a configuration that is a directory" ends_naming "it is a directory" "$daemon" --config "$work"
touch "$work/plain"
check "a store that is a file" ends_naming "is a file" "$ctl" import "$model" --store "$work/plain"
ln -s "$work/gone" "$work/link.gguf"
check "a dangling link" ends_naming "symbolic link to $work/gone" "$ctl" import "$work/link.gguf" --store "$work/stores/new"

chmod 600 "$work/fifo"
cat >>"$work/moetierd.yaml" <<YAML
tcp: {address: "127.0.0.1:1", tls_certificate: $work/plain, tls_key: $work/plain, token_file: $work/fifo}
YAML
sed -i '/^models/d' "$work/moetierd.yaml"
chmod 600 "$work/plain"
check "a token" ends_naming "fifo: it is a FIFO" "$daemon" --config "$work/moetierd.yaml"

mkdir "$work/golden"
cp "$demo"/golden/* "$work/golden/"
for rows in "$work"/golden/*.npy; do
  rm "$rows"
  mkfifo "$rows"
done
check "golden rows" ends_naming "it is a FIFO" "$ctl" replay --golden "$work/golden" --model m
finish
