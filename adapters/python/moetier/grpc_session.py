"""A session over gRPC: one Attach stream that it lives by, one Decode stream for all calls."""

import concurrent.futures
import itertools
import queue
import threading

import grpc
import numpy as np

from moetier import wire
from moetier.errors import InvalidArgument, MoetierError, SessionEnded, ended_by, from_fault
from moetier.layer_batch import LayerBatch
from moetier.residency import Residency
from moetier.session import Deadline, Session
from moetier.session_stream import SessionStream

_FIXED_MESSAGE_BYTES = 256  # of a request beside its arrays; what is sent takes below 64
_PICK_BYTES = 5 + 4  # an id as a varint at its longest, and a weight
_DRAIN_SECONDS = 5.0  # for the answers that may follow the stream's end


class GrpcSession(Session):
    """Threads of its own: moetier-stream and moetier-replies, and gRPC's that takes the outbox."""

    def __init__(self, channel, request, timeout):
        self._stream = SessionStream(channel, request, timeout)
        grant = self._stream.grant
        super().__init__(transport="grpc", session_id=grant.session, model=grant.model,
                         max_rows=grant.limits.max_rows,
                         max_in_flight=grant.limits.max_in_flight,
                         daemon_version=grant.daemon_version)
        self.residency = Residency(channel, grant, lambda: self._ended)  # leases, transfers
        self._max_message_bytes = grant.limits.max_message_bytes
        self._state = threading.Condition()
        self._ended = None  # the SessionEnded, once it is over
        self._pending = {}  # request id -> Piece, of those unanswered
        self._ids = itertools.count(1)
        self._outbox = queue.SimpleQueue()  # DecodeRequests in order; None half-closes
        opening = wire.DecodeRequest()
        opening.open.session = grant.session
        opening.open.token = grant.token
        self._outbox.put(opening)
        self._decode = wire.method(channel.stream_stream, "Experts", "Decode")(
            iter(self._outbox.get, None))
        self._replies = threading.Thread(target=self._read_replies, name="moetier-replies",
                                         daemon=True)
        self._replies.start()
        self._stream.start(self._stream_ended)

    def layer(self, layer, hidden, experts, weights, timeout=None):
        deadline = Deadline(timeout)
        batch = self._start(self._check(layer, hidden, experts, weights), deadline)
        concurrent.futures.wait([batch.future], deadline.seconds_left())
        if not batch.settled:
            self._abandon(batch, deadline.exceeded())
        return batch.future.result()

    def layer_async(self, layer, hidden, experts, weights, timeout=None):
        return self._start(self._check(layer, hidden, experts, weights), Deadline(timeout)).future

    def close(self):
        self._end(SessionEnded("the session was closed", code="CANCELLED", reason="CANCELLED"))
        self._decode.cancel()
        self._stream.close()
        self._replies.join()

    def _rows_per_piece(self, rows):
        row_bytes = rows.hidden[0].nbytes + rows.top_k * _PICK_BYTES
        fitting = (self._max_message_bytes - _FIXED_MESSAGE_BYTES) // row_bytes
        if fitting < 1:
            raise InvalidArgument(
                f"hidden: one row takes {row_bytes} bytes of a message's {self._max_message_bytes};"
                " raise limits.max_message_bytes", code="INVALID_ARGUMENT", reason="TOO_LARGE",
                field="hidden")
        return min(self.max_rows, fitting)

    def _start(self, rows, deadline):
        batch = LayerBatch(rows, self._rows_per_piece(rows))
        for piece in batch.pieces:
            with self._state:
                room = self._state.wait_for(
                    lambda: self._ended or len(self._pending) < self.max_in_flight,
                    deadline.seconds_left())
                if self._ended:
                    batch.fail(self._ended.again())
                elif not room:
                    batch.fail(deadline.exceeded())
                if batch.settled:
                    break
                request_id = next(self._ids)
                self._pending[request_id] = piece
                # In the lock, so that requests travel in the order of their ids.
                self._outbox.put(_request_of(piece, request_id, deadline))
        return batch

    def _abandon(self, batch, error):
        """Fails the batch now; its pieces stay pending until the daemon answers their cancel."""
        batch.fail(error)
        with self._state:
            for request_id, piece in self._pending.items():
                if piece.batch is batch:
                    self._outbox.put(wire.DecodeRequest(cancel_request_id=request_id))

    def _read_replies(self):
        error = SessionEnded("the daemon ended the Decode stream; attach again", code="UNAVAILABLE")
        try:
            for reply in self._decode:
                self._take(reply)
        except grpc.RpcError as failure:
            error = ended_by(failure, "the session ended")
        except MoetierError as failure:
            error = failure
            self._decode.cancel()
        self._end(error)

    def _take(self, reply):
        with self._state:
            piece = self._pending.pop(reply.request_id, None)
            self._state.notify_all()
        if piece is None:
            raise SessionEnded(f"the daemon answered request {reply.request_id}, which is not under"
                               " way", code="INTERNAL")
        if reply.HasField("fault"):
            piece.batch.fail(from_fault(reply.fault, piece.first))
            return
        output = piece.batch.output_of(piece)
        if len(reply.ok.output) != output.nbytes:
            error = SessionEnded(f"the daemon answered {len(reply.ok.output)} bytes for "
                                 f"{output.nbytes} of output", code="INTERNAL")
            piece.batch.fail(error.again())
            raise error
        output[:] = np.frombuffer(reply.ok.output, "<f4").reshape(output.shape)
        self._count_masked(len(reply.ok.masked))
        piece.batch.piece_done()

    def _stream_ended(self, error):
        # A daemon that drains answers what it has read; a stream that stays open is ended.
        self._replies.join(_DRAIN_SECONDS)
        self._end(error)
        self._decode.cancel()

    def _end(self, error):
        with self._state:
            if self._ended is not None:
                return
            self._ended = error
            pieces = list(self._pending.values())
            self._pending.clear()
            self._state.notify_all()
            self._outbox.put(None)
        for piece in pieces:
            piece.batch.fail(error.again())


def _request_of(piece, request_id, deadline):
    rows = piece.batch.input.piece(piece.first, piece.rows)
    request = wire.DecodeRequest()
    layer = request.layer
    layer.request_id = request_id
    layer.layer = rows.layer
    layer.rows = rows.rows
    layer.top_k = rows.top_k
    layer.hidden_type = rows.hidden_type
    layer.hidden = rows.hidden.tobytes()
    layer.experts.extend(rows.experts.ravel().tolist())
    layer.weights.extend(rows.weights.ravel().tolist())
    layer.timeout_us = deadline.timeout_us()
    return request
