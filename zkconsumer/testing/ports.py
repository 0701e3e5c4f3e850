"""A loopback port that is ours from the moment it is found, so that nobody takes it before the server does."""

from __future__ import annotations

import errno
import socket
import sys
from types import TracebackType
from typing import Self

from zkconsumer.testing.errors import PortTaken

HOST = "127.0.0.1"

# Linux lets a second socket bind a port that a first one has, if both set SO_REUSEADDR and the first does not listen.
_SERVER_MAY_BIND_BESIDE_US = sys.platform == "linux"


class ReservedPort:
    """A port on 127.0.0.1, held by a socket that is bound with SO_REUSEADDR and never listens.

    On Linux the kernel gives a port so held to nobody who asks for "any port" and to no outgoing connection, while a
    server that asks for it by number and sets SO_REUSEADDR (as those of Java, Go and Python do) may bind it, stop, and
    bind it again. While no server listens, a connection to it is refused.

    Elsewhere the server's bind would fail, so `hand_over()` lets go of the port: call it right before the server
    starts. From then on the port is an ordinary one, and another program may take it while the server is down.

    Not noticed: a number that another ReservedPort holds and nobody listens on. Ask for 0, and the kernel gives each
    its own.
    """

    def __init__(self, number: int = 0) -> None:
        """Reserve this port, or with 0 one that is free. Raises PortTaken if somebody listens on it."""
        self._socket: socket.socket | None = _bind(number)
        self.number: int = self._socket.getsockname()[1]

    def hand_over(self) -> None:
        """Let a server bind the port. Nothing has to be done on Linux; elsewhere the reservation ends here."""
        if not _SERVER_MAY_BIND_BESIDE_US:
            self.close()

    def close(self) -> None:
        """Give the port back. Idempotent; `number` stays readable."""
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ReservedPort {HOST}:{self.number} {'given back' if self._socket is None else 'held'}>"


def _bind(number: int) -> socket.socket:
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((HOST, number))
    except OSError as error:
        holder.close()
        if number and error.errno == errno.EADDRINUSE:
            raise PortTaken(
                f"port {number} on {HOST} is in use: stop the program that has it, or give another number (0: any)"
            ) from error
        raise
    except BaseException:
        holder.close()
        raise
    return holder
