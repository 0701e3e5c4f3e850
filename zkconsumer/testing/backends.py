"""How a server runs: as a child process, in a container, or already, somewhere else.

A server class (ZooKeeperServer, KafkaBroker) says *what* runs: it asks its back end for the Layout, makes the settings
from that, and hands them over. A back end knows nothing of ZooKeeper or Kafka but what a Program holds.

    process     ProcessBackend, here      the default
    container   ContainerBackend, in containers.py, since it needs the docker package
    external    ExternalBackend, here     an address given; not ours to start or stop
"""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import NamedTuple, Protocol

from zkconsumer.testing import class_data
from zkconsumer.testing.errors import NotSupported, PortTaken, ServerError, ServerStartError
from zkconsumer.testing.java import class_path_of, find_java, unpack_into
from zkconsumer.testing.ports import HOST, ReservedPort
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.programs import LOG_FILES, Program

BACKENDS = ("process", "container", "external")


class Layout(NamedTuple):
    """A server's surroundings, as the server itself sees them."""

    data_directory: str
    bind_address: str  # "127.0.0.1", or "0.0.0.0" inside a container
    port: int  # for clients
    extra_ports: tuple[int, ...] = ()  # as many as were asked for, e.g. for an ensemble's peers


class Backend(Protocol):
    """One server that may be started and ended many times. Its address and data stay until close().

    States: new -> (open) -> stopped <-> running <-> paused; any -> (close) -> closed. All of open, stop, kill, resume
    and close may be called again without harm.
    """

    @property
    def address(self) -> str:
        """host:port for clients on this machine."""

    @property
    def peer_address(self) -> str:
        """host:port for other servers of the same back end."""

    @property
    def running(self) -> bool:
        """Whether the server's process exists (paused counts)."""

    def open(self) -> Layout:
        """Reserve ports, make directories."""

    def start(self, settings: Mapping[str, str]) -> None:
        """Start the server with these settings. Returns before it answers."""

    def stop(self) -> None:
        """End it in order and wait; data stays."""

    def kill(self) -> None:
        """End it without warning and wait; data stays."""

    def pause(self) -> None:
        """Let it stand still: its sockets stay open, nothing answers."""

    def resume(self) -> None:
        """Let it go on."""

    def log_tail(self) -> str:
        """The end of its output, for error messages."""

    def data_files(self) -> AbstractContextManager[Path]:
        """Its data directory as files on this machine (a copy, where they are elsewhere)."""

    def close(self) -> None:
        """End it if it runs, remove all it had."""


class ProcessBackend:
    """A child process on loopback, with a guard so that it cannot outlive this process (see _guard.py)."""

    def __init__(
        self,
        program: Program,
        *,
        port: int = 0,
        extra_ports: int = 0,
        full_speed: bool = False,
        java_options: Sequence[str] = (),
    ) -> None:
        self._program = program
        self._process = GuardedProcess(f"{program.kind}-{program.version}")
        self._wanted_port = port
        self._number_of_extra_ports = extra_ports
        self._ports: list[ReservedPort] = []
        self._java_options = [*program.java_options(full_speed=full_speed), *java_options]

    @property
    def directory(self) -> Path:
        """Where its files are; gone after close()."""
        return self._process.directory

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def address(self) -> str:
        if not self._ports:
            raise ServerStartError(f"{self._process.name}: has no address before it is started")
        return f"{HOST}:{self._ports[0].number}"

    @property
    def peer_address(self) -> str:
        return self.address

    @property
    def running(self) -> bool:
        return self._process.poll()

    def open(self) -> Layout:
        if not self._ports:
            wanted = [self._wanted_port] + [0] * self._number_of_extra_ports
            try:
                for number in wanted:
                    self._ports.append(ReservedPort(number))
                self._process.open()
                for name, text in LOG_FILES.items():
                    (self.directory / name).write_text(text)
                (self.directory / "data").mkdir()
            except BaseException:
                self.close()
                raise
        first, *others = (port.number for port in self._ports)
        return Layout(str(self.directory / "data"), HOST, first, tuple(others))

    def start(self, settings: Mapping[str, str]) -> None:
        file = self.directory / self._program.settings_file
        file.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        for port in self._ports:
            port.hand_over()
        jars = self._program.jars()
        # Not by a folder in the class path, which may hold nothing but jars for a class-data archive to be used.
        logging = [f"-Dlog4j.configuration=file:{self.directory / 'log4j.properties'}"]
        logging += [f"-Dlog4j2.configurationFile={self.directory / 'log4j2.properties'}"]
        command = [str(find_java()), *self._java_options, *class_data.options_for(jars), *logging]
        command.append(unpack_into(self.directory))
        self._process.spawn([*command, "-cp", class_path_of(jars), self._program.main_class, str(file)])

    def stop(self) -> None:
        self._process.end(signal.SIGTERM)

    def kill(self) -> None:
        self._process.end(signal.SIGKILL)

    def pause(self) -> None:
        if not self._process.signal(signal.SIGSTOP):
            raise ServerError(f"{self._process.name}: cannot be paused, it does not run")

    def resume(self) -> None:
        self._process.signal(signal.SIGCONT)

    def log_tail(self) -> str:
        return self._process.log_tail()

    @contextmanager
    def data_files(self) -> Iterator[Path]:
        yield self.directory / "data"

    def close(self) -> None:
        self._process.close()
        for port in self._ports:
            port.close()
        self._ports.clear()


class ExternalBackend:
    """A server that somebody else runs. Only its address is known."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def address(self) -> str:
        return self._address

    @property
    def peer_address(self) -> str:
        return self._address

    @property
    def running(self) -> bool:
        return True

    def open(self) -> Layout:
        host, _, port = self._address.rpartition(":")
        return Layout("", host, int(port))

    def start(self, settings: Mapping[str, str]) -> None:
        """Nothing to do: it runs, or the first request will say that it does not."""

    def stop(self) -> None:
        raise self._not_ours("stop")

    def kill(self) -> None:
        raise self._not_ours("kill")

    def pause(self) -> None:
        raise self._not_ours("pause")

    def resume(self) -> None:
        raise self._not_ours("resume")

    def log_tail(self) -> str:
        return ""

    def data_files(self) -> AbstractContextManager[Path]:
        raise self._not_ours("read the files of")

    def close(self) -> None:
        """Nothing to do."""

    def _not_ours(self, verb: str) -> NotSupported:
        return NotSupported(f"cannot {verb} {self._address}: it is an external server, somebody else runs it")


__all__ = ["BACKENDS", "Backend", "ExternalBackend", "Layout", "PortTaken", "ProcessBackend"]
