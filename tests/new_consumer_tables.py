"""Tables of the new consumer's assignors, as the spec writes them, for the pure ones and the real classes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from study.assignors import (
    Assignment,
    Assignor,
    Member,
    assign_cooperative_sticky,
    assign_range,
    assign_round_robin,
    assign_sticky_1_1,
    assign_sticky_3_9,
)

ASSIGNORS: Mapping[tuple[str, str], Assignor] = {
    ("1.1.1", "range"): assign_range,
    ("3.9.1", "range"): assign_range,
    ("1.1.1", "roundrobin"): assign_round_robin,
    ("3.9.1", "roundrobin"): assign_round_robin,
    ("1.1.1", "sticky"): assign_sticky_1_1,
    ("3.9.1", "sticky"): assign_sticky_3_9,
    ("3.9.1", "cooperative-sticky"): assign_cooperative_sticky,
}


class Row(NamedTuple):
    """A group, and who gets what in it."""

    partitions: Mapping[str, int]
    members: Mapping[str, Member]
    expected: str


def table(text: str) -> dict[str, list[str]]:
    """`c0: t1p0 t1p1 · c1: …` as the spec writes it."""
    rows = (row.partition(":") for row in text.split("·"))
    return {name.strip(): sorted(cells.split()) for name, _, cells in rows}


def shown(assignment: Assignment) -> dict[str, list[str]]:
    return {name: sorted(f"{topic}p{number}" for topic, number in mine) for name, mine in assignment.items()}


def ordered(assignment: Assignment) -> Assignment:
    return {name: sorted(mine) for name, mine in assignment.items()}


def alike(names: str, *topics: str) -> dict[str, Member]:
    return {name: Member(frozenset(topics)) for name in names.split()}


SEEDS_UNEVEN = {
    name: Member(frozenset(["t1", "t2"] if name in "c0 c1 c2" else ["t2"])) for name in ["c0", "c1", "c2", "c3", "c4"]
}
STAIRS = {
    "C0": Member(frozenset(["t0"])),
    "C1": Member(frozenset(["t0", "t1"])),
    "C2": Member(frozenset(["t0", "t1", "t2"])),
}
WITHOUT_C0 = {name: STAIRS[name] for name in ("C1", "C2")}
TWOS = {"t0": 2, "t1": 2, "t2": 2, "t3": 2}
THREES = {"t0": 3, "t1": 3}

RANGE = [
    Row({"t": 7}, alike("c0 c1 c2 c3 c4", "t"), "c0: tp0 tp1 · c1: tp2 tp3 · c2: tp4 · c3: tp5 · c4: tp6"),
    Row({"t": 7}, alike("c0 c1 c2", "t"), "c0: tp0 tp1 tp2 · c1: tp3 tp4 · c2: tp5 tp6"),
    Row({"t": 2}, alike("C0 C1 C2", "t"), "C0: tp0 · C1: tp1 · C2:"),
    Row({"t": 3}, alike("C10 C2 C1", "t"), "C1: tp0 · C10: tp1 · C2: tp2"),
    Row(THREES, alike("C0 C1", "t0", "t1"), "C0: t0p0 t0p1 t1p0 t1p1 · C1: t0p2 t1p2"),
    Row(
        {"t1": 5, "t2": 7},
        SEEDS_UNEVEN,
        "c0: t1p0 t1p1 t2p0 t2p1 · c1: t1p2 t1p3 t2p2 t2p3 · c2: t1p4 t2p4 · c3: t2p5 · c4: t2p6",
    ),
]
ROUND_ROBIN = [
    Row({"t": 7}, alike("c0 c1 c2", "t"), "c0: tp0 tp3 tp6 · c1: tp1 tp4 · c2: tp2 tp5"),
    Row({"t": 2}, alike("C0 C1 C2", "t"), "C0: tp0 · C1: tp1 · C2:"),
    Row(THREES, alike("C0 C1", "t0", "t1"), "C0: t0p0 t0p2 t1p1 · C1: t0p1 t1p0 t1p2"),
    Row({"t0": 1, "t1": 2, "t2": 3}, STAIRS, "C0: t0p0 · C1: t1p0 · C2: t1p1 t2p0 t2p1 t2p2"),
    Row({"t0": 1, "t1": 2, "t2": 3}, WITHOUT_C0, "C1: t0p0 t1p1 · C2: t1p0 t2p0 t2p1 t2p2"),
    Row(TWOS, alike("C0 C1 C2", *TWOS), "C0: t0p0 t1p1 t3p0 · C1: t0p1 t2p0 t3p1 · C2: t1p0 t2p1"),
    Row(TWOS, alike("C0 C2", *TWOS), "C0: t0p0 t1p0 t2p0 t3p0 · C2: t0p1 t1p1 t2p1 t3p1"),
    # The seeds say that t2 begins again at c0. It does not.
    Row(
        {"t1": 5, "t2": 7},
        SEEDS_UNEVEN,
        "c0: t1p0 t1p3 t2p3 · c1: t1p1 t1p4 t2p4 · c2: t1p2 t2p0 t2p5 · c3: t2p1 t2p6 · c4: t2p2",
    ),
]
STICKY = [
    Row(THREES, alike("C0 C1", "t0", "t1"), "C0: t0p0 t0p2 t1p1 · C1: t0p1 t1p0 t1p2"),
    Row(
        {"t1": 5, "t2": 7},
        SEEDS_UNEVEN,
        "c0: t1p0 t1p3 t2p5 · c1: t1p1 t1p4 t2p6 · c2: t1p2 t2p2 · c3: t2p0 t2p3 · c4: t2p1 t2p4",
    ),
    Row({"t0": 1, "t1": 2, "t2": 3}, STAIRS, "C0: t0p0 · C1: t1p0 t1p1 · C2: t2p0 t2p1 t2p2"),
    Row(TWOS, alike("C0 C1 C2", *TWOS), "C0: t0p0 t1p1 t3p0 · C1: t0p1 t2p0 t3p1 · C2: t1p0 t2p1"),
]
STICKY_WITHOUT_C1 = {  # after the last row of STICKY, by release
    "1.1.1": "C0: t0p0 t1p1 t3p0 t2p0 · C2: t1p0 t2p1 t0p1 t3p1",
    "3.9.1": "C0: t0p0 t3p0 t1p1 t0p1 · C2: t1p0 t2p1 t2p0 t3p1",
}
