#!/usr/bin/env bash
# Installs into an empty folder and checks that each file is where the system looks for it.
# usage: ctl_install_test.sh CMAKE BUILD_DIR
set -uo pipefail
cmake="$1"
build="$2"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
source "$(dirname "${BASH_SOURCE[0]}")/ctl_checks.sh"
root="$work/root"

check "install" exits 0 env DESTDIR="$root" "$cmake" --install "$build/deploy" --prefix /usr
is_file() { [[ -f "$root/$1" ]]; }
for file in usr/bin/moetierd usr/bin/moetierctl usr/lib/systemd/system/moetierd.service \
  usr/lib/systemd/user/moetierd.service usr/lib/sysusers.d/moetierd.conf \
  usr/lib/tmpfiles.d/moetierd.conf usr/share/doc/moetierd/README.md \
  usr/share/doc/moetierd/LICENSE; do
  check "$file" is_file "$file"
done
check "the configuration" is_file etc/moetierd/moetierd.yaml
check "the installed tool runs" exits 0 "$root/usr/bin/moetierctl" --version

unit="$root/usr/lib/systemd/system/moetierd.service"
user_unit="$root/usr/lib/systemd/user/moetierd.service"
check "no placeholder is left" exits 1 grep -E '@[A-Z_]+@' "$unit" "$user_unit"
for line in Type=notify WatchdogSec=30 RuntimeDirectory=moetierd RuntimeDirectoryMode=0750 \
  StateDirectory=moetierd LimitMEMLOCK=infinity Group=moetier; do
  check "the unit says $line" grep -qx "$line" "$unit"
done
check "the unit starts the installed program" grep -q "^ExecStart=/usr/bin/moetierd " "$unit"
check "the user's unit too" grep -q "exec /usr/bin/moetierd " "$user_unit"
named="$(sed -n 's/^ExecStart=[^ ]* --config //p' "$unit")"
check "the unit names the installed configuration" is_file "$named"

# The programs lie in the test's root, which verify does not know: its complaint about them is
# expected, any other is not.
if command -v systemd-analyze >/dev/null; then
  systemd-analyze verify "$unit" "$user_unit" >"$work/verify" 2>&1
  complaints="$(grep -E "moetierd(-user)?\.service" "$work/verify" |
    grep -vE "is not executable|Failed to (prepare|resolve|locate)|No such file" || true)"
  check "systemd-analyze accepts the units" equal "$complaints" ""
fi
finish
