"""Real ZooKeeper for tests: one server, or an ensemble, that can be killed, restarted, paused and read like a book.

    with ZooKeeperServer() as server, server.client() as client:
        client.create("/a", b"1", ephemeral=True)
        server.kill()
        server.start()                       # same port, same data, same sessions
        server.transactions()                # what happened, by ZooKeeper's own log

Rule: a server's address and data stay the same from its first start() to close().
"""

from __future__ import annotations

import functools
import secrets
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from zkconsumer.testing import four_letter_words
from zkconsumer.testing.backends import BACKENDS, Backend, ExternalBackend, Layout, ProcessBackend
from zkconsumer.testing.errors import NotSupported, PortTaken, ServerError, ServerStartError
from zkconsumer.testing.four_letter_words import NOT_SERVING, ServerSession
from zkconsumer.testing.programs import ZOOKEEPER_VERSION, program
from zkconsumer.testing.transactions import Transaction, read_logs
from zkconsumer.testing.waiting import eventually, scaled

if TYPE_CHECKING:
    from kazoo.client import KazooClient

START_TIMEOUT_S = 60.0
EXTERNAL_TIMEOUT_S = 10.0
CONNECT_TIMEOUT_S = 20.0
POLL_S = 0.01
# A server that has begun to listen may leave its first question without an answer; ask anew soon.
PROBE_TIMEOUT_S = 0.3

# Short, since a session ends at the next tick after its time is over.
TICK_TIME_MS = 100
LONGEST_SESSION_MS = 3_600_000
# In ticks: how long a member may take to join its leader, and then to answer it.
INIT_LIMIT = 100
SYNC_LIMIT = 30

BackendName = Literal["process", "container", "external"]


class ZooKeeperServer:
    """One server.

    States: new -> (start) -> running <-> paused, running <-> stopped (by stop or kill, and start); any -> (close) ->
    closed. start, stop, kill, resume and close may be called again without harm.
    """

    def __init__(
        self,
        *,
        backend: BackendName = "process",
        address: str | None = None,
        port: int = 0,
        tick_time_ms: int = TICK_TIME_MS,
        settings: Mapping[str, str] | None = None,
        java_options: Sequence[str] = (),
    ) -> None:
        """`address` is of an external server, `port` (0: any) of one that is ours.

        `settings` go into zoo.cfg, `java_options` (for "process" only) to the Java machine, as "-Dname=value".
        """
        if backend not in BACKENDS:
            raise ValueError(f"backend {backend!r}: is not known; there are {', '.join(BACKENDS)}")
        if (backend == "external") != (address is not None):
            raise ValueError(f"backend {backend!r}, address {address!r}: external, and only that, needs host:port")
        if java_options and backend != "process":
            raise NotSupported(f"java_options with backend={backend!r}: only 'process' can pass them on")
        self._backend_name = backend
        self._external_address = address
        self._port = port
        self._tick_time_ms = tick_time_ms
        self._settings = dict(settings or {})
        self._java_options = tuple(java_options)
        self._members = 0  # of the ensemble it belongs to
        self._opened = False
        self._closed = False

    @property
    def is_external(self) -> bool:
        """Whether somebody else runs it, so that it can be used but not stopped."""
        return self._backend_name == "external"

    @property
    def running(self) -> bool:
        """Whether its process exists (paused counts)."""
        return not self._closed and self._backend.running

    @property
    def connect_string(self) -> str:
        """For clients: "127.0.0.1:port"."""
        return self._backend.address

    @property
    def peer_connect_string(self) -> str:
        """The same for brokers of the same back end, who may know it by another name."""
        return self._backend.peer_address

    @property
    def mode(self) -> str | None:
        """ "standalone", "leader" or "follower"; None if it does not serve now, or does not answer."""
        try:
            return four_letter_words.read_mode(self.four_letter_word("srvr"))
        except OSError:
            return None

    def start(self) -> None:
        """Start it and wait until it answers. Raises PortTaken, or ServerStartError with its log.

        A member of an ensemble answers when most of the members run: use ZooKeeperEnsemble.start() to start several.
        """
        if self._closed:
            raise ServerStartError(f"ZooKeeper on {self._backend_name}: was closed, its data are gone; make a new one")
        if self.is_external:
            self._wait_until_it_answers("")
            return
        if self._backend.running:
            return
        try:
            layout = self._open()
            self._backend.start({**self._own_settings(layout), **self._settings})
            self._wait_until_it_answers(layout.data_directory)
        except BaseException:  # Ctrl-C too
            if self._opened:
                self._backend.kill()
            else:
                self._backend.close()
            raise
        self._opened = True

    def stop(self) -> None:
        """End it in order. Sessions and data stay, and time does not pass for sessions until it is started again."""
        self._backend.stop()

    def kill(self) -> None:
        """End it without warning. All it has acknowledged stays."""
        self._backend.kill()

    def restart(self) -> None:
        """stop() and start()."""
        self.stop()
        self.start()

    def pause(self) -> None:
        """Let it stand still: its sockets stay open, nothing answers."""
        self._backend.pause()

    def resume(self) -> None:
        """Let it go on. It may then find sessions whose time is over."""
        self._backend.resume()

    def close(self) -> None:
        """End it and remove all it had. (ZKCONSUMER_KEEP_FILES keeps the files.)"""
        self._closed = True
        self._backend.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<ZooKeeperServer {self.connect_string if self._opened else self._backend_name}>"

    @contextmanager
    def client(self, *, chroot: str = "", **options: Any) -> Iterator[KazooClient]:
        """A connected kazoo client, stopped and closed at the end. `options` are KazooClient's."""
        with _client(_below(self.connect_string, chroot), options) as client:
            yield client

    def chroot(self, name: str | None = None) -> str:
        """Create a path nobody has used (or `name`, which must not exist) and return "host:port/path"."""
        return _create_chroot(self.connect_string, name)

    def four_letter_word(self, word: str) -> str:
        """Its answer to "srvr", "mntr", "cons" and so on; OSError if it does not answer."""
        return four_letter_words.ask(_first(self.connect_string), word)

    def watches_by_path(self) -> dict[str, set[int]]:
        """Which sessions watch a path's data or existence. ZooKeeper does not tell who watches children."""
        return four_letter_words.read_watches(self.four_letter_word("wchp"))

    def sessions(self) -> dict[int, ServerSession]:
        """Every session that has not ended, by its number (`KazooClient.client_id[0]`)."""
        return four_letter_words.read_sessions(self.four_letter_word("dump"), self.four_letter_word("cons"))

    def transactions(self) -> list[Transaction]:
        """All it has written to its log since its first start. A change that was acknowledged is in there."""
        with self._backend.data_files() as directory:
            logs = directory / "version-2"
            return read_logs(logs) if logs.is_dir() else []

    @functools.cached_property
    def _backend(self) -> Backend:
        extra_ports = 2 if self._members else 0
        if self._external_address is not None:
            return ExternalBackend(self._external_address)
        if self._backend_name == "process":
            return ProcessBackend(
                program("zookeeper", ZOOKEEPER_VERSION),
                port=self._port,
                extra_ports=extra_ports,
                java_options=self._java_options,
            )
        from zkconsumer.testing.containers import ContainerBackend

        return ContainerBackend(program("zookeeper", ZOOKEEPER_VERSION), port=self._port)

    def _open(self) -> Layout:
        return self._backend.open()

    def _own_settings(self, layout: Layout) -> dict[str, str]:
        return {
            "dataDir": layout.data_directory,
            "clientPort": str(layout.port),
            "clientPortAddress": layout.bind_address,
            "tickTime": str(self._tick_time_ms),
            "minSessionTimeout": str(2 * self._tick_time_ms),
            "maxSessionTimeout": str(max(LONGEST_SESSION_MS, 20 * self._tick_time_ms)),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "4lw.commands.whitelist": "*",
            # What is written survives the server's death in the kernel's cache; only the machine's death would lose it.
            "forceSync": "no",
            "preAllocSize": "1024",  # KB, since transactions() reads the whole file
        }

    def _wait_until_it_answers(self, data_directory: str) -> None:
        pause = threading.Event()
        timeout_s = scaled(EXTERNAL_TIMEOUT_S if self.is_external else START_TIMEOUT_S)
        deadline = time.monotonic() + timeout_s
        while not self._answers(data_directory):
            if not self._backend.running:
                raise self._start_error("ended before it answered")
            if time.monotonic() > deadline:
                raise self._start_error(f"does not answer within {timeout_s:g} s")
            pause.wait(POLL_S)

    def _answers(self, data_directory: str) -> bool:
        word = "srvr" if self.is_external else "conf"  # others may allow no word but srvr
        try:
            answer = four_letter_words.ask(_first(self.connect_string), word, timeout_s=scaled(PROBE_TIMEOUT_S))
        except OSError:
            return False
        if not answer or NOT_SERVING in answer:
            return False
        # Two servers can be given the same number while nobody listens on it (see ports.py): be sure it is ours.
        if data_directory not in answer:
            raise PortTaken(f"{self.connect_string}: another server answers there; give another port (0: any)")
        return True

    def _start_error(self, problem: str) -> ServerStartError:
        log = self._backend.log_tail()
        what = f"ZooKeeper on {self.connect_string}"
        if "Address already in use" in log:
            return PortTaken(f"{what}: the port is in use; stop the program that has it, or give another (0: any)", log)
        return ServerStartError(f"{what} {problem}", log)


class ZooKeeperEnsemble:
    """Several servers that elect a leader. Survives the loss of less than half of its `members`.

    `start()` starts those that do not run, all at once; `members[i]` has all the faults of a ZooKeeperServer.
    """

    def __init__(
        self,
        size: int = 3,
        *,
        backend: BackendName = "process",
        tick_time_ms: int = TICK_TIME_MS,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        if size < 2:
            raise ValueError(f"an ensemble of {size}: needs 2 members or more, ZooKeeperServer is one alone")
        if backend != "process":
            raise NotSupported(f"an ensemble with backend={backend!r}: only 'process' can run one")
        self.members = [ZooKeeperServer(tick_time_ms=tick_time_ms, settings=settings) for _ in range(size)]
        for member in self.members:
            member._members = size

    @property
    def connect_string(self) -> str:
        """All members' addresses, as clients want them."""
        return ",".join(member.connect_string for member in self.members)

    @property
    def peer_connect_string(self) -> str:
        """The same for brokers of the same back end."""
        return ",".join(member.peer_connect_string for member in self.members)

    @property
    def running(self) -> bool:
        """Whether all members run."""
        return all(member.running for member in self.members)

    def start(self) -> None:
        """Start every member that does not run, and wait until all of them answer."""
        try:
            self._introduce()
            self._start_members()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all members and remove all they had."""
        for member in self.members:
            member.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def leader(self) -> ZooKeeperServer:
        """The member that leads; waits for an election to be over."""
        return eventually(lambda: self._in_mode("leader"), "an ensemble's leader")[0]

    def followers(self) -> list[ZooKeeperServer]:
        """The members that follow now; those that are down, paused or without a leader are not among them."""
        return self._in_mode("follower")

    @contextmanager
    def client(self, *, chroot: str = "", **options: Any) -> Iterator[KazooClient]:
        """A kazoo client that knows all members."""
        with _client(_below(self.connect_string, chroot), options) as client:
            yield client

    def chroot(self, name: str | None = None) -> str:
        """Create a path nobody has used (or `name`, which must not exist) and return "host:port,…/path"."""
        return _create_chroot(self.connect_string, name)

    def _start_members(self) -> None:
        with ThreadPoolExecutor(len(self.members)) as pool:
            starts = [pool.submit(member.start) for member in self.members]
            try:
                for start in starts:
                    start.result()
            except BaseException:  # Ctrl-C too
                self.close()  # so that those which still wait for an answer give up
                raise

    def _in_mode(self, mode: str) -> list[ZooKeeperServer]:
        with ThreadPoolExecutor(len(self.members)) as pool:  # a paused one lets us wait
            modes = list(pool.map(lambda member: member.mode, self.members))
        return [member for member, found in zip(self.members, modes, strict=True) if found == mode]

    def _introduce(self) -> None:
        """Tell each member its number and the addresses of all."""
        layouts = [member._open() for member in self.members]
        peers = {"initLimit": str(INIT_LIMIT), "syncLimit": str(SYNC_LIMIT)} | _peers(layouts)
        for number, (member, layout) in enumerate(zip(self.members, layouts, strict=True), start=1):
            member._settings = peers | member._settings
            (Path(layout.data_directory) / "myid").write_text(f"{number}\n")


def _peers(layouts: Sequence[Layout]) -> dict[str, str]:
    lines = {}
    for number, layout in enumerate(layouts, start=1):
        quorum_port, election_port = layout.extra_ports
        lines[f"server.{number}"] = f"{layout.bind_address}:{quorum_port}:{election_port}"
    return lines


def _first(connect_string: str) -> str:
    return connect_string.partition("/")[0].partition(",")[0]


def _below(connect_string: str, chroot: str) -> str:
    return f"{connect_string.rstrip('/')}/{chroot.strip('/')}".rstrip("/")


@contextmanager
def _client(hosts: str, options: Mapping[str, Any]) -> Iterator[KazooClient]:
    from kazoo.client import KazooClient

    client = KazooClient(hosts, **options)
    try:
        client.start(timeout=scaled(CONNECT_TIMEOUT_S))
        yield client
    finally:
        client.stop()
        client.close()


def _create_chroot(connect_string: str, name: str | None) -> str:
    from kazoo.exceptions import NodeExistsError

    path = (name or f"test-{secrets.token_hex(6)}").strip("/")
    with _client(connect_string, {}) as client:
        try:
            client.create(f"/{path}", makepath=True)
        except NodeExistsError:
            raise ServerError(
                f"chroot /{path} exists already on {connect_string}: give another name, or none"
            ) from None
    return _below(connect_string, path)
