"""Requests and answers other than fetch: bytes as Kafka's protocol guide lays them out, and bytes that are none."""

from __future__ import annotations

import struct
from collections.abc import Callable

import pytest

from fetcher.errors import MalformedResponseException, UnsupportedVersionException
from fetcher.structs import Broker, OffsetAndMetadata, TopicAndPartition
from fetcher.wire import api_versions, group_offsets, list_offsets, metadata
from fetcher.wire.api_versions import VersionRange
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
