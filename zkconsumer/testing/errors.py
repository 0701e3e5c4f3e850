"""What can go wrong with a test server, each with one line that says what, where and what to do.

ServerError
├── JavaNotFound        no Java, or one too old
├── JarError            jars cannot be resolved, or are not what the lock file says
├── UnknownVersion      a release nobody here knows
├── NotSupported        known, but this release or back end cannot do it
├── ServerStartError    the server ended or stayed silent; its log is attached
├── PortTaken           a port asked for by number is in use
├── EngineNotFound      the container back end without a container engine
└── WaitTimeout         something awaited did not happen in time
"""

from __future__ import annotations


class ServerError(Exception):
    """Base of everything raised by zkconsumer.testing."""


class JavaNotFound(ServerError):
    """No Java run time, or one older than 17."""


class JarError(ServerError):
    """Jars are missing, cannot be fetched, or fail their checksum."""


class UnknownVersion(ServerError):
    """A release that is not among those this package can run."""


class NotSupported(ServerError):
    """A release or back end that lacks what was asked for."""


class ServerStartError(ServerError):
    """A server that did not come up. `log` holds the end of what it wrote."""

    def __init__(self, message: str, log: str = "") -> None:
        super().__init__(message)
        self.log = log
        if log.strip():
            self.add_note(f"--- end of its log ---\n{log.rstrip()}\n--- end ---")


class PortTaken(ServerStartError):
    """The port given by number is held by another program."""


class EngineNotFound(ServerError):
    """No container engine answers."""


class WaitTimeout(ServerError):
    """An awaited condition did not come true in time."""
