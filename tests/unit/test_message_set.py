"""Message sets: what real brokers wrote, as Kafka's own classes read it; and what no broker should ever send."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher import compression
from fetcher.errors import (
    DecompressionLimitException,
    InvalidMessageException,
    KafkaException,
    UnsupportedCodecException,
)
from fetcher.message_set import DEEPEST_NESTING, ByteBufferMessageSet, Message
from tests.builders import Content, batch, message, message_set, record, varint, wrap, wrapper

VECTORS = sorted((Path(__file__).parent.parent / "vectors" / "message-sets").glob("*.bin"))
FORMATS_AND_CODECS = [
    (magic, codec)
    for magic in (0, 1, 2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    if codec != "zstd" or magic == 2
]
TEN = [Content(offset, b"k%d" % offset, b"v%d" % offset, 1000 + offset) for offset in range(10)]


def contents_of(data: bytes) -> list[Content]:
    """All valid messages of a set, in the order they come."""
    return [content_of(one) for one in ByteBufferMessageSet(data)]


def content_of(one: Message) -> Content:
    one.ensure_valid()
    return Content(one.offset, one.key, one.value, one.timestamp_ms, tuple(one.headers))


def without_times(contents: list[Content], magic: int) -> list[Content]:
    """Format 0 has none."""
    return [content._replace(timestamp_ms=-1) for content in contents] if magic == 0 else contents


def entries_of(file: Path) -> list[dict[str, Any]]:
    entries: list[dict[str, Any]] = json.loads(file.with_name(file.name[:-4] + ".json").read_text())
    return entries


def unhex(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)


@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.name[:-4])
def test_messages_are_those_that_kafka_itself_reads(file: Path) -> None:
    """I1: all formats and codecs, null and empty keys and values, headers, either kind of timestamp."""
    expected = [
        (
            Content(
                found["offset"],
                unhex(found["key"]),
                unhex(found["value"]),
                found["timestamp_ms"],
                tuple((name, unhex(value)) for name, value in found["headers"]),
            ),
            entry["magic"],
            entry["timestamp_type"],
        )
        for entry in entries_of(file)
        if not entry["control"]
        for found in entry["records"]
    ]

    read = [(content_of(one), one.magic, one.timestamp_type) for one in ByteBufferMessageSet(file.read_bytes())]

    assert read == expected


@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.name[:-4])
def test_entries_end_where_kafka_says(file: Path) -> None:
    entries = entries_of(file)

    messages = ByteBufferMessageSet(file.read_bytes())

    assert messages.last_offset == entries[-1]["last_offset"]
    assert messages.valid_bytes == messages.size_in_bytes == sum(entry["size"] for entry in entries)


def test_control_batches_are_not_delivered_but_passed_over() -> None:
    (file,) = [file for file in VECTORS if "transactions" in file.name]

    messages = ByteBufferMessageSet(file.read_bytes())

    assert [one.offset for one in messages] == [0, 1, 2, 3, 4, 6, 7, 8, 10]
    assert messages.last_offset == 11


@pytest.mark.parametrize(("magic", "codec"), FORMATS_AND_CODECS)
def test_a_set_can_be_read_again(magic: int, codec: str) -> None:
    messages = ByteBufferMessageSet(message_set(TEN, magic, codec))

    assert [one.offset for one in messages] == [one.offset for one in messages] == list(range(10))


def test_a_compressed_set_is_given_whole_wherever_the_fetch_began() -> None:
    """I2: offsets are absolute, so that the iterator can skip those before its own."""
    fifty = [content._replace(offset=content.offset + 50) for content in TEN]

    for magic in (0, 1, 2):
        messages = ByteBufferMessageSet(message_set(fifty, magic, "gzip"))
        assert [one.offset for one in messages if one.offset >= 55] == [55, 56, 57, 58, 59]


@pytest.mark.parametrize(("magic", "codec"), FORMATS_AND_CODECS)
def test_a_part_of_an_entry_at_the_end_is_ignored(magic: int, codec: str) -> None:
    """I3: cut at every byte of the next entry."""
    first = message_set(TEN[:5], magic, codec)
    second = message(TEN[5], magic) if magic < 2 and codec == "none" else message_set(TEN[5:], magic, codec)

    for length in range(len(second)):
        messages = ByteBufferMessageSet(first + second[:length])
        assert [one.offset for one in messages] == [0, 1, 2, 3, 4]
        assert (messages.valid_bytes, messages.last_offset) == (len(first), 4)


@pytest.mark.parametrize("length", [0, 1, 11, 12, 25, 26, 40])
def test_without_a_whole_entry_there_is_nothing(length: int) -> None:
    messages = ByteBufferMessageSet(message(Content(5, b"key", b"value" * 10))[:length])

    assert list(messages) == []
    assert (messages.size_in_bytes, messages.valid_bytes, messages.has_whole_entry) == (length, 0, False)
    assert messages.first_offset is messages.last_offset is None


@pytest.mark.parametrize("size", [13, 0, -1, -(2**31)])
@pytest.mark.parametrize("rest", [0, 13, 14, 100], ids=lambda rest: f"{rest} bytes after it")
def test_an_impossible_size_is_an_error_in_the_words_of_0_8(size: int, rest: int) -> None:
    """H12"""
    data = message(TEN[0]) + struct.pack(">qi", 1, size) + bytes(rest)
    text = rf"^Message found with corrupt size \({size}\)$"

    with pytest.raises(InvalidMessageException, match=text):
        _ = ByteBufferMessageSet(data).valid_bytes
    messages = iter(ByteBufferMessageSet(data))
    assert next(messages).offset == 0
    with pytest.raises(InvalidMessageException, match=text):
        next(messages)


def test_a_batch_too_small_for_its_header_is_an_error() -> None:
    data = struct.pack(">qiiB", 0, 48, 0, 2) + bytes(60)

    with pytest.raises(InvalidMessageException, match=r"corrupt size \(48\)"):
        _ = ByteBufferMessageSet(data).last_offset
    with pytest.raises(InvalidMessageException, match=r"corrupt size \(48\)"):
        list(ByteBufferMessageSet(data))


@pytest.mark.parametrize("magic", [0, 1])
def test_a_wrong_checksum_is_found_when_the_message_is_checked(magic: int) -> None:
    """I4: iterating goes on; the checksums are named as in 0.8."""
    messages = iter(ByteBufferMessageSet(message(TEN[0], magic, crc=17) + message(TEN[1], magic)))
    broken = next(messages)

    with pytest.raises(InvalidMessageException) as caught:
        broken.ensure_valid()

    assert caught.value.stored_crc == 17
    assert str(caught.value) == f"Message is corrupt (stored crc = 17, computed crc = {caught.value.computed_crc})"
    next(messages).ensure_valid()


def test_a_wrong_checksum_of_a_batch_is_found_before_its_first_record() -> None:
    """I4: in the same words."""
    messages = iter(ByteBufferMessageSet(batch(TEN[:2]) + batch(TEN[2:], crc=17)))

    assert [next(messages).offset, next(messages).offset] == [0, 1]
    with pytest.raises(InvalidMessageException, match=r"^Message is corrupt \(stored crc = 17, computed crc = \d+\)$"):
        next(messages)


@pytest.mark.parametrize("magic", [0, 1])
def test_the_checksum_of_a_wrapper_is_not_looked_at(magic: int) -> None:
    data = bytearray(wrapper(TEN, magic, "gzip"))
    data[12:16] = b"\0\0\0\0"

    assert contents_of(bytes(data)) == without_times(TEN, magic)


@pytest.mark.parametrize("position", [16, 17], ids=["magic", "attributes"])
def test_any_broken_byte_in_the_head_of_a_message_is_an_error(position: int) -> None:
    for changed in range(1, 256):
        data = bytearray(message(Content(0, b"key", b"value " * 20)))
        data[position] ^= changed
        with pytest.raises(KafkaException):
            contents_of(bytes(data))


def test_a_format_from_the_future_is_named() -> None:
    with pytest.raises(InvalidMessageException, match=r"^Message at offset 0 has format 3; known are 0, 1 and 2$"):
        contents_of(message(TEN[0], 3))


def test_formats_may_be_mixed_in_one_set() -> None:
    """A topic whose message.format.version was raised holds all of them."""
    data = message(TEN[0], 0) + wrapper(TEN[1:4], 0, "snappy") + wrapper(TEN[4:7], 1, "gzip") + batch(TEN[7:], "lz4")

    assert [content.offset for content in contents_of(data)] == list(range(10))


@pytest.mark.parametrize("magic", [0, 1])
def test_nesting_is_followed(magic: int) -> None:
    inner = b"".join(message(content, magic) for content in TEN)
    for _ in range(DEEPEST_NESTING):
        inner = wrap(inner, 9, magic, "gzip")

    assert contents_of(inner) == without_times(TEN, magic)


def test_nesting_ends_somewhere() -> None:
    inner = message(TEN[0])
    for _ in range(DEEPEST_NESTING + 1):
        inner = wrap(inner, 0, 0, "gzip")

    with pytest.raises(DecompressionLimitException, match="more than 8 times"):
        contents_of(inner)


def test_sets_inside_of_sets_share_one_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "LIMIT_BYTES", 100_000)
    monkeypatch.setattr(compression, "LIMIT_RATIO", 1)
    bomb = wrap(message(Content(0, None, bytes(60_000))), 0, 0, "gzip")

    assert len(contents_of(bomb + bomb)) == 2
    messages = iter(ByteBufferMessageSet(wrap(bomb + bomb, 0, 0, "gzip")))
    next(messages)
    with pytest.raises(DecompressionLimitException):
        next(messages)


def test_offsets_inside_a_wrapper_that_was_left_at_0_are_right_as_they_are() -> None:
    inner = b"".join(message(content, 1) for content in TEN)

    assert contents_of(wrap(inner, 0, 1, "gzip")) == TEN


def test_the_brokers_time_of_a_wrapper_is_that_of_all_inside() -> None:
    messages = ByteBufferMessageSet(wrapper(TEN, 1, "gzip", attributes=0x08, timestamp_ms=777))

    assert {(one.timestamp_ms, one.timestamp_type) for one in messages} == {(777, 1)}


@pytest.mark.parametrize("codec", [4, 5, 6, 7])
def test_a_codec_the_format_does_not_have_is_an_error(codec: int) -> None:
    with pytest.raises(UnsupportedCodecException, match=f"^{codec} is an unknown compression codec$"):
        contents_of(message(Content(0, None, b"?"), 1, attributes=codec))


def test_a_compressed_message_without_value_is_an_error() -> None:
    with pytest.raises(InvalidMessageException, match="has no value"):
        contents_of(message(Content(0), 0, attributes=1))


def test_a_compressed_set_that_ends_within_a_message_is_an_error() -> None:
    with pytest.raises(InvalidMessageException, match="ends within a message"):
        contents_of(wrap(message(TEN[0]) + message(TEN[1])[:-1], 1, 0, "gzip"))


def test_a_batch_inside_a_wrapper_is_an_error() -> None:
    with pytest.raises(KafkaException):
        contents_of(wrap(batch(TEN), 9, 1, "gzip"))


@pytest.mark.parametrize("lengths", [(100, 0), (0, 100), (2**31 - 1, 0), (0, 2**31 - 1)])
def test_a_key_or_value_beyond_its_message_is_an_error(lengths: tuple[int, int]) -> None:
    head = struct.pack(">qi4sBB", 0, 14, b"", 0, 0)
    data = head + struct.pack(">ii", *lengths) + message(TEN[1])
    (first, _) = ByteBufferMessageSet(data)

    with pytest.raises(InvalidMessageException, match="offset 0 is shorter than its key and value"):
        _ = (first.key, first.value)


def test_negative_lengths_mean_null_as_in_0_8() -> None:
    data = struct.pack(">qi4sBB", 0, 14, b"", 0, 0) + struct.pack(">ii", -7, -(2**31))
    (first,) = ByteBufferMessageSet(data)

    assert (first.key, first.value) == (None, None)


RECORDS = b"".join(record(content, TEN[0]) for content in TEN)


@pytest.mark.parametrize(
    "data",
    [
        batch(TEN, count=11),
        batch(TEN, count=9),
        batch(TEN, count=2**31 - 1),
        batch(TEN, count=-1),
        batch(TEN, records=RECORDS[:-1]),
        batch(TEN, records=RECORDS + b"\0"),
        batch(TEN[:1], records=varint(-5)),
        batch(TEN[:1], records=varint(2**40)),
        batch(TEN[:1], records=b"\xff" * 20),
        batch(TEN[:1], records=varint(1) + b"\0"),
        batch(TEN[:1], records=b""),
        batch(TEN[:1], "gzip", records=b"not gzip"),
        batch(TEN[:1], "gzip", attributes=4, records=b"codec 5"),
    ],
    ids=[
        "one too many announced", "one too few", "far too many", "a negative count", "cut", "a byte too much",
        "negative size", "huge size", "endless number", "nothing but attributes", "no records", "not compressed",
        "unknown codec",
    ],
)  # fmt: skip
def test_a_batch_that_contradicts_itself_is_an_error(data: bytes) -> None:
    with pytest.raises(KafkaException):
        contents_of(data)


def test_a_batch_whose_records_were_all_compacted_away_is_passed_over() -> None:
    messages = ByteBufferMessageSet(batch([], last_offset=8))

    assert list(messages) == []
    assert (messages.has_whole_entry, messages.last_offset) == (True, 8)


def test_a_batch_that_ends_before_it_begins_is_an_error() -> None:
    with pytest.raises(InvalidMessageException, match="ends 4 before it begins"):
        _ = ByteBufferMessageSet(batch([Content(5)], last_offset=1)).last_offset


@pytest.mark.parametrize(
    "fields",
    [varint(100), varint(-1) + varint(100), varint(0) * 2 + varint(3), varint(0) * 2 + varint(1) + varint(90), b"\xff"],
    ids=["key", "value", "number of headers", "header", "number"],
)
def test_a_field_beyond_its_record_is_an_error(fields: bytes) -> None:
    body = b"\0" + varint(0) + varint(0) + fields
    (first,) = ByteBufferMessageSet(batch([Content(0)], records=varint(len(body)) + body))

    with pytest.raises(InvalidMessageException, match="offset 0 is shorter than its key, value and headers"):
        _ = (first.key, first.value, first.headers)


def test_a_set_does_not_change_with_the_buffer_it_came_in() -> None:
    buffer = bytearray(message_set(TEN, 0))
    messages = ByteBufferMessageSet(memoryview(buffer))
    buffer[:] = bytes(len(buffer))

    assert [one.value for one in messages] == [content.value for content in TEN]


def test_a_message_shows_nothing_of_its_content() -> None:
    (one,) = ByteBufferMessageSet(message(Content(5, b"secret", b"secret")))

    assert repr(one) == "LegacyMessage(offset=5, magic=0, 26 bytes)"


contents = st.lists(
    st.tuples(st.none() | st.binary(max_size=20), st.none() | st.binary(max_size=300), st.integers(0, 2**41)),
    min_size=1,
    max_size=8,
).map(lambda rows: [Content(100 + 3 * place, *row) for place, row in enumerate(rows)])


@given(contents, st.sampled_from(FORMATS_AND_CODECS))
def test_whatever_is_written_is_read(written: list[Content], form: tuple[int, str]) -> None:
    magic, codec = form
    messages = ByteBufferMessageSet(message_set(written, magic, codec))

    assert [content_of(one) for one in messages] == without_times(written, magic)
    assert messages.last_offset == written[-1].offset


@given(contents, st.sampled_from(FORMATS_AND_CODECS), st.data())
def test_a_set_cut_anywhere_gives_a_beginning(
    written: list[Content], form: tuple[int, str], choose: st.DataObject
) -> None:
    magic, codec = form
    data = message_set(written, magic, codec)
    cut = data[: choose.draw(st.integers(0, len(data) - 1))]

    read = contents_of(cut)

    assert read == without_times(written, magic)[: len(read)]
    assert len(read) < len(written)


@given(contents, st.sampled_from(FORMATS_AND_CODECS), st.data())
def test_a_broken_byte_gives_a_beginning_or_a_typed_error(
    written: list[Content], form: tuple[int, str], choose: st.DataObject
) -> None:
    """I4: what checksums cover is never delivered wrong. Offsets and sizes of entries are not covered."""
    magic, codec = form
    data = bytearray(message_set(written, magic, codec))
    data[choose.draw(st.integers(0, len(data) - 1))] ^= choose.draw(st.integers(1, 255))
    expected = {content[1:] for content in without_times(written, magic)}

    read = []
    try:
        for one in ByteBufferMessageSet(data):
            read.append(content_of(one))
    except KafkaException:
        pass

    inherited_time = magic == 1 and codec != "none"  # a broken wrapper may claim that the broker's time is meant
    for content in read:
        assert content[1:] in expected or (inherited_time and content[1:3] in {known[:2] for known in expected})


@settings(max_examples=300)
@given(st.binary(max_size=200))
def test_any_bytes_give_messages_or_a_typed_error(data: bytes) -> None:
    messages = ByteBufferMessageSet(data)
    for look in (contents_of, lambda _: messages.valid_bytes):
        try:
            look(data)
        except KafkaException:
            pass
