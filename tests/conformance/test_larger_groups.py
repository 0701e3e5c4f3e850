"""Groups of three to six real members and ours, through everything that happens to groups."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

import pytest

from tests.conformance.walk import Kind, Owners, Subscribed, Walk, Walking, kind_of
from zkconsumer.testing.scala import ScalaVersion
from zkconsumer.testing.waiting import eventually
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

SHORT_SESSION_S = 6.0


@pytest.mark.conformance_full
@pytest.mark.parametrize("life", [pytest.param(life, id=name) for name, life in LIVES.items()])
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
        if life.strategy == "roundrobin":  # of which static members hear nothing, see below
            walk.add_partitions("b", 4)
        owners = walk.settle()
        walk.deliver()
        walk.tools_agree(owners)

        for ours in (True, False):
            _stand_still(walk, _one(walk, ours))

        walk.commit()
        kinds = {name: kind_of(walk.members[name]) for name in walk.members}
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
def test_a_topic_for_wildcards_alone_stops_round_robin_in_both_groups(
    walking: Walking, zookeeper_server: ZooKeeperServer
) -> None:
    """E1, O1: subscriptions differ, and only wildcards hear of a new topic. What it moves from members that hear
    nothing stays with them: the others are refused again and again. Real members alone are stuck alike."""
    with walking("1.1.1", "roundrobin", NEW) as real, walking("1.1.1", "roundrobin", NEW, beside=real) as mixed:
        real.create_topic("a", 7)
        real.create_topic("b", 3)
        names = NAMES[:4]
        both: tuple[Kind, ...] = (NEW, OURS, NEW, OURS)
        real.join(dict.fromkeys(names, NEW), MIXED_SUBSCRIPTIONS)
        mixed.join(dict(zip(names, both, strict=True)), MIXED_SUBSCRIPTIONS)
        before = _until_a_new_topic_moves_something(real, mixed)

        for walk in (real, mixed):
            consumer_ids = [member.consumer_id for member in walk.members.values()]
            refused = _refusals(walk, zookeeper_server)
            eventually(lambda: _refusals(walk, zookeeper_server) >= refused + 10, "refused claims", 60)  # noqa: B023

            assert _of_static_members(walk, walk.owners()) == before[walk]
            assert set(walk.group.members()) == set(consumer_ids)

        real.add_partitions("b", 4)  # which all hear of
        owners = [walk.settle() for walk in (real, mixed)]
        real.deliver()
        mixed.await_delivery()

        first, second = ({w: thread.partition("_")[2] for w, thread in found.items()} for found in owners)
        assert first == second


def _until_a_new_topic_moves_something(real: Walk, mixed: Walk) -> dict[Walk, Owners]:
    """From static members, who owned this; by the hash of its name a topic may come after all others. Names of other
    lengths come elsewhere."""
    for length in range(1, 9):
        before = {walk: _of_static_members(walk, walk.settle()) for walk in (real, mixed)}
        real.create_topic("n" * length, 2)
        wanted = real.wanted(member.consumer_id for member in real.members.values())
        if any(wanted[where] != thread for where, thread in before[real].items()):
            return before
    raise AssertionError("none of eight new topics moves anything: this shows nothing")


def _of_static_members(walk: Walk, owners: Owners) -> Owners:
    static = {walk.members[name].consumer_id for name in walk.members if not MIXED_SUBSCRIPTIONS[name].wildcard_streams}
    return {where: thread for where, thread in owners.items() if thread.rpartition("-")[0] in static}


def _refusals(walk: Walk, zookeeper: ZooKeeperServer) -> int:
    """So far, of all members of the group."""
    sessions = {member.session()[0] for member in walk.members.values()}
    return sum(one.session in sessions and one.error_name == "NodeExists" for one in zookeeper.transactions())


@pytest.mark.conformance_full
@pytest.mark.timeout(900)
@pytest.mark.parametrize(("broker", "real"), [("0.8.2.2", OLD), ("1.1.1", NEW)], ids=str)
def test_members_that_stand_still_past_their_session(walking: Walking, broker: str, real: ScalaVersion) -> None:
    """L3, O1, O4: SIGSTOP, and the server ends the session by itself; first one of ours, then a real one."""
    with walking(broker, "range", real, session_s=SHORT_SESSION_S) as walk:
        walk.create_topic("a", 7)
        walk.join(dict(zip(NAMES[:4], (real, OURS, real, OURS), strict=True)), Subscribed({"a": 1}))
        walk.settle()
        walk.deliver()
        for ours in (True, False):
            _stand_still(walk, _one(walk, ours))
        walk.commit()
        walk.tools_agree(walk.settle())
        walk.leave(*walk.members)


def _stand_still(walk: Walk, name: str) -> None:
    """Past the end of its session; then it comes back."""
    again = walk.pause_past_session(name)
    walk.resume(name)
    walk.settle()
    walk.await_again(again)
    walk.deliver()


def _one(walk: Walk, ours: bool) -> str:
    return next(name for name in walk.members if (kind_of(walk.members[name]) == "ours") is ours)


def _has_wildcards(life: Life) -> bool:
    return life.subscribed is MIXED_SUBSCRIPTIONS
