#!/bin/sh
# Makes the fixtures of this folder again: seeded blocks of each weight type and what ggml's own
# to_float makes of them. Needs npm, a C++ compiler and the registry; the package stays in a
# temporary folder. The library is the prebuilt one of node-llama-cpp 3.21.1 (llama.cpp, MIT).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch"
npm pack --silent @node-llama-cpp/linux-x64@3.21.1
tar -xzf node-llama-cpp-linux-x64-3.21.1.tgz
c++ -std=c++20 -O1 -Wall -Wextra -o make_fixtures "$here/make_fixtures.cc" -ldl
./make_fixtures "$scratch/package/bins/linux-x64/libggml-base.so" "$here"
cd "$here"
LC_ALL=C sha256sum ./*.bin > SHA256SUMS
