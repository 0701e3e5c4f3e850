"""Groups of three to six real members and ours, through everything that happens to groups."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple

import pytest
from kazoo.client import KazooClient

from tests.conformance.walk import Kind, Subscribed, Walk
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaVersion
from zkconsumer.testing.zookeeper import ZooKeeperServer

BOTH_STATIC = Subscribed({"a": 2, "b": 1})
EQUAL = Subscribed({"a": 2, "b": 2})
TEN_AND_MORE = Subscribed({"a": 11, "b": 1})
WILDCARD = Subscribed({}, wildcard_streams=2)
NAMES = ("c-1", "c-10", "c-2", "c-20", "c-3", "c-9")  # as text; c-2 is the third
OURS: Final = "ours"
OLD: Final = "0.8.2.2"
NEW: Final = "1.1.1"


class Life(NamedTuple):
    """Who is there at first, by position in NAMES, and who joins then."""

    broker: str
    strategy: str
    like: ScalaVersion
    kinds: tuple[Kind, ...]
    joins: Kind
    subscribed: Subscribed | Mapping[str, Subscribed]
    partitions: int = 7


MIXED_SUBSCRIPTIONS = dict(
    zip(NAMES, (BOTH_STATIC, WILDCARD, WILDCARD, BOTH_STATIC, BOTH_STATIC, WILDCARD), strict=True)
)

LIVES = {
    "0.8.2.2-range": Life("0.8.2.2", "range", OLD, (OURS, OLD), OURS, BOTH_STATIC),
    "0.8.2.2-range-with-wildcards": Life("0.8.2.2", "range", OLD, (OLD, OURS, OLD, OURS), OURS, MIXED_SUBSCRIPTIONS),
    "0.8.2.2-roundrobin": Life("0.8.2.2", "roundrobin", OLD, (OLD, OURS, OURS), OLD, EQUAL),
    "1.1.1-range-both-releases": Life("1.1.1", "range", NEW, (OURS, OLD, NEW, OURS, NEW), OURS, MIXED_SUBSCRIPTIONS),
    "1.1.1-roundrobin-unequal": Life("1.1.1", "roundrobin", NEW, (NEW, OURS, NEW), OURS, MIXED_SUBSCRIPTIONS),
    "3.9.1-range-ten-and-more-threads": Life("3.9.1", "range", OLD, (OURS, OLD, OURS, NEW), OURS, TEN_AND_MORE, 40),
    "3.9.1-roundrobin": Life("3.9.1", "roundrobin", OLD, (OURS, OLD), OURS, EQUAL),
}  # fmt: skip

# Seen once, the cause not yet. It may be the real consumer's own: static members do not watch for new topics, but where
# subscriptions differ a new one changes what round robin gives them. A group of real members alone has to show it.
UNSETTLED = pytest.mark.xfail(reason="open: does not settle after a topic was added for its wildcards", strict=False)

Walking = Callable[[str, str, ScalaVersion], Walk]


@pytest.fixture
def walking(
    zookeeper_server: ZooKeeperServer,
    _kafka_clusters: Callable[[str, int], KafkaCluster],
    request: pytest.FixtureRequest,
) -> Walking:
    """`walking(broker, strategy, like)`: a walk in a cluster of the run."""

    def start(broker: str, strategy: str, like: ScalaVersion) -> Walk:
        kafka = _kafka_clusters(broker, 1)
        client = KazooClient(kafka.zookeeper_connect)
        request.addfinalizer(client.close)
        request.addfinalizer(client.stop)
        client.start(60)
        return Walk(kafka, client, strategy=strategy, like=like)

    return start


@pytest.mark.conformance_full
@pytest.mark.parametrize(
    "life",
    [pytest.param(life, id=name, marks=UNSETTLED if "unequal" in name else []) for name, life in LIVES.items()],
)
@pytest.mark.timeout(900)
def test_a_group_of_both_lives_as_one_of_real_members(walking: Walking, life: Life) -> None:
    """O1, O2, O4, O7, F8, G1, G2, G7, D1, D2, D3, D5, D7, J18, L3: after each change the real assignor's owners,
    found balanced by the real tool; offsets go on on the other side; what comes twice was lost uncommitted."""
    with walking(life.broker, life.strategy, life.like) as walk:
        walk.create_topic("a", life.partitions)
        walk.create_topic("b", 3)
        names = NAMES[: len(life.kinds)]
        walk.join(dict(zip(names, life.kinds, strict=True)), life.subscribed)
        walk.settle()
        walk.deliver()
        walk.commit()

        walk.join({NAMES[len(names)]: life.joins}, life.subscribed)
        walk.settle()
        walk.deliver()
        walk.commit()

        walk.add_partitions("a", life.partitions + 3)
        if _has_wildcards(life):
            walk.create_topic("later", 2)
        owners = walk.settle()
        walk.deliver()
        walk.tools_agree(owners)

        for ours in (True, False):
            name = _one(walk, ours)
            again = walk.pause_past_session(name)
            walk.resume(name)
            walk.settle()
            walk.await_again(again)
            walk.deliver()

        walk.commit()
        kinds = {name: _kind(walk, name) for name in walk.members}
        for ours in (True, False):
            name = _one(walk, ours)
            again = walk.kill(name)
            walk.settle()
            walk.await_again(again)
            if ours:  # under the same name, as after a crash
                walk.join({name: kinds[name]}, life.subscribed)
                walk.settle()
                walk.deliver()

        walk.commit()
        walk.tools_agree(walk.settle())
        walk.leave(_one(walk, ours=True))
        walk.settle()
        walk.deliver()
        walk.commit()
        walk.leave(*walk.members)

        assert walk.unexpected_duplicates() == {}
        assert walk.changed_sides() == {(True, False), (False, True)}
        assert (walk.group.members(), walk.owners()) == ({}, {})


@pytest.mark.conformance_full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("broker", "real", "size"),
    [("0.8.2.2", OLD, 3), ("1.1.1", NEW, 4), ("3.9.1", OLD, 6)],
    ids=str,
)
def test_members_are_exchanged_one_by_one_for_the_other_kind(
    walking: Walking, broker: str, real: ScalaVersion, size: int
) -> None:
    """O1, O2, J18, F8: each mix on a Gray code's way (three and four members), or all real to all ours (six)."""
    with walking(broker, "range", real) as walk:
        walk.create_topic("a", 7)
        walk.create_topic("b", 3)
        names = NAMES[:size]
        walk.join(dict.fromkeys(names, real), BOTH_STATIC)
        walk.settle()
        seen = {_mix(walk, names)}
        for position in _exchanges(size):
            walk.deliver()
            walk.commit()
            name = names[position]
            kind: Kind = real if _kind(walk, name) == "ours" else "ours"
            walk.leave(name)
            walk.join({name: kind}, BOTH_STATIC)
            walk.settle()
            seen.add(_mix(walk, names))
        walk.deliver()
        walk.tools_agree(walk.settle())

        assert walk.unexpected_duplicates() == {}
        assert len(seen) == (2**size if size < 6 else size + 1)
        walk.leave(*walk.members)


def _exchanges(size: int) -> list[int]:
    """Positions to change: of a Gray code, so that every mix is met once; of six each once, out of order."""
    if size == 6:
        return [3, 0, 5, 1, 4, 2]
    return [(number & -number).bit_length() - 1 for number in range(1, 2**size)]


def _mix(walk: Walk, names: tuple[str, ...]) -> str:
    return " ".join(_kind(walk, name) for name in names)


def _kind(walk: Walk, name: str) -> Kind:
    member = walk.members[name]
    return "ours" if member.name.startswith("our-") else member.version


def _one(walk: Walk, ours: bool) -> str:
    return next(name for name in walk.members if (_kind(walk, name) == "ours") is ours)


def _has_wildcards(life: Life) -> bool:
    return life.subscribed is MIXED_SUBSCRIPTIONS
