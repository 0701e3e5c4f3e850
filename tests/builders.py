"""Message sets made for a test: plain encoders of formats 0, 1 and 2, with a hand on every field that may be wrong.

Written after the format's description, not after our reader; the vectors of real brokers keep both honest.
"""

from __future__ import annotations

import gzip
import struct
import zlib
from collections.abc import Sequence
from typing import NamedTuple

import cramjam
import xxhash
from crc32c import crc32c

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}


class Content(NamedTuple):
    """What a test wants to find again."""

    offset: int
    key: bytes | None = None
    value: bytes | None = None
    timestamp_ms: int = -1
    headers: tuple[tuple[str, bytes | None], ...] = ()


def message(content: Content, magic: int = 0, *, attributes: int = 0, crc: int | None = None) -> bytes:
    """One entry of format 0 or 1."""
    body = struct.pack(">BB", magic, attributes)
    if magic == 1:
        body += struct.pack(">q", content.timestamp_ms)
    body += _sized(content.key) + _sized(content.value)
    body = struct.pack(">I", zlib.crc32(body) if crc is None else crc) + body
    return struct.pack(">qi", content.offset, len(body)) + body


def message_set(contents: Sequence[Content], magic: int, codec: str = "none") -> bytes:
    """A set of format 0, 1 or 2; compressed, it is one entry."""
    if magic == 2:
        return batch(contents, codec)
    if codec == "none":
        return b"".join(message(content, magic) for content in contents)
    return wrapper(contents, magic, codec)


def wrapper(
    contents: Sequence[Content], magic: int, codec: str, *, attributes: int = 0, timestamp_ms: int = -1
) -> bytes:
    """A compressed entry of format 0 (offsets inside as they are) or 1 (counted from the first)."""
    first = contents[0].offset if magic == 1 else 0
    inner = b"".join(message(content._replace(offset=content.offset - first), magic) for content in contents)
    return wrap(inner, contents[-1].offset, magic, codec, attributes=attributes, timestamp_ms=timestamp_ms)


def wrap(inner: bytes, offset: int, magic: int, codec: str, *, attributes: int = 0, timestamp_ms: int = -1) -> bytes:
    """Any bytes as the value of a compressed entry."""
    value = compress(codec, inner, wrong_lz4_header=magic == 0)
    return message(Content(offset, None, value, timestamp_ms), magic, attributes=attributes | CODECS[codec])


def batch(
    contents: Sequence[Content],
    codec: str = "none",
    *,
    attributes: int = 0,
    crc: int | None = None,
    count: int | None = None,
    last_offset: int | None = None,
    records: bytes | None = None,
) -> bytes:
    """One entry of format 2."""
    first = contents[0] if contents else Content(0)
    last = contents[-1].offset if last_offset is None and contents else last_offset or 0
    if records is None:
        records = b"".join(record(content, first) for content in contents)
        if codec != "none":
            records = compress(codec, records)
    largest_ms = max((content.timestamp_ms for content in contents), default=-1)
    checked = struct.pack(
        ">hiqqqhii",
        attributes | CODECS[codec],
        last - first.offset,
        first.timestamp_ms,
        largest_ms,
        -1,
        -1,
        -1,
        len(contents) if count is None else count,
    )
    checked += records
    body = struct.pack(">iBI", 0, 2, crc32c(checked) if crc is None else crc) + checked
    return struct.pack(">qi", first.offset, len(body)) + body


def record(content: Content, first: Content) -> bytes:
    """One record of a batch that begins with `first`."""
    body = b"\0" + varint(content.timestamp_ms - first.timestamp_ms) + varint(content.offset - first.offset)
    body += _varint_sized(content.key) + _varint_sized(content.value) + varint(len(content.headers))
    for name, value in content.headers:
        body += _varint_sized(name.encode()) + _varint_sized(value)
    return varint(len(body)) + body


def varint(number: int) -> bytes:
    """Zigzag, seven bits a byte, low ones first."""
    left = number * 2 if number >= 0 else -number * 2 - 1
    encoded = bytearray()
    while left > 0x7F:
        encoded.append(left & 0x7F | 0x80)
        left >>= 7
    encoded.append(left)
    return bytes(encoded)


def compress(codec: str, data: bytes, *, wrong_lz4_header: bool = False) -> bytes:
    """As a producer does; snappy in the frame of Java's library, in blocks of 32 KiB."""
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        return xerial(data)
    if codec == "lz4":
        frame = bytearray(cramjam.lz4.compress(data))
        if wrong_lz4_header:
            end = 14 if frame[4] & 0x08 else 6
            frame[end] = xxhash.xxh32_intdigest(bytes(frame[:end])) >> 8 & 0xFF
        return bytes(frame)
    return bytes(cramjam.zstd.compress(data))


def xerial(data: bytes, block_size: int = 32 * 1024) -> bytes:
    """The frame of Java's snappy library."""
    framed = b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1)
    for start in range(0, len(data), block_size):
        block = bytes(cramjam.snappy.compress_raw(data[start : start + block_size]))
        framed += struct.pack(">i", len(block)) + block
    return framed


def _sized(data: bytes | None) -> bytes:
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def _varint_sized(data: bytes | None) -> bytes:
    return varint(-1) if data is None else varint(len(data)) + data
