"""Requests and answers other than fetch: bytes as Kafka's protocol guide lays them out, and bytes that are none."""

from __future__ import annotations

import struct
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.errors import MalformedResponseException, UnsupportedVersionException
from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from fetcher.wire import api_versions, group_offsets, list_offsets, metadata
from fetcher.wire.api_versions import VersionRange
from fetcher.wire.generated import decode_request, encode
from tests.scripted_broker import array, text

T0, T1, U5 = TopicAndPartition("t", 0), TopicAndPartition("t", 1), TopicAndPartition("u", 5)


def request(api_key: int, version: int, body: bytes) -> bytes:
    """Number 7 of "client"."""
    data = struct.pack(">hhi", api_key, version, 7) + text("client") + body
    return struct.pack(">i", len(data)) + data


def answer(body: bytes) -> memoryview:
    return memoryview(struct.pack(">i", 7) + body)


METADATA_ANSWER = answer(
    array([struct.pack(">i", 3) + text("host") + struct.pack(">i", 9092)])
    + array(
        [
            struct.pack(">h", 0)
            + text("t")
            + array(
                [
                    struct.pack(">hii", 9, 0, 3) + array([struct.pack(">i", 3)]) + array([struct.pack(">i", 3)]),
                    struct.pack(">hii", 5, 1, -1) + array([]) + array([]),
                ]
            ),
            struct.pack(">h", 0) + text("u") + array([struct.pack(">hii", 0, 5, 4) + array([]) + array([])]),
            struct.pack(">h", 3) + text("unknown") + array([]),
        ]
    )
)
OFFSETS_ANSWER = answer(
    array(
        [
            text("t")
            + array(
                [
                    struct.pack(">ih", 0, 0) + array([struct.pack(">q", 42)]),
                    struct.pack(">ih", 1, 6) + array([]),
                ]
            ),
            text("u") + array([struct.pack(">ih", 5, 0) + array([])]),
        ]
    )
)
COORDINATOR_ANSWER = answer(struct.pack(">hi", 0, 2) + text("host") + struct.pack(">i", 9093))
COMMIT_ANSWER = answer(array([text("t") + array([struct.pack(">ih", 0, 0), struct.pack(">ih", 1, 16)])]))
FETCH_ANSWER = answer(
    array(
        [
            text("t")
            + array(
                [
                    struct.pack(">iq", 0, 42) + text("note") + struct.pack(">h", 0),
                    struct.pack(">iqhh", 1, -1, -1, 14),
                ]
            )
        ]
    )
)
VERSIONS_ANSWER = answer(struct.pack(">h", 0) + array([struct.pack(">hhh", 1, 0, 7), struct.pack(">hhh", 3, 2, 5)]))


def test_metadata_is_asked_for_with_version_0() -> None:
    assert metadata.encode_metadata_request(7, "client", ["t", "u"]) == request(3, 0, array([text("t"), text("u")]))


def test_metadata_of_no_topic_would_be_that_of_all_and_is_refused() -> None:
    with pytest.raises(ValueError, match="all of them"):
        metadata.encode_metadata_request(7, "client", [])


def test_leaders_are_those_among_the_brokers_named() -> None:
    """A partition may have a leader and an error (a replica is away); a leader may be unknown to the broker asked."""
    found = metadata.decode_metadata_response(METADATA_ANSWER)

    assert found.brokers == {3: Broker(3, "host", 9092)}
    assert found.leaders == {T0: Broker(3, "host", 9092)}
    assert found.partition_errors == {T0: 9, T1: 5, U5: 0}
    assert found.topic_errors == {"t": 0, "u": 0, "unknown": 3}


def test_offsets_are_asked_for_one_each() -> None:
    by_partition = array(
        [
            text("t") + array([struct.pack(">iqi", 0, -2, 1), struct.pack(">iqi", 1, -2, 1)]),
            text("u") + array([struct.pack(">iqi", 5, -2, 1)]),
        ]
    )
    encoded = list_offsets.encode_list_offsets_request(0, 7, "client", [T0, T1, U5], list_offsets.EARLIEST)
    assert encoded == request(2, 0, struct.pack(">i", -1) + by_partition)


def test_offsets_are_asked_for_by_version_1_without_a_number() -> None:
    encoded = list_offsets.encode_list_offsets_request(1, 7, "client", [T0], list_offsets.LATEST)
    assert encoded == request(2, 1, struct.pack(">i", -1) + array([text("t") + array([struct.pack(">iq", 0, -1)])]))


def test_offsets_that_a_broker_does_not_know_are_minus_one() -> None:
    assert list_offsets.decode_list_offsets_response(0, OFFSETS_ANSWER) == {T0: (0, 42), T1: (6, -1), U5: (0, -1)}


def test_the_coordinator_is_asked_for_by_group() -> None:
    assert group_offsets.encode_find_coordinator_request(7, "client", "group") == request(10, 0, text("group"))
    assert group_offsets.decode_find_coordinator_response(COORDINATOR_ANSWER) == (0, Broker(2, "host", 9093))


@pytest.mark.parametrize(
    ("version", "before_topics", "partition"),
    [
        (1, b"", struct.pack(">iqq", 0, 42, -1)),
        (2, struct.pack(">q", -1), struct.pack(">iq", 0, 42)),
    ],
    ids=["0.8.2", "0.9"],
)
def test_offsets_are_committed_by_no_member_of_no_generation(
    version: int, before_topics: bytes, partition: bytes
) -> None:
    encoded = group_offsets.encode_offset_commit_request(
        version, 7, "client", "group", {T0: OffsetAndMetadata(42, "note")}
    )

    body = text("group") + struct.pack(">i", -1) + text("") + before_topics
    assert encoded == request(8, version, body + array([text("t") + array([partition + text("note")])]))


def test_a_commit_is_answered_partition_by_partition() -> None:
    for version in group_offsets.COMMIT_VERSIONS:
        assert group_offsets.decode_offset_commit_response(version, COMMIT_ANSWER) == {T0: 0, T1: 16}


def test_stored_offsets_are_asked_for_and_read() -> None:
    partitions = array([text("t") + array([struct.pack(">i", 0), struct.pack(">i", 1)])])
    encoded = group_offsets.encode_offset_fetch_request(1, 7, "client", "group", [T0, T1])
    assert encoded == request(9, 1, text("group") + partitions)

    stored = {T0: (42, "note", 0), T1: (-1, "", 14)}
    assert group_offsets.decode_offset_fetch_response(1, FETCH_ANSWER) == (0, stored)
    with_error = memoryview(bytes(FETCH_ANSWER) + struct.pack(">h", 16))
    assert group_offsets.decode_offset_fetch_response(2, with_error) == (16, stored)


def test_offsets_in_zookeeper_are_not_for_brokers_to_write() -> None:
    with pytest.raises(ValueError, match="version 0"):
        group_offsets.encode_offset_commit_request(0, 7, "client", "group", {})
    with pytest.raises(ValueError, match="version 0"):
        group_offsets.encode_offset_fetch_request(0, 7, "client", "group", [])


def test_a_broker_names_its_versions() -> None:
    assert api_versions.encode_api_versions_request(7, "client") == request(18, 0, b"")
    assert api_versions.decode_api_versions_response(VERSIONS_ANSWER) == {1: (0, 7), 3: (2, 5)}
    with pytest.raises(UnsupportedVersionException):
        api_versions.decode_api_versions_response(answer(struct.pack(">h", 35) + array([])))


@pytest.mark.parametrize(
    ("theirs", "ours", "newest"),
    [
        ((0, 7), (0, 11), 7),
        ((0, 16), (0, 11), 11),
        ((4, 16), (0, 3), None),
        ((0, 2), (4, 11), None),
        ((4, 4), (4, 4), 4),
    ],
)
def test_the_newest_version_is_one_both_sides_know(
    theirs: tuple[int, int], ours: tuple[int, int], newest: int | None
) -> None:
    versions = {1: VersionRange(*theirs)}

    assert api_versions.newest_of(versions, 1, VersionRange(*ours)) == newest
    assert api_versions.newest_of(versions, 2, VersionRange(*ours)) is None


@pytest.mark.parametrize(
    ("decode", "data"),
    [
        (metadata.decode_metadata_response, METADATA_ANSWER),
        (lambda data: list_offsets.decode_list_offsets_response(0, data), OFFSETS_ANSWER),
        (group_offsets.decode_find_coordinator_response, COORDINATOR_ANSWER),
        (lambda data: group_offsets.decode_offset_commit_response(1, data), COMMIT_ANSWER),
        (lambda data: group_offsets.decode_offset_fetch_response(1, data), FETCH_ANSWER),
        (api_versions.decode_api_versions_response, VERSIONS_ANSWER),
    ],
    ids=["metadata", "list offsets", "find coordinator", "offset commit", "offset fetch", "api versions"],
)
def test_an_answer_cut_off_anywhere_is_malformed(decode: Callable[[memoryview], object], data: memoryview) -> None:
    decode(data)
    for length in range(len(data)):
        with pytest.raises(MalformedResponseException, match=f"{length} bytes"):
            decode(data[:length])


# --- what is written out here, beside the classes that kafka-python generates from Kafka's schemas ---

NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=9)
INT16S, INT32S, INT64S = (st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) for bits in (16, 32, 64))
PARTITIONS = st.lists(st.builds(TopicAndPartition, NAMES, st.integers(0, 9)), unique=True, max_size=6)


def generated_answer(api: str, version: int, **fields: Any) -> bytes:
    import kafka.protocol.consumer
    import kafka.protocol.metadata

    package = kafka.protocol.consumer if api == "ListOffsets" else kafka.protocol.metadata
    written = getattr(package, f"{api}Response")(version=version, **fields)
    written.with_header(correlation_id=7)
    return bytes(written.encode(header=True))


@given(NAMES, INT32S, st.lists(NAMES, min_size=1, max_size=4), PARTITIONS, st.sampled_from((0, 1)), INT64S)
def test_requests_are_those_of_kafkas_schemas(
    client: str, number: int, topics: list[str], partitions: list[TopicAndPartition], version: int, time: int
) -> None:
    assert metadata.encode_metadata_request(number, client, topics) == encode(
        "Metadata", 0, number, client, topics=[(topic,) for topic in topics]
    )
    assert api_versions.encode_api_versions_request(number, client) == encode("ApiVersions", 0, number, client)
    written = list_offsets.encode_list_offsets_request(version, number, client, partitions, time)
    read = decode_request("ListOffsets", version, written[4:])
    assert [(topic.name, one.partition_index, one.timestamp) for topic in read.topics for one in topic.partitions] == [
        (topic, partition, time)
        for topic in dict.fromkeys(t for t, _ in partitions)
        for t, partition in partitions
        if t == topic
    ]


@given(
    st.lists(st.tuples(INT32S, NAMES, INT32S), unique_by=lambda broker: broker[0], max_size=4),
    st.dictionaries(
        NAMES,
        st.tuples(INT16S, st.dictionaries(INT32S, st.tuples(INT16S, INT32S, st.lists(INT32S, max_size=3)), max_size=3)),
        max_size=3,
    ),
    st.booleans(),
)
def test_metadata_is_read_as_kafkas_schemas_write_it(
    brokers: list[tuple[int, str, int]],
    topics: dict[str, tuple[int, dict[int, tuple[int, int, list[int]]]]],
    known_leaders: bool,
) -> None:
    def leader_of(leader: int) -> int:
        return brokers[leader % len(brokers)][0] if brokers and known_leaders else leader

    found = metadata.decode_metadata_response(
        generated_answer(
            "Metadata",
            0,
            brokers=brokers,
            topics=[
                (
                    error,
                    topic,
                    [(e, p, leader_of(leader), replicas, replicas[1:]) for p, (e, leader, replicas) in ps.items()],
                )
                for topic, (error, ps) in topics.items()
            ],
        )
    )

    named = {broker_id: Broker(broker_id, host, port) for broker_id, host, port in brokers}
    every = {TopicAndPartition(topic, p): one for topic, (_, ps) in topics.items() for p, one in ps.items()}
    assert found.brokers == named
    assert found.topic_errors == {topic: error for topic, (error, _) in topics.items()}
    assert found.partition_errors == {partition: error for partition, (error, _, _) in every.items()}
    assert found.leaders == {
        partition: named[leader_of(leader)] for partition, (_, leader, _) in every.items() if leader_of(leader) in named
    }


@given(st.lists(st.tuples(INT16S, INT16S, INT16S), unique_by=lambda api: api[0], max_size=9))
def test_versions_are_read_as_kafkas_schemas_write_them(apis: list[tuple[int, int, int]]) -> None:
    data = generated_answer("ApiVersions", 0, error_code=0, api_keys=apis)
    assert api_versions.decode_api_versions_response(data) == {key: (first, last) for key, first, last in apis}


@given(
    st.dictionaries(
        NAMES, st.dictionaries(INT32S, st.tuples(INT16S, st.lists(INT64S, max_size=2)), max_size=3), max_size=3
    )
)
def test_offsets_are_read_as_kafkas_schemas_write_them(topics: dict[str, dict[int, tuple[int, list[int]]]]) -> None:
    old = [(topic, [(p, error, offsets) for p, (error, offsets) in ps.items()]) for topic, ps in topics.items()]
    new = [
        (topic, [(p, error, 5, (*offsets, -1)[0]) for p, (error, offsets) in ps.items()])
        for topic, ps in topics.items()
    ]
    expected = {
        TopicAndPartition(topic, p): (error, -1 if error or not offsets else offsets[0])
        for topic, ps in topics.items()
        for p, (error, offsets) in ps.items()
    }
    for version, written in ((0, old), (1, new)):
        data = generated_answer("ListOffsets", version, topics=written)
        assert list_offsets.decode_list_offsets_response(version, data) == expected


def test_fetching_does_without_the_package_that_costs_a_tenth_of_a_second_to_import() -> None:
    use = (
        "import sys, zkconsumer.connector\n"
        "from fetcher.structs import TopicAndPartition\n"
        "from fetcher.wire import api_versions, list_offsets, metadata\n"
        "metadata.encode_metadata_request(1, '', ['t'])\n"
        "api_versions.encode_api_versions_request(1, '')\n"
        "list_offsets.encode_list_offsets_request(0, 1, '', [TopicAndPartition('t', 0)], -1)\n"
        "sys.exit(int('kafka' in sys.modules))"
    )
    subprocess.run([sys.executable, "-c", use], check=True, timeout=60)
