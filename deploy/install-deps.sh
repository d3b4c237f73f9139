#!/usr/bin/env bash
# Installs from Debian what moetierd is built from. Does nothing when all of it is there.
set -euo pipefail

readonly PACKAGES=(
  cmake ninja-build g++ pkg-config ccache git python3 clang-format
  libgrpc++-dev protobuf-compiler-grpc libprotobuf-dev protobuf-compiler
  liburing-dev libspdlog-dev libfmt-dev libyaml-cpp-dev libxxhash-dev libsystemd-dev
  libcli11-dev libssl-dev nlohmann-json3-dev catch2 openssl qemu-user curl
  python3-grpcio python3-protobuf python3-numpy
)
# For the fuzz preset, Clang's warnings and the reader's bench.
readonly DEV_PACKAGES=(clang libclang-rt-14-dev fio)

usage() {
  cat <<'TEXT'
usage: deploy/install-deps.sh [--dev] [--check]
  --dev    also what developers need: clang (fuzz preset), fio (reader bench)
  --check  install nothing; say what is missing, and exit 1 if anything is
Exit status: 0 all is there; 1 something is missing or could not be installed; 2 bad arguments.
TEXT
}

installed() {
  [[ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" == installed ]]
}

# Runs a command as root: directly, or by sudo where that asks nobody.
as_root() {
  if [[ "$(id -u)" == 0 ]]; then
    "$@"
  else
    sudo "$@"
  fi
}

main() {
  local wanted=("${PACKAGES[@]}") check=no
  while (($# > 0)); do
    case "$1" in
      --dev) wanted+=("${DEV_PACKAGES[@]}") ;;
      --check) check=yes ;;
      --help | -h)
        usage
        exit 0
        ;;
      *)
        usage >&2
        exit 2
        ;;
    esac
    shift
  done

  if ! command -v dpkg-query >/dev/null; then
    echo "install-deps: this is not Debian (no dpkg-query); install the equivalents of:" >&2
    echo "  ${wanted[*]}" >&2
    exit 1
  fi
  local missing=() package
  for package in "${wanted[@]}"; do
    installed "$package" || missing+=("$package")
  done
  if ((${#missing[@]} == 0)); then
    echo "install-deps: all ${#wanted[@]} packages are there"
    exit 0
  fi
  if [[ "$check" == yes ]]; then
    echo "install-deps: missing: ${missing[*]}" >&2
    exit 1
  fi
  if [[ "$(id -u)" != 0 ]] && ! command -v sudo >/dev/null; then
    echo "install-deps: missing: ${missing[*]}" >&2
    echo "install-deps: run this as root, or install sudo" >&2
    exit 1
  fi
  echo "install-deps: installing ${missing[*]}"
  local patience=(-o DPkg::Lock::Timeout=600) # seconds; another apt may be at work
  as_root apt-get "${patience[@]}" update -q
  as_root env DEBIAN_FRONTEND=noninteractive apt-get "${patience[@]}" install -q -y \
    --no-install-recommends "${missing[@]}"
  echo "install-deps: installed ${#missing[@]} packages"
}

main "$@"
