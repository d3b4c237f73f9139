"""What the tests share: a moetierd of their own, the demo model's golden rows, hashes.

The environment names the programs and folders; python_client_test.sh sets it.
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import time

import numpy as np

import moetier

CTL = os.environ["MOETIER_TEST_CTL"]
DAEMON = os.environ["MOETIER_TEST_DAEMON"]
GOLDEN = pathlib.Path(os.environ["MOETIER_TEST_DATA"]) / "demo-moe" / "golden"
WORK = pathlib.Path(os.environ["MOETIER_TEST_WORK"])  # has stores/packed, the imported demo model

HIDDEN, EXPERTS, WEIGHTS, OUTPUT = (np.load(GOLDEN / f"{name}.npy")
                                    for name in ("hidden", "experts", "weights", "output"))
LAYERS = HIDDEN.shape[1]
ROWS = HIDDEN.shape[0]

ONE_MODEL = "models: {load: [{name: m, path: packed, ram: 25%}]}\n"
START_SECONDS = 60  # reads and checks nothing big; the rest is a busy machine's


class DaemonProcess:
    """A moetierd with a socket and state of its own, below WORK/NAME."""

    def __init__(self, name, config=ONE_MODEL):
        self._folder = WORK / name
        self._folder.mkdir(exist_ok=True)
        self.socket = str(self._folder / "sock")
        self._config = self._folder / "moetierd.yaml"
        self._config.write_text(f"state_directory: {self._folder}\n"
                                f"socket: {{path: {self.socket}, mode: \"0600\"}}\n"
                                f"store_root: {WORK}/stores\n"
                                f"cpu: {{tune: false}}\n{config}")
        self._log = self._folder / "log"
        self._process = None

    def start(self):
        with open(self._log, "a") as log:
            self._process = subprocess.Popen([DAEMON, "--config", str(self._config)], stderr=log)
        end = time.monotonic() + START_SECONDS
        while time.monotonic() < end and self._process.poll() is None:
            try:
                moetier.connect(self.socket, timeout=1.0).close()
                return self
            except moetier.Unreachable:
                time.sleep(0.02)
        self.kill()
        raise AssertionError(f"moetierd does not serve; its log:\n{self._log.read_text()}")

    def halt(self):
        """SIGSTOP, and every thread has stopped: from now on nothing is answered."""
        self._process.send_signal(signal.SIGSTOP)
        wait_until(lambda: self._thread_states() == {"T"}, "every thread of moetierd has stopped")

    def resume(self):
        self._process.send_signal(signal.SIGCONT)

    def _thread_states(self):
        files = pathlib.Path(f"/proc/{self._process.pid}/task").glob("*/stat")
        # The name in parentheses may hold anything; the state follows it.
        return {file.read_text().rpartition(")")[2].split()[0] for file in files}

    def kill(self):
        """SIGKILL, also while it is stopped, and gone."""
        self._process.kill()
        self._process.wait()

    def stop(self):
        """SIGTERM; AssertionError when it does not end well."""
        if self._process.poll() is None:
            self.resume()
            self._process.terminate()
            status = self._process.wait(timeout=30)
            assert status == 0, f"moetierd ended with {status}:\n{self._log.read_text()}"

    def replay_hash(self):
        """What `moetierctl replay` says of the bits, after its own check against the reference."""
        done = subprocess.run([CTL, "replay", "--socket", self.socket, "--golden", str(GOLDEN),
                               "--model", "m", "--rows", "16", "--json"],
                              check=True, stdout=subprocess.PIPE, timeout=120)
        return json.loads(done.stdout)["hash"]


def hash_of(grid):
    """XXH3 of [rows, layers, hidden] float32, as `moetierctl replay` prints it."""
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = [ctypes.c_char_p, ctypes.c_size_t]
    data = np.ascontiguousarray(grid, np.float32).tobytes()
    return f"{library.XXH3_64bits(data, len(data)):016x}"


def golden_call(layer, rows=slice(None)):
    """The arguments of one layer call on golden rows."""
    return layer, HIDDEN[rows, layer], EXPERTS[rows, layer], WEIGHTS[rows, layer]


def wait_until(condition, what, seconds=20):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.02)
