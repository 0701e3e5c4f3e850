"""Changing stored offsets so that nothing is lost and nothing goes back: plan, refuse, journal, write, verify.

A plan says what each partition has and what it will have. Its journal is on disk before the first write and goes after
the last one was read back, so that whoever finds one knows that a change was cut short: resume() or roll_back().

    planned -> (journal on disk) -> writing, a batch at a time -> written -> verified -> (journal removed) -> done

Only one process at a time changes a group in a store: Journal.held().
"""

from __future__ import annotations

import fcntl
import json
import os
import time
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fetcher.errors import KafkaException
from fetcher.structs import TopicAndPartition
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.files import sync_directory, write_whole
from zkconsumer.groups.stores import Store

BATCH = 1_000
OnStep = Callable[[str], None]
Outcome = Mapping[TopicAndPartition, int | None]  # None: nothing stored


def _nobody_told(_step: str) -> None:
    pass


class OffsetsNotVerified(KafkaException):
    """What was written is not what was read afterwards: somebody else writes too."""


@dataclass(frozen=True)
class Change:
    """Of one partition; before is None if nothing was stored."""

    where: TopicAndPartition
    before: int | None
    after: int


@dataclass(frozen=True)
class Plan:
    """What will be done to one group in one store."""

    store: str
    group: str
    changes: tuple[Change, ...]


def plan_for(store: Store, group: str, wanted: Mapping[TopicAndPartition, int]) -> Plan:
    """Only what differs from what is stored."""
    stored = store.read(group)
    changes = [Change(where, stored.get(where), offset) for where, offset in sorted(wanted.items())]
    return Plan(store.name, group, tuple(change for change in changes if change.before != change.after))


def refusals(
    plan: Plan,
    begins: Mapping[TopicAndPartition, int | KafkaException],
    ends: Mapping[TopicAndPartition, int | KafkaException],
    *,
    allow_backwards: bool,
) -> Iterator[str]:
    """Why the plan must not be carried out, a line each. Pure."""
    for change in plan.changes:
        begin, end = begins.get(change.where), ends.get(change.where)
        if not isinstance(begin, int) or not isinstance(end, int):
            yield f"{change.where}: its log cannot be asked: {end}"
        elif change.after == end + 1:
            text = f"{change.after} is off by one: the log ends at {end}, which is the next offset to consume"
            yield f"{change.where}: {text}"
        elif change.after > end:
            yield f"{change.where}: {change.after} is beyond the log, which ends at {end}"
        elif change.after < begin:
            yield f"{change.where}: {change.after} is deleted already, the log begins at {begin}"
        if change.before is not None and change.after < change.before and not allow_backwards:
            yield f"{change.where}: from {change.before} back to {change.after}; --allow-backwards if that is meant"


class Journal:
    """One file for each store and group with a change under way.

    `cluster`: which one it is, by a name that stays (KIP-78), or "". Another one's journal is refused.
    """

    def __init__(self, directory: Path, cluster: str = "") -> None:
        self._directory = directory
        self._cluster = cluster

    def path(self, store: str, group: str) -> Path:
        return self._directory / f"{store}-{urllib.parse.quote(group, safe='')}.json"

    @contextmanager
    def held(self, store: str, group: str) -> Iterator[None]:
        """Nobody else changes it meanwhile; refused while somebody does. A process that dies lets go."""
        lock = self.path(store, group).with_suffix(".lock")
        lock.parent.mkdir(parents=True, exist_ok=True)
        descriptor = _locked(lock)
        while descriptor is None:  # whoever had it before has just removed it
            descriptor = _locked(lock)
        try:
            yield
        finally:
            lock.unlink(missing_ok=True)
            os.close(descriptor)

    def begin(self, plan: Plan) -> None:
        """On disk, whole, before anything is written."""
        path = self.path(plan.store, plan.group)
        path.parent.mkdir(parents=True, exist_ok=True)
        changes = [[*change.where, change.before, change.after] for change in plan.changes]
        content = {
            "version": 1, "cluster": self._cluster, "store": plan.store, "group": plan.group, "began": time.time(),
            "changes": changes,
        }  # fmt: skip
        write_whole(path, json.dumps(content))

    def unfinished(self, store: str, group: str) -> Plan | None:
        """The plan that was cut short, if there is one."""
        path = self.path(store, group)
        try:
            content = json.loads(path.read_text(encoding="utf-8"))
            changes = tuple(
                Change(TopicAndPartition(t, p), before, after) for t, p, before, after in content["changes"]
            )
        except FileNotFoundError:
            return None
        except (ValueError, KeyError, TypeError) as error:
            raise IllegalArgumentException(f"{path} is no journal of ours: {error}; move it away") from None
        theirs = content.get("cluster", "")
        if theirs and self._cluster and theirs != self._cluster:
            raise IllegalArgumentException(
                f"{path} is of another cluster, {theirs}, and this one is {self._cluster}: settle it there, or give"
                " another --journal-dir"
            )
        return Plan(content["store"], content["group"], changes)

    def end(self, plan: Plan) -> None:
        """It is done, and was seen to be."""
        self.path(plan.store, plan.group).unlink(missing_ok=True)
        sync_directory(self._directory)


def carry_out(
    plan: Plan,
    store: Store,
    journal: Journal,
    *,
    batch: int = BATCH,
    on_step: OnStep = _nobody_told,
) -> None:
    """Do it. `on_step` is told of each step before it is taken."""
    on_step("journal")
    journal.begin(plan)
    _finish(plan, {change.where: change.after for change in plan.changes}, store, journal, batch, on_step)


def resume(
    plan: Plan,
    store: Store,
    journal: Journal,
    *,
    batch: int = BATCH,
    on_step: OnStep = _nobody_told,
) -> Outcome:
    """Write what was not yet written. A position somebody moved on meanwhile stays; the others are what was planned."""
    stored = store.read(plan.group)
    todo = {}
    for change in plan.changes:
        now = stored.get(change.where)
        # Still as it was before: ours to write, backwards too if that was planned. Else nobody's work is undone.
        if now == change.before or now is None or now < change.after:
            todo[change.where] = change.after
    _finish(plan, todo, store, journal, batch, on_step)
    return todo


def roll_back(
    plan: Plan,
    store: Store,
    journal: Journal,
    *,
    batch: int = BATCH,
    on_step: OnStep = _nobody_told,
) -> Outcome:
    """Undo what was written, where it still stands; what was not there is removed, and None in the answer."""
    stored = store.read(plan.group)
    ours = [change for change in plan.changes if stored.get(change.where) == change.after]
    todo = {change.where: change.before for change in ours}
    on_step("remove")
    store.remove(plan.group, [where for where, offset in todo.items() if offset is None])
    _finish(plan, todo, store, journal, batch, on_step)
    return todo


def _locked(path: Path) -> int | None:
    """None: it is not there any more."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(path.stat(), os.fstat(descriptor)):
            return descriptor
    except FileNotFoundError:
        pass
    except BlockingIOError:
        os.close(descriptor)
        raise IllegalArgumentException(f"another process is changing these offsets right now ({path})") from None
    os.close(descriptor)
    return None


def _finish(plan: Plan, offsets: Outcome, store: Store, journal: Journal, batch: int, on_step: OnStep) -> None:
    _write(plan, offsets, store, batch, on_step)
    _verify(plan, offsets, store, on_step)
    on_step("end")
    journal.end(plan)
    on_step("done")


def _write(plan: Plan, offsets: Outcome, store: Store, batch: int, on_step: OnStep) -> None:
    items = sorted((where, offset) for where, offset in offsets.items() if offset is not None)
    for start in range(0, len(items), batch):
        on_step(f"write {start}")
        store.write(plan.group, dict(items[start : start + batch]))


def _verify(plan: Plan, offsets: Outcome, store: Store, on_step: OnStep) -> None:
    on_step("verify")
    stored = store.read(plan.group)
    wrong = [where for where, offset in offsets.items() if stored.get(where) != offset]
    if wrong:
        where = wrong[0]
        raise OffsetsNotVerified(
            f"{len(wrong)} offsets of {plan.group} are not what was written, e.g. {where}:"
            f" {stored.get(where)} instead of {offsets[where]}; somebody else writes them. The journal is kept"
        )
