# shellcheck shell=bash
# Sourced by tests that start moetierd, with their own arguments, MOETIERCTL MOETIERD [DATA_DIR]: sets
# $ctl, $daemon and $demo, brings the checks and the harness, and makes the folder $work, which goes at
# the end, as does a daemon that still runs.
ctl="$1"
daemon="$2"
demo="${3:-}/demo-moe"
work="$(mktemp -d "/tmp/moetier-$(basename "$0" .sh).XXXXXX")"
trap 'stop_daemon; rm -rf "$work"' EXIT
source "$(dirname "${BASH_SOURCE[0]}")/ctl_checks.sh"
source "$(dirname "${BASH_SOURCE[0]}")/daemon_harness.sh"
