"""What real coordinators of 1.1.1 and 3.9.1 answer, request by request, against the tables of the spec."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from fetcher.structs import TopicAndPartition
from study.coordination import chosen_strategy, coordinator_partition
from study.ownership import commit_from_record
from tests.study.new_consumer.conftest import NewConsumers
from tests.study.new_consumer.raw_members import STRANGER, RawMember
from tests.unit.test_coordination import ROWS
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually

STATES = ["unknown", "Empty", "PreparingRebalance", "CompletingRebalance", "Stable"]
"""Dead cannot be held: a group that is dead is forgotten at once, see test_a_deleted_group_is_unknown."""

REQUESTS = {
    # of a member with the right generation, in 1.1.1 and in 3.9.1
    "PreparingRebalance": {"heartbeat": (27, 27), "sync": (27, 27)},
    # Since 2.x a member may send heartbeats before its sync is answered; 1.1.1 tells it to join again.
    "CompletingRebalance": {"heartbeat": (27, 0)},
    "Stable": {"heartbeat": (0, 0), "sync": (0, 0)},
}

Arrange = Callable[[str], tuple[RawMember, RawMember]]
"""A member of a new group in this state (none in the first two), and a connection of somebody else."""


@pytest.fixture
def arrange(cluster: KafkaCluster, topic: str) -> Iterator[Arrange]:
    cluster.create_topic(topic, partitions=2)
    address = cluster.brokers[0].address
    with ExitStack() as closing:

        def connect(group: str) -> RawMember:
            return closing.enter_context(RawMember(address, group))

        probe = connect(f"{topic}-probe")
        eventually(lambda: probe.ask("FindCoordinator", key=probe.group).error_code == 0, timeout_s=90)
        eventually(lambda: probe.commit(topic, generation=-1, member_id="") == [0], "it has loaded", timeout_s=90)

        def make(state: str) -> tuple[RawMember, RawMember]:
            group = f"{topic}-{state}-{len(made)}"
            made.append(group)
            member, other = connect(group), connect(group)
            if state == "Empty":
                assert other.commit(topic, generation=-1, member_id="") == [0]
            elif state != "unknown":
                assert member.join() == 0
            if state in ("PreparingRebalance", "Stable"):
                assert member.sync() == 0
            if state == "PreparingRebalance":
                connect(group).join_in_the_background()
            described = "Dead" if state == "unknown" else state
            eventually(lambda: other.state() == described, lambda: f"{state}: {other.state()}", timeout_s=60)
            return member, other

        made: list[str] = []
        yield make


@pytest.fixture
def column(cluster: KafkaCluster) -> int:
    """Of the tables, that of this release."""
    return ["1.1.1", "3.9.1"].index(cluster.version)


@pytest.mark.parametrize("state", STATES)
def test_commits_are_stored_or_refused_as_the_spec_says(arrange: Arrange, column: int, topic: str, state: str) -> None:
    """P5: every row of its table but those of Dead, provoked; what is stored comes last."""
    member, other = arrange(state)
    generations = {5: member.generation, 4: member.generation - 1} if member.id else {}
    who = {"m": member.id, "stranger": STRANGER, "": ""}
    rows = [row for row in ROWS if row[0] == state]
    assert rows

    for _, generation, name, *codes in sorted(rows, key=lambda row: row[3 + column] == 0):
        [code] = other.commit(topic, generation=generations.get(generation, generation), member_id=who[name])
        assert code == codes[column], f"{state}, generation {generation}, member {name!r}"


def test_a_deleted_group_is_unknown(arrange: Arrange, topic: str) -> None:
    """P5: the rows of Dead are seen by nobody outside: as soon as a group is dead, it is a group never heard of."""
    _, other = arrange("Empty")
    [deleted] = other.ask("DeleteGroups", groups_names=[other.group]).results
    assert deleted.error_code == 0

    assert other.state() == "Dead"
    assert other.commit(topic, generation=0, member_id="") == [22]
    assert other.commit(topic, generation=-1, member_id="") == [0]
    assert other.state() == "Empty"


@pytest.mark.parametrize("state", STATES)
def test_heartbeats_syncs_and_leaves_are_answered_as_the_spec_says(arrange: Arrange, column: int, state: str) -> None:
    """§5.2: a stranger, a wrong generation, the right one."""
    member, other = arrange(state)

    assert other.heartbeat(member_id=STRANGER, generation=max(member.generation, 0)) == 25
    assert other.sync(member_id=STRANGER, generation=max(member.generation, 0)) == 25
    assert other.leave(member_id=STRANGER) == 25
    assert other.join(member_id=STRANGER) == 25
    if member.id:
        # Unlike the spec: 1.1.1 looks at the state first, so that a member gets 27 there whatever its generation.
        too_early = state == "CompletingRebalance" and column == 0
        assert other.heartbeat(member_id=member.id, generation=member.generation + 1) == (27 if too_early else 22)
        assert other.sync(member_id=member.id, generation=member.generation + 1) == 22
        for request, codes in REQUESTS[state].items():
            assert getattr(member, request)() == codes[column], f"{request} in {state}"
        assert member.leave() == 0
        assert member.heartbeat() == 25, "it was removed"


def test_joins_are_answered_as_the_spec_says(arrange: Arrange, column: int) -> None:
    """§5.2: without an id, with one, as the leader, with other metadata; and what nobody may ask for."""
    member, other = arrange("Empty")
    assert member.join() == 0 and member.generation == 1 and member.leader == member.id

    assert member.join() == 0 and member.generation == 1, "completing, the same metadata: the same answer again"
    assert member.join(metadata=b"\0\0\0\0\0\1\0\1t\0\0\0\0") == 0 and member.generation == 2, "other metadata"
    assert member.sync() == 0 and member.state() == "Stable"
    assert member.join() == 0 and member.generation == 3, "stable: a leader that joins again wants a rebalance"
    assert member.sync() == 0

    assert other.join(protocols=("sticky",)) == 23, "no strategy in common"
    assert other.join(protocol_type="connect") == 23
    assert other.join(session_ms=5_999) == 26
    assert other.join(session_ms=1_800_001) == 26
    too_long_in_1_1 = arrange("unknown")[0]
    assert too_long_in_1_1.join(session_ms=300_001) == [26, 0][column]
    nameless = arrange("unknown")[0]
    nameless.group = ""
    assert nameless.join() == 24
    assert other.state() == "Stable", "none of them has disturbed the group"


def test_a_follower_that_joins_again_disturbs_nobody(arrange: Arrange) -> None:
    leader, follower = arrange("Stable")
    follower.join_in_the_background()
    eventually(lambda: leader.state() == "PreparingRebalance", timeout_s=60)
    assert leader.join() == 0
    follower.settled()
    assert leader.generation == follower.generation == 2 and leader.leader == follower.leader == leader.id
    assert leader.sync() == follower.sync() == 0

    assert follower.join() == 0

    assert follower.generation == 2 and follower.state() == "Stable"


def test_a_note_that_is_too_long_harms_its_partition_only(arrange: Arrange, topic: str) -> None:
    _, other = arrange("Empty")

    assert other.commit(topic, generation=-1, member_id="", metadata=("x" * 4097, "x" * 4096)) == [12, 0]


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        ([("range", "roundrobin"), ("roundrobin", "range"), ("roundrobin", "range")], "roundrobin"),
        ([("sticky", "range"), ("sticky", "range"), ("range",)], "range"),
    ],
    ids=["most votes", "only what all have"],
)
def test_a_real_vote_is_decided_as_the_spec_says(
    arrange: Arrange, cluster: KafkaCluster, preferences: list[tuple[str, ...]], chosen: str
) -> None:
    """P7: and coordination.chosen_strategy says the same."""
    leader, second = arrange("unknown")
    with RawMember(cluster.brokers[0].address, leader.group) as third:
        assert leader.join(protocols=preferences[0]) == 0
        assert leader.sync() == 0
        second.join_in_the_background(protocols=preferences[1])
        third.join_in_the_background(protocols=preferences[2])
        eventually(lambda: leader.members() == 3, lambda: f"{leader.members()} members", timeout_s=60)
        assert leader.join(protocols=preferences[0]) == 0
        second.settled()
        third.settled()

        assert leader.strategy == second.strategy == third.strategy == chosen == chosen_strategy(preferences)


def test_a_group_really_lives_in_the_partition_of_its_hash(
    cluster: KafkaCluster, arrange: Arrange, topic: str, new_consumer: NewConsumers
) -> None:
    """P6: found by reading what the broker wrote; one name's hash is -2^31."""
    arrange("unknown")  # the coordinator is up
    names = ["polygenelubricants", *(f"{topic}-{number}" for number in range(8))]
    for name in names:
        with RawMember(cluster.brokers[0].address, name) as anybody:
            assert anybody.commit(topic, generation=-1, member_id="") == [0]

    partitions = len(cluster.end_offsets("__consumer_offsets"))
    reader = new_consumer(key_deserializer=bytes, value_deserializer=bytes)
    reader.assign([TopicAndPartition("__consumer_offsets", number) for number in range(partitions)])
    found: dict[str, int] = {}

    def all_found() -> bool:
        for record in reader.poll(0.2):
            for name in names:
                if commit_from_record(record.key, record.value, 0, name) is not None:
                    found[name] = record.partition
        return len(found) == len(names)

    eventually(all_found, lambda: f"all commits: {found}", timeout_s=60)
    assert partitions > 1
    assert found == {name: coordinator_partition(name, partitions) for name in names}
