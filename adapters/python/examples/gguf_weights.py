"""Reads tensors of a GGUF file as float32, for torch_moe_block.py: F32, Q4_K and Q6_K, which the
demo model has."""

import numpy as np

_SCALARS = {0: "<u1", 1: "<i1", 2: "<u2", 3: "<i2", 4: "<u4", 5: "<i4", 6: "<f4", 7: "<u1",
            10: "<u8", 11: "<i8", 12: "<f8"}
_STRING, _ARRAY = 8, 9
_F32, _Q4_K, _Q6_K = 0, 12, 14
_COLUMNS = 256  # of a superblock
_BLOCK_BYTES = {_Q4_K: 144, _Q6_K: 210}


class GgufWeights:
    def __init__(self, path):
        self._data = np.memmap(path, np.uint8, "r")
        self._at = 0
        if bytes(self._data[:4]) != b"GGUF":
            raise ValueError(f"{path} is no GGUF file")
        self._at = 8
        tensors, pairs = self._number("<u8"), self._number("<u8")
        metadata = {self._text(): self._value(self._number("<u4")) for _ in range(pairs)}
        self._tensors = {}
        for _ in range(tensors):
            name = self._text()
            dims = [self._number("<u8") for _ in range(self._number("<u4"))]
            kind, offset = self._number("<u4"), self._number("<u8")
            self._tensors[name] = (dims[::-1], kind, offset)
        alignment = metadata.get("general.alignment", 32)
        self._start = -(-self._at // alignment) * alignment

    def read(self, name):
        """The tensor as float32, slowest dimension first: experts are [expert, rows, columns]."""
        shape, kind, offset = self._tensors[name]
        count = int(np.prod(shape))
        begin = self._start + offset
        if kind == _F32:
            return np.array(self._data[begin:begin + 4 * count].view("<f4")).reshape(shape)
        if kind not in _BLOCK_BYTES:
            raise ValueError(f"{name} has ggml type {kind}; this example reads F32, Q4_K and Q6_K")
        size = _BLOCK_BYTES[kind]
        blocks = self._data[begin:begin + count // _COLUMNS * size].reshape(-1, size)
        weights = _dequantise_q4_k(blocks) if kind == _Q4_K else _dequantise_q6_k(blocks)
        return weights.reshape(shape)

    def _number(self, kind):
        size = np.dtype(kind).itemsize
        value = self._data[self._at:self._at + size].view(kind)[0]
        self._at += size
        return value.item()

    def _text(self):
        size = self._number("<u8")
        self._at += size
        return bytes(self._data[self._at - size:self._at]).decode()

    def _value(self, kind):
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY:
            inner, count = self._number("<u4"), self._number("<u8")
            return [self._value(inner) for _ in range(count)]
        return self._number(_SCALARS[kind])


def _half(blocks, at):
    return np.ascontiguousarray(blocks[:, at:at + 2]).view("<f2").astype(np.float32)  # [n, 1]


def _dequantise_q4_k(blocks):
    """Of 256 columns: d, dmin, twelve bytes of six-bit scales and minimums, 128 of nibbles."""
    packed = blocks[:, 4:16]
    first, second, third = packed[:, 0:4], packed[:, 4:8], packed[:, 8:12]
    scales = np.concatenate([first & 63, (third & 15) | (first >> 6 << 4)], axis=1)
    minimums = np.concatenate([second & 63, third >> 4 | second >> 6 << 4], axis=1)
    nibbles = blocks[:, 16:].reshape(-1, 4, 1, 32)
    codes = np.concatenate([nibbles & 15, nibbles >> 4], axis=2).reshape(-1, 8, 32)
    scale = (_half(blocks, 0) * scales)[:, :, None]
    minimum = (_half(blocks, 2) * minimums)[:, :, None]
    return scale * codes - minimum


def _dequantise_q6_k(blocks):
    """Of 256 columns: 128 bytes of low nibbles, 64 of upper pairs, 16 scales, d."""
    low = blocks[:, :128].reshape(-1, 2, 1, 64)
    low = np.concatenate([low & 15, low >> 4], axis=2).reshape(-1, 2, 4, 32)
    shifts = np.arange(0, 8, 2, dtype=np.uint8).reshape(1, 1, 4, 1)
    high = blocks[:, 128:192].reshape(-1, 2, 1, 32) >> shifts & 3
    codes = (low | high << 4).astype(np.int8) - 32
    scales = np.ascontiguousarray(blocks[:, 192:208]).view(np.int8)
    scale = (_half(blocks, 208) * scales)[:, :, None]
    return scale * codes.reshape(-1, 16, 16)
