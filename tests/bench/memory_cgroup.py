"""A memory cgroup, version 1 or 2, that programs of a bench run in."""

import os
import subprocess

V1 = "/sys/fs/cgroup/memory"
V2 = "/sys/fs/cgroup"


class MemoryCgroup:
    """Limits what its members take, page cache included. Needs root. Gone at the end of `with`."""

    def __init__(self, name, limit):
        self.limit = limit
        if os.access(V1, os.W_OK) and os.path.exists(V1 + "/memory.limit_in_bytes"):
            self.folder, self.limit_file = f"{V1}/{name}", "memory.limit_in_bytes"
            self.peak_file, self.swap_file = "memory.max_usage_in_bytes", None
        elif "memory" in read(V2 + "/cgroup.subtree_control").split():
            self.folder, self.limit_file = f"{V2}/{name}", "memory.max"
            self.peak_file, self.swap_file = "memory.peak", "memory.swap.max"
        else:
            raise RuntimeError("no memory cgroup can be made here (root, and the memory controller)")

    def __enter__(self):
        os.mkdir(self.folder)
        write(f"{self.folder}/{self.limit_file}", self.limit)
        if self.swap_file and os.path.exists(f"{self.folder}/{self.swap_file}"):
            write(f"{self.folder}/{self.swap_file}", 0)
        return self

    def __exit__(self, *_):
        os.rmdir(self.folder)

    def start(self, command, **options):
        """subprocess.Popen of a command whose every byte is counted here."""
        shell = 'echo $$ >"$0/cgroup.procs" && exec "$@"'
        return subprocess.Popen(["sh", "-c", shell, self.folder, *command], **options)

    def peak(self):
        """Most bytes at once so far."""
        return int(read(f"{self.folder}/{self.peak_file}"))


def read(path):
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except OSError:
        return ""


def write(path, value):
    with open(path, "w", encoding="ascii") as file:
        file.write(str(value))
