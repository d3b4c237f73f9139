"""A session over memory shared with a daemon on the same host."""

import collections
import contextlib
import ctypes
import dataclasses
import queue
import threading

import numpy as np

from moetier import fastlane_library as c
from moetier.errors import InvalidArgument, SessionEnded, Unreachable, call_failed
from moetier.layer_batch import LayerBatch, Piece
from moetier.session import Deadline, Session


@dataclasses.dataclass(frozen=True)
class _Job:
    piece: Piece
    deadline: Deadline


class FastlaneSession(Session):
    """A lane serves one thread at a time: calls of several threads take turns, and close() waits
    for the one whose turn it is. layer() runs on the caller's thread; layer_async() hands over to a
    thread of the session, moetier-lane, and waits for no turn. Locks: `_turn` before `_state`."""

    def __init__(self, client, model, client_name, timeout):
        self._library = c.load()
        self._lane = self._attach(client.socket, model, client_name, timeout)
        grant = self._library.moetier_lane_grant(self._lane).contents
        try:
            model_message = client.model(grant.model.decode("utf-8", "replace"))
        except BaseException:
            self._library.moetier_lane_close(self._lane)
            raise
        super().__init__(transport="fastlane", session_id=grant.session, model=model_message,
                         max_rows=grant.max_rows, max_in_flight=grant.max_in_flight,
                         daemon_version=grant.daemon_version.decode("utf-8", "replace"))
        self._max_top_k = grant.max_top_k
        self._turn = threading.Lock()  # held by whoever uses the lane
        self._state = threading.Condition()  # guards what follows; never held while the lane works
        self._ended = None  # the SessionEnded, once it is over
        self._handed = 0  # pieces given to the thread and not done with
        self._thread = None
        self._queued = queue.SimpleQueue()  # _Jobs in order; None ends the thread

    def layer(self, layer, hidden, experts, weights, timeout=None):
        deadline = Deadline(timeout)
        rows = self._check(layer, hidden, experts, weights)
        with self._my_turn(deadline):
            # Only in its turn does the thread submit: none of its requests holds a slot then.
            if not self._is_handed():
                return self._compute(rows, deadline)
        return self._hand_over(rows, deadline).result()

    def layer_async(self, layer, hidden, experts, weights, timeout=None):
        deadline = Deadline(timeout)
        rows = self._check(layer, hidden, experts, weights)
        return self._hand_over(rows.copied(), deadline)

    def close(self):
        with self._state:
            self._end(SessionEnded("the session was closed", code="CANCELLED", reason="CANCELLED"))
            thread = self._thread
        if thread is not None:
            thread.join()
        with self._turn:
            if self._lane is not None:
                self._library.moetier_lane_close(self._lane)
                self._lane = None

    def _attach(self, socket, model, client_name, timeout):
        wanted = c.Attach(size=ctypes.sizeof(c.Attach), socket=socket.encode(),
                          client=client_name.encode(), model=model.encode() if model else None)
        lane = c.Lane()
        error = c.Error()
        status = self._library.moetier_lane_attach(wanted, round((timeout or 0) * 1e6), lane, error)
        if status == c.OK:
            return lane
        # There was no session yet that could have ended.
        raise _exception(c.UNREACHABLE if status == c.GONE else status, error)

    def _check(self, layer, hidden, experts, weights):
        rows = super()._check(layer, hidden, experts, weights)
        if rows.top_k > self._max_top_k:
            raise InvalidArgument(f"top_k = {rows.top_k}: the grant's most is {self._max_top_k}",
                                  code="INVALID_ARGUMENT", reason="BAD_TOP_K", field="top_k")
        return rows

    @contextlib.contextmanager
    def _my_turn(self, deadline):
        left = deadline.seconds_left()
        if not self._turn.acquire(timeout=-1 if left is None else left):
            raise deadline.exceeded()
        try:
            ended = self._end_seen()
            if ended is not None:
                raise ended
            yield
        finally:
            self._turn.release()

    def _end_seen(self):
        with self._state:
            return None if self._ended is None else self._ended.again()

    def _is_handed(self):
        with self._state:
            return self._handed > 0

    def _compute(self, rows, deadline):
        output = np.empty(rows.hidden.shape, np.float32)
        info = c.LayerInfo()
        error = c.Error()
        call = _call_of(rows, output, deadline)
        status = self._library.moetier_lane_compute(self._lane, call, info, error)
        if status != c.OK:
            raise self._failure(status, error)
        self._count_masked(info.masked)
        return output

    def _hand_over(self, rows, deadline):
        """The future of a batch that the thread computes."""
        batch = LayerBatch(rows, self.max_rows)
        with self._state:
            room = self._state.wait_for(
                lambda: self._ended is not None or self._handed < self.max_in_flight,
                deadline.seconds_left())
            if self._ended is not None:
                batch.fail(self._ended.again())
            elif not room:
                batch.fail(deadline.exceeded())
            else:
                self._start_thread()
                self._handed += len(batch.pieces)
                for piece in batch.pieces:
                    self._queued.put(_Job(piece, deadline))
        return batch.future

    def _start_thread(self):
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="moetier-lane", daemon=True)
            self._thread.start()

    def _run(self):
        """Keeps as many requests in flight as there are, and waits for the oldest."""
        in_flight = collections.deque()  # (ticket, _Job)
        more = True
        while more or in_flight:
            room = more and len(in_flight) < self.max_in_flight
            # Nobody else takes from the queue: get() blocks only with nothing in flight.
            if room and (not in_flight or not self._queued.empty()):
                job = self._queued.get()
                if job is None:
                    more = False
                else:
                    self._submit(job, in_flight)
            else:
                self._wait_for(*in_flight.popleft())

    def _submit(self, job, in_flight):
        batch = job.piece.batch
        ticket = ctypes.c_uint64()
        error = c.Error()
        with self._turn:
            failure = self._end_seen()
            if failure is None and not batch.settled:
                rows = batch.input.piece(job.piece.first, job.piece.rows)
                call = _call_of(rows, batch.output_of(job.piece), job.deadline)
                status = self._library.moetier_lane_submit(self._lane, call, ticket, error)
                if status == c.OK:
                    in_flight.append((ticket.value, job))
                    return
                failure = self._failure(status, error)
        self._finish(job, failure)

    def _wait_for(self, ticket, job):
        info = c.LayerInfo()
        error = c.Error()
        with self._turn:
            failure = self._end_seen()
            if failure is None:
                status = self._library.moetier_lane_wait(self._lane, ticket, info, error)
                failure = None if status == c.OK else self._failure(status, error)
        self._count_masked(info.masked)
        self._finish(job, failure)

    def _finish(self, job, failure):
        with self._state:
            self._handed -= 1
            self._state.notify_all()
        if failure is None:
            job.piece.batch.piece_done()
        else:
            job.piece.batch.fail(failure)

    def _failure(self, status, error):
        """The exception for a status; GONE ends the session."""
        failure = _exception(status, error)
        if not isinstance(failure, SessionEnded):
            return failure
        with self._state:
            self._end(failure)
        return failure.again()

    def _end(self, failure):
        """With `_state` held."""
        if self._ended is None:
            self._ended = failure
            self._queued.put(None)
            self._state.notify_all()


def _exception(status, error):
    text = error.text.decode("utf-8", "replace")
    if status == c.UNREACHABLE:
        return Unreachable(text, code="UNAVAILABLE")
    if status == c.GONE:
        return SessionEnded(text, code="UNAVAILABLE")
    if status == c.MISUSE:
        return InvalidArgument(text, code="INVALID_ARGUMENT")
    return call_failed(error.code, error.reason, text)


def _call_of(rows, output, deadline):
    """Borrows the arrays: they live until the library has returned (output: has answered)."""
    return c.LayerCall(size=ctypes.sizeof(c.LayerCall), layer=rows.layer, rows=rows.rows,
                       top_k=rows.top_k, hidden=rows.hidden.shape[1], hidden_type=rows.hidden_type,
                       hidden_rows=rows.hidden.ctypes.data, experts=rows.experts.ctypes.data,
                       weights=rows.weights.ctypes.data, output=output.ctypes.data,
                       timeout_us=deadline.timeout_us())
