"""Both sides of the switches that change what a group sees, on brokers that create topics when asked for them.

docs/compatibility.md names these tests; the numbers Q… are those of its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import pytest
from kazoo.exceptions import NoNodeError

from tests.broker.members import Member, NewMember
from tests.conformance.group import Group
from tests.zookeeper.sessions import Background
from zkconsumer.cluster_view import ClusterView
from zkconsumer.emulation import Emulation, emulation
from zkconsumer.errors import ConsumerRebalanceFailedException
from zkconsumer.events import RebalanceAttemptFailed, RebalanceGaveUp, RebalanceRequested, WatchFired
from zkconsumer.testing.errors import JarError, JavaNotFound
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

# The names whose hashes were seen in the order that real consumers of 0.8.2.2 and 1.1.1 use.
RECORDED_TOPICS = ("a", "bb", "zeta")
PARTITIONS_OF_A_TOPIC_MADE_BY_ASKING = 1


@pytest.fixture(scope="module")
def auto_creating(request: pytest.FixtureRequest, zookeeper_server: ZooKeeperServer) -> Iterator[KafkaCluster]:
    cluster = KafkaCluster(
        version="0.8.2.2",
        zookeeper=zookeeper_server,
        settings={
            "auto.create.topics.enable": "true",
            "num.partitions": str(PARTITIONS_OF_A_TOPIC_MADE_BY_ASKING),
        },
    )
    try:
        cluster.start()
    except (JavaNotFound, JarError) as error:
        if request.config.getoption("--strict-servers"):
            raise
        pytest.skip(str(error))
    try:
        for name in RECORDED_TOPICS:
            cluster.create_topic(name, partitions=2)
        yield cluster
    finally:
        cluster.close()


@pytest.fixture
def kafka(auto_creating: KafkaCluster) -> KafkaCluster:
    """`group` and `new_member` work on this one too."""
    return auto_creating


@pytest.fixture
def topic(kafka: KafkaCluster, topic: str) -> str:
    """With three partitions, one record in each."""
    kafka.create_topic(topic, partitions=3)
    for partition in range(3):
        kafka.produce(topic, [b"record"], partition=partition)
    return topic


def owned(group: Group) -> dict[str, str]:
    """`topic` and partition number -> the owner without the group's name."""
    return {
        f"{name}{partition}": owner.removeprefix(f"{group.name}_")
        for name in RECORDED_TOPICS
        for partition, owner in group.owners(name).items()
    }


def reasons(member: Member) -> list[str]:
    return [event.reason for event in member.told(RebalanceRequested)]


# --- Q2, Q3: round robin ---

EQUAL = {"c1": {"a": 2, "bb": 2, "zeta": 2}, "c2": {"a": 1, "bb": 1, "zeta": 1}}
UNEQUAL = {"c1": {"a": 1, "bb": 1, "zeta": 1}, "c2": {"bb": 1, "zeta": 1}}


@pytest.mark.parametrize(
    ("emulate", "subscriptions", "expected"),
    [
        pytest.param(
            emulation("0.8.2"),
            EQUAL,
            {"bb0": "c1-0", "bb1": "c1-1", "zeta0": "c2-0", "zeta1": "c1-0", "a0": "c1-1", "a1": "c2-0"},
            id="0.8.2: in the order of [topic,partition], if all subscribe to the same",
        ),
        pytest.param(
            emulation("1.1").with_switches(round_robin="0.10.2"),
            UNEQUAL,
            {"bb0": "c1-0", "bb1": "c2-0", "zeta0": "c1-0", "zeta1": "c2-0", "a0": "c1-0", "a1": "c1-0"},
            id="0.10.2: the same order, passing over those who do not subscribe",
        ),
        pytest.param(
            emulation("1.1"),
            UNEQUAL,
            {"zeta0": "c1-0", "zeta1": "c2-0", "a0": "c1-0", "a1": "c1-0", "bb0": "c2-0", "bb1": "c1-0"},
            id="1.1: in the order of topic-partition",
        ),
    ],
)
def test_round_robin_is_that_of_the_release(
    group: Group,
    new_member: NewMember,
    emulate: Emulation,
    subscriptions: Mapping[str, Mapping[str, int]],
    expected: Mapping[str, str],
) -> None:
    """G7, G8, G10: Q2, Q3; the first and the last as seen with real consumers of 0.8.2.2 and 1.1.1."""
    for name, subscription in subscriptions.items():
        new_member(name, subscription, partition_assignment_strategy="roundrobin", emulate=emulate).join()

    eventually(lambda: owned(group) == expected, lambda: f"{expected}, not {owned(group)}")


def test_unequal_subscriptions_stop_a_round_robin_group_of_0_8_2(group: Group, new_member: NewMember) -> None:
    """G9: Q2; every member fails, and stays without partitions until the odd one leaves."""
    settings = {"partition_assignment_strategy": "roundrobin", "rebalance_max_retries": 2, "rebalance_backoff_ms": 10}
    first = new_member("c1", UNEQUAL["c1"], **settings).join()
    odd = new_member("c2", UNEQUAL["c2"], **settings)

    with pytest.raises(ConsumerRebalanceFailedException):
        odd.join()

    eventually(lambda: first.told(RebalanceGaveUp))
    assert owned(group) == {}
    for member in (first, odd):
        complaint = member.told(RebalanceAttemptFailed)[-1].error
        assert "requirement failed: Round-robin assignment is allowed only if all consumers" in complaint

    odd.shutdown()

    everything = [f"{name}{partition}" for name in RECORDED_TOPICS for partition in range(2)]
    eventually(lambda: owned(group) == dict.fromkeys(everything, "c1-0"))


# --- Q6: after the last attempt ---


def test_after_its_last_attempt_a_consumer_of_0_8_2_waits_for_a_change(
    group: Group, topic: str, new_member: NewMember
) -> None:
    """E4, E5: Q6, KAFKA-4228; what was in its way is gone, and nobody takes the partitions."""
    group.put(f"owners/{topic}/1", "somebody-0")
    member = new_member("c1", {topic: 1}, rebalance_max_retries=2, rebalance_backoff_ms=10)
    with pytest.raises(ConsumerRebalanceFailedException):
        member.join()

    group.remove(f"owners/{topic}/1")

    assert group.owners(topic) == {}
    assert member.triggers_until_now(group, topic) == []  # this touches the topic, which is a change at last
    eventually(lambda: group.owners(topic) == dict.fromkeys(range(3), f"{member.id}-0"))
    assert member.rebalances() == ["streams created", "topic changed"]


def test_a_fixed_consumer_goes_on_after_its_last_attempt(group: Group, topic: str, new_member: NewMember) -> None:
    """E4: Q6; creating streams fails as before, but the partitions are taken as soon as they are free."""
    group.put(f"owners/{topic}/1", "somebody-0")
    member = new_member("c1", {topic: 1}, rebalance_max_retries=2, rebalance_backoff_ms=10, emulate="fixed")
    with pytest.raises(ConsumerRebalanceFailedException):
        member.join()
    eventually(lambda: member.told(RebalanceGaveUp))

    group.remove(f"owners/{topic}/1")

    eventually(lambda: group.owners(topic) == dict.fromkeys(range(3), f"{member.id}-0"))
    assert member.told(WatchFired) == []
    assert set(reasons(member)) <= {"the first rebalance failed", "the last rebalance failed"}


@pytest.mark.parametrize("emulate", ["0.8.2", "fixed"])
def test_a_member_that_lost_its_partitions_gets_them_back_only_if_it_goes_on(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember, emulate: str
) -> None:
    """E4, E5: Q6; a partition is added that somebody else owns already."""
    settings = {"rebalance_max_retries": 2, "rebalance_backoff_ms": 10, "emulate": emulate}
    member = new_member("c1", {topic: 1}, **settings).join()
    group.put(f"owners/{topic}/3", "somebody-0")
    kafka.add_partitions(topic, 4)
    eventually(lambda: member.told(RebalanceGaveUp))

    group.remove(f"owners/{topic}/3")

    everything = dict.fromkeys(range(4), f"{member.id}-0")
    if emulate == "fixed":
        eventually(lambda: group.owners(topic) == everything)
        assert set(reasons(member)) == {"topic changed", "the last rebalance failed"}
    else:
        assert group.owners(topic) == {}
        assert member.triggers_until_now(group, topic) == ["topic changed"]
        eventually(lambda: group.owners(topic) == everything)


# --- Q7: the wait between two attempts ---


@pytest.mark.parametrize("retries", [1, 50], ids=["after the last attempt", "between two"])
def test_shutdown_ends_the_wait_after_a_failed_attempt(
    group: Group, topic: str, new_member: NewMember, retries: int
) -> None:
    """E14: Q7, KAFKA-1848; in 0.8.2.2 it waits for all attempts and all of rebalance.backoff.ms."""
    group.put(f"owners/{topic}/1", "somebody-0")
    member = new_member("c1", {topic: 1}, rebalance_max_retries=retries, rebalance_backoff_ms=3_600_000)
    joining = Background(member.join)
    eventually(lambda: member.told(RebalanceAttemptFailed))

    Background(member.shutdown).result()

    joining.result()
    assert len(member.told(RebalanceAttemptFailed)) == 1
    assert group.members() == {}


# --- Q23: a topic that was deleted ---


def partition_count(kafka: KafkaCluster, group: Group, topic: str) -> int:
    """0: there is no such topic."""
    if topic not in kafka.topics():
        return 0
    try:
        return len(group.client.get_children(f"/brokers/topics/{topic}/partitions"))
    except NoNodeError:  # the controller has not got to it yet
        return 0


def delete(group: Group, topic: str) -> None:
    """Ask for it and wait for nothing, since it may be back before anybody looks."""
    group.client.create(f"/admin/delete_topics/{topic}")


def test_a_deleted_topic_is_created_again_by_a_consumer_of_0_8_2(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember
) -> None:
    """H15: Q23; by its question who leads the partitions, with as many as the broker gives by default."""
    member = new_member("c1", {topic: 1}).join()
    eventually(lambda: len(member.records) == 3)

    delete(group, topic)

    eventually(lambda: partition_count(kafka, group, topic) == PARTITIONS_OF_A_TOPIC_MADE_BY_ASKING)


def test_a_deleted_topic_stays_away_if_only_known_ones_are_asked_for(
    kafka: KafkaCluster, group: Group, topic: str, new_member: NewMember, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H15: Q23, the switch; several turns of the leader finder do not bring it back."""
    found_missing: list[str] = []
    exists = ClusterView.topic_exists

    def noting(cluster: ClusterView, name: str) -> bool:
        found = exists(cluster, name)
        if not found:
            found_missing.append(name)
        return found

    monkeypatch.setattr(ClusterView, "topic_exists", noting)
    member = new_member("c1", {topic: 1}, emulate="fixed").join()
    eventually(lambda: len(member.records) == 3)

    delete(group, topic)
    eventually(lambda: topic not in kafka.topics(), f"topic {topic} gone", 30)
    before = found_missing.count(topic)

    eventually(lambda: found_missing.count(topic) >= before + 5)
    assert topic not in kafka.topics()
