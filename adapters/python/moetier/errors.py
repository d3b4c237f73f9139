"""What can go wrong, as one hierarchy of exceptions.

    MoetierError
      Unreachable        no daemon answers at the socket, or this user may not ask it
      LibraryMissing     transport="fastlane" without its library
      SessionEnded       the session is over, also for calls in flight: attach again
      CallFailed         the daemon refused or failed this one call; the session lives on
        InvalidArgument  also raised here, before anything is sent, for shapes and types
        NotFound         unknown model or layer
        DataLoss         an expert's bytes cannot be had
        DeadlineExceeded
"""

import grpc

from moetier import wire

_CODES = {code.value[0]: code.name for code in grpc.StatusCode}
_DETAILS_KEY = "grpc-status-details-bin"


class MoetierError(Exception):
    """`code` is gRPC's name of the status, `reason` the contract's; `field`, `row` and `expert` say
    what of the request was at fault, or are None."""

    def __init__(self, message, *, code="UNKNOWN", reason="UNSPECIFIED", field=None, row=None,
                 expert=None):
        super().__init__(message)
        self.message = message
        self.code = code
        self.reason = reason
        self.field = field
        self.row = row
        self.expert = expert

    def __str__(self):
        named = self.reason if self.reason != "UNSPECIFIED" else self.code
        return self.message if named == "UNKNOWN" else f"{self.message} [{named}]"

    def again(self):
        """An equal exception: one instance is raised in one thread only."""
        return type(self)(self.message, code=self.code, reason=self.reason, field=self.field,
                          row=self.row, expert=self.expert)


class Unreachable(MoetierError, ConnectionError):
    """No daemon answers at the socket."""


class LibraryMissing(MoetierError, OSError):
    """The fast lane's client library cannot be loaded."""


class SessionEnded(MoetierError, ConnectionError):
    """The session is over, by its close, the daemon's stop or the daemon's death."""


class CallFailed(MoetierError):
    """The daemon refused or failed this call; the session lives on."""


class InvalidArgument(CallFailed, ValueError):
    """The request breaks the contract."""


class NotFound(CallFailed, LookupError):
    """No such model or layer."""


class DataLoss(CallFailed):
    """The bytes of an expert that the call picked cannot be had."""


class DeadlineExceeded(CallFailed, TimeoutError):
    """Not answered in time."""


_CLASSES = {"INVALID_ARGUMENT": InvalidArgument, "NOT_FOUND": NotFound, "DATA_LOSS": DataLoss,
            "DEADLINE_EXCEEDED": DeadlineExceeded}


def call_failed(code_number, reason_number, message, *, field=None, row=None, expert=None):
    """The exception for a fault given by its numbers."""
    code = _CODES.get(code_number, "UNKNOWN")
    if expert is not None and expert >= 1 << 31:
        expert -= 1 << 32  # -1 travels as an unsigned number
    return _CLASSES.get(code, CallFailed)(message, code=code,
                                          reason=wire.reason_name(reason_number),
                                          field=field, row=row, expert=expert)


def from_fault(fault, first_row=0):
    """The exception for a Fault; `first_row` is the batch's row where the piece began."""
    message = fault.message
    if first_row > 0:
        message += f" (rows counted from row {first_row} of the batch)"
    return call_failed(fault.code, fault.reason, message, field=fault.field or None,
                       row=fault.row + first_row if fault.HasField("row") else None,
                       expert=fault.expert if fault.HasField("expert") else None)


def fault_of(error):
    """The Fault in the details of a grpc.RpcError, or None."""
    for key, value in error.trailing_metadata() or ():
        if key != _DETAILS_KEY:
            continue
        details = wire.StatusDetails.FromString(value).details
        if details and details[0].type_url.endswith("/moetier.v1.Fault"):
            return wire.Fault.FromString(details[0].value)
    return None


def from_rpc_error(error, doing):
    """The exception for a failed RPC that was `doing` something."""
    fault = fault_of(error)
    if fault is not None:
        return from_fault(fault)
    message = f"{doing}: {error.details()}"
    if error.code() == grpc.StatusCode.UNAVAILABLE:
        return Unreachable(message, code="UNAVAILABLE")
    return call_failed(error.code().value[0], 0, message)


def ended_by(error, doing):
    """The SessionEnded for a stream that ended with a grpc.RpcError."""
    fault = fault_of(error)
    message = fault.message if fault is not None else error.details()
    return SessionEnded(f"{doing}: {message}; attach again", code=error.code().name,
                        reason=wire.reason_name(fault.reason) if fault is not None
                        else "UNSPECIFIED")
