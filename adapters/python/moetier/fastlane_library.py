"""The C client of the fast lane through ctypes: adapters/fastlane/moetier/fastlane.h, mirrored."""

import ctypes
import os

from moetier.errors import LibraryMissing

_LIBRARY = "libmoetier-fastlane.so.0"

OK = 0
UNREACHABLE = 1
GONE = 2
REFUSED = 3
FAULT = 4
MISUSE = 5


class Error(ctypes.Structure):
    _fields_ = [("code", ctypes.c_uint32), ("reason", ctypes.c_uint32),
                ("text", ctypes.c_char * 512)]


class Attach(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("socket", ctypes.c_char_p),
                ("client", ctypes.c_char_p), ("model", ctypes.c_char_p),
                ("fingerprint", ctypes.c_uint64), ("files", ctypes.POINTER(ctypes.c_int)),
                ("file_count", ctypes.c_uint32), ("max_rows", ctypes.c_uint32),
                ("max_in_flight", ctypes.c_uint32)]


class Grant(ctypes.Structure):
    _fields_ = [("session", ctypes.c_uint64), ("fingerprint", ctypes.c_uint64),
                ("max_rows", ctypes.c_uint32), ("max_in_flight", ctypes.c_uint32),
                ("max_top_k", ctypes.c_uint32), ("max_hidden", ctypes.c_uint32),
                ("model", ctypes.c_char_p), ("arithmetic", ctypes.c_char_p),
                ("daemon_version", ctypes.c_char_p), ("socket", ctypes.c_char_p),
                ("activation", ctypes.c_uint32)]


class LayerCall(ctypes.Structure):
    _fields_ = [("size", ctypes.c_uint32), ("layer", ctypes.c_uint32), ("rows", ctypes.c_uint32),
                ("top_k", ctypes.c_uint32), ("hidden", ctypes.c_uint32),
                ("hidden_type", ctypes.c_uint32), ("hidden_rows", ctypes.c_void_p),
                ("hidden_stride", ctypes.c_size_t), ("experts", ctypes.c_void_p),
                ("experts_stride", ctypes.c_size_t), ("weights", ctypes.c_void_p),
                ("weights_stride", ctypes.c_size_t), ("output", ctypes.c_void_p),
                ("output_stride", ctypes.c_size_t), ("timeout_us", ctypes.c_uint32)]


class LayerInfo(ctypes.Structure):
    _fields_ = [("hits", ctypes.c_uint32), ("in_flight", ctypes.c_uint32),
                ("misses", ctypes.c_uint32), ("masked", ctypes.c_uint32),
                ("queue_us", ctypes.c_uint32), ("read_wait_us", ctypes.c_uint32),
                ("compute_us", ctypes.c_uint32), ("total_us", ctypes.c_uint32)]


Lane = ctypes.c_void_p


def load():
    """The library with its functions' types set; $MOETIER_FASTLANE_LIBRARY wins over the system's."""
    path = os.environ.get("MOETIER_FASTLANE_LIBRARY") or _LIBRARY
    try:
        library = ctypes.CDLL(path)
    except OSError as error:
        raise LibraryMissing(f"transport=\"fastlane\" needs {path} ({error}); install moetierd, or "
                             "name the library with MOETIER_FASTLANE_LIBRARY") from None
    library.moetier_lane_attach.argtypes = [ctypes.POINTER(Attach), ctypes.c_uint64,
                                            ctypes.POINTER(Lane), ctypes.POINTER(Error)]
    library.moetier_lane_attach.restype = ctypes.c_int
    library.moetier_lane_close.argtypes = [Lane]
    library.moetier_lane_close.restype = None
    library.moetier_lane_grant.argtypes = [Lane]
    library.moetier_lane_grant.restype = ctypes.POINTER(Grant)
    library.moetier_lane_compute.argtypes = [Lane, ctypes.POINTER(LayerCall),
                                             ctypes.POINTER(LayerInfo), ctypes.POINTER(Error)]
    library.moetier_lane_compute.restype = ctypes.c_int
    library.moetier_lane_submit.argtypes = [Lane, ctypes.POINTER(LayerCall),
                                            ctypes.POINTER(ctypes.c_uint64), ctypes.POINTER(Error)]
    library.moetier_lane_submit.restype = ctypes.c_int
    library.moetier_lane_wait.argtypes = [Lane, ctypes.c_uint64, ctypes.POINTER(LayerInfo),
                                          ctypes.POINTER(Error)]
    library.moetier_lane_wait.restype = ctypes.c_int
    return library
