"""Holds an Attach stream open: the session lives exactly as long."""

import threading

import grpc

from moetier import wire
from moetier.errors import DeadlineExceeded, SessionEnded, ended_by, from_rpc_error


class SessionStream:
    """Threads: its own reads the stream's events; `on_end(SessionEnded)` is called there, once."""

    def __init__(self, channel, request, timeout):
        self.grant = None
        self._on_end = None
        self._first = threading.Event()
        self._started = threading.Event()
        self._refusal = None
        self._call = wire.method(channel.unary_stream, "Experts", "Attach")(request)
        self._thread = threading.Thread(target=self._read, name="moetier-stream", daemon=True)
        self._thread.start()
        if not self._first.wait(timeout):
            self._call.cancel()
            raise DeadlineExceeded(f"attach: no grant within {timeout} s",
                                   code="DEADLINE_EXCEEDED")
        if self._refusal is not None:
            raise self._refusal

    def start(self, on_end):
        """From now on the end is reported, also one that has come already."""
        self._on_end = on_end
        self._started.set()

    def close(self):
        self._call.cancel()
        self._started.set()
        self._thread.join()

    def _read(self):
        error = SessionEnded("the daemon ended the session; attach again", code="UNAVAILABLE")
        try:
            for event in self._call:
                if self.grant is None and event.HasField("grant"):
                    self.grant = event.grant
                    self._first.set()
        except grpc.RpcError as failure:
            if self.grant is None:
                self._refusal = from_rpc_error(failure, "attach")
            else:
                error = ended_by(failure, "the session ended")
        if self.grant is None:
            self._refusal = self._refusal or error
            self._first.set()
            return
        self._started.wait()
        if self._on_end is not None:
            self._on_end(error)
