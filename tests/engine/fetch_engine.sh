#!/usr/bin/env bash
# fetch_engine.sh VERSION: has llama.cpp as node-llama-cpp VERSION carries it, libraries and headers,
# in a cache outside the tree, and prints the folder: bin/ (libraries), src/ (llama.cpp's source).
# Exit status: 0 there, 77 npm is out of reach (the reason on stderr), 1 a package is not the pinned one.
set -euo pipefail

version=$1
here=$(cd "$(dirname "$0")" && pwd)
cache=${XDG_CACHE_HOME:-$HOME/.cache}/moetier-engine
folder=$cache/$version

if [[ -e $folder/complete ]]; then
  echo "$folder"
  exit 0
fi
skip() {
  echo "$1" >&2
  exit 77
}
for tool in npm git tar; do
  command -v "$tool" >/dev/null || skip "$tool is not installed: the engine cannot be fetched"
done

mkdir -p "$cache"
# Two tests that start at once fetch once.
exec 9>"$cache/lock"
flock 9
if [[ -e $folder/complete ]]; then
  echo "$folder"
  exit 0
fi
rm -rf "$folder"
mkdir -p "$folder/packages"
cd "$folder/packages"
timeout 300 npm pack --silent "node-llama-cpp@$version" "@node-llama-cpp/linux-x64@$version" >/dev/null 2>npm.log ||
  skip "npm pack node-llama-cpp@$version failed: $(tail -n 1 npm.log)"
for package in *.tgz; do
  if ! grep -F "  $package" "$here/engine_packages.txt" | sha256sum --check --status; then
    echo "$package is not the file that engine_packages.txt pins" >&2
    exit 1
  fi
done
mkdir bundle libraries
tar -xzf "node-llama-cpp-$version.tgz" -C bundle package/llama/gitRelease.bundle
tar -xzf "node-llama-cpp-linux-x64-$version.tgz" -C libraries
git clone --quiet bundle/package/llama/gitRelease.bundle ../src 2>git.log
mv libraries/package/bins/linux-x64 ../bin
cd "$folder"
rm -rf packages
touch complete
echo "$folder"
