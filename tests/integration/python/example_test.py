"""The PyTorch example runs and agrees with PyTorch."""

import os
import pathlib
import re
import subprocess
import sys
import unittest

from daemon_process import GOLDEN, LAYERS, DaemonProcess

EXAMPLE = (pathlib.Path(__file__).resolve().parents[3] / "adapters" / "python" / "examples" /
           "torch_moe_block.py")


class TorchMoeBlockTest(unittest.TestCase):
    def test_its_experts_in_the_daemon_agree_with_those_in_pytorch(self):
        daemon = DaemonProcess("example").start()
        self.addCleanup(daemon.stop)
        done = subprocess.run([sys.executable, str(EXAMPLE), "--socket", daemon.socket,
                               "--hidden", str(GOLDEN / "hidden.npy")],
                              stdout=subprocess.PIPE, text=True, timeout=200,
                              # On a busy machine OpenMP's threads wait for each other by spinning.
                              env={**os.environ, "OMP_NUM_THREADS": "1"})
        if done.returncode == 77:
            self.skipTest(done.stdout.strip())
        self.assertEqual(done.returncode, 0, done.stdout)
        errors = [float(text) for text in re.findall(r"^blk.*relative L2 ([\d.]+);", done.stdout,
                                                     re.MULTILINE)]
        self.assertEqual(len(errors), LAYERS)
        # Above 0: int8 activations differ from float32 ones, or nothing was compared.
        self.assertTrue(all(0 < error < 0.03 for error in errors), done.stdout)


if __name__ == "__main__":
    unittest.main()
