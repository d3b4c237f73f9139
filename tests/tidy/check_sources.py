#!/usr/bin/env python3
"""Checks the tree against tidy_rules.py. Exit status: 0 nothing found, 1 findings on stderr."""

import sys

from source_tree import ROOT, read_tree
from tidy_rules import check_tree


def main():
    tree = read_tree(ROOT)
    findings = check_tree(tree)
    for finding in findings:
        print(finding, file=sys.stderr)
    print(f"tidy: {len(tree)} files, {len(findings)} findings")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
