"""Checks and converts the arrays of one layer call."""

import dataclasses
import operator

import numpy as np

from moetier import wire
from moetier.errors import InvalidArgument

_HIDDEN_TYPES = {"float32": ("<f4", wire.DTYPE_F32), "float16": ("<f2", wire.DTYPE_F16),
                 "uint16": ("<u2", wire.DTYPE_BF16)}


@dataclasses.dataclass(frozen=True)
class LayerRows:
    """One call's input, or a piece of it; arrays are packed and little-endian."""
    layer: int
    hidden: np.ndarray  # [rows, hidden] f4, f2, or u2 holding bfloat16
    hidden_type: int  # the wire's DType of `hidden`
    experts: np.ndarray  # [rows, top_k] u4
    weights: np.ndarray  # [rows, top_k] f4

    @property
    def rows(self):
        return self.hidden.shape[0]

    @property
    def top_k(self):
        return self.experts.shape[1]

    def copied(self):
        """The same in arrays that nobody else changes."""
        return dataclasses.replace(self, hidden=self.hidden.copy(), experts=self.experts.copy(),
                                   weights=self.weights.copy())

    def piece(self, first, count):
        part = slice(first, first + count)
        return dataclasses.replace(self, hidden=self.hidden[part], experts=self.experts[part],
                                   weights=self.weights[part])


def _refuse(field, message, reason="BAD_SHAPE"):
    return InvalidArgument(f"{field}: {message}", code="INVALID_ARGUMENT", reason=reason,
                           field=field)


def _check_layer(layer):
    try:
        number = operator.index(layer)
    except TypeError:
        raise _refuse("layer", f"{layer!r} is no block number", "UNKNOWN_LAYER") from None
    if not 0 <= number < 1 << 32:
        raise _refuse("layer", f"{number} is no block number", "UNKNOWN_LAYER")
    return number


def _check_hidden(hidden, width):
    array = np.asarray(hidden)
    if array.dtype.name not in _HIDDEN_TYPES:
        raise _refuse("hidden", f"dtype {array.dtype}; give float32, float16, or bfloat16's bits as "
                      "uint16", "BAD_TYPE")
    if array.ndim != 2 or array.shape[1] != width:
        raise _refuse("hidden", f"shape {array.shape}; the model takes [rows, {width}]")
    if array.shape[0] == 0:
        raise _refuse("hidden", "no rows", "BAD_ROWS")
    kind, hidden_type = _HIDDEN_TYPES[array.dtype.name]
    return np.ascontiguousarray(array, kind), hidden_type


def _check_experts(experts, rows):
    array = np.asarray(experts)
    if array.dtype.kind not in "iu":
        raise _refuse("experts", f"dtype {array.dtype}; ids are integers", "BAD_TYPE")
    if array.ndim != 2 or array.shape[0] != rows:
        raise _refuse("experts", f"shape {array.shape}; {rows} hidden rows take [{rows}, top_k]")
    if array.shape[1] == 0:
        raise _refuse("experts", f"shape {array.shape}; a row takes at least one pick", "BAD_TOP_K")
    if int(array.min()) < -(1 << 31) or int(array.max()) >= 1 << 31:
        raise _refuse("experts", f"{array.min()} to {array.max()} is no range of ids",
                      "BAD_EXPERT_ID")
    # The daemon knows how many there are; -1 reaches it as it is.
    return np.ascontiguousarray(array.astype("<i4", copy=False)).view("<u4")


def _check_weights(weights, shape):
    array = np.asarray(weights)
    if array.dtype.kind != "f":
        raise _refuse("weights", f"dtype {array.dtype}; weights are floats", "BAD_TYPE")
    if array.shape != shape:
        raise _refuse("weights", f"shape {array.shape}; experts have {shape}")
    return np.ascontiguousarray(array, "<f4")


def check_rows(layer, hidden, experts, weights, width):
    """The call's input, packed; InvalidArgument says what does not fit a model of hidden size
    `width`. Values (ids in range, distinct, finite floats) are the daemon's to check."""
    number = _check_layer(layer)
    rows, hidden_type = _check_hidden(hidden, width)
    ids = _check_experts(experts, rows.shape[0])
    return LayerRows(layer=number, hidden=rows, hidden_type=hidden_type, experts=ids,
                     weights=_check_weights(weights, ids.shape))
