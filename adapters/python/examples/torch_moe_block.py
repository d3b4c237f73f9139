#!/usr/bin/python3
"""A mixture-of-experts block in PyTorch: its router runs here, its experts in moetierd. The same
block with all experts in PyTorch, on dequantised weights, runs beside it, and the outputs are
compared. Inference only: the daemon gives no gradients.

Exit status: 0 within the tolerance, 1 outside, 77 without PyTorch.
"""

import argparse
import sys
import time

import numpy as np

import moetier
from gguf_weights import GgufWeights

try:
    import torch
except ImportError:
    print("skipped: PyTorch is missing (Debian: apt-get install python3-torch)")
    sys.exit(77)

# The daemon's stated tolerance for integer weight types: it computes on 8-bit activations.
TOLERANCE = 0.03


class Router(torch.nn.Module):
    """Softmax over all experts, the best top_k, their weights rescaled to sum 1."""

    def __init__(self, weight, top_k):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.from_numpy(weight))  # [experts, hidden]
        self.top_k = top_k

    def forward(self, hidden):
        scores = torch.softmax(hidden @ self.weight.T, dim=-1)
        weights, experts = torch.topk(scores, self.top_k, dim=-1)
        return experts, weights / weights.sum(dim=-1, keepdim=True)


class DaemonMoeBlock(torch.nn.Module):
    """Holds no expert: `session` computes those of block `layer`."""

    def __init__(self, router, session, layer):
        super().__init__()
        self.router = router
        self.session = session
        self.layer = layer

    def forward(self, hidden):
        experts, weights = self.router(hidden)
        output = self.session.layer(self.layer, hidden.numpy(), experts.numpy(), weights.numpy())
        return torch.from_numpy(output)


class TorchMoeBlock(torch.nn.Module):
    """SwiGLU experts in PyTorch; gate and up are [experts, ffn, hidden], down its transpose."""

    def __init__(self, router, gate, up, down):
        super().__init__()
        self.router = router
        self.gate, self.up, self.down = (torch.from_numpy(part) for part in (gate, up, down))

    def forward(self, hidden):
        experts, weights = self.router(hidden)
        output = torch.zeros_like(hidden)
        for expert in experts.unique().tolist():
            rows, picks = (experts == expert).nonzero(as_tuple=True)
            x = hidden[rows]
            gated = torch.nn.functional.silu(x @ self.gate[expert].T) * (x @ self.up[expert].T)
            output[rows] += weights[rows, picks, None] * (gated @ self.down[expert].T)
        return output


def timed(block, hidden):
    begin = time.perf_counter()
    output = block(hidden)
    return output, (time.perf_counter() - begin) * 1e3


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--socket", help="of the daemon; default: MOETIER_SOCKET and moetierctl's")
    parser.add_argument("--model", help="its name in the daemon; not needed for the only one")
    parser.add_argument("--gguf", help="the model file; default: what the daemon names as source")
    parser.add_argument("--hidden", help=".npy of [rows, layers, hidden] f32; default: 64 normal "
                                         "rows a layer")
    parser.add_argument("--transport", choices=("grpc", "fastlane"), default="grpc")
    return parser.parse_args()


def compare(arguments, session):
    """The largest relative L2 over the layers; prints each."""
    geometry = session.model.geometry
    gguf = GgufWeights(arguments.gguf or session.model.source_paths[0])
    if arguments.hidden:
        hidden = torch.from_numpy(np.load(arguments.hidden))
    else:
        torch.manual_seed(0)
        hidden = torch.randn(64, len(geometry.layers), geometry.hidden)
    largest = 0.0
    for index, layer in enumerate(geometry.layers):
        prefix = f"blk.{layer.layer}.ffn_"
        router = Router(gguf.read(prefix + "gate_inp.weight"), geometry.top_k)
        parts = (gguf.read(f"{prefix}{part}_exps.weight") for part in ("gate", "up", "down"))
        rows = hidden[:, index].contiguous()
        ours, our_ms = timed(DaemonMoeBlock(router, session, layer.layer), rows)
        theirs, their_ms = timed(TorchMoeBlock(router, *parts), rows)
        error = ((ours - theirs).norm() / theirs.norm()).item()
        print(f"blk.{layer.layer}: {len(rows)} rows, relative L2 {error:.4f}; first values "
              f"{ours[0, 0]:+.5f} {ours[0, 1]:+.5f} (daemon, {our_ms:.1f} ms) "
              f"{theirs[0, 0]:+.5f} {theirs[0, 1]:+.5f} (torch, {their_ms:.1f} ms)")
        largest = max(largest, error)
    return largest


def main():
    arguments = parse_arguments()
    with torch.no_grad(), moetier.connect(arguments.socket) as daemon, \
            daemon.attach(arguments.model, client="torch_moe_block",
                          transport=arguments.transport) as session:
        largest = compare(arguments, session)
    good = largest <= TOLERANCE
    print(f"largest relative L2 {largest:.4f}, tolerance {TOLERANCE}: {'good' if good else 'WRONG'}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
