#!/usr/bin/env python3
"""Checks C and C++ sources with clang-format, version 14 as the style asks.
Exit status: 0 all formatted, 1 some are not, 77 there is no clang-format 14 (ctest: skipped)."""

import re
import shutil
import subprocess
import sys

from source_tree import ROOT, list_paths

SUFFIXES = (".h", ".cc", ".c", ".cu")
SKIP = 77


def find_clang_format():
    for name in ("clang-format-14", "clang-format"):
        path = shutil.which(name)
        if not path:
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True).stdout
        match = re.search(r"version (\d+)\.", version)
        if match and match.group(1) == "14":
            return path
    return None


def main():
    tool = find_clang_format()
    if tool is None:
        print("tidy: clang-format 14 is not installed; formatting is not checked")
        return SKIP
    paths = [path for path in list_paths(ROOT) if path.endswith(SUFFIXES)]
    result = subprocess.run([tool, "--dry-run", "--Werror", "--style=file", *paths], cwd=ROOT)
    print(f"tidy: {len(paths)} files " + ("formatted" if result.returncode == 0 else "checked"))
    return 0 if result.returncode == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
