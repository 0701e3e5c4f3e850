"""The fetch request and its response (0.8: FetchRequest, FetchResponse), written out since all messages come this way.

    version 0     0.8            version 4     message format 2 is sent as it is
    version 1     + throttling   version 5     + first offset of the log
    version 2     message format 1            version 7     + sessions, which we never open
    version 3     + size of the whole response            version 9     + leader epoch, which we do not know
                                              version 10    zstd      version 11    + racks

Rule: before version 4 a broker converts what it holds to what the version knows, which costs it a processor.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, lru_cache
from itertools import groupby
from struct import Struct
from typing import NamedTuple

from fetcher.structs import TopicAndPartition
from fetcher.wire.primitives import INT32, Reader, encode_array, encode_request, encode_string

FETCH_KEY = 1
NEWEST_VERSION = 11
VERSION_OF_1_1 = 3

CONSUMER = -1  # replica id of somebody who is not a broker
READ_UNCOMMITTED = 0
NO_SESSION = (0, -1)  # id, epoch
UNKNOWN = -1

_LIMITS = Struct(">iii")
_PARTITION = Struct(">iqi")
_PARTITION_WITH_LOG_START = Struct(">iqqi")
_PARTITION_WITH_EPOCH = Struct(">iiqqi")
# Of a partition, each with the number that follows: the size of its messages, or how many aborted transactions.
_ANSWER = Struct(">ihqi")
_ANSWER_WITH_STABLE_OFFSET = Struct(">ihqqi")
_ANSWER_WITH_LOG_START = Struct(">ihqqqi")
_ABORTED_TRANSACTION = Struct(">qq")
_BEGINNING = Struct(">i")  # correlation id
_BEGINNING_WITH_THROTTLING = Struct(">ii")
_BEGINNING_WITH_SESSION = Struct(">iihi")  # error code and session
_SMALLEST_TOPIC = 6
_SMALLEST_PARTITION = 18


class FetchedPartition(NamedTuple):
    """The answer for one partition. `messages` is a part of the response, which it keeps alive."""

    error_code: int
    high_watermark: int
    messages: memoryview


class FetchResponse(NamedTuple):
    """`error_code` is that of the whole response, from version 7 on; else 0."""

    partitions: dict[TopicAndPartition, FetchedPartition]
    throttle_time_ms: int = 0
    error_code: int = 0
    correlation_id: int = 0


def encode_fetch_request(
    version: int,
    correlation_id: int,
    client_id: str | None,
    max_wait_ms: int,
    min_bytes: int,
    max_bytes: int,
    partitions: Mapping[TopicAndPartition, tuple[int, int]],
) -> bytes:
    """The request with its size in front. `partitions`: offset and most bytes for each; their order is kept by topic.

    `max_bytes` is for the whole response, from version 3 on. That version is 1.1's, and as there a topic is named again
    where another came between, so that the order of all partitions is kept.
    """
    before, after = _around_topics(version, max_wait_ms, min_bytes, max_bytes)
    body = b"".join((before, _encode_topics(version, partitions), after))
    return encode_request(FETCH_KEY, version, correlation_id, client_id, body)


def decode_fetch_response(version: int, data: bytes | bytearray | memoryview) -> FetchResponse:
    """Read a response, from its correlation id on; MalformedResponseException if it is not one of this version."""
    _check(version)
    return _decode_plain(version, data) or _decode_any(version, data)


def _decode_any(version: int, data: bytes | bytearray | memoryview) -> FetchResponse:
    reader = Reader(data, f"fetch response version {version}")
    beginning = _BEGINNING if version == 0 else _BEGINNING_WITH_THROTTLING if version < 7 else _BEGINNING_WITH_SESSION
    # The numbers of older versions, and 0 for those they lack.
    correlation_id, throttle_time_ms, error_code, *_ = (*reader.numbers(beginning, "its first numbers"), 0, 0)
    partitions: dict[TopicAndPartition, FetchedPartition] = {}
    for _ in range(reader.count("topics", _SMALLEST_TOPIC)):
        topic = reader.string("topic")
        for _ in range(reader.count(f"partitions of {topic}", _SMALLEST_PARTITION)):
            partition, answer = _decode_partition(version, reader, topic)
            partitions[TopicAndPartition(topic, partition)] = answer
    reader.end()
    return FetchResponse(partitions, throttle_time_ms, error_code, correlation_id)


def _decode_plain(version: int, data: bytes | bytearray | memoryview) -> FetchResponse | None:
    """An answer about one partition and well-formed, which is nearly every one of a large topic, in few steps.

    The next request waits for this. None if it is anything else: then all of it is read and judged from the front.
    """
    if version >= NEWEST_VERSION:
        return None
    beginning, answer = _plain_forms(version)
    at = beginning.size
    if len(data) < at:
        return None
    correlation_id, *between, topics, topic_size = beginning.unpack_from(data)
    start = at + topic_size + answer.size
    if topics != 1 or topic_size < 0 or len(data) < start:
        return None
    partitions, partition, error_code, high_watermark, *more, size = answer.unpack_from(data, at + topic_size)
    if partitions != 1 or size != len(data) - start or (version >= 4 and more[-1] not in (0, UNKNOWN)):
        return None
    try:
        topic = str(data[at : at + topic_size], "utf-8")
    except UnicodeDecodeError:
        return None
    throttle_time_ms, error_of_all, *_ = (*between, 0, 0)
    fetched = FetchedPartition(error_code, high_watermark, memoryview(data)[start:])
    return FetchResponse({TopicAndPartition(topic, partition): fetched}, throttle_time_ms, error_of_all, correlation_id)


@cache
def _plain_forms(version: int) -> tuple[Struct, Struct]:
    """Up to the topic's name, and from there to the messages."""
    beginning = ">i" if version == 0 else ">ii" if version < 7 else ">iihi"
    answer = "ihq" if version < 4 else "ihqqi" if version == 4 else "ihqqqi"
    return Struct(f"{beginning}ih"), Struct(f">i{answer}i")


@lru_cache(maxsize=64)
def _around_topics(version: int, max_wait_ms: int, min_bytes: int, max_bytes: int) -> tuple[bytes, bytes]:
    """Of a request: what stands before its topics and after them."""
    _check(version)
    before, after = [_LIMITS.pack(CONSUMER, max_wait_ms, min_bytes)], []
    if version >= 3:
        before.append(INT32.pack(max_bytes))
    if version >= 4:
        before.append(bytes([READ_UNCOMMITTED]))
    if version >= 7:
        before.append(Struct(">ii").pack(*NO_SESSION))
        after.append(INT32.pack(0))  # topics to forget: none, without a session
    if version >= 11:
        after.append(encode_string(""))
    return b"".join(before), b"".join(after)


def _encode_topics(version: int, partitions: Mapping[TopicAndPartition, tuple[int, int]]) -> bytes:
    if version == VERSION_OF_1_1:
        rows = [(topic, list(row)) for topic, row in groupby(partitions, key=lambda partition: partition.topic)]
    else:
        by_topic: dict[str, list[TopicAndPartition]] = {}
        for partition in partitions:
            by_topic.setdefault(partition.topic, []).append(partition)
        rows = list(by_topic.items())
    return encode_array(
        [
            encode_string(topic)
            + encode_array([_encode_partition(version, one.partition, *partitions[one]) for one in row])
            for topic, row in rows
        ]
    )


def _encode_partition(version: int, partition: int, offset: int, most_bytes: int) -> bytes:
    if version >= 9:
        return _PARTITION_WITH_EPOCH.pack(partition, UNKNOWN, offset, UNKNOWN, most_bytes)
    if version >= 5:
        return _PARTITION_WITH_LOG_START.pack(partition, offset, UNKNOWN, most_bytes)
    return _PARTITION.pack(partition, offset, most_bytes)


def _decode_partition(version: int, reader: Reader, topic: str) -> tuple[int, FetchedPartition]:
    form = _ANSWER_WITH_LOG_START if version >= 5 else _ANSWER_WITH_STABLE_OFFSET if version == 4 else _ANSWER
    partition, error_code, high_watermark, *_, number = reader.numbers(form, f"a partition of {topic}")
    if version < 4:
        messages = reader.sized_view(number, f"messages of [{topic},{partition}]")
        return partition, FetchedPartition(error_code, high_watermark, messages)
    if number not in (0, UNKNOWN):
        where = f"aborted transactions of [{topic},{partition}]"
        for _ in range(reader.possible_count(number, where, _ABORTED_TRANSACTION.size)):
            reader.numbers(_ABORTED_TRANSACTION, where)
    if version >= 11:
        reader.number(INT32, f"preferred replica of [{topic},{partition}]")
    messages = reader.view(f"messages of [{topic},{partition}]")
    return partition, FetchedPartition(error_code, high_watermark, messages)


def _check(version: int) -> None:
    if not 0 <= version <= NEWEST_VERSION:
        raise ValueError(f"fetch version {version} is not one of 0 to {NEWEST_VERSION}")
