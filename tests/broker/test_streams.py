"""Streams of the whole consumer on real brokers: which messages arrive, in which order, and what stops them."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from fetcher import compression
from fetcher.errors import DecompressionLimitException, InvalidMessageException, MessageSizeTooLargeException
from fetcher.events import Enqueued, Fetched, LeadersFound, LeadersNotFound, OffsetReset, PartitionFailed
from fetcher.structs import TopicAndPartition
from tests.broker.members import Member, NewMember, Received, announce
from tests.broker.scripted_cluster import ScriptedCluster
from tests.builders import Content, message, wrap
from tests.conformance.group import Group, fresh
from tests.scripted_broker import FETCH, METADATA, Request
from tests.zookeeper.sessions import observer
from zkconsumer.errors import ConsumerTimeoutException, IllegalStateException, KafkaException
from zkconsumer.events import RebalanceFinished
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.plugin import ZooKeeperForOneTest
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer

pytestmark = pytest.mark.kafka("0.8.2.2")

SELDOM_MS = 600_000  # a commit interval that no test lasts for


def numbered(first: int, last: int) -> list[bytes]:
    """Values that shrink when compressed."""
    return [b"value %d " % number + b"x" * 200 for number in range(first, last)]


def take(member: Member, count: int, stream: int = 0) -> list[int]:
    """Offsets of the next so many messages."""
    iterator = member.streams[stream].iterator()
    return [iterator.next().offset for _ in range(count)]


def wait_for_a_start(member: Member, partitions: int = 1) -> None:
    """Until its fetchers know where they begin."""
    eventually(lambda: sum(len(event.partitions) for event in member.told(LeadersFound)) >= partitions, "leaders")


def rebalance(member: Member, group: Group) -> None:
    """Have somebody join who wants nothing, and wait until the member is through with it."""
    finished = len(member.told(RebalanceFinished))
    announce(group, fresh("nobody"))
    eventually(lambda: len(member.told(RebalanceFinished)) > finished, "another rebalance")


# --- formats and codecs ---


@pytest.mark.parametrize(
    ("message_format", "codecs", "client"),
    [
        pytest.param(0, [None, "gzip", "snappy", "lz4"], "java", marks=pytest.mark.kafka("0.8.2.2"), id="0.8.2.2-0"),
        *(
            pytest.param(
                number,
                [None, "gzip", "snappy", "lz4"],
                "librdkafka",
                marks=pytest.mark.kafka("1.1.1"),
                id=f"1.1.1-{number}",
            )
            for number in (0, 1, 2)
        ),
        pytest.param(
            2, [None, "gzip", "snappy", "lz4", "zstd"], "librdkafka", marks=pytest.mark.kafka("3.9.1"), id="3.9.1-2"
        ),
    ],
)
def test_every_codec_of_every_format_arrives_once_and_in_order(
    kafka: KafkaCluster,
    topic: str,
    new_member: NewMember,
    message_format: int,
    codecs: list[str | None],
    client: str,
) -> None:
    """I1, I17, O5: all of them in one partition, one after the other."""
    kafka.create_topic(topic)
    expected = []
    for round_number, codec in enumerate(codecs):
        values = numbered(20 * round_number, 20 * round_number + 20)
        stored = kafka.produce(topic, values, codec=codec, message_format=message_format, client=client)
        expected += [Received(topic, 0, offset, value) for (_, offset), value in zip(stored, values, strict=True)]

    member = new_member("c1", {topic: 1}).join()

    eventually(lambda: len(member.records) >= len(expected), lambda: f"{len(expected)} of {len(member.records)}")
    assert member.records == expected


def test_compressed_sets_of_two_partitions_are_consumed_once(
    kafka: KafkaCluster, topic: str, new_member: NewMember
) -> None:
    """I1: testCompressionSetConsumption of legacy §21: 200 compressed messages in each of two partitions."""
    kafka.create_topic(topic, partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, numbered(0, 200), codec="gzip", partition=partition, client="librdkafka")

    member = new_member("c1", {topic: 1}).join()

    eventually(lambda: len(member.records) >= 400, lambda: f"400 of {len(member.records)}")
    received = [(record.partition, record.offset, record.value) for record in member.records]
    assert sorted(received) == [(p, n, value) for p in (0, 1) for n, value in enumerate(numbered(0, 200))]


def test_a_start_inside_of_a_compressed_set_brings_nothing_before_it(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember
) -> None:
    """I2: the broker sends the whole set, the application gets 5 to 9."""
    kafka.create_topic(topic)
    kafka.produce(topic, numbered(0, 10), codec="gzip", client="librdkafka")
    group.put(f"offsets/{topic}/0", "5")

    member = new_member("c1", {topic: 1}).join()

    eventually(lambda: len(member.records) >= 5, "five records")
    assert [record.offset for record in member.records] == [5, 6, 7, 8, 9]


# --- where a partition begins ---


@pytest.mark.parametrize("stored", [None, "-1"], ids=["nothing stored", "negative"])
@pytest.mark.parametrize(("reset", "expected"), [("smallest", [0, 1, 2, 3, 4]), ("largest", [3, 4])])
def test_without_an_offset_reading_begins_where_the_setting_says(
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    new_member: NewMember,
    caplog: pytest.LogCaptureFixture,
    reset: str,
    expected: list[int],
    stored: str | None,
) -> None:
    """H6, H8: AutoOffsetResetTest; a negative offset counts as none, and nobody says "out of range"."""
    kafka.create_topic(topic)
    kafka.produce(topic, numbered(0, 3))
    if stored is not None:
        group.put(f"offsets/{topic}/0", stored)

    with caplog.at_level(logging.ERROR):
        member = new_member("c1", {topic: 1}, auto_offset_reset=reset).join()
        wait_for_a_start(member)
        kafka.produce(topic, numbered(3, 5))
        eventually(lambda: [record.offset for record in member.records][-1:] == [4], "the last record")

    assert [record.offset for record in member.records] == expected
    assert "out of range" not in caplog.text


@pytest.mark.parametrize(
    ("reset", "expected", "new_offset"), [("smallest", [0, 1, 2, 3, 4], 0), ("largest", [3, 4], 3)]
)
def test_an_offset_beyond_the_end_is_reported_and_reset(
    kafka: KafkaCluster,
    topic: str,
    group: Group,
    new_member: NewMember,
    caplog: pytest.LogCaptureFixture,
    reset: str,
    expected: list[int],
    new_offset: int,
) -> None:
    """H7, M1: the line of 0.8; the stored offset follows with the next commit."""
    kafka.create_topic(topic)
    kafka.produce(topic, numbered(0, 3))
    group.put(f"offsets/{topic}/0", "10000")

    with caplog.at_level(logging.ERROR):
        member = new_member("c1", {topic: 1}, auto_offset_reset=reset).join()
        eventually(lambda: member.told(OffsetReset), "a reset")
        kafka.produce(topic, numbered(3, 5))
        eventually(lambda: [record.offset for record in member.records][-1:] == [4], "the last record")

    assert [record.offset for record in member.records] == expected
    line = f"Current offset 10000 for partition [{topic},0] out of range; reset offset to {new_offset}"
    assert sum(record.getMessage().endswith(line) for record in caplog.records) == 1
    member.shutdown()
    assert group.offsets(topic) == {0: "5"}


# --- back-pressure ---


def test_an_unread_stream_stops_its_fetcher_and_holds_a_bounded_part(
    kafka: KafkaCluster, topic: str, new_member: NewMember
) -> None:
    """H9, Q14: the other stream starves until the first one is read; then nothing is missing."""
    kafka.create_topic(topic, partitions=2)
    kafka.produce(topic, numbered(0, 100), partition=0)
    member = new_member(
        "c1",
        {topic: 2},
        reads=False,
        queued_max_message_chunks=1,
        fetch_message_max_bytes=2000,
        consumer_timeout_ms=int(scaled(0.5) * 1000),
    ).join()
    unread, starving = member.streams
    eventually(lambda: len(member.told(Fetched)) == 2, "the fetch whose answer finds a full queue")

    kafka.produce(topic, [b"waits"], partition=1)
    with pytest.raises(ConsumerTimeoutException):
        starving.iterator().next()
    assert len(unread.queue) == 1
    assert len(member.told(Fetched)) == 2

    assert take(member, 100) == list(range(100))
    assert starving.iterator().next().message == b"waits"


def test_a_message_that_does_not_fit_ends_the_stream(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember
) -> None:
    """H10, Q15: the text of 0.8; the iterator is dead, the stored offset stays, and shutdown works."""
    kafka.create_topic(topic)
    kafka.produce(topic, [b"small", bytes(5000), b"small"])
    member = new_member("c1", {topic: 1}, reads=False, fetch_message_max_bytes=1000).join()
    iterator = member.streams[0].iterator()
    assert iterator.next().message == b"small"

    with pytest.raises(MessageSizeTooLargeException) as raised:
        iterator.next()

    assert str(raised.value) == (
        f"Found a message larger than the maximum fetch size of this consumer on topic {topic} partition 0 at fetch "
        "offset 1. Increase the fetch size, or decrease the maximum message size the broker will allow."
    )
    with pytest.raises(IllegalStateException, match="Iterator is in failed state"):
        iterator.has_next()
    member.shutdown()
    assert group.offsets(topic) == {0: "1"}


# --- topics that are not there ---


@pytest.fixture(scope="module")
def creating(zookeeper_server: ZooKeeperServer) -> Iterator[KafkaCluster]:
    """A broker that makes any topic it is asked for."""
    settings = {"auto.create.topics.enable": "true"}
    with KafkaCluster(version="0.8.2.2", zookeeper=zookeeper_server, settings=settings) as kafka:
        yield kafka


@contextmanager
def member_of(kafka: KafkaCluster, topic: str, **settings: Any) -> Iterator[Member]:
    member = Member(kafka.zookeeper_connect, fresh("group"), "c1", {topic: 1}, **settings)
    try:
        yield member.join()
    finally:
        member.shutdown()


def test_a_topic_without_partitions_is_never_asked_for(creating: KafkaCluster, topic: str) -> None:
    """H14: a subscription to it creates nothing, while another topic of the same consumer is read."""
    other = fresh("other")
    creating.create_topic(other)
    creating.produce(other, [b"one"])
    member = Member(creating.zookeeper_connect, fresh("group"), "c1", {topic: 1, other: 1})
    try:
        member.join()
        eventually(lambda: member.records, "a record of the other topic")

        assert topic not in creating.topics()
    finally:
        member.shutdown()


def delete(kafka: KafkaCluster, topic: str, *, until_gone: bool) -> None:
    """Delete it, and wait until that is done: it is gone, or there again."""
    with observer(kafka.zookeeper_connect) as client:
        path = f"/brokers/topics/{topic}"
        old = client.exists(path).czxid
        client.create(f"/admin/delete_topics/{topic}", b"", makepath=True)

        def is_done() -> bool:
            now = client.exists(path)
            return now is None if until_gone else now is not None and now.czxid != old

        eventually(is_done, f"topic {topic} {'gone' if until_gone else 'back'}", 30)


def test_a_deleted_topic_comes_back_because_it_is_asked_for(creating: KafkaCluster, topic: str) -> None:
    """H15, Q23: as with 0.8.2.2, by the metadata request of the leader finder."""
    creating.create_topic(topic)
    with member_of(creating, topic) as member:
        wait_for_a_start(member)

        delete(creating, topic, until_gone=False)

        eventually(lambda: member.told(PartitionFailed), "a fetch that failed")


def test_with_the_switch_a_deleted_topic_stays_deleted(creating: KafkaCluster, topic: str) -> None:
    """H15, Q23: ask_only_for_topics_in_zookeeper."""
    creating.create_topic(topic)
    with member_of(creating, topic, emulate="fixed") as member:
        wait_for_a_start(member)

        delete(creating, topic, until_gone=True)
        eventually(lambda: member.told(PartitionFailed), "a fetch that failed")
        found = len(member.told(LeadersFound)) + len(member.told(LeadersNotFound))
        creating.create_topic(topic)  # which fails if it exists
        eventually(lambda: len(member.told(LeadersFound)) + len(member.told(LeadersNotFound)) > found, "its leader")
        creating.produce(topic, [b"new"])
        eventually(lambda: [record.value for record in member.records] == [b"new"], "the new record")


# --- has_next and next around commits and rebalances ---


def test_a_message_is_consumed_by_next_and_not_by_has_next(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember
) -> None:
    """I9: as the stored offsets tell."""
    kafka.create_topic(topic)
    kafka.produce(topic, numbered(0, 3))
    member = new_member("c1", {topic: 1}, reads=False, auto_commit_enable=False).join()
    iterator = member.streams[0].iterator()

    assert iterator.has_next()
    member.connector.commit_offsets()
    seen = group.offsets(topic)
    iterator.next()
    member.connector.commit_offsets()

    assert (seen, group.offsets(topic)) == ({0: "0"}, {0: "1"})


@pytest.mark.parametrize(("emulate", "expected"), [("0.8.2", [4, 4, 5, 6, 7, 8, 9]), ("fixed", [4, 5, 6, 7, 8, 9])])
def test_a_message_seen_before_a_rebalance_and_taken_after_it(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember, emulate: str, expected: list[int]
) -> None:
    """I13, Q11: comes twice in 0.8.2; with drop_ready_item_on_rebalance once."""
    kafka.create_topic(topic)
    kafka.produce(topic, numbered(0, 10))
    member = new_member("c1", {topic: 1}, reads=False, emulate=emulate).join()
    assert take(member, 4) == [0, 1, 2, 3]
    assert member.streams[0].iterator().has_next()

    rebalance(member, group)

    assert take(member, len(expected)) == expected


def test_the_chunk_dropped_by_a_rebalance_comes_again_from_where_it_was_read_to(
    kafka: KafkaCluster, topic: str, group: Group, new_member: NewMember
) -> None:
    """I14, E11, J8: with auto commit nothing is missing and nothing comes twice, over several rebalances."""
    kafka.create_topic(topic, partitions=2)
    for partition in (0, 1):
        kafka.produce(topic, numbered(0, 50), partition=partition)
    member = new_member("c1", {topic: 1}, reads=False, auto_commit_interval_ms=SELDOM_MS).join()
    iterator = member.streams[0].iterator()

    received = []
    for _ in range(4):
        received += [(record.partition, record.offset) for record in (iterator.next() for _ in range(20))]
        rebalance(member, group)
    received += [(record.partition, record.offset) for record in (iterator.next() for _ in range(20))]

    assert sorted(received) == [(partition, offset) for partition in (0, 1) for offset in range(50)]
    for partition in (0, 1):
        assert [offset for p, offset in received if p == partition] == list(range(50))


# --- a broker that sends what it should not ---


@pytest.fixture
def hostile(zookeeper: ZooKeeperForOneTest, topic: str) -> Iterator[ScriptedCluster]:
    """Partition 1 is all right: it has offsets 0 to 2."""
    with ScriptedCluster(zookeeper.connect_string, topic, partitions=2) as cluster:
        cluster.messages[1] = {n: message(Content(n, None, b"good %d" % n)) for n in range(3)}
        yield cluster


@contextmanager
def victim(cluster: ScriptedCluster) -> Iterator[tuple[Member, Group]]:
    """A member with a stream for each partition, and its group, which begins at offset 0."""
    name = fresh("group")
    with observer(cluster.zookeeper_connect) as client:
        group = Group(client, name)
        for partition in range(cluster.partitions):
            group.put(f"offsets/{cluster.topic}/{partition}", "0")
        member = Member(
            cluster.zookeeper_connect,
            name,
            "c1",
            {cluster.topic: 2},
            reads=False,
            consumer_timeout_ms=int(scaled(20e3)),
        )
        try:
            yield member.join(), group
        finally:
            member.shutdown()


def corrupt(partition_0: bytes) -> dict[int, bytes]:
    return {0: message(Content(0, None, b"fine")), 1: partition_0}


@pytest.mark.parametrize(
    ("bad", "error"),
    [
        pytest.param(message(Content(1, None, b"x"), crc=4711), InvalidMessageException, id="checksum"),
        pytest.param(
            wrap(message(Content(1, None, bytes(100_000))), 1, 0, "gzip"), DecompressionLimitException, id="bomb"
        ),
        pytest.param(wrap(b"no message set", 1, 0, "gzip"), KafkaException, id="rubbish inside"),
        pytest.param(
            message(Content(1, None, b"x"))[:8] + b"\x7f\xff\xff\xff" + bytes(30),
            MessageSizeTooLargeException,
            id="huge",
        ),
    ],
)
def test_a_bad_message_fails_its_stream_by_name_and_no_other(
    hostile: ScriptedCluster, monkeypatch: pytest.MonkeyPatch, bad: bytes, error: type[KafkaException]
) -> None:
    """I4, I6, H10, H12: what came before it is delivered and committed, the position stays before it."""
    monkeypatch.setattr(compression, "LIMIT_BYTES", 10_000)
    monkeypatch.setattr(compression, "LIMIT_RATIO", 2)
    hostile.messages[0] = corrupt(bad)

    with victim(hostile) as (member, group):
        first = member.streams[0].iterator()
        assert first.next().message == b"fine"
        with pytest.raises(error) as raised:
            first.next()
        assert raised.value.topic_and_partition == TopicAndPartition(hostile.topic, 0)

        assert take(member, 3, stream=1) == [0, 1, 2]
        with pytest.raises(IllegalStateException):
            first.has_next()
        member.shutdown()
        assert group.offsets(hostile.topic) == {0: "1", 1: "3"}


@pytest.mark.parametrize("size", [-1, 5], ids=["negative", "too small"])
def test_an_impossible_size_is_logged_and_fetched_again(
    hostile: ScriptedCluster, caplog: pytest.LogCaptureFixture, size: int
) -> None:
    """H12: other partitions are not affected, and when better bytes come they are delivered."""
    good = message(Content(1, None, b"better"))
    hostile.messages[0] = corrupt(good[:8] + size.to_bytes(4, "big", signed=True) + good[12:])

    with caplog.at_level(logging.ERROR), victim(hostile) as (member, _):
        assert take(member, 3, stream=1) == [0, 1, 2]
        line = f"Found invalid messages during fetch for partition [{hostile.topic},0] offset 1 error"
        eventually(lambda: caplog.text.count(line) > 1, "the line, again and again")
        hostile.messages[0] = corrupt(good)

        assert take(member, 2) == [0, 1]


def test_a_response_that_makes_no_sense_costs_nothing_but_time(hostile: ScriptedCluster) -> None:
    """H13: cut short, and promising more partitions than it has; then everything comes once."""
    hostile.messages[0] = {0: message(Content(0, None, b"late"))}
    answers = iter([b"\x7f\xff\xff\xff", b"", b"\0\0\0\1\xff\xff"])

    def fetched(request: Request) -> Any:
        return next(answers, None) or hostile.default(request)

    hostile.scripts[FETCH] = fetched
    with victim(hostile) as (member, _):
        assert take(member, 1) == [0]
        assert take(member, 3, stream=1) == [0, 1, 2]
        assert len([event for event in member.told(Enqueued) if event.partition.partition == 0]) == 1
    assert len(hostile.asked(METADATA)) > 1
