#!/usr/bin/env bash
# Has node-llama-cpp, as package-lock.json pins it, in a cache outside the tree and prints the folder.
# Exit status as fetch_engine.sh's.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
lock=$(sha256sum "$here/node/package-lock.json" | cut -c1-12)
folder=${XDG_CACHE_HOME:-$HOME/.cache}/moetier-engine/node-$lock

skip() {
  echo "$1" >&2
  exit 77
}
for tool in npm node; do
  command -v "$tool" >/dev/null || skip "$tool is not installed"
done
mkdir -p "$folder"
exec 9>"$folder/lock"
flock 9
if [[ ! -e $folder/complete ]]; then
  cp "$here/node/package.json" "$here/node/package-lock.json" "$folder"
  cd "$folder"
  timeout 500 npm ci --omit=optional --ignore-scripts --no-audit --no-fund >npm.log 2>&1 ||
    skip "npm ci failed: $(grep -m1 'npm ERR' npm.log || tail -n 1 npm.log)"
  touch complete
fi
echo "$folder"
