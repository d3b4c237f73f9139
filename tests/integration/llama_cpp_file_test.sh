#!/usr/bin/env bash
# The plug-in's file: what it exports and what it needs, since it is loaded into foreign programs.
# usage: llama_cpp_file_test.sh PLUGIN
set -uo pipefail
plugin="$1"
source "$(dirname "${BASH_SOURCE[0]}")/ctl_checks.sh"

exported="$(nm -D --defined-only "$plugin" | awk '{ print $NF }')"
check "one symbol is exported" equal "$exported" ggml_backend_init
needed="$(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
  grep -vE '^(libc\.so\.6|libm\.so\.6|ld-linux-x86-64\.so\.2)$')"
check "nothing but the C library is needed" equal "$needed" ""
finish
