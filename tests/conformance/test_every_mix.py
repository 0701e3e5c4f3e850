"""Every mix of real members and ours, in groups of two to six."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conformance.test_larger_groups import EQUAL, NAMES, NEW, OLD
from tests.conformance.walk import Kind, Walk, Walking, kind_of
from zkconsumer.testing.scala import ScalaVersion

VERIFIED_EACH = 16  # so many mixes: records are produced, delivered and committed, and the real tool is asked


@pytest.mark.conformance_full
@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("broker", "strategy", "real", "size", "profile"),
    [
        ("0.8.2.2", "range", OLD, 6, None),
        ("0.8.2.2", "roundrobin", OLD, 6, None),
        ("1.1.1", "range", NEW, 6, None),
        ("1.1.1", "roundrobin", NEW, 6, None),
        ("3.9.1", "range", OLD, 6, None),
        ("3.9.1", "roundrobin", NEW, 6, None),
        ("0.8.2.2", "range", OLD, 3, "fixed"),
    ],
    ids=str,
)
def test_every_mix_of_two_to_so_many(
    walking: Walking, broker: str, strategy: str, real: ScalaVersion, size: int, profile: str | None
) -> None:
    """O1, O2, J18, F8: settled as the real assignor says each time, with records and the real tool's verdict now and
    then. Members are exchanged for the other kind on the way of a Gray code; those before one that is exchanged leave
    too, so that smaller groups are met in every mix as well."""
    with walking(broker, strategy, real, profile=profile) as walk:
        walk.create_topic("a", 7)
        walk.create_topic("b", 3)
        kinds: dict[str, Kind] = dict.fromkeys(NAMES[:size], real)
        walk.join(kinds, EQUAL)
        walk.settle()
        met = {_mix(walk)}
        for number, position in enumerate(_exchanges(size)):
            leaving, changed = NAMES[: position + 1], NAMES[position]
            kinds[changed] = real if kinds[changed] == "ours" else "ours"
            for name in leaving:
                walk.leave(name, idle=True)
                if walk.members:
                    walk.settle(verified=False)
                    met.add(_mix(walk))
            walk.join({name: kinds[name] for name in leaving}, EQUAL)
            walk.settle(verified=number % VERIFIED_EACH == 0)
            met.add(_mix(walk))
            if number % VERIFIED_EACH == 0:
                walk.deliver()
                walk.commit()
        walk.deliver()
        walk.tools_agree(walk.settle())

        assert walk.unexpected_duplicates() == {}
        assert all(sum(len(mix) == few for mix in met) == 2**few for few in range(2, size + 1))
        walk.leave(*walk.members)


def _exchanges(size: int) -> Iterator[int]:
    """Positions to change: of a Gray code, so that every mix is met once. Whenever one changes, those behind it are in
    a mix in which they have not been at a change of it."""
    return ((number & -number).bit_length() - 1 for number in range(1, 2**size))


def _mix(walk: Walk) -> tuple[Kind, ...]:
    return tuple(kind_of(walk.members[name]) for name in NAMES if name in walk.members)
