"""One layer call on its way: split into pieces, put together again."""

import concurrent.futures
import dataclasses
import threading

import numpy as np


@dataclasses.dataclass(frozen=True)
class Piece:
    """Consecutive rows of a batch, sent as one request."""
    batch: "LayerBatch"
    first: int  # row of the batch
    rows: int


class LayerBatch:
    """Threads: pieces are answered by any thread; the future is settled once, by the last piece
    or the first failure."""

    def __init__(self, input_rows, rows_per_piece):
        self.input = input_rows
        self.future = concurrent.futures.Future()
        self.future.set_running_or_notify_cancel()  # running: cancel() is refused
        self.pieces = [Piece(self, first, min(rows_per_piece, input_rows.rows - first))
                       for first in range(0, input_rows.rows, rows_per_piece)]
        self._output = np.empty(input_rows.hidden.shape, np.float32)
        self._lock = threading.Lock()
        self._unanswered = len(self.pieces)
        self._settled = False

    def output_of(self, piece):
        """The rows where the piece's result belongs."""
        return self._output[piece.first:piece.first + piece.rows]

    @property
    def settled(self):
        return self._settled

    def piece_done(self):
        with self._lock:
            self._unanswered -= 1
            if self._settled or self._unanswered > 0:
                return
            self._settled = True
        self.future.set_result(self._output)

    def fail(self, error):
        with self._lock:
            if self._settled:
                return
            self._settled = True
        self.future.set_exception(error)
