"""What both transports' sessions have in common."""

import abc
import threading
import time

from moetier.errors import DeadlineExceeded, InvalidArgument
from moetier.layer_rows import check_rows

_MAX_TIMEOUT_US = (1 << 32) - 1  # the wire's field


class Deadline:
    """The moment a call's timeout ends; None never does."""

    def __init__(self, timeout):
        if timeout is not None and not timeout > 0:
            raise InvalidArgument(f"timeout: {timeout} s; must be above 0, or None",
                                  code="INVALID_ARGUMENT", field="timeout")
        self._timeout = timeout
        self._end = None if timeout is None else time.monotonic() + timeout

    def seconds_left(self):
        return None if self._end is None else max(0.0, self._end - time.monotonic())

    def timeout_us(self):
        """For the wire, where 0 is none."""
        left = self.seconds_left()
        return 0 if left is None else max(1, min(_MAX_TIMEOUT_US, round(left * 1e6)))

    def exceeded(self):
        return DeadlineExceeded(f"not answered within {self._timeout} s", code="DEADLINE_EXCEEDED",
                                reason="DEADLINE")


class Session(abc.ABC):
    """One attached session; ends with close(), the `with` block or the daemon's end.

    Threads: any number may call; futures' callbacks run on a thread of the session and must not
    call it back.
    """

    def __init__(self, *, transport, session_id, model, max_rows, max_in_flight, daemon_version):
        self.transport = transport  # "grpc" or "fastlane"
        self.id = session_id
        self.model = model  # a moetier.v1.Model
        self.max_rows = max_rows  # of one request; larger batches are split
        self.max_in_flight = max_in_flight  # requests of the session, unanswered
        self.daemon_version = daemon_version
        self._counter_lock = threading.Lock()
        self._masked_picks = 0

    @property
    def masked_picks(self):
        """Picks left out of results so far; above 0 only for a model configured to mask."""
        return self._masked_picks

    @abc.abstractmethod
    def layer(self, layer, hidden, experts, weights, timeout=None):
        """output[r] = sum over j of weights[r, j] * E(layer, experts[r, j], hidden[r]), as float32
        [rows, hidden].

        hidden:  [rows, hidden] float32, float16, or bfloat16's bits as uint16
        experts: [rows, top_k] integers, distinct within a row
        weights: [rows, top_k] floats
        timeout: seconds; DeadlineExceeded when a part has not started by then
        """

    @abc.abstractmethod
    def layer_async(self, layer, hidden, experts, weights, timeout=None):
        """The same as a concurrent.futures.Future. Blocks while max_in_flight requests are
        unanswered. The arrays may be changed as soon as it returns. Raises InvalidArgument for what
        is not sent; any other failure is the future's. The future cannot be cancelled."""

    @abc.abstractmethod
    def close(self):
        """Ends the session; what is in flight fails with SessionEnded. Again does nothing."""

    def _check(self, layer, hidden, experts, weights):
        return check_rows(layer, hidden, experts, weights, self.model.geometry.hidden)

    def _count_masked(self, picks):
        if picks > 0:
            with self._counter_lock:
                self._masked_picks += picks

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
