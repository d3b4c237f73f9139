"""The rules of the house that a compiler does not check. Each rule is a function of one source
file (or of the whole tree) that yields findings; tidy_rules_test.py plants a violation of each."""

import os
import re
from dataclasses import dataclass

MAX_LINES = 450  # a file has one job; generated and data files are not looked at

CODE_SUFFIXES = (".h", ".cc", ".c", ".cu", ".cuh")
TEXT_SUFFIXES = CODE_SUFFIXES + (".proto", ".py", ".sh", ".cmake", ".txt", ".yaml", ".md", ".in",
                                 ".conf", ".service", ".json")


@dataclass(frozen=True)
class Finding:
    path: str
    line: int
    message: str

    def __str__(self):
        return f"{self.path}:{self.line}: {self.message}"


@dataclass(frozen=True)
class SourceFile:
    """A file of the tree by its path from the root, with `/`, and its text."""
    path: str
    text: str

    def lines(self):
        return enumerate(self.text.splitlines(), start=1)


# Which folders a folder may include from, itself aside. Arrows point one way.
ARROWS = {
    "base": set(),
    "kernels": {"base"},
    "registry": {"base"},
    "config": {"base"},
    "tiers": {"base", "kernels", "registry"},
    "daemon/scheduling": {"base", "kernels", "registry", "tiers"},
    "daemon/transport": {"base", "kernels", "registry", "tiers", "daemon/scheduling"},
    "daemon/rpc": {"base", "kernels", "registry", "tiers", "daemon/scheduling",
                   "daemon/transport", "moetier"},
    "daemon/fastlane": {"base", "kernels", "registry", "tiers", "daemon/scheduling",
                        "daemon/transport", "moetier"},
    "daemon/ctl": {"base", "kernels", "registry", "tiers", "config", "daemon/rpc", "moetier"},
    "adapters/llama_cpp": {"base", "kernels"},
    # The example reads recorded rows as moetierctl does.
    "adapters/cpp": {"base", "kernels", "moetier", "daemon/ctl"},
    # The composition root knows everything but the tool.
    "daemon": {"base", "kernels", "registry", "tiers", "config", "daemon/scheduling",
               "daemon/transport", "daemon/fastlane", "daemon/rpc", "moetier"},
}
PROJECT_FOLDERS = sorted(list(ARROWS) + ["moetier", "tests"], key=len, reverse=True)

# Libraries that only some places may include: pattern of the header, allowed path prefixes.
RESTRICTED_HEADERS = (
    (re.compile(r"liburing(\.h|/)"), ("tiers/nvme/",), "only tiers/nvme includes liburing"),
    (re.compile(r"yaml-cpp/"), ("config/config_yaml.cc",),
     "only config/config_yaml.cc includes yaml-cpp"),
    (re.compile(r"cuda\w*\.h$"), ("kernels/cuda/nvcc/", "kernels/cuda/simt/simt.h", "tests/gpu/"),
     "CUDA's own headers are seen only by kernels/cuda/nvcc and what nvcc compiles"),
    (re.compile(r"(grpcpp|grpc|google/protobuf)/"),
     ("adapters/cpp/", "daemon/rpc/", "daemon/ctl/", "daemon/main", "proto/", "tests/"),
     "gRPC and protobuf are seen only by daemon/rpc, clients and main"),
    (re.compile(r"moetier/v1/"),
     ("adapters/cpp/", "daemon/rpc/", "daemon/ctl/", "daemon/main", "proto/", "tests/"),
     "generated messages are seen only by daemon/rpc, clients and main"),
    (re.compile(r"CLI/"), ("adapters/cpp/", "daemon/ctl/", "daemon/main", "tests/"),
     "command lines are parsed by the programs only"),
)

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^">]+)[">]')


def includes_of(source):
    """(line, header, quoted) of each include."""
    for number, line in source.lines():
        match = INCLUDE.match(line)
        if match:
            yield number, match.group(2), match.group(1) == '"'


def folder_of(path):
    """The architecture's folder that a path lies in, or None."""
    for folder in PROJECT_FOLDERS:
        if path.startswith(folder + "/"):
            return folder
    return None


def check_arrows(source):
    if not source.path.endswith(CODE_SUFFIXES):
        return
    folder = folder_of(source.path)
    if folder is None or folder not in ARROWS:
        return
    for number, header, quoted in includes_of(source):
        target = folder_of(header)
        if not quoted or target is None:
            continue
        if target != folder and target not in ARROWS[folder]:
            yield Finding(source.path, number, f"{folder} must not include {target} ({header})")


def check_restricted_headers(source):
    if not source.path.endswith(CODE_SUFFIXES):
        return
    for number, header, _ in includes_of(source):
        for pattern, allowed, why in RESTRICTED_HEADERS:
            if pattern.match(header) and not source.path.startswith(allowed):
                yield Finding(source.path, number, f"{why} ({header})")


def guard_of(path):
    return "MOETIER_" + re.sub(r"[^A-Z0-9]", "_", path.upper()) + "_"


def check_header_guard(source):
    if not source.path.endswith(".h"):
        return
    guard = guard_of(source.path)
    lines = source.text.splitlines()
    good = (len(lines) >= 3 and lines[0] == f"#ifndef {guard}" and lines[1] == f"#define {guard}"
            and lines[-1] == f"#endif  // {guard}")
    if not good:
        yield Finding(source.path, 1, f"the header guard must be {guard}, first and last line")


def check_length(source):
    if not source.path.endswith(CODE_SUFFIXES + (".py", ".sh")):
        return
    count = len(source.text.splitlines())
    if count > MAX_LINES:
        yield Finding(source.path, count, f"{count} lines; a file has at most {MAX_LINES}")


# Written in pieces, so that this file passes its own rule.
MACHINE_PATHS = tuple(re.compile(pattern) for pattern in (
    r"\.\./" + r"shared\b",
    r"(?<![\w.])/" + r"work/",
    r"(?<![\w.])/" + r"root/",
    r"(?<![\w.])/" + r"tmp/bash_jobs",
))


def check_machine_paths(source):
    if not source.path.endswith(TEXT_SUFFIXES):
        return
    for number, line in source.lines():
        for pattern in MACHINE_PATHS:
            match = pattern.search(line)
            if match:
                yield Finding(source.path, number, f"a path of one machine: {match.group(0)}")


UNFINISHED = re.compile(r"\b(" + "TO" + r"DO|FIX" + r"ME|X" + r"XX)\b")


def check_unfinished(source):
    if not source.path.endswith(CODE_SUFFIXES + (".py", ".sh", ".proto", ".cmake")):
        return
    for number, line in source.lines():
        if UNFINISHED.search(line):
            yield Finding(source.path, number, "unfinished work is finished or left out")


THROW = re.compile(r"^(?!\s*//).*\bthrow\b\s*[\w;:({]")


def check_no_throw(source):
    """The core never throws; the YAML reader stops yaml-cpp's parser that way. Memory that runs
    out may end as operator new ends it."""
    folder = folder_of(source.path)
    if folder in (None, "tests") or source.path == "config/config_yaml.cc":
        return
    if not source.path.endswith(CODE_SUFFIXES):
        return
    for number, line in source.lines():
        code = line.split("//")[0].replace("throw std::bad_alloc()", "")
        if THROW.match(re.sub(r'"[^"]*"', '""', code)):
            yield Finding(source.path, number, "the core never throws: return an Error")


GENERATED_LITERAL = re.compile(r'\bGENERATE\(\s*"')


def check_generated_literals(source):
    """Catch2's GENERATE takes the first value's type: of literals it keeps references to arrays, and
    a test then sees whatever lies there."""
    for number, line in source.lines():
        if source.path.endswith(CODE_SUFFIXES) and GENERATED_LITERAL.search(line):
            yield Finding(source.path, number, "say the type: GENERATE(as<std::string>{}, ...)")


LOOP_OVER_PART = re.compile(r"for \(.* : .*\w\([^()]*\)\.\w+(\.\w+\(|\[)")


def check_loops_over_parts(source):
    """A range-for keeps what a call returns for its members, not for what their functions give."""
    for number, line in source.lines():
        if source.path.endswith(CODE_SUFFIXES) and LOOP_OVER_PART.search(line):
            yield Finding(source.path, number, "the call's result is gone in the loop: name it first")


# Headers that no FILE_SET can hold, with the reason.
UNLISTED_HEADERS = (
    # Bodies of the vector kernels: they compile only with their file's instruction set.
    re.compile(r"kernels/cpu/(avx2|avx512|rows16)_\w+\.h"),
)


def check_headers_listed(tree):
    """Each header stands in the FILE_SET of a CMakeLists.txt of its folder or one above it, so
    that it is compiled alone. Tests' headers have no library and are left out."""
    lists = {os.path.dirname(s.path): s.text for s in tree
             if os.path.basename(s.path) == "CMakeLists.txt"}
    for source in tree:
        if not source.path.endswith(".h") or folder_of(source.path) in (None, "tests"):
            continue
        if any(pattern.fullmatch(source.path) for pattern in UNLISTED_HEADERS):
            continue
        folder = os.path.dirname(source.path)
        listed = False
        while folder and not listed:
            name = re.escape(os.path.relpath(source.path, folder))
            listed = re.search(r"(?<![\w./])" + name + r"(?![\w.])", lists.get(folder, ""))
            folder = os.path.dirname(folder)
        if not listed:
            yield Finding(source.path, 1, "no CMakeLists.txt lists it among its HEADERS")


FILE_RULES = (check_arrows, check_restricted_headers, check_header_guard, check_length,
              check_machine_paths, check_unfinished, check_no_throw, check_generated_literals,
              check_loops_over_parts)
TREE_RULES = (check_headers_listed,)


def check_tree(tree):
    """All findings, in the order of the files."""
    findings = []
    for source in tree:
        for rule in FILE_RULES:
            findings.extend(rule(source))
    for rule in TREE_RULES:
        findings.extend(rule(tree))
    return sorted(findings, key=lambda finding: (finding.path, finding.line))
