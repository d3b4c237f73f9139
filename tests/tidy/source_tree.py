"""Lists and reads the tree's files."""

import os
import subprocess

from tidy_rules import TEXT_SUFFIXES, SourceFile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SKIPPED_FOLDERS = ("build", ".git", ".cache")


def list_paths(root):
    """What git knows or would add; in a copy without git, everything but the build folder."""
    try:
        listed = subprocess.run(
            ["git", "-C", root, "ls-files", "--cached", "--others", "--exclude-standard", "-z"],
            check=True, capture_output=True).stdout.decode()
        paths = [path for path in listed.split("\0") if path]
        if paths:
            return sorted(path for path in paths if os.path.isfile(os.path.join(root, path)))
    except (OSError, subprocess.CalledProcessError):
        pass
    paths = []
    for folder, folders, files in os.walk(root):
        if folder == root:
            folders[:] = [name for name in folders if name not in SKIPPED_FOLDERS]
        paths += [os.path.relpath(os.path.join(folder, name), root) for name in files]
    return sorted(paths)


def read_tree(root):
    """The text files that rules look at; fuzz corpora and test data are data."""
    tree = []
    for path in list_paths(root):
        data = path.startswith(("tests/fuzz/corpus/", "tests/data/"))
        if data or not path.endswith(TEXT_SUFFIXES):
            continue
        with open(os.path.join(root, path), encoding="utf-8") as file:
            tree.append(SourceFile(path, file.read()))
    return tree
