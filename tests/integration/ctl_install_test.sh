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
check "the configuration as this version has it" is_file usr/share/doc/moetierd/moetierd.yaml
echo "log: {level: debug}" >"$root/etc/moetierd/moetierd.yaml"
check "install again" exits 0 env DESTDIR="$root" "$cmake" --install "$build/deploy" --prefix /usr
check "it says that the configuration stays" out_has "Kept: $root/etc/moetierd/moetierd.yaml"
check "an edited configuration survives" equal "$(cat "$root/etc/moetierd/moetierd.yaml")" \
  "log: {level: debug}"
check "the installed tool runs" exits 0 "$root/usr/bin/moetierctl" --version

# The fast lane's client: a program that knows nothing of the tree builds against what is installed.
check "install of the client library" exits 0 env DESTDIR="$root" \
  "$cmake" --install "$build/adapters" --prefix /usr
cat >"$work/client.c" <<'C'
#include <moetier/fastlane.h>
#include <stdio.h>
int main(void) {
  moetier_attach attach = {.size = sizeof attach, .socket = "/nonexistent/socket"};
  moetier_lane* lane = NULL;
  moetier_error error;
  const moetier_status status = moetier_lane_attach(&attach, 1000, &lane, &error);
  puts(error.text);
  return status == MOETIER_UNREACHABLE ? 0 : 1;
}
C
libraries="$(dirname "$(find "$root" -name libmoetier-fastlane.so)")"
builds() { cc -std=c11 -Wall -Wextra -Werror -I"$root/usr/include" -o "$work/client" "$work/client.c" "$@"; }
check "a C program links the static client" builds "$libraries/libmoetier_fastlane.a"
check "it says that nobody answers" exits 0 "$work/client"
check "a C program links the shared client" builds -L"$libraries" -lmoetier-fastlane
check "it runs with libmoetier-fastlane.so.0" exits 0 env LD_LIBRARY_PATH="$libraries" "$work/client"
visible="$(nm -D --defined-only "$libraries/libmoetier-fastlane.so.0" | awk '{print $3}' | sort | tr '\n' ' ')"
check "the header's functions alone are visible" equal "$visible" \
  "moetier_close_slot moetier_lane_attach moetier_lane_close moetier_lane_compute moetier_lane_grant moetier_lane_set_spin moetier_lane_submit moetier_lane_wait moetier_map_arena moetier_open_slot moetier_unmap_arena "

plugin="$(find "$root/usr" -name libggml-moetier.so)"
if [[ -n "$plugin" ]]; then  # a build with a sanitizer has none
  check "doctor" exits 0 "$root/usr/bin/moetierctl" doctor --store-root "$work"
  check "doctor says where the plug-in is installed" out_has "GGML_BACKEND_PATH=$plugin"
  rm "$plugin"
  check "doctor without it" exits 0 "$root/usr/bin/moetierctl" doctor --store-root "$work"
  check "doctor says where it should be" out_has "libggml-moetier.so is not where $plugin"
fi

unit="$root/usr/lib/systemd/system/moetierd.service"
user_unit="$root/usr/lib/systemd/user/moetierd.service"
check "no placeholder is left" exits 1 grep -E '@[A-Z_]+@' "$unit" "$user_unit"
for line in Type=notify WatchdogSec=30 RuntimeDirectory=moetierd RuntimeDirectoryMode=0750 \
  StateDirectory=moetierd LimitMEMLOCK=infinity Group=moetier; do
  check "the unit says $line" grep -qx "$line" "$unit"
done
# Each of them denies /dev/nvidia*; ProtectClock does before systemd 253.
check "the unit lets the daemon see GPUs" exits 1 \
  grep -E '^(PrivateDevices=yes|ProtectClock=yes|DevicePolicy=|DeviceAllow=)' "$unit" "$user_unit"
check "the unit starts the installed program" grep -q "^ExecStart=/usr/bin/moetierd " "$unit"
check "the user's unit too" grep -q "exec /usr/bin/moetierd " "$user_unit"
check "the user's daemon keeps its state where moetierctl looks" exits 1 grep "^StateDirectory=" \
  "$user_unit"
named="$(sed -n 's/^ExecStart=[^ ]* --config //p' "$unit")"
for file in "$unit" "$user_unit"; do
  manual="$(sed -n 's/^Documentation=file://p' "$file")"
  check "$(basename "$(dirname "$file")"): the unit names the installed manual" is_file "$manual"
  check "with its whole path" equal "$manual" /usr/share/doc/moetierd/README.md
done
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
