"""What a scenario did to a group, in words, and how long partitions were silent after each of it. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

Row = Mapping[str, Any]
AT_ONCE_MS = 500
"""Events of one kind so close together are one; and a pause that began so shortly before one may be its doing."""

_WORDS = {  # one, several
    "join": ("joins", "join"),
    "leave": ("leaves", "leave"),
    "kill": ("is killed", "are killed"),
    "pause": ("stands still", "stand still"),
    "expire session": ("loses its session", "lose their sessions"),
    "cut link": ("is cut off from ZooKeeper", "are cut off from ZooKeeper"),
}
_SERVERS = {
    "kill broker": "{} is killed",
    "start broker": "{} comes back",
    "restart zookeeper": "ZooKeeper is away {}",
    "add partitions": "{}",
    "add topic": "new topic {}",
}
_NAMED = 3


@dataclass(frozen=True, slots=True)
class Happening:
    """Something the scenario did, and what a group's readers felt until the next of it."""

    kind: str  # as in a scenario's `do`
    text: str
    at_s: float
    pauses: int  # partitions that changed their reader
    longest_pause_ms: int


def happenings(events: Sequence[Row], pauses: Sequence[Row]) -> list[Happening]:
    """Of one subject, in order. A pause belongs to the last event before it, or to one AT_ONCE_MS after its begin."""
    start = next((row["time_ms"] for row in events if row["event"] == "start"), 0)
    steps = _together([row for row in events if row["event"] in _WORDS or row["event"] in _SERVERS])
    longest: Counter[int] = Counter()
    number_of: Counter[int] = Counter()
    for pause in pauses:
        if pause["from_ms"] < start:
            continue
        before = [number for number, step in enumerate(steps) if step[0]["time_ms"] <= pause["from_ms"] + AT_ONCE_MS]
        if before:
            number_of[before[-1]] += 1
            longest[before[-1]] = max(longest[before[-1]], pause["pause_ms"])
    texts: Counter[str] = Counter()
    found = []
    for number, step in enumerate(steps):
        text = _text(step)
        texts[text] += 1
        if texts[text] > 1:
            text += f" ({texts[text]}.)"
        at_s = (step[0]["time_ms"] - start) / 1000
        found.append(Happening(step[0]["event"], text, at_s, number_of[number], longest[number]))
    return found


def _together(events: Sequence[Row]) -> list[list[Row]]:
    steps: list[list[Row]] = []
    for row in sorted(events, key=lambda row: row["time_ms"]):
        if steps and steps[-1][0]["event"] == row["event"] and row["time_ms"] - steps[-1][-1]["time_ms"] < AT_ONCE_MS:
            steps[-1].append(row)
        else:
            steps.append([row])
    return steps


def _text(step: Sequence[Row]) -> str:
    kind, members = step[0]["event"], [row["member"] for row in step]
    if kind in _SERVERS:
        return _SERVERS[kind].format(step[0]["detail"] or "")
    if len(members) > _NAMED:
        who = f"{len(members)} members"
    else:
        who = " and ".join(filter(None, (", ".join(members[:-1]), members[-1])))
    return " ".join(filter(None, (who, _WORDS[kind][len(members) > 1], step[0]["detail"])))
