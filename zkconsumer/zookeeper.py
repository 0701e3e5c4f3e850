"""The dozen ZooKeeper operations a consumer uses (0.8: ZkUtils on top of ZkClient).

Rules:
* A call is repeated until the connection is back, without limit, as ZkClient does. Two things end the wait: `stopping`,
  which the owner sets, and the loss of the session in which the call began. Neither is looked at while all is well.
* What is asked for many paths goes out many at a time; the outcome is the same as one by one, which `one_by_one` asks
  for. Then all that reads and writes here does it as often as 0.8.2.2, which can be counted in a server's log.
* A create whose answer was lost is settled by reading: ours is what our own session created.
* kazoo's exceptions do not leave this file. None of these calls may be made on kazoo's own threads.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NodeExistsError,
    NoNodeError,
    OperationTimeoutError,
    SessionExpiredError,
)
from kazoo.protocol.states import KeeperState
from kazoo.security import ACL, CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE

from zkconsumer.errors import (
    MissingChroot,
    ZkNodeExistsException,
    ZkTimeoutException,
    ZooKeeperError,
    ZooKeeperSessionExpired,
    ZooKeeperStopped,
)
from zkconsumer.kazoo_client import check_files, create_async, new_client, why_not_connected
from zkconsumer.zookeeper_options import checked_options

log = logging.getLogger(__name__)

waiting_log = logging.getLogger(f"{__name__}.waiting")  # which commands show on a terminal
TELL_AFTER_S = 2.0
LOOK_EVERY_S = 0.05  # how soon a waiting call notices that it should stop, or that the connection is back
LAST_ANSWER_S = 1.5  # how long a server may be silent once we are stopping: what is under way is finished if it can be
REQUESTS_IN_FLIGHT = 1000

_Request = partial[Any]  # of a method of kazoo whose name ends in _async, and its arguments: first the path
_PROTECTED = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]  # as 0.9 does it
_ACL_HINT = ": it belongs to somebody who is authenticated; all members of a group need the same ZooKeeper options"
_LOST = (ConnectionLoss, OperationTimeoutError, SessionExpiredError)


class Znode(NamedTuple):
    """A node as it was read. Null data, which 0.8 gives to parents, reads as empty."""

    data: bytes
    version: int
    ephemeral_owner: int  # a session id, 0 if the node is persistent
    children: int = 0  # how many
    created_ms: int = 0


class CreateOutcome(NamedTuple):
    """Of an ephemeral node: ours (new, or found to be of our session), or what somebody else holds there."""

    ours: bool
    stored: bytes | None = None  # None: gone again when it was looked at, or ours


class ZooKeeper:
    """One session after another with one ensemble.

    new -> (start) -> connected <-> disconnected; connected -> expired -> connected, in a new session and without our
    doing; any -> (close) -> closed, for good. Any thread but kazoo's own may call any method.
    """

    def __init__(
        self,
        connect: str,
        *,
        session_timeout_ms: int,
        connection_timeout_ms: int,
        options: Mapping[str, Any] | None = None,
        stopping: threading.Event | None = None,
        protect_if_authenticated: bool = True,
        one_by_one: bool = False,
        looks_before_claiming: bool = False,
    ) -> None:
        """`looks_before_claiming`: whether the chroot is there, once, as 1.1.1 does; of what is asked one by one."""
        self.one_by_one = one_by_one
        self._looks_before_claiming = one_by_one and looks_before_claiming
        self._connect = connect
        self._connection_timeout_ms = connection_timeout_ms
        self._stopping = stopping or threading.Event()
        self._closed = threading.Event()
        self._close_lock = threading.Lock()
        self._sessions_lost = 0
        self._is_given_up = False  # it was silent for too long while we were stopping: nobody waits for it again
        self._session_id: int | None = None
        self._kazoo_threads: set[int] = set()
        self._bound = threading.local()  # `sessions_lost` while its thread is in in_one_session()
        self._options = checked_options(options or {})
        self._authenticates = bool(self._options.get("auth_data") or self._options.get("sasl_options"))
        self._is_refused = False  # our authentication, which kazoo shows for a moment only
        self._protected_acl = _PROTECTED if self._authenticates and protect_if_authenticated else OPEN_ACL_UNSAFE
        self._client = new_client(connect, session_timeout_ms, self._options)

    # --- life ---

    @property
    def client(self) -> KazooClient:
        """For watches.py, which sets watches and listens to the session."""
        return self._client

    @property
    def session_id(self) -> int | None:
        """As a node's ephemeral_owner has it. Kept while disconnected; None without a session."""
        return self._session_id

    @property
    def sessions_lost(self) -> int:
        """So far: what was created in a session before the last of these is gone, if it was ephemeral."""
        return self._sessions_lost

    @property
    def is_called_on_its_own_thread(self) -> bool:
        """In a watch or a session listener, where whoever waits for ZooKeeper waits for himself."""
        return threading.get_ident() in self._kazoo_threads

    @property
    def is_connected(self) -> bool:
        return bool(self._client.connected)

    def start(self) -> None:
        """Connect within the connection timeout, and see that the chroot is there. Writes nothing."""
        check_files(self._options)
        with self._close_lock:  # or a close() between the look and the start would leave kazoo's threads behind
            if self._closed.is_set():
                raise ZooKeeperStopped("closed for good: a new connection needs a new object")
            self._client.add_listener(self._state_changed)
            self._client.start_async()
        try:
            for queue in (self._client.handler.callback_queue, self._client.handler.completion_queue):
                queue.put(self._note_kazoo_thread)
            self._wait_for_first_connection()
            # Also without a chroot: kazoo is connected before it is authenticated, and an answer comes after both.
            # As in 0.8.2.2, if asked one by one: nobody looks, and the registration fails.
            looks = self._authenticates or (self._client.chroot and not self.one_by_one)
            if looks and not self.exists("/"):
                raise MissingChroot(self._client.chroot)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End the session: its ephemeral nodes are gone. Calls under way end with ZooKeeperStopped."""
        with self._close_lock:
            if self._closed.is_set():
                return
            self._closed.set()
            impatience = threading.Timer(0 if self._is_given_up else LAST_ANSWER_S, self._hang_up)
            impatience.daemon = True
            impatience.start()
            try:
                self._client.stop()
                self._client.close()
            finally:
                impatience.cancel()
                impatience.join()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    @contextmanager
    def in_one_session(self) -> Iterator[None]:
        """What this thread asks in here is asked in one session, or raises ZooKeeperSessionExpired.

        Without it each call stands for itself, and the next one may find itself in a new session.
        """
        if hasattr(self._bound, "sessions_lost"):
            yield  # the outer one counts
            return
        self._bound.sessions_lost = self._sessions_lost
        try:
            yield
        finally:
            del self._bound.sessions_lost

    # --- reading ---

    def exists(self, path: str) -> bool:
        [answer] = self._ask([partial(self._client.exists_async, path)])
        return _value(path, answer) is not None

    def children(self, path: str) -> list[str] | None:
        """Names, in no order; None if there is no such node."""
        return self.children_many([path])[path]

    def children_many(self, paths: Iterable[str]) -> dict[str, list[str] | None]:
        return self._ask_for(paths, self._client.get_children_async)

    def read(self, path: str) -> bytes | None:
        """Its data; None if there is no such node."""
        return self.read_many([path])[path]

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes | None]:
        found = self.read_many_with_stat(paths)
        return {path: None if node is None else node.data for path, node in found.items()}

    def read_with_stat(self, path: str) -> Znode | None:
        return self.read_many_with_stat([path])[path]

    def read_many_with_stat(self, paths: Iterable[str]) -> dict[str, Znode | None]:
        found = self._ask_for(paths, self._client.get_async)
        return {path: None if answer is None else _znode(*answer) for path, answer in found.items()}

    # --- writing ---

    def create_ephemeral(self, path: str, data: bytes, *, protected: bool = False) -> bool:
        """Whether it was created; False if somebody, perhaps we, already had it. Its parent must be there."""
        return self._create(path, data, self._acl(protected), ephemeral=True)

    def create_persistent(self, path: str, data: bytes | None = None, *, protected: bool = False) -> bool:
        """Whether it was created; False if it was there. Its parent must be there."""
        return self._create(path, data, self._acl(protected), ephemeral=False)

    def create_tree(self, items: Mapping[str, bytes | None]) -> list[str]:
        """Create persistent nodes, parents before their children, all in one go; those that were there already."""
        answers = self._create_many(items, OPEN_ACL_UNSAFE, ephemeral=False)
        return [path for path, answer in answers.items() if not _is_done(path, answer, unless=NodeExistsError)]

    def create_ephemeral_expect_conflict(self, path: str, data: bytes, *, protected: bool = False) -> None:
        """Create it and its parents; ZkNodeExistsException if it is somebody else's."""
        if not self.create_ephemerals({path: data}, protected=protected)[path].ours:
            raise ZkNodeExistsException(path)

    def create_ephemerals(self, items: Mapping[str, bytes], *, protected: bool = False) -> dict[str, CreateOutcome]:
        """Create all of them, and their parents (0.8: createEphemeralPathExpectConflict). A conflict stops nothing."""
        with self.in_one_session():  # or some of what is told to be ours is gone
            outcomes: dict[str, CreateOutcome] = {}
            if protected and items and self._looks_before_claiming:
                self._looks_before_claiming = False
                self.exists("/")
            for part in self._parts(items):
                outcomes |= self._create_ephemerals(part, self._acl(protected))
            return outcomes

    def delete(self, path: str) -> None:
        """Whatever it holds; a missing node is fine."""
        self.delete_many([path])

    def delete_many(self, paths: Iterable[str]) -> None:
        answers = self._answers(paths, self._client.delete_async)
        for path, answer in answers.items():
            if not _is_done(path, answer, unless=NoNodeError):
                log.info("%s deleted during connection loss; this is ok", path)

    def update_persistent(self, path: str, data: bytes, *, protected: bool = False) -> None:
        """Set its data, creating it and its parents if need be. The last writer wins."""
        self.update_many({path: data}, protected=protected)

    def update_many(self, items: Mapping[str, bytes], *, protected: bool = False) -> None:
        """Set all first; only for those that do not exist more is asked."""
        for part in self._parts(items):
            self._update_together(part, protected=protected)

    def _update_together(self, items: Mapping[str, bytes], *, protected: bool) -> None:
        missing = self._set_many(items, tolerate_missing=True)
        if not missing:
            return
        acl = self._acl(protected)
        self._create_parents_of(missing, acl)
        self._create_parents_again(missing, acl)
        answers = self._create_many(missing, acl, ephemeral=False)
        overtaken = {
            path: items[path] for path, answer in answers.items() if not _is_done(path, answer, unless=NodeExistsError)
        }
        self._set_many(overtaken, tolerate_missing=False)

    def ensure_path(self, path: str) -> None:
        """See that it exists, with its parents, open to all (0.8: makeSurePersistentPathExists)."""
        if not self.exists(path):
            self._create_with_parents(path, OPEN_ACL_UNSAFE)

    # --- how ---

    def _parts(self, items: Mapping[str, bytes]) -> Iterable[Mapping[str, bytes]]:
        """What is dealt with at once."""
        return [{path: data} for path, data in items.items()] if self.one_by_one else [items]

    def _acl(self, protected: bool) -> list[ACL]:
        return self._protected_acl if protected else OPEN_ACL_UNSAFE

    def _create(self, path: str, data: bytes | None, acl: list[ACL], *, ephemeral: bool) -> bool:
        answers = self._create_many({path: data}, acl, ephemeral=ephemeral)
        return _is_done(path, answers[path], unless=NodeExistsError)

    def _create_many(self, items: Mapping[str, bytes | None], acl: list[ACL], *, ephemeral: bool) -> dict[str, Any]:
        create = partial(create_async, client=self._client, acl=acl, ephemeral=ephemeral)
        requests = [partial(create, path, data) for path, data in items.items()]
        return dict(zip(items, self._ask(requests), strict=True))

    def _create_ephemerals(self, items: Mapping[str, bytes], acl: list[ACL]) -> dict[str, CreateOutcome]:
        # One of each directory goes first: if that is missing, the others need not find it out as well.
        first_of = {_parent(path): path for path in reversed(list(items))}
        answers = self._create_many_with_parents({path: items[path] for path in first_of.values()}, acl)
        answers |= self._create_many_with_parents({path: items[path] for path in items if path not in answers}, acl)
        taken = [path for path, answer in answers.items() if not _is_done(path, answer, unless=NodeExistsError)]
        outcomes = dict.fromkeys(items, CreateOutcome(ours=True))
        for path, node in self.read_many_with_stat(taken).items():
            outcomes[path] = self._settle(path, items[path], node)
        return outcomes

    def _create_many_with_parents(self, items: Mapping[str, bytes], acl: list[ACL]) -> dict[str, Any]:
        answers = self._create_many(items, acl, ephemeral=True)
        orphans = {path: items[path] for path, answer in answers.items() if isinstance(answer, NoNodeError)}
        if orphans:
            self._create_parents_of(orphans, acl)
            answers |= self._create_many(orphans, acl, ephemeral=True)
        return answers

    def _create_parents_of(self, paths: Iterable[str], acl: list[ACL]) -> None:
        """Each once. One after the other, since they may share a parent that is missing too."""
        for parent in sorted({_parent(path) for path in paths} - {""}):
            self._create_with_parents(parent, acl)

    def _create_parents_again(self, paths: Iterable[str], acl: list[ACL]) -> None:
        """As in 0.8.2.2: one refused request for each further node of a directory, which servers log and count."""
        firsts = {_parent(path): path for path in reversed(list(paths))}
        parents = [_parent(path) for path in paths if firsts[_parent(path)] != path]
        create = partial(create_async, client=self._client, acl=acl, ephemeral=False)
        answers = self._ask([partial(create, parent, None) for parent in parents])
        for parent, answer in zip(parents, answers, strict=True):
            _is_done(parent, answer, unless=NodeExistsError)

    def _create_with_parents(self, path: str, acl: list[ACL]) -> None:
        """With null data, upwards only as far as they are missing (0.8: ZkClient.createPersistent)."""
        answer = self._create_many({path: None}, acl, ephemeral=False)[path]
        if isinstance(answer, NoNodeError):
            if not _parent(path):
                raise MissingChroot(self._client.chroot or "/")
            self._create_with_parents(_parent(path), acl)
            answer = self._create_many({path: None}, acl, ephemeral=False)[path]
        _is_done(path, answer, unless=NodeExistsError)

    def _set_many(self, items: Mapping[str, bytes], *, tolerate_missing: bool) -> dict[str, bytes]:
        """Those that could not be set because they do not exist."""
        requests = [partial(self._client.set_async, path, data) for path, data in items.items()]
        answers = dict(zip(items, self._ask(requests), strict=True))
        allowed = NoNodeError if tolerate_missing else ()
        return {path: items[path] for path, answer in answers.items() if not _is_done(path, answer, unless=allowed)}

    def _settle(self, path: str, data: bytes, node: Znode | None) -> CreateOutcome:
        """Whose is the node that was there before us?"""
        # Unlike 0.8.2.2: equal data is ours only if our session made it. That of a session about to expire would
        # vanish later and leave a partition that we consume without an owner.
        if node is not None and node.data == data and node.ephemeral_owner == self.session_id:
            log.info("%s exists with value %s during connection loss; this is ok", path, _text(data))
            return CreateOutcome(ours=True)
        stored = None if node is None else node.data
        log.info("conflict in %s data: %s stored data: %s", path, _text(data), _text(stored))
        return CreateOutcome(ours=False, stored=stored)

    # --- asking, and what can get in between ---

    def _ask_for(self, paths: Iterable[str], method: Callable[[str], Any]) -> dict[str, Any]:
        """The method's result for each path; None if there is no such node."""
        return {path: _value(path, answer) for path, answer in self._answers(paths, method).items()}

    def _answers(self, paths: Iterable[str], method: Callable[[str], Any]) -> dict[str, Any]:
        unique = list(dict.fromkeys(paths))
        return dict(zip(unique, self._ask([partial(method, path) for path in unique]), strict=True))

    def _ask(self, requests: Sequence[_Request]) -> list[Any]:
        """Each one's result or the server's error, in order; asked again if the connection was lost meanwhile."""
        if self.is_called_on_its_own_thread:
            raise RuntimeError("a ZooKeeper call in a watch or session listener may wait for itself: use a thread")
        sessions_lost: int = getattr(self._bound, "sessions_lost", self._sessions_lost)
        answers: list[Any] = [None] * len(requests)
        unanswered: Sequence[int] = range(len(requests))
        while unanswered:
            self._wait_for_connection(sessions_lost)
            self._send(requests, unanswered, answers, sessions_lost)
            unanswered = [number for number in unanswered if isinstance(answers[number], _LOST)]
        if sessions_lost != self._sessions_lost:
            raise self._expired()  # what was answered holds no longer: our ephemeral nodes are gone
        return answers

    def _send(
        self, requests: Sequence[_Request], numbers: Sequence[int], answers: list[Any], sessions_lost: int
    ) -> None:
        in_flight: deque[tuple[int, Any]] = deque()
        for number in numbers:
            if len(in_flight) == (1 if self.one_by_one else REQUESTS_IN_FLIGHT):
                self._take_answer(in_flight, answers, sessions_lost)
            if sessions_lost != self._sessions_lost:
                raise self._expired()  # before kazoo sends the rest in a new session
            in_flight.append((number, _send_one(requests[number])))
        while in_flight:
            self._take_answer(in_flight, answers, sessions_lost)

    def _take_answer(self, in_flight: deque[tuple[int, Any]], answers: list[Any], sessions_lost: int) -> None:
        number, result = in_flight.popleft()
        give_up_s = math.inf
        while not result.wait(LOOK_EVERY_S):
            self._go_on_only_if_sensible(sessions_lost)  # kazoo may forget a request sent just as a session expires
            if self._stopping.is_set():
                give_up_s = min(give_up_s, time.monotonic() + LAST_ANSWER_S)
                if time.monotonic() > give_up_s:
                    self._is_given_up = True
                    raise ZooKeeperStopped(f"ZooKeeper did not answer for {LAST_ANSWER_S:g} s, and we are stopping")
        answers[number] = result.value if result.exception is None else result.exception

    def _wait_for_connection(self, sessions_lost: int) -> None:
        self._go_on_only_if_sensible(sessions_lost)
        if self._client.connected:
            return
        log.warning("no connection to ZooKeeper: waiting until it is back")
        while not self._client.connected:
            if self._client.client_state == KeeperState.CLOSED:
                raise ZooKeeperStopped("not connected to ZooKeeper: not started, or its client has failed")
            self._stopping.wait(LOOK_EVERY_S)
            self._go_on_only_if_sensible(sessions_lost)

    def _wait_for_first_connection(self) -> None:
        began_s = time.monotonic()
        deadline_s = began_s + self._connection_timeout_ms / 1000
        is_told = False
        while not self._client.connected:
            self._go_on_only_if_sensible(self._sessions_lost)
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise ZkTimeoutException(
                    f"Unable to connect to zookeeper server within timeout: {self._connection_timeout_ms}"
                    f"{why_not_connected(self._client)}",
                    self._connect,
                )
            if not is_told and time.monotonic() - began_s > TELL_AFTER_S:
                is_told = True
                waiting_log.info("no connection to ZooKeeper at %s yet: waiting %.0f s more", self._connect, left_s)
            self._stopping.wait(min(left_s, LOOK_EVERY_S))

    def _hang_up(self) -> None:
        """Let close() not wait for a server that does not answer; kazoo would, for most of a session timeout."""
        connection = self._client._connection._socket
        if connection is not None:
            log.warning("ZooKeeper does not answer: its session timeout will have to end our session")
            try:
                connection.shutdown(2)  # both ways
            except OSError:
                pass  # closed just now

    def _go_on_only_if_sensible(self, sessions_lost: int) -> None:
        """Raise what makes waiting pointless."""
        if self._closed.is_set():
            raise ZooKeeperStopped("the connection to ZooKeeper was closed")
        if self._is_refused or sessions_lost != self._sessions_lost:
            raise self._expired()
        if self._is_given_up or (self._stopping.is_set() and not self._client.connected):
            raise ZooKeeperStopped("no connection to ZooKeeper, and no time left to wait for it")

    def _expired(self) -> ZooKeeperError:
        if self._is_refused:
            return ZooKeeperError(f"{self._connect}: ZooKeeper refused our authentication; {self._what_to_check()}")
        return ZooKeeperSessionExpired("the ZooKeeper session expired during the call; its ephemeral nodes are gone")

    def _what_to_check(self) -> str:
        if self._options.get("sasl_options"):
            return "check who we are by the ZooKeeper option sasl_options, and that the server has SASL"
        return "check the scheme in the ZooKeeper option auth_data"

    def _note_kazoo_thread(self) -> None:
        self._kazoo_threads.add(threading.get_ident())

    def _state_changed(self, state: str) -> None:
        """Called by: kazoo's connection thread."""
        self._note_kazoo_thread()
        if state == KazooState.CONNECTED:
            self._session_id = self._client.client_id[0]
        elif state == KazooState.LOST:
            self._is_refused = self._client.client_state == KeeperState.AUTH_FAILED
            self._session_id = None
            self._sessions_lost += 1


# --- kazoo's answers as ours ---


def _send_one(request: _Request) -> Any:
    try:
        return request()
    except ValueError as error:
        raise _no_path(request.args[0], error) from None


def _no_path(path: str, error: ValueError) -> ZooKeeperError:
    """For "." or ".." in it, which kazoo sees before the server does."""
    return ZooKeeperError(f"{path}: not a path in ZooKeeper: {error}")


def _parent(path: str) -> str:
    """Empty for a node directly below the chroot."""
    return path.rpartition("/")[0]


def _value(path: str, answer: Any) -> Any:
    """None if there is no such node."""
    return answer if _is_done(path, answer, unless=NoNodeError) else None


def _is_done(path: str, answer: Any, *, unless: type[KazooException] | tuple[()]) -> bool:
    """Whether the server did it; False for the one refusal the caller can handle, ZooKeeperError for others."""
    if isinstance(answer, unless):
        return False
    if isinstance(answer, ValueError):
        raise _no_path(path, answer)
    if isinstance(answer, Exception):
        text = f"{path}: ZooKeeper answered {type(answer).__name__} {answer}".rstrip()
        raise ZooKeeperError(f"{text}{_ACL_HINT}" if isinstance(answer, NoAuthError) else text) from answer
    return True


def _znode(data: bytes | None, stat: Any) -> Znode:
    return Znode(data or b"", stat.version, stat.ephemeralOwner, stat.numChildren, stat.ctime)


def _text(data: bytes | None) -> str:
    return "null" if data is None else data.decode(errors="replace")
