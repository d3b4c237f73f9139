#!/usr/bin/env python3
"""Writes a qwen3moe GGUF with random weights, for benches of models larger than memory: any engine
loads it, its text means nothing. Routers are skewed, so that some experts are picked several times
as often as others, as in trained models. The same arguments give the same bytes."""

import argparse
import os
import struct
import sys

import numpy

F32, Q4_K = 0, 12  # ggml's type numbers
BLOCK_WEIGHTS, BLOCK_BYTES = 256, 144  # of Q4_K: d, dmin (f16), 12 bytes of scales, 128 of codes
ALIGNMENT = 32
CHUNK_BLOCKS = 1 << 18
U32, F32_KEY, BOOL, TEXT, ARRAY, I32 = 4, 6, 7, 8, 9, 5  # GGUF's value types


def text(value):
    data = value.encode()
    return struct.pack("<Q", len(data)) + data


def key(name, kind, payload):
    return text(name) + struct.pack("<I", kind) + payload


def u32(name, value):
    return key(name, U32, struct.pack("<I", value))


def f32(name, value):
    return key(name, F32_KEY, struct.pack("<f", value))


def texts(name, values):
    return key(name, ARRAY, struct.pack("<IQ", TEXT, len(values)) + b"".join(map(text, values)))


def numbers(name, kind, array):
    return key(name, ARRAY, struct.pack("<IQ", kind, len(array)) + array.tobytes())


def vocabulary(size):
    """A SentencePiece-like vocabulary: three controls, the 256 bytes, then fillers."""
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{byte:02X}>" for byte in range(256)]
    tokens += [f"\u2581w{i}" for i in range(size - len(tokens))]
    kinds = numpy.full(size, 1, dtype="<i4")  # normal
    kinds[0], kinds[1:3], kinds[3:259] = 2, 3, 6  # unknown, control, byte
    scores = -numpy.arange(size, dtype="<f4")
    return tokens, scores, kinds


class Model:
    """The tensors in file order: (name, type, shape with the row length first, how to fill it)."""

    def __init__(self, spec):
        self.spec = spec
        self.tensors = []
        hidden, heads, head = spec.hidden, spec.heads, 128
        self.quantised("token_embd.weight", (hidden, spec.vocab), 1.0)
        self.ones("output_norm.weight", hidden)
        self.quantised("output.weight", (hidden, spec.vocab), hidden ** -0.5)
        for layer in range(spec.layers):
            block = f"blk.{layer}."
            self.ones(block + "attn_norm.weight", hidden)
            self.quantised(block + "attn_q.weight", (hidden, heads * head), hidden ** -0.5)
            self.quantised(block + "attn_k.weight", (hidden, head), hidden ** -0.5)
            self.quantised(block + "attn_v.weight", (hidden, head), hidden ** -0.5)
            self.quantised(block + "attn_output.weight", (heads * head, hidden),
                           spec.mixing * hidden ** -0.5)
            self.ones(block + "attn_q_norm.weight", head)
            self.ones(block + "attn_k_norm.weight", head)
            self.ones(block + "ffn_norm.weight", hidden)
            self.tensors.append((block + "ffn_gate_inp.weight", F32, (hidden, spec.experts),
                                 self.router))
            for role, row, rows in (("gate", hidden, spec.ffn), ("up", hidden, spec.ffn),
                                    ("down", spec.ffn, hidden)):
                self.quantised(f"{block}ffn_{role}_exps.weight", (row, rows, spec.experts),
                               (spec.mixing if role == "down" else 1) * row ** -0.5)

    def ones(self, name, size):
        self.tensors.append((name, F32, (size,), lambda out, rng, count: out.write(
            numpy.ones(count, dtype="<f4").tobytes())))

    def quantised(self, name, shape, deviation):
        self.tensors.append((name, Q4_K, shape, lambda out, rng, count: blocks(
            out, rng, count // BLOCK_WEIGHTS, deviation)))

    def router(self, out, rng, count):
        """Rows of unlike length: the longer a row, the more often its expert is among the best."""
        rows = rng.standard_normal((self.spec.experts, self.spec.hidden), dtype="f4")
        length = numpy.exp(self.spec.skew * rng.standard_normal((self.spec.experts, 1)))
        out.write((rows * length * 2 / self.spec.hidden ** 0.5).astype("<f4").tobytes())
        assert count == rows.size


def blocks(out, rng, count, deviation):
    """Random codes around zero: weight = d * scale * code - dmin * minimum, with the minimum in the
    middle of the codes' range."""
    while count > 0:
        part = min(count, CHUNK_BLOCKS)
        data = numpy.frombuffer(rng.bytes(part * BLOCK_BYTES), dtype=numpy.uint8)
        data = data.reshape(part, BLOCK_BYTES).copy()
        d = deviation / (32 * 4.6)  # codes 0..15 deviate by 4.6 from their mean of 7.5
        data[:, 0:2] = numpy.frombuffer(numpy.float16(d).tobytes(), numpy.uint8)
        data[:, 2:4] = numpy.frombuffer(numpy.float16(d * 7.5).tobytes(), numpy.uint8)
        # All eight six-bit scales and minimums are 32: their packed form.
        data[:, 4:12] = 32
        data[:, 12:16] = 0
        data[:, 4:8] |= 128  # top bits of the scales 4..7: 32 = 0b10_0000
        data[:, 8:12] |= 128
        out.write(data.tobytes())
        count -= part


def tensor_bytes(kind, shape):
    weights = int(numpy.prod(shape, dtype=numpy.uint64))
    return weights * 4 if kind == F32 else weights // BLOCK_WEIGHTS * BLOCK_BYTES


def align(value):
    return (value + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT


def head(spec, model):
    arch = "qwen3moe."
    tokens, scores, kinds = vocabulary(spec.vocab)
    keys = [
        key("general.architecture", TEXT, text("qwen3moe")),
        key("general.name", TEXT, text(f"synthetic {spec.layers}x{spec.experts}")),
        u32(arch + "context_length", 4096), u32(arch + "embedding_length", spec.hidden),
        u32(arch + "block_count", spec.layers), u32(arch + "feed_forward_length", spec.ffn),
        u32(arch + "attention.head_count", spec.heads), u32(arch + "attention.head_count_kv", 1),
        u32(arch + "attention.key_length", 128), u32(arch + "attention.value_length", 128),
        f32(arch + "attention.layer_norm_rms_epsilon", 1e-6), f32(arch + "rope.freq_base", 1e6),
        u32(arch + "expert_count", spec.experts), u32(arch + "expert_used_count", spec.top_k),
        u32(arch + "expert_feed_forward_length", spec.ffn),
        key("tokenizer.ggml.model", TEXT, text("llama")),
        texts("tokenizer.ggml.tokens", tokens),
        numbers("tokenizer.ggml.scores", F32_KEY, scores),
        numbers("tokenizer.ggml.token_type", I32, kinds),
        u32("tokenizer.ggml.bos_token_id", 1), u32("tokenizer.ggml.eos_token_id", 2),
        u32("tokenizer.ggml.unknown_token_id", 0),
    ]
    entries, offset = b"", 0
    for name, kind, shape, _ in model.tensors:
        entries += text(name) + struct.pack("<I", len(shape))
        entries += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<IQ", kind, offset)
        offset = align(offset + tensor_bytes(kind, shape))
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(model.tensors), len(keys))
    return out + b"".join(keys) + entries


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out")
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--hidden", type=int, default=2048)
    parser.add_argument("--ffn", type=int, default=768)
    parser.add_argument("--experts", type=int, default=128)
    parser.add_argument("--top-k", type=int, default=8)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--vocab", type=int, default=2048)
    parser.add_argument("--skew", type=float, default=0.15,
                        help="deviation of the logarithm of the router rows' lengths")
    parser.add_argument("--mixing", type=float, default=0.2,
                        help="what a layer adds to a token's row, against the row itself: the more, "
                             "the more alike tokens and their experts become")
    parser.add_argument("--seed", type=int, default=1)
    spec = parser.parse_args()
    if spec.hidden % BLOCK_WEIGHTS or spec.ffn % BLOCK_WEIGHTS or spec.vocab < 260:
        parser.error("hidden and ffn must be multiples of 256, the vocabulary 260 or more")
    model = Model(spec)
    total = sum(align(tensor_bytes(kind, shape)) for _, kind, shape, _ in model.tensors)
    rng = numpy.random.default_rng(spec.seed)
    partial = spec.out + ".partial"
    with open(partial, "wb") as out:
        start = head(spec, model)
        out.write(start.ljust(align(len(start)), b"\0"))
        for _, kind, shape, fill in model.tensors:
            fill(out, rng, int(numpy.prod(shape, dtype=numpy.uint64)))
            out.write(b"\0" * (align(out.tell()) - out.tell()))
        out.flush()
        os.fsync(out.fileno())
    os.rename(partial, spec.out)
    print(f"{spec.out}: {total / 1e9:.2f} GB of tensors, {spec.layers} layers of {spec.experts} experts,"
          f" top-{spec.top_k}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
