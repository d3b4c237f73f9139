#!/usr/bin/env python3
"""Compiles the CUDA kernels for every supported GPU and prints their registers and spills, as ptxas
counts them.
Exit status: 0 all compiled and none spills, 1 not so, 77 there is no nvcc (1 with --require)."""

import argparse
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

import ptxas_report

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
KERNELS = os.path.join(ROOT, "kernels", "cuda")
SUPPORTED = ("80", "86", "89", "90", "120")
SKIP = 77


def find_nvcc():
    """nvcc's path and the architectures that it knows, or None."""
    folders = [os.environ.get(name) for name in ("CUDA_HOME", "CUDA_PATH")] + ["/usr/local/cuda"]
    candidates = [os.environ.get("CUDACXX")] if "CUDACXX" in os.environ else (
        [os.path.join(folder, "bin", "nvcc") for folder in folders if folder] + ["nvcc"])
    for nvcc in candidates:
        try:
            listed = subprocess.run([nvcc, "--list-gpu-arch"], capture_output=True, text=True,
                                    check=True).stdout
            return nvcc, set(re.findall(r"compute_(\d+)", listed))
        except (OSError, subprocess.CalledProcessError):
            continue
    return None


def compile_source(nvcc, source, architectures, folder):
    """The compiler's exit status and all that it printed."""
    codes = [f"-gencode=arch=compute_{a},code=sm_{a}" for a in architectures]
    last = architectures[-1]
    codes.append(f"-gencode=arch=compute_{last},code=compute_{last}")
    output = os.path.join(folder, source + ".o")
    result = subprocess.run(
        [nvcc, "-std=c++17", "-O3", "--fmad=false", "-Xptxas", "-v", "-I", ROOT, *codes, "-c",
         os.path.join(KERNELS, source), "-o", output],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return result.returncode, result.stdout


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--require", action="store_true", help="without nvcc fail, do not skip")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--architectures", nargs="+", default=SUPPORTED, choices=SUPPORTED)
    options = parser.parse_args()
    found = find_nvcc()
    if found is None:
        print("report_kernels: no nvcc found")
        return 1 if options.require else SKIP
    nvcc, known = found
    architectures = [a for a in options.architectures if a in known]
    left_out = [a for a in options.architectures if a not in known]
    if left_out:
        print(f"report_kernels: {nvcc} does not know {' '.join(left_out)}")
        if options.require or not architectures:
            return 1
    sources = sorted(name for name in os.listdir(KERNELS) if name.endswith(".cu"))
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(
            lambda source: compile_source(nvcc, source, architectures, folder), sources))
    failed = False
    usages = []
    for source, (status, printed) in zip(sources, results):
        if status != 0:
            print(f"report_kernels: {source} does not compile:\n{printed}")
            failed = True
        usages += ptxas_report.parse(printed)
    print(ptxas_report.table(usages, architectures))
    for problem in ptxas_report.problems(usages, architectures):
        print(f"report_kernels: {problem}")
        failed = True
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
