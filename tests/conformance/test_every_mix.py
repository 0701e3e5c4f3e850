"""Every mix of real members and ours, in groups of three to six."""

from __future__ import annotations

import pytest

from tests.conformance.test_larger_groups import EQUAL, NAMES, NEW, OLD, kind_of
from tests.conformance.walk import Kind, Walk, Walking
from zkconsumer.testing.scala import ScalaVersion


@pytest.mark.conformance_full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("broker", "strategy", "real", "size", "profile"),
    [
        ("0.8.2.2", "range", OLD, 3, None),
        ("0.8.2.2", "range", OLD, 3, "fixed"),
        ("0.8.2.2", "roundrobin", OLD, 3, None),
        ("1.1.1", "range", NEW, 4, None),
        ("1.1.1", "roundrobin", NEW, 4, None),
        ("0.8.2.2", "roundrobin", OLD, 5, None),
        ("1.1.1", "range", NEW, 5, None),
        ("3.9.1", "range", OLD, 6, None),
    ],
    ids=str,
)
def test_members_are_exchanged_one_by_one_for_the_other_kind(
    walking: Walking, broker: str, strategy: str, real: ScalaVersion, size: int, profile: str | None
) -> None:
    """O1, O2, J18, F8: every mix of so many, on the way of a Gray code; settled as the real assignor says each time,
    with records and the real tool's verdict in between."""
    with walking(broker, strategy, real, profile=profile) as walk:
        walk.create_topic("a", 7)
        walk.create_topic("b", 3)
        names = NAMES[:size]
        walk.join(dict.fromkeys(names, real), EQUAL)
        walk.settle()
        seen = {_mix(walk, names)}
        for number, position in enumerate(_exchanges(size)):
            if number % 4 == 0:
                walk.deliver()
                walk.commit()
            name = names[position]
            kind: Kind = real if kind_of(walk, name) == "ours" else "ours"
            walk.leave(name)
            walk.join({name: kind}, EQUAL)
            walk.settle(verified=number % 4 == 0)
            seen.add(_mix(walk, names))
        walk.deliver()
        walk.tools_agree(walk.settle())

        assert walk.unexpected_duplicates() == {}
        assert len(seen) == 2**size
        walk.leave(*walk.members)


def _exchanges(size: int) -> list[int]:
    """Positions to change: of a Gray code, so that every mix is met once."""
    return [(number & -number).bit_length() - 1 for number in range(1, 2**size)]


def _mix(walk: Walk, names: tuple[str, ...]) -> str:
    return " ".join(kind_of(walk, name) for name in names)
