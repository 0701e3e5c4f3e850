"""What a member leaves in ZooKeeper's transaction log, in a form in which two runs can be compared.

Taken out: session numbers, zxids and times, names that belong to a run. Put in order: what one step does to many
partitions, which the real consumer does in the order of a hash map and ours many at a time. A step is a row of requests
about the same kind of node; refused requests, of which the log does not tell the path, belong to what follows them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from zkconsumer.testing.transactions import Operation, Transaction

_TIMESTAMP = re.compile(r'"timestamp":"\d+"')
_SUBSCRIPTION = re.compile(r'(?<="subscription":\{)[^}]*')


class Request(NamedTuple):
    """One entry of the log, as far as two runs can have it in common."""

    operation: str
    path: str
    data: str
    ephemeral: bool
    acl: str
    removed: tuple[str, ...]
    timeout_ms: int


class Step(NamedTuple):
    """A row of requests of one kind, sorted."""

    kind: str
    requests: tuple[Request, ...]

    def __str__(self) -> str:
        lines = [
            " ".join(filter(None, [one.operation, one.path, one.data, " ".join(one.removed)])) for one in self.requests
        ]
        return "\n    ".join([f"{self.kind}:", *lines])


class Footprint:
    """The log of a server, read for one group of one run."""

    def __init__(self, transactions: Iterable[Transaction], *, chroot: str, run: str, group: str) -> None:
        """`run` is a text in names of this run only."""
        self._transactions = list(transactions)
        self._chroot = chroot
        self._run = run
        self._ids = f"{chroot}/consumers/{group}/ids/"

    def of_member(self, consumer_id: str) -> list[Step]:
        """All it did, in all its sessions."""
        sessions = {
            one.session
            for one in self._transactions
            if one.operation is Operation.CREATE and one.path == f"{self._ids}{consumer_id}"
        }
        return list(steps(self._request(one) for one in self._transactions if one.session in sessions))

    def _request(self, entry: Transaction) -> Request:
        return Request(
            operation=entry.operation.value + (f" {entry.error_name}" if entry.error_name else ""),
            path=self._plain(entry.path or ""),
            data=self._plain(plain_data(entry.data)),
            ephemeral=entry.ephemeral,
            acl=str(entry.acl),
            removed=tuple(sorted(map(self._plain, entry.removed))),
            timeout_ms=entry.timeout_ms or 0,
        )

    def _plain(self, text: str) -> str:
        return text.removeprefix(self._chroot).replace(self._run, "RUN")


def plain_data(data: bytes | None) -> str:
    """A registration without its time and with its topics sorted: their order is that of hashes of the run's names."""
    if data is None:
        return "null"
    text = _TIMESTAMP.sub("TIME", data.decode())
    return _SUBSCRIPTION.sub(lambda found: ",".join(sorted(found[0].split(","))), text)


def steps(requests: Iterable[Request]) -> Iterator[Step]:
    """Rows of one kind."""
    kind, row, refused = "", list[Request](), list[Request]()
    for request in requests:
        if request.operation.startswith("error"):
            refused.append(request)
            continue
        if _kind(request) != kind and row:
            yield Step(kind, tuple(sorted(row)))
            row = []
        kind = _kind(request)
        row += [*refused, request]
        refused = []
    if row:
        yield Step(kind, tuple(sorted(row)))
    if refused:
        yield Step("refused", tuple(refused))


def without_refused_claims(found: Sequence[Step]) -> list[Step]:
    """Without attempts that met another owner: whether there are any is a matter of who is quicker.

    An attempt that failed is a claim with a refusal in it, and the release of what it got, if anything.
    """
    kept: list[Step] = []
    last_was_refused = False
    for step in found:
        requests = tuple(one for one in step.requests if one.operation != "error NodeExists")
        if last_was_refused and step.kind == "release" and _paths(kept[-1]) == _paths(step):
            kept.pop()
            last_was_refused = False
            continue
        was_refused = step.kind == "claim" and len(requests) < len(step.requests)
        if kept and last_was_refused and step.kind == "claim":
            kept.pop()
        if requests:
            kept.append(Step(step.kind, requests))
        last_was_refused = was_refused and bool(requests)
    return kept


def _paths(step: Step) -> set[str]:
    return {one.path for one in step.requests if one.ephemeral or one.operation == "delete"}


def _kind(request: Request) -> str:
    parts = request.path.split("/")
    if len(parts) < 4 or parts[1] != "consumers":
        return request.operation if not request.path else f"{request.operation} {request.path}"
    if parts[3] == "owners":
        return "release" if request.operation == "delete" else "claim"
    return {"ids": "register", "offsets": "commit"}.get(parts[3], parts[3])
