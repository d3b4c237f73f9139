#!/usr/bin/env python3
"""A model larger than the memory of engine and daemon together, through an unmodified llama.cpp:
stock with its own mmap against the plug-in with moetierd, in the same memory cgroup, by turns.
larger_than_memory.sh builds what this needs and calls it. Needs root, for the cgroup."""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time

import numpy

from memory_cgroup import MemoryCgroup
from offline_optimum import read_routes, reads_of_optimum

MIB = 1 << 20
RESERVE = 64 * MIB  # what moetierd keeps free beside its arena


class Failed(Exception):
    """The bench has no figure to print; the text says why."""


class Bench:
    def __init__(self, spec):
        self.spec = spec
        self.model = f"{spec.dir}/synthetic.gguf"
        self.shell = f"{spec.dir}/shell.gguf"
        self.store = f"{spec.dir}/stores/synthetic"
        self.tokens = ["--tokens", str(spec.tokens), "--warm", str(spec.warm)]

    def prepare(self):
        """Model, store and shell, unless an earlier run left them."""
        here = os.path.dirname(os.path.abspath(__file__))
        if not os.path.exists(self.model):
            run([sys.executable, f"{here}/make_synthetic_moe.py", self.model,
                 "--layers", str(self.spec.layers)])
        if not os.path.exists(f"{self.store}/index"):
            run([self.spec.ctl, "import", self.model, "--store", self.store])
        if not os.path.exists(self.shell):
            run([self.spec.ctl, "shell", self.model, self.shell])

    def forget_pages(self):
        """The model's files are not in the page cache any more."""
        for path in (self.model, self.shell, f"{self.store}/experts-0.bin"):
            with open(path, "rb") as file:
                os.fsync(file.fileno())
                os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def decode(self, start, model, extra=(), environment=None):
        """One engine run; its figures and logits."""
        out = f"{self.spec.dir}/logits.f32"
        command = [self.spec.engine, self.spec.libraries, model, *self.tokens, "--out", out, *extra]
        engine = start(command, stdout=subprocess.PIPE, text=True,
                       env={**os.environ, **(environment or {})})
        text, _ = engine.communicate()
        if engine.returncode != 0:
            raise Failed(f"{' '.join(command)} ended with {engine.returncode}")
        result = json.loads(text)
        result["logits"] = numpy.fromfile(out, dtype="<f4").reshape(self.spec.tokens, -1)
        return result

    def stock(self, start, extra=()):
        self.forget_pages()
        begin = time.monotonic()
        result = self.decode(start, self.model, extra)
        result["cold_s"] = (result["load_ms"] + result["first_ms"]) / 1000
        result["wall_s"] = time.monotonic() - begin
        return result

    def plugin(self, start, ram, times=1):
        """The daemon with `ram` bytes for experts, and the engine on the shell; the last of so many
        engine runs on it."""
        self.forget_pages()
        begin = time.monotonic()
        daemon = Daemon(self.spec, self.store, start, ram)
        try:
            ready = time.monotonic() - begin
            for _ in range(times):
                result = self.decode(start, self.shell, environment={
                    "GGML_BACKEND_PATH": self.spec.plugin, "MOETIER_SOCKET": daemon.socket})
            result["cold_s"] = ready + (result["load_ms"] + result["first_ms"]) / 1000
            result["status"] = daemon.status()
        finally:
            daemon.stop()
        return result


class Daemon:
    def __init__(self, spec, store, start, ram):
        self.spec = spec
        folder = f"{spec.dir}/run"
        os.makedirs(folder, exist_ok=True)
        self.socket = f"{folder}/moetierd.sock"
        config = f"{folder}/moetierd.yaml"
        with open(config, "w", encoding="utf-8") as file:
            # No preheat: the bound counts the first read of each expert.
            file.write(f"state_directory: {folder}\nsocket: {{path: {self.socket}, mode: '0600'}}\n"
                       f"cpu: {{workers: {spec.workers}}}\n"
                       f"models: {{load: [{{name: synthetic, path: {store}, ram: {ram}, preheat: off}}]}}\n")
        with open(f"{folder}/log", "a", encoding="utf-8") as log:
            self.process = start([spec.daemon, "--config", config], stderr=log)
        while self.ctl("status").returncode != 0:
            if self.process.poll() is not None:
                raise Failed(f"moetierd ended while starting; see {folder}/log")
            time.sleep(0.02)

    def ctl(self, *arguments):
        return subprocess.run([self.spec.ctl, *arguments, "--socket", self.socket],
                              capture_output=True, text=True, check=False)

    def status(self):
        return json.loads(self.ctl("status", "--json").stdout)

    def stop(self):
        self.process.terminate()
        self.process.wait()


def run(command):
    subprocess.run(command, check=True)


def drive_rate(path):
    """Bytes a second that fio reads from the store at the daemon's piece size and depth."""
    job = subprocess.run(
        ["fio", "--name=read", f"--filename={path}", "--readonly", "--direct=1", "--rw=randread",
         "--bs=512k", "--iodepth=64", "--ioengine=io_uring", "--runtime=5", "--time_based",
         "--output-format=json"], capture_output=True, text=True, check=True)
    return json.loads(job.stdout)["jobs"][0]["read"]["bw_bytes"]


def compare(name, logits, reference, most):
    error = float(numpy.linalg.norm(logits - reference) / numpy.linalg.norm(reference))
    print(f"  {name}: relative L2 of the logits {error:.3g}")
    if not error <= most:
        raise Failed(f"{name}: the logits are wrong, so no speed is printed")


def median_ms(runs):
    return statistics.median(ms for result in runs for ms in result["token_ms"])


def measure(bench, spec):
    bench.prepare()
    size = os.path.getsize(bench.model)
    print(f"model {size / 1e9:.2f} GB, {spec.tokens} tokens after {spec.warm}, one engine thread, "
          f"{spec.workers} daemon workers")
    routes = f"{spec.dir}/routes.txt"
    reference = bench.stock(subprocess.Popen, ["--routes", routes])
    calls = read_routes(routes)
    # The second run finds every expert in RAM: what computing takes.
    whole = bench.plugin(subprocess.Popen, "100%", times=2)
    compare("plug-in against stock, no limit", whole["logits"], reference["logits"],
            spec.most_difference)
    stock_ms, compute_ms = median_ms([bench.stock(subprocess.Popen)]), median_ms([whole])
    print(f"  no limit: stock {1000 / stock_ms:.2f} tokens/s, plug-in {1000 / compute_ms:.2f} tokens/s")
    classes = whole["status"]["pools"][0]["classes"]
    if len(classes) != 1:
        raise Failed("the model's experts are not of one size")
    slot_bytes = int(classes[0]["slot_bytes"])
    for share in spec.shares:
        limited(bench, spec, int(size * share / 100), share, slot_bytes, calls, whole, compute_ms)


def limited(bench, spec, limit, share, slot_bytes, calls, whole, compute_ms):
    store = f"{bench.store}/experts-0.bin"
    stocks, plugins, rates, peaks = [], [], [], {"stock": 0, "plug-in": 0}
    for _ in range(spec.runs):
        with MemoryCgroup("moetier-stock", limit) as group:
            # Repacked weights are a private copy, which no such group holds.
            stocks.append(bench.stock(group.start, ["--repack", "no"]))
            peaks["stock"] = max(peaks["stock"], group.peak())
        before = drive_rate(store)
        with MemoryCgroup("moetier-plugin", limit) as group:
            plugins.append(bench.plugin(group.start, limit - spec.engine_bytes - RESERVE))
            peaks["plug-in"] = max(peaks["plug-in"], group.peak())
        # A shared drive changes by the minute: the better of its rates around the run counts.
        rates.append(max(before, drive_rate(store)))
        if not numpy.array_equal(plugins[-1]["logits"], whole["logits"]):
            raise Failed(f"{share} %: the plug-in's bits are not those without a limit")
    slots = int(plugins[-1]["status"]["pools"][0]["classes"][0]["slots"])
    reads = reads_of_optimum(calls, slots, spec.warm)
    read_ms = [reads * slot_bytes / rate * 1000 / spec.tokens for rate in rates]
    reached = statistics.median(max(floor, compute_ms) / statistics.mean(run["token_ms"])
                                for floor, run in zip(read_ms, plugins))
    stock, plugin = mean_ms(stocks), mean_ms(plugins)
    print(f"{share} % ({limit / 1e9:.2f} GB): stock {1000 / stock:.3f} tokens/s, plug-in "
          f"{1000 / plugin:.2f} tokens/s: {stock / plugin:.1f} times; the same bits as without a limit")
    print(f"  {100 * reached:.0f} % of the bound: the optimum with {slots} slots reads {reads} experts, "
          f"{statistics.median(read_ms):.0f} ms a token at fio's {statistics.median(rates) / 1e9:.2f} "
          f"GB/s; computing takes {compute_ms:.0f} ms")
    print(f"  peaks: stock {peaks['stock'] / 1e9:.2f} GB, plug-in {peaks['plug-in'] / 1e9:.2f} GB; cold "
          f"start to the first token: stock {cold(stocks):.1f} s, plug-in {cold(plugins):.1f} s")


def mean_ms(runs):
    """Over all tokens, the median of the runs: what a text of that length takes."""
    return statistics.median(statistics.mean(result["token_ms"]) for result in runs)


def cold(runs):
    return statistics.median(result["cold_s"] for result in runs)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    for name in ("--engine", "--libraries", "--plugin", "--daemon", "--ctl"):
        parser.add_argument(name, required=True)
    parser.add_argument("--dir", required=True, help="for model, store and shell: twice their bytes")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--tokens", type=int, default=48)
    parser.add_argument("--warm", type=int, default=16)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--shares", type=int, nargs="+", default=[75, 50, 33])
    parser.add_argument("--engine-bytes", type=int, default=700 * MIB,
                        help="left to the engine and the daemon beside the experts")
    parser.add_argument("--most-difference", type=float, default=0.5,
                        help="relative L2 of plug-in and stock logits above which nothing is printed")
    spec = parser.parse_args()
    os.makedirs(spec.dir, exist_ok=True)
    try:
        measure(Bench(spec), spec)
    except (Failed, RuntimeError) as error:
        print(f"larger_than_memory: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
