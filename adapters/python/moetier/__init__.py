"""Python client of moetierd: hidden rows, expert picks and router weights of a layer go to the
daemon, their weighted sum comes back.

    with moetier.connect() as daemon, daemon.attach("qwen3", client="my engine") as session:
        output = session.layer(0, hidden, experts, weights)  # numpy float32 [rows, hidden]
"""

from moetier.client import Client, connect, default_socket
from moetier.errors import (CallFailed, DataLoss, DeadlineExceeded, InvalidArgument,
                            LibraryMissing, MoetierError, NotFound, SessionEnded, Unreachable)
from moetier.session import Session

__all__ = ["CallFailed", "Client", "DataLoss", "DeadlineExceeded", "InvalidArgument",
           "LibraryMissing", "MoetierError", "NotFound", "Session", "SessionEnded", "Unreachable",
           "connect", "default_socket"]
