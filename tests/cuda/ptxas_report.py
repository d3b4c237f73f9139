"""Reads what `ptxas -v` prints."""

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Usage:
    """What one kernel needs on one architecture."""
    kernel: str
    architecture: str
    registers: int
    spill_bytes: int


ENTRY = re.compile(r"Compiling entry function '(\w+)' for 'sm_(\d+)a?'")
SPILLS = re.compile(r"(\d+) bytes spill stores, (\d+) bytes spill loads")
REGISTERS = re.compile(r"Used (\d+) registers")


def short_name(mangled):
    """`DownKernel IntegerDots Q4K x4` of the mangled DownKernel<IntegerDots<Q4K>, 4>: the names
    from the kernel's on, without the call's, and numbers."""
    numbers = re.findall(r"Li(\d+)E", mangled)
    rest = re.sub(r"Li\d+E|S\d*_", " ", mangled)
    words = []
    while match := re.search(r"(\d+)(?=[A-Za-z_])", rest):
        end = match.end() + int(match.group(1))
        words.append(rest[match.end():end])
        rest = rest[end:]
    starts = [i for i, word in enumerate(words) if word.endswith("Kernel")]
    if not starts:
        return mangled
    return " ".join([*words[starts[0]:-1], *(f"x{number}" for number in numbers)])


def parse(printed):
    """A Usage for each kernel and architecture that the compiler reported."""
    usages = []
    kernel = architecture = None
    spills = 0
    for line in printed.splitlines():
        if match := ENTRY.search(line):
            kernel, architecture = short_name(match.group(1)), match.group(2)
            spills = 0
        elif match := SPILLS.search(line):
            spills = int(match.group(1)) + int(match.group(2))
        elif kernel is not None and (match := REGISTERS.search(line)):
            usages.append(Usage(kernel, architecture, int(match.group(1)), spills))
            kernel = None
    return usages


def table(usages, architectures):
    """Registers a thread, a line a kernel, a column an architecture; spilt bytes behind a +."""
    cells = {(usage.kernel, usage.architecture): usage for usage in usages}
    names = sorted({usage.kernel for usage in usages})
    width = max([len(name) for name in names] + [len("registers")])
    lines = ["  ".join(["registers".ljust(width)] + [f"sm_{a}".rjust(7) for a in architectures])]
    for name in names:
        line = [name.ljust(width)]
        for architecture in architectures:
            usage = cells.get((name, architecture))
            text = "-" if usage is None else str(usage.registers)
            if usage is not None and usage.spill_bytes:
                text += f"+{usage.spill_bytes}"
            line.append(text.rjust(7))
        lines.append("  ".join(line))
    return "\n".join(lines)


def problems(usages, architectures):
    """What must not be: a spill, a kernel that an architecture lacks, no kernel at all."""
    found = [f"{usage.kernel} spills {usage.spill_bytes} bytes on sm_{usage.architecture}"
             for usage in usages if usage.spill_bytes]
    for name in sorted({usage.kernel for usage in usages}):
        have = {usage.architecture for usage in usages if usage.kernel == name}
        found += [f"{name} is not reported for sm_{a}" for a in architectures if a not in have]
    if not usages:
        found.append("ptxas reported no kernel")
    return found
