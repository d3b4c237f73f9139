"""The connection to a daemon."""

import os
import stat

import grpc

from moetier import wire
from moetier.errors import InvalidArgument, Unreachable, from_rpc_error
from moetier.fastlane_session import FastlaneSession
from moetier.grpc_session import GrpcSession

_UNARY_TIMEOUT = 10.0  # seconds; the daemon answers these from memory
_CHANNEL_OPTIONS = (
    ("grpc.max_send_message_length", -1),  # the daemon's grant limits requests
    ("grpc.max_receive_message_length", -1),  # a reply's size follows from its request
    # Channels to one address share a connection unless they have pools of their own.
    ("grpc.use_local_subchannel_pool", 1),
    # A daemon that restarts is found again at once; gRPC's default waits for up to two minutes.
    # The "min" beside these two stays: it also bounds how long one attempt may take.
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 500),
)


def default_socket(environment=os.environ):
    """Where moetierctl looks too: $MOETIER_SOCKET, else below $RUNTIME_DIRECTORY (set by systemd),
    $XDG_RUNTIME_DIR/moetierd or /run/moetierd."""
    if environment.get("MOETIER_SOCKET"):
        return environment["MOETIER_SOCKET"]
    if environment.get("RUNTIME_DIRECTORY"):
        return environment["RUNTIME_DIRECTORY"].split(":")[0] + "/moetierd.sock"
    if environment.get("XDG_RUNTIME_DIR"):
        return environment["XDG_RUNTIME_DIR"] + "/moetierd/moetierd.sock"
    return "/run/moetierd/moetierd.sock"


def connect(socket=None, timeout=2.0):
    """A Client of the daemon at the Unix socket `socket`, by default default_socket(); Unreachable
    when none may be asked, or none answers within `timeout` seconds."""
    path = os.path.abspath(socket or default_socket())
    _check_socket(path)
    channel = grpc.insecure_channel(f"unix:{path}", options=_CHANNEL_OPTIONS)
    try:
        grpc.channel_ready_future(channel).result(timeout)
    except grpc.FutureTimeoutError:
        channel.close()
        raise _no_daemon(path, f"no connection within {timeout} s") from None
    return Client(channel, path)


def _no_daemon(path, why):
    return Unreachable(f"no daemon answers on {path} ({why}); start moetierd, or name its socket "
                       "with connect(socket=...) or MOETIER_SOCKET", code="UNAVAILABLE")


def _not_allowed(path):
    return Unreachable(f"you may not use {path}: be root, or join its group: `sudo usermod -aG "
                       "moetier $USER`, then log in again", code="PERMISSION_DENIED")


def _check_socket(path):
    try:
        mode = os.stat(path).st_mode
    except PermissionError:
        raise _not_allowed(path) from None
    except OSError as error:
        raise _no_daemon(path, error.strerror) from None
    if not stat.S_ISSOCK(mode):
        raise _no_daemon(path, "it is no socket")
    # gRPC would try for the whole of the timeout, and not say why.
    if not os.access(path, os.W_OK, effective_ids=True):
        raise _not_allowed(path)


class Client:
    """Threads: any. Lifetime: close() ends its gRPC sessions too."""

    def __init__(self, channel, socket):
        self._channel = channel
        self.socket = socket

    def models(self):
        """The loaded models, as moetier.v1.Model messages."""
        return list(self._ask("Models", "List", wire.ListModelsRequest()).models)

    def status(self):
        """What the daemon is doing, as a moetier.v1.StatusReply message."""
        return self._ask("Operator", "GetStatus", wire.GetStatusRequest())

    def attach(self, model=None, client="moetier python", transport="grpc", timeout=10.0):
        """A Session on a loaded model; `model` may be left out when there is only one. `client` is
        for people, shown in the status. transport="fastlane" goes through memory shared with a
        daemon on the same host, and fails where that cannot be: nothing is chosen silently."""
        if transport == "grpc":
            request = wire.AttachRequest(client=client, model=model or "")
            return GrpcSession(self._channel, request, timeout)
        if transport == "fastlane":
            return FastlaneSession(self, model, client, timeout)
        raise InvalidArgument(f'transport: {transport!r}; "grpc" and "fastlane" are there',
                              code="INVALID_ARGUMENT", field="transport")

    def model(self, name):
        """The loaded model of that name, as a moetier.v1.Model message."""
        return self._ask("Models", "Get", wire.GetModelRequest(name=name))

    def close(self):
        self._channel.close()

    def _ask(self, service, name, request):
        try:
            return wire.method(self._channel.unary_unary, service, name)(request,
                                                                         timeout=_UNARY_TIMEOUT)
        except grpc.RpcError as error:
            raise from_rpc_error(error, f"{service}.{name} on {self.socket}") from None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
