#!/bin/sh
# Runs the reader's tests and bench as a service would be run: as an unprivileged user with 8 MiB of
# lockable memory, and inside a memory cgroup. Needs root, for setting the limits only.
#   nvme_limits.sh BUILD_DIR [options of bench_nvme]
set -eu

build=${1:?usage: nvme_limits.sh BUILD_DIR [options of bench_nvme]}
shift
test_program=$build/tests/unit/nvme/nvme_test
bench_program=$build/tests/bench/bench_nvme
file=${TMPDIR:-/var/tmp}/moetier-limits-$$.bin
group=
limit=$((512 * 1024 * 1024))

clean_up() {
  rm -f "$file"
  if [ -n "$group" ]; then rmdir "$group" || true; fi
}
trap clean_up EXIT

echo "== as user 65534 without capabilities, memlock 8 MiB"
unprivileged() {
  setpriv --reuid=65534 --regid=65534 --clear-groups --inh-caps=-all --bounding-set=-all \
    prlimit --memlock=8388608:8388608 -- "$@"
}
unprivileged "$test_program"
unprivileged "$bench_program" --path "$file" --size 1GiB --pairs 2 "$@"

echo "== in a memory cgroup of $limit bytes, half of the file"
if [ -w /sys/fs/cgroup/memory ]; then
  group=/sys/fs/cgroup/memory/moetier-limits-$$
  mkdir "$group"
  echo $limit >"$group/memory.limit_in_bytes"
elif grep -qw memory /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null; then
  group=/sys/fs/cgroup/moetier-limits-$$
  mkdir "$group"
  echo $limit >"$group/memory.max"
else
  echo "no memory controller can be used here: this part is skipped"
  exit 0
fi
# The shell moves itself, so that everything the bench takes is counted in the group.
# shellcheck disable=SC2016  # the inner shell expands
sh -c 'echo $$ >"$1/cgroup.procs"; shift; exec "$@"' moetier-limits "$group" \
  "$bench_program" --path "$file" --size 1GiB --pairs 2 "$@"
for peak in memory.max_usage_in_bytes memory.peak; do
  if [ -r "$group/$peak" ]; then echo "$peak: $(cat "$group/$peak")"; fi
done
