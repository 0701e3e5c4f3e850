"""A KazooClient without the habits that hurt a consumer; only zookeeper.py uses it.

What is different: it tries to reconnect every second instead of up to once an hour, gives up on one server after
seconds, remembers why it could not connect, tells no log its credentials, asks for the session timeout it was given,
and can be asked any number of things while there is no connection.
"""

from __future__ import annotations

import logging
import os
import socket
import ssl
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from kazoo.client import KazooClient
from kazoo.handlers.threading import SequentialThreadingHandler
from kazoo.hosts import collect_hosts
from kazoo.protocol.connection import ConnectionDropped
from kazoo.protocol.paths import _prefix_root
from kazoo.protocol.serialization import SASL, Auth, Create
from kazoo.security import ACL

from zkconsumer.errors import InvalidConfigException
from zkconsumer.kazoo_sockets import BufferedSocket, Counter, wait_for

EPHEMERAL = 1  # a flag of the request
CONNECT_TIMEOUT_S = 2.0  # of one try with one server
# kazoo's own default doubles the pause up to an hour; ZooKeeper's Java client tries about once a second.
RECONNECT = {"max_tries": -1, "delay": 0.05, "backoff": 2, "max_jitter": 0.3, "max_delay": 1.0}


def new_client(connect: str, session_timeout_ms: int, options: Mapping[str, Any]) -> KazooClient:
    """Not yet started. A connect string nobody can read is a setting refused."""
    try:
        collect_hosts(connect)
    except ValueError as error:
        raise InvalidConfigException(
            f"zookeeper.connect {connect!r} is not host:port,...[/chroot]: {error}",
            key="zookeeper.connect",
            value=connect,
        ) from None
    return KazooClient(
        hosts=connect,
        timeout=(session_timeout_ms + 0.5) / 1000,  # kazoo cuts it to milliseconds: 4.004 s would become 4003
        handler=_Handler(),
        connection_retry=RECONNECT,
        logger=_ClientLog(_quiet_log(), {}),
        **options,
    )


def create_async(path: str, data: bytes | None, *, client: KazooClient, acl: Sequence[ACL], ephemeral: bool) -> Any:
    """As the client's own, which makes the answer go through one thread more, and ten times the objects."""
    result = client.handler.async_result()
    client._call(Create(_prefix_root(client.chroot, path), data, acl, EPHEMERAL if ephemeral else 0), result)
    return result


def check_files(options: Mapping[str, Any]) -> None:
    """See that certificates and key can be read, or kazoo would try for ever, and ask a terminal for the password."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    if options.get("ca") is not None:
        try:
            context.load_verify_locations(options["ca"])
        except OSError as error:
            raise _unusable("ca", options["ca"], error) from None
    if options.get("certfile") is not None:
        password = options.get("keyfile_password")
        try:
            context.load_cert_chain(options["certfile"], options["keyfile"], lambda: password or "")
        except (OSError, ValueError) as error:
            names, files = "certfile, keyfile, keyfile_password", f"{options['certfile']}, {options['keyfile']}"
            raise _unusable(names, files, error) from None


def why_not_connected(client: KazooClient) -> str:
    """What a try to connect met and which option to look at; empty if it is nothing that an option could mend."""
    problem: BaseException | None = client.logger.problem
    hint = _hint(problem, encrypted=bool(client.use_ssl))
    return f": {problem}; {hint}" if hint else ""


def _unusable(names: str, files: str, error: Exception) -> InvalidConfigException:
    return InvalidConfigException(f"ZooKeeper option {names}: {files} cannot be used: {error}")


def _hint(problem: BaseException | None, *, encrypted: bool) -> str:
    if isinstance(problem, ssl.SSLCertVerificationError):
        return "check the ZooKeeper options ca and check_hostname"
    hung_up = isinstance(problem, ConnectionDropped | ConnectionResetError | BrokenPipeError)
    if isinstance(problem, ssl.SSLError) or (encrypted and hung_up):
        return "check that the port is one for TLS, and certfile and keyfile if it asks for a client's certificate"
    return "if the port is one for TLS, set the ZooKeeper option use_ssl" if hung_up else ""


def _quiet_log() -> logging.Logger:
    """kazoo's log without what it should not tell."""
    logger = logging.getLogger(__name__)
    if _tells_no_secret not in logger.filters:
        logger.addFilter(_tells_no_secret)
    return logger


def _tells_no_secret(record: logging.LogRecord) -> bool:
    """At DEBUG kazoo prints every request, credentials included, and below that the session's password."""
    arguments = record.args if isinstance(record.args, tuple) else ()
    return record.levelno >= logging.DEBUG and not any(isinstance(value, Auth | SASL) for value in arguments)


class _ClientLog(logging.LoggerAdapter[logging.Logger]):
    """One client's log, which remembers the problem of the last try to connect: kazoo tells it nowhere else."""

    problem: BaseException | None = None

    def log(self, level: int, msg: object, *args: Any, **kwargs: Any) -> None:
        if level >= logging.WARNING:
            self._remember(args[0] if args else sys.exc_info()[1])
        if self.logger.isEnabledFor(level):  # thrice a request it is not
            super().log(level, msg, *args, **kwargs)

    def _remember(self, problem: object) -> None:
        if not isinstance(problem, BaseException):
            return
        while problem.__context__ is not None:
            problem = problem.__context__
        # A server that refuses a certificate may say so in one try, and only hang up in the next.
        if isinstance(problem, ssl.SSLError) or not isinstance(self.problem, ssl.SSLError):
            self.problem = problem


class _Handler(SequentialThreadingHandler):  # type: ignore[misc]
    """kazoo's threads, which do not try to connect for as long as a session lasts, and are woken by a counter.

    A socket pair is full after 278 single bytes: while the server is away, whoever asks one thing more is stuck until
    it is back, deaf to everything; if that is kazoo's own connection thread, setting its watches again, for good.
    """

    def create_connection(self, *arguments: Any, timeout: float, **options: Any) -> Any:
        connected = super().create_connection(*arguments, timeout=min(timeout, CONNECT_TIMEOUT_S), **options)
        return BufferedSocket(connected) if type(connected) is socket.socket else connected  # not one with TLS

    def create_socket_pair(self) -> tuple[Any, Any]:
        if not hasattr(os, "eventfd"):  # not Linux
            pair: tuple[Any, Any] = super().create_socket_pair()
            return pair
        counter = Counter()
        return counter, counter

    def select(
        self, readers: Sequence[Any], writers: Sequence[Any], others: Sequence[Any], timeout: float | None = None
    ) -> tuple[list[Any], list[Any], list[Any]]:
        return wait_for(readers, writers, timeout)
