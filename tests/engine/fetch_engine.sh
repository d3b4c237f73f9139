#!/usr/bin/env bash
# fetch_engine.sh VERSION: has llama.cpp as node-llama-cpp VERSION carries it, libraries and headers,
# in a cache outside the tree, and prints the folder: bin/ (libraries), src/ (llama.cpp's source).
# Exit status: 0 there, 77 the registry is out of reach (the reason on stderr), 1 a package is not the
# pinned one.
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
for tool in git tar; do
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
# fetch PACKAGE FILE: by npm, which knows the registry that this host uses, or from the public one.
fetch() {
  if command -v npm >/dev/null; then
    timeout 300 npm pack --silent "$1@$version" >/dev/null 2>fetch.log
  elif command -v curl >/dev/null; then
    curl -fsSL --max-time 300 -o "$2" \
      "https://registry.npmjs.org/$1/-/${1##*/}-$version.tgz" 2>fetch.log
  else
    echo "neither npm nor curl is installed" >fetch.log
    return 1
  fi
}
if ! fetch node-llama-cpp "node-llama-cpp-$version.tgz" ||
  ! fetch @node-llama-cpp/linux-x64 "node-llama-cpp-linux-x64-$version.tgz"; then
  skip "node-llama-cpp $version cannot be had from npm's registry: $(tail -n 1 fetch.log)"
fi
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
