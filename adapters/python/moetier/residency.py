"""Leases and transfers of a gRPC session, for engines with kernels of their own."""

import grpc

from moetier import wire
from moetier.errors import InvalidArgument, SessionEnded, Unreachable, from_rpc_error

_SERVICE_OF = {"Acquire": "Residency", "Release": "Residency", "Fill": "Residency",
               "Push": "Residency", "Landed": "Residency", "Fence": "Residency",
               "Drain": "Residency", "Route": "Experts"}
_MOST_WAIT_US = (1 << 32) - 1  # the wire's field; the daemon waits a minute at most


class Residency:
    """The calls of moetier.v1.Residency, and Route, in the name of one session. Keys are pairs
    (layer, expert), waits are seconds; what comes back are the messages of moetier.v1. A call that
    the daemon refuses raises CallFailed, one of a session that is over SessionEnded. Threads: any,
    but see release_keys."""

    def __init__(self, channel, grant, ended):
        """`ended()` is the session's SessionEnded once it is over, else None."""
        self._ended = ended
        self.max_leased_bytes = grant.limits.max_leased_bytes
        self._session = wire.message("SessionRef")(session=grant.session, token=grant.token)
        self._methods = {name: wire.method(channel.unary_unary, service, name)
                         for name, service in _SERVICE_OF.items()}

    def acquire(self, keys, pool=None, wait=0.0, timeout=None):
        """An AcquiredSlot for each key, in order: a lease, or why there is none. `timeout` is the
        call's own, in seconds, well beyond `wait`. A call that ends without its reply, by
        DeadlineExceeded or an interrupt, may have leased some: release_keys gives them back."""
        request = wire.message("AcquireRequest")(session=self._session, keys=_keys(keys),
                                                 wait_us=_microseconds(wait))
        if pool is not None:
            request.pool.pool = pool
        return list(self._ask("Acquire", request, timeout).slots)

    def release(self, leases):
        """How many of the leases, by their numbers, were the session's and have ended by it; those
        that a device's loss has ended are not counted, and do no harm."""
        request = wire.message("ReleaseRequest")(session=self._session, leases=leases)
        return self._ask("Release", request).released

    def release_keys(self, keys, pool=None, kept=()):
        """Ends all the session's leases on the keys, in the pool or in any, but for those `kept`,
        by their numbers; for leases whose numbers a failed acquire did not bring. Says how many
        ended. No other thread may acquire one of the keys meanwhile: its call would be cancelled."""
        request = wire.message("ReleaseRequest")(session=self._session, keys=_keys(keys), kept=kept)
        if pool is not None:
            request.pool.pool = pool
        return self._ask("Release", request).released

    def fill(self, keys, pool=0):
        """Reads experts into a pool of RAM: a TransferState for each key, in order."""
        return self._transfer("Fill", keys, pool)

    def push(self, keys, pool):
        """Copies experts into a device's pool: a TransferState for each key, in order."""
        return self._transfer("Push", keys, pool)

    def landed(self, after=0, wait=0.0):
        """A LandedReply: what transfers have ended; waits for one with a number above `after`."""
        return self._ask("Landed", wire.message("LandedRequest")(
            session=self._session, after=after, wait_us=_microseconds(wait)))

    def fence(self, pool):
        """Returns when a device's work that was submitted before has finished; of RAM at once."""
        self._ask("Fence", wire.message("PoolRequest")(session=self._session, pool=pool))

    def drain(self, pool):
        """Returns when copies of what was evicted before have landed in RAM or been dropped."""
        self._ask("Drain", wire.message("PoolRequest")(session=self._session, pool=pool))

    def route(self, layer, experts):
        """A RoutedExpert for each distinct expert of `experts`, [rows, top_k]. An access."""
        rows = [list(row) for row in experts]
        request = wire.message("RouteRequest")(
            session=self._session, layer=layer, rows=len(rows), top_k=len(rows[0]) if rows else 0,
            experts=[expert for row in rows for expert in row])
        return list(self._ask("Route", request).experts)

    def _transfer(self, name, keys, pool):
        request = wire.message("TransferRequest")(session=self._session, keys=_keys(keys),
                                                  pool=pool)
        return list(self._ask(name, request).transfers)

    def _ask(self, name, request, timeout=None):
        # The daemon hears of a close a moment later; until then it would lease what ends at once.
        self._check_ended()
        try:
            return self._methods[name](request, timeout=timeout)
        except grpc.RpcError as failure:
            self._check_ended()
            error = from_rpc_error(failure, name)
        # A daemon that is gone ends the session too; the stream's end may be read a moment later.
        if error.reason == "UNKNOWN_SESSION" or isinstance(error, Unreachable):
            error = SessionEnded(f"{name}: {error.message}", code=error.code, reason=error.reason)
        raise error

    def _check_ended(self):
        ended = self._ended()
        if ended is not None:
            raise ended.again()


def _keys(keys):
    return [wire.message("ExpertKey")(layer=layer, expert=expert) for layer, expert in keys]


def _microseconds(wait):
    if not wait >= 0:
        raise InvalidArgument(f"wait: {wait} s; must be 0 or more", code="INVALID_ARGUMENT",
                              field="wait")
    return min(_MOST_WAIT_US, round(min(wait, 1e6) * 1e6))
