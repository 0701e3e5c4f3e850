"""What somebody sees who has only the servers: ZooKeeper's tree and log, and what brokers are asked. As clues.

A clue is a line of text: two members that do the same have the same clues. Names that differ from member to member are
taken out. What comes of being quick or slow is kept apart, as numbers: milliseconds, and how often a claim came too
early and was refused, which is the lot of who rebalances before the others have let go.
"""

from __future__ import annotations

import re
import statistics
import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from tests.conformance.wire_tap import APIS, Seen, WireTap
from zkconsumer.testing.link import Direction
from zkconsumer.testing.transactions import Operation, Transaction


class Asked(NamedTuple):
    """A request, when it came, and when the answer to the one before it on its connection had gone."""

    request: Seen
    time_s: float
    answered_s: float | None


class Evidence(NamedTuple):
    """Of one member of one group."""

    name: str
    group: str
    log: Sequence[Transaction]  # of its sessions
    requests: Sequence[Asked]  # with its client id


class TimedTap(WireTap):
    """Also when. `clock` is called on the link's thread."""

    def __init__(self, clock: Iterator[float]) -> None:
        super().__init__()
        self._clock = clock
        self._guard = threading.Lock()
        self._times: list[float] = []
        self._answered: dict[int, float] = {}
        self._answers: list[float | None] = []

    def __call__(self, connection: int, direction: Direction, data: bytes) -> None:
        now_s = next(self._clock)
        if direction is Direction.DOWN:
            self._answered[connection] = now_s
            return
        super().__call__(connection, direction, data)
        with self._guard:
            while len(self._times) < len(self.seen):
                self._times.append(now_s)
                self._answers.append(self._answered.get(connection))

    def asked_by(self, client_id: str) -> list[Asked]:
        """In order."""
        with self._guard:
            everything = zip(self.seen, self._times, self._answers, strict=False)
            return [Asked(*one) for one in everything if one[0].client_id == client_id]


def by_session(log: Iterable[Transaction], ids_path: str) -> dict[str, list[Transaction]]:
    """Each member's part of the log: all of the sessions in which it registered."""
    log = list(log)
    sessions: dict[int, str] = {}
    for one in log:
        if one.operation is Operation.CREATE and (one.path or "").startswith(f"{ids_path}/"):
            sessions[one.session] = (one.path or "").rpartition("_")[2]
    found: dict[str, list[Transaction]] = {name: [] for name in sessions.values()}
    for one in log:
        if one.session in sessions:
            found[sessions[one.session]].append(one)
    return found


# --- clues ---


def clues(evidence: Evidence) -> set[str]:
    """Everything but what comes of being quick or slow."""
    return {*_clues_of_log(evidence), *_clues_of_requests(evidence)}


def _clues_of_log(evidence: Evidence) -> Iterator[str]:
    log = [one for one in evidence.log if one.operation is not Operation.CREATE_SESSION]
    for one in evidence.log:
        if one.operation is Operation.CREATE_SESSION:
            yield f"session of {one.timeout_ms}"
        elif one.error is None:
            yield f"node {_form(one)}"
    if log:
        yield f"first request {log[0].cxid}: {_kind(log[0])}"
        yield f"last: {' > '.join(_steps(log[-2:]))}"
    for stretch in without_refused_attempts(log):
        steps = _steps(stretch)
        for length in (1, 2, 3):
            yield from (f"log {' > '.join(steps[at : at + length])}" for at in range(len(steps) - length + 1))
        for kind, places in _runs(stretch):
            yield f"{kind} of {len(places)}: {_walk(places)}"


def without_refused_attempts(log: Sequence[Transaction]) -> list[list[Transaction]]:
    """What is left in one piece when attempts that met another owner are cut out: claims and what they gave back."""
    refused = {number for number, (one, after) in enumerate(pairwise(log)) if _is_refused_claim(one, after)}
    stretches: list[list[Transaction]] = [[]]
    at = 0
    while at < len(log):
        end = at
        while end < len(log) and (end in refused or _is_claim(log[end])):
            end += 1
        if refused.isdisjoint(range(at, end)):
            end = max(end, at + 1)
            stretches[-1] += log[at:end]
        else:
            claimed = {one.path for one in log[at:end]}
            while end < len(log) and log[end].operation is Operation.DELETE and log[end].path in claimed:
                end += 1
            stretches.append([])
        at = end
    return [stretch for stretch in stretches if stretch]


def _is_claim(one: Transaction) -> bool:
    return one.operation is Operation.CREATE and "/owners/" in (one.path or "")


def _is_refused_claim(one: Transaction, after: Transaction) -> bool:
    """Who is refused a parent goes on at once; who is refused a claim looks whose it is."""
    return one.error_name == "NodeExists" and after.cxid - one.cxid >= 2


def _steps(log: Sequence[Transaction]) -> list[str]:
    """From one to the next, with how many requests later it came."""
    return [f"{_kind(after)} +{after.cxid - before.cxid}" for before, after in pairwise(log)]


def _form(one: Transaction) -> str:
    data = "null" if one.data is None else re.sub(r"[0-9a-f]{6,}|\d+", "#", one.data.decode())
    data = re.sub(r'"[^"]*-#?[^"]*"(?=:#|:\{)', '"NAME"', data)
    return f"{_kind(one)} {data} {one.ephemeral} {one.acl} {one.version if one.operation is Operation.SET_DATA else ''}"


def _kind(one: Transaction) -> str:
    parts = (one.path or "").split("/")
    below = parts[parts.index("consumers") + 2 :] if "consumers" in parts else []
    place = f"{below[0] if below else 'group'} at depth {len(below)}" if one.path else ""
    return f"{one.operation.value} {one.error_name or ''} {place}".strip()


def _runs(log: Sequence[Transaction]) -> Iterator[tuple[str, list[tuple[str, int]]]]:
    """Rows of the same kind of request about partitions."""
    kinds = [_kind(one) for one in log]
    row: list[tuple[str, int]] = []
    for number, (one, kind) in enumerate(zip(log, kinds, strict=True)):
        topic, _, partition = (one.path or "").rpartition("/")
        if partition.isdigit():
            row.append((topic, int(partition)))
        if row and (number + 1 == len(log) or kinds[number + 1] != kind):
            yield kind, row
            row = []


def _walk(places: Sequence[tuple[str, int]]) -> str:
    """How one goes from one partition to the next, whatever their names."""
    letters: dict[str, str] = {}
    return " ".join(f"{letters.setdefault(topic, chr(97 + len(letters)))}{number}" for topic, number in places)


def _clues_of_requests(evidence: Evidence) -> Iterator[str]:
    requests = [one.request for one in evidence.requests if one.request.api in APIS.values()]
    connections: dict[int, list[Seen]] = {}
    for one in requests:
        connections.setdefault(one.connection, []).append(one)
        yield f"{one.api} {one.version} {sorted(one.fields.items())}"
        sizes = (
            {where[3:] for where in one.partitions} if one.api == "fetch" else {where[2:] for where in one.partitions}
        )
        yield f"{one.api} of sizes {sizes}"
        places = [(str(where[0]), int(where[1])) if len(where) > 1 else (str(where[0]), 0) for where in one.partitions]
        yield f"{one.api} of {len(places)}: {_walk(places)} {'sorted' if places == sorted(places) else 'not sorted'}"
    for asked in connections.values():
        apis = [one.api for one in asked]
        yield f"connection begins {apis[:3]} ids {[one.correlation_id for one in asked[:3]]}"
        yield f"connection of {sorted(set(apis))}"
        resets = [
            (str(topic), int(number)) for one in asked if one.api == "offsets" for topic, number, *_ in one.partitions
        ]
        yield f"resets of {len(resets)}: {_walk(resets)} {'sorted' if resets == sorted(resets) else 'not sorted'}"
        for before, after in pairwise(asked):
            yield f"{before.api} > {after.api} id {after.correlation_id - before.correlation_id:+}"
            yield f"{before.api} > {after.api} {_progress(before, after)}"
    finders = [one.correlation_id for one in requests if one.api == "metadata"]
    yield f"metadata ids {sorted(set(finders))[:2]}"
    yield from (f"metadata id step {after - before}" for before, after in pairwise(finders))
    claims = sum(one.operation is Operation.CREATE and one.ephemeral for one in evidence.log)
    yield f"connections a metadata request {len(connections) / max(1, len(finders)):.1f}, claims {min(claims, 1)}"


def _progress(before: Seen, after: Seen) -> str:
    """Whether a fetch follows another with nothing new, or with how many partitions that went on."""
    if (before.api, after.api) != ("fetch", "fetch"):
        return ""
    changed = len({*after.partitions} - {*before.partitions})
    return f"{changed} moved of {'all' if changed == len(after.partitions) else 'some'}"


# --- the clock ---


def timing(evidence: Evidence) -> dict[str, float]:
    """Milliseconds, and shares of what took none."""
    log = evidence.log
    found: dict[str, float] = {}
    gaps: dict[str, list[float]] = {}
    for before, after in pairwise(log):
        gaps.setdefault(f"{_kind(before)} > {_kind(after)}", []).append(after.time_ms - before.time_ms)
    for name, values in gaps.items():
        found[f"gap {name}"] = statistics.median(values)
        found[f"at once {name}"] = sum(value == 0 for value in values) / len(values)
    waits: dict[str, list[float]] = {}
    for one in evidence.requests:
        if one.answered_s is not None:
            waits.setdefault(one.request.api, []).append((one.time_s - one.answered_s) * 1000)
    for api, values in waits.items():
        found[f"median wait before {api}"] = statistics.median(values)
        found[f"shortest wait before {api}"] = min(values)
    by_connection = Counter(one.request.connection for one in evidence.requests)
    found["claims refused"] = sum(_is_refused_claim(*pair) for pair in pairwise(log))
    found["requests a connection"] = statistics.median(by_connection.values()) if by_connection else 0
    return found
