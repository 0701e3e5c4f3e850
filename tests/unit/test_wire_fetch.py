"""Fetch requests against kafka-python's encoder, made from Kafka's own schemas; responses as real brokers sent them."""

from __future__ import annotations

import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.protocol.consumer import FetchRequest

from fetcher.errors import KafkaException, MalformedResponseException
from fetcher.message_set import ByteBufferMessageSet
from fetcher.structs import TopicAndPartition
from fetcher.wire.fetch import (
    NEWEST_VERSION,
    _decode_any,
    _decode_plain,
    decode_fetch_response,
    encode_fetch_request,
)

VECTORS = Path(__file__).parent.parent / "vectors" / "message-sets"
RESPONSES = sorted(VECTORS.glob("*.response"))
FETCHED_TOPICS = {
    "0.8.2.2": "format-0-gzip-broker-0.8.2.2",
    "1.1.1": "format-2-none-transactions-broker-1.1.1",
    "3.9.1": "format-2-zstd-broker-3.9.1",
}
UNKNOWN_TOPIC_OR_PARTITION, UNSUPPORTED_COMPRESSION_TYPE = 3, 76


def version_and_release(response: Path) -> tuple[int, str]:
    found = re.fullmatch(r"fetch-(\d+)-broker-(.*)", response.stem + response.suffix.removesuffix(".response"))
    assert found is not None
    return int(found[1]), found[2]


def encoded_by_kafka_python(version: int) -> bytes:
    def partition(number: int, offset: int, most_bytes: int) -> Any:
        return FetchRequest.FetchTopic.FetchPartition(
            partition=number,
            current_leader_epoch=-1,
            fetch_offset=offset,
            last_fetched_epoch=-1,
            log_start_offset=-1,
            partition_max_bytes=most_bytes,
            version=version,
        )

    first, last = partition(0, 5, 1000), partition(3, 2**40, 2000)
    between = ("é", [partition(1, 0, 3000)])
    # 1.1 names a topic again where another came between.
    rows = [("a", [first]), between, ("a", [last])] if version == 3 else [("a", [first, last]), between]
    topics = [FetchRequest.FetchTopic(topic=topic, partitions=row, version=version) for topic, row in rows]
    request = FetchRequest(
        replica_id=-1,
        max_wait_ms=100,
        min_bytes=1,
        max_bytes=52428800,
        isolation_level=0,
        session_id=0,
        session_epoch=-1,
        topics=topics,
        forgotten_topics_data=[],
        rack_id="",
        version=version,
    )
    request.with_header(correlation_id=7, client_id="client")
    return bytes(request.encode(header=True, framed=True))


@pytest.mark.parametrize("version", range(NEWEST_VERSION + 1))
def test_a_request_has_the_bytes_of_its_schema(version: int) -> None:
    """H3: replica -1, max wait, min bytes, bytes of each partition, client id."""
    partitions = {
        TopicAndPartition("a", 0): (5, 1000),
        TopicAndPartition("é", 1): (0, 3000),
        TopicAndPartition("a", 3): (2**40, 2000),
    }

    request = encode_fetch_request(version, 7, "client", 100, 1, 52428800, partitions)

    assert request == encoded_by_kafka_python(version)


@pytest.mark.parametrize("version", [-1, NEWEST_VERSION + 1])
def test_an_unknown_version_is_refused(version: int) -> None:
    with pytest.raises(ValueError, match=f"fetch version {version} "):
        encode_fetch_request(version, 0, None, 0, 0, 0, {})
    with pytest.raises(ValueError, match=f"fetch version {version} "):
        decode_fetch_response(version, b"")


@pytest.mark.parametrize("file", RESPONSES, ids=lambda file: file.name)
def test_a_real_response_is_read(file: Path) -> None:
    version, release = version_and_release(file)
    topic = FETCHED_TOPICS[release]

    response = decode_fetch_response(version, memoryview(file.read_bytes()))

    assert (response.correlation_id, response.error_code, response.throttle_time_ms) == (4711, 0, 0)
    assert set(response.partitions) == {TopicAndPartition(topic, 0), TopicAndPartition(topic, 7)}
    missing = response.partitions[TopicAndPartition(topic, 7)]
    assert (missing.error_code, missing.high_watermark, len(missing.messages)) == (UNKNOWN_TOPIC_OR_PARTITION, -1, 0)
    found = response.partitions[TopicAndPartition(topic, 0)]
    if release == "3.9.1" and version < 4:
        assert found.error_code == UNSUPPORTED_COMPRESSION_TYPE  # it cannot be converted down
        return
    expected = json.loads((VECTORS / f"{topic}.json").read_text())
    assert (found.error_code, found.high_watermark) == (0, expected[-1]["last_offset"] + 1)
    records = [record for entry in expected if not entry["control"] for record in entry["records"]]
    values = [(m.offset, None if m.value is None else m.value.hex()) for m in ByteBufferMessageSet(found.messages)]
    assert values == [(record["offset"], record["value"]) for record in records][: len(values)]
    assert len(values) >= 5  # a broker sends no more than one segment at once


@pytest.mark.parametrize("file", RESPONSES, ids=lambda file: file.name)
def test_a_response_cut_anywhere_is_an_error_that_says_where(file: Path) -> None:
    version, _ = version_and_release(file)
    data = file.read_bytes()

    for length in range(len(data)):
        with pytest.raises(MalformedResponseException, match=rf"^fetch response version {version}: .* at byte \d+: "):
            decode_fetch_response(version, data[:length])


@pytest.mark.parametrize("file", RESPONSES, ids=lambda file: file.name)
def test_bytes_left_over_are_an_error(file: Path) -> None:
    version, _ = version_and_release(file)

    with pytest.raises(MalformedResponseException, match="1 bytes are left over"):
        decode_fetch_response(version, file.read_bytes() + b"\0")


@given(st.integers(0, NEWEST_VERSION), st.binary(max_size=120))
def test_any_bytes_are_a_response_or_a_typed_error(version: int, data: bytes) -> None:
    try:
        decode_fetch_response(version, data)
    except KafkaException:
        pass


@given(st.sampled_from(RESPONSES), st.data())
def test_a_response_with_a_changed_byte_is_read_or_a_typed_error(file: Path, choose: st.DataObject) -> None:
    version, _ = version_and_release(file)
    data = bytearray(file.read_bytes())
    data[choose.draw(st.integers(0, min(len(data), 150) - 1))] = choose.draw(st.integers(0, 255))

    try:
        decode_fetch_response(version, data)
    except KafkaException:
        pass


def test_a_count_of_two_thousand_million_is_not_believed() -> None:
    with pytest.raises(MalformedResponseException, match="topics at byte 8: 2147483647 items announced, 0 bytes left"):
        decode_fetch_response(0, b"\0\0\0\x01\x7f\xff\xff\xff")


def test_messages_are_a_part_of_the_response_not_a_copy() -> None:
    data = bytearray((VECTORS / "fetch-0-broker-0.8.2.2.response").read_bytes())

    response = decode_fetch_response(0, data)

    assert response.partitions[TopicAndPartition(FETCHED_TOPICS["0.8.2.2"], 0)].messages.obj is data


def answer_about_one(version: int, topic: bytes, messages: bytes, aborted: int = -1) -> bytes:
    """As the protocol's table has it; see wire/fetch.py."""
    parts = [struct.pack(">i", 7)]
    if version >= 1:
        parts.append(struct.pack(">i", 30))  # throttling
    if version >= 7:
        parts.append(struct.pack(">hi", 0, 0))  # error, session
    parts.append(struct.pack(">ih", 1, len(topic)) + topic + struct.pack(">iihq", 1, 3, 0, 2**40))
    if version >= 4:
        parts.append(struct.pack(">q", 2**40))  # last stable offset
    if version >= 5:
        parts.append(struct.pack(">q", 0))  # log start
    if version >= 4:
        parts.append(struct.pack(">i", aborted) + bytes(16 * max(0, aborted)))
    if version >= 11:
        parts.append(struct.pack(">i", -1))
    return b"".join(parts) + struct.pack(">i", len(messages)) + messages


@pytest.mark.parametrize("version", range(NEWEST_VERSION + 1))
@pytest.mark.parametrize("aborted", [-1, 0, 2])
def test_an_answer_about_one_partition_is_read_the_same_in_either_way(version: int, aborted: int) -> None:
    data = answer_about_one(version, "é".encode(), b"messages", aborted)

    read = decode_fetch_response(version, data)

    assert read == _decode_any(version, data)
    assert bytes(read.partitions[TopicAndPartition("é", 3)].messages) == b"messages"
    assert read.throttle_time_ms == (30 if version else 0)
    assert (_decode_plain(version, data) is None) == (version == 11 or (version >= 4 and aborted == 2))


@given(st.integers(0, NEWEST_VERSION), st.sampled_from([-1, 0, 1]), st.data())
def test_a_changed_answer_about_one_partition_too(version: int, aborted: int, choose: st.DataObject) -> None:
    data = bytearray(answer_about_one(version, b"topic", b"messages", aborted))
    data[choose.draw(st.integers(0, len(data) - 1))] = choose.draw(st.integers(0, 255))
    del data[choose.draw(st.integers(0, len(data))) or len(data) :]

    plain = _decode_plain(version, data)

    assert plain is None or plain == _decode_any(version, data)
