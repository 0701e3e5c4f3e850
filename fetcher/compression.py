"""Compressed message sets made readable (0.8: kafka.message.CompressionFactory).

Rule: nothing is decompressed beyond a limit, however small it came: whoever may write to a topic could else fill our
memory with a few hundred bytes.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from struct import Struct, error

import cramjam
import xxhash

from fetcher.errors import DecompressionLimitException, InvalidMessageException, UnsupportedCodecException

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)
CODEC_NAMES = ("none", "gzip", "snappy", "lz4", "zstd")

# No producer packs as much into one set: its batches end at some megabytes. Change both to read what others wrote.
LIMIT_BYTES = 64 * 1024 * 1024
LIMIT_RATIO = 128


def decompress(
    codec: int, data: bytes | memoryview, *, limit: int | None = None, check_lz4_header: bool = True
) -> bytes:
    """What was compressed; DecompressionLimitException if that is more than `limit` bytes.

    `check_lz4_header`: False for message formats 0 and 1, whose lz4 headers may have a wrong checksum (KAFKA-3160).
    """
    if limit is None:
        limit = limit_for(len(data))
    if codec == GZIP:
        return _decompress_gzip(data, limit)
    if codec == SNAPPY:
        return _decompress_snappy(data, limit)
    if codec == LZ4:
        return _grow(cramjam.lz4.decompress_into, data if check_lz4_header else _mend_lz4_header(data), limit, "lz4")
    if codec == ZSTD:
        return _grow(cramjam.zstd.decompress_into, data, limit, "zstd")
    raise UnsupportedCodecException(f"{codec} is an unknown compression codec", codec=codec)


def limit_for(size: int) -> int:
    """The most that `size` compressed bytes may become."""
    return max(LIMIT_BYTES, LIMIT_RATIO * size)


def _decompress_gzip(data: bytes | memoryview, limit: int) -> bytes:
    """One gzip member after the other, as Java's GZIPInputStream reads them."""
    parts, left = [], limit
    while True:
        member = zlib.decompressobj(wbits=31)
        try:
            part = member.decompress(data, left + 1)
        except zlib.error as problem:
            raise _corrupt("gzip", problem) from None
        left -= len(part)
        if left < 0:
            raise _too_large("gzip", limit)
        parts.append(part)
        if not member.eof:
            raise _corrupt("gzip", "it ends too early")
        data = member.unused_data
        if not data:
            return b"".join(parts)


# Java's snappy library cuts its output into blocks, each after its size, behind this mark and two version numbers.
XERIAL_MARK = b"\x82SNAPPY\0"
_XERIAL_HEADER_SIZE = 16
_BLOCK_SIZE = Struct(">i")


def _decompress_snappy(data: bytes | memoryview, limit: int) -> bytes:
    """With Java's frame, or without any, as librdkafka and others write it."""
    blocks = _xerial_blocks(memoryview(data)) if data[:8] == XERIAL_MARK else [memoryview(data)]
    try:
        # Each block begins with its size. Look at all of them before anything is made for one.
        if sum(cramjam.snappy.decompress_raw_len(block) for block in blocks) > limit:
            raise _too_large("snappy", limit)
        return b"".join(bytes(cramjam.snappy.decompress_raw(block)) for block in blocks)
    except cramjam.DecompressionError as problem:
        raise _corrupt("snappy", problem) from None


def _xerial_blocks(data: memoryview) -> list[memoryview]:
    blocks = []
    position = 0
    while position < len(data):
        if data[position : position + 8] == XERIAL_MARK:  # also in the middle: streams may be put end to end
            position += _XERIAL_HEADER_SIZE
            if position > len(data):
                raise _corrupt("snappy", "it ends too early")
            continue
        try:
            (size,) = _BLOCK_SIZE.unpack_from(data, position)
        except error:
            raise _corrupt("snappy", "it ends too early") from None
        position += _BLOCK_SIZE.size
        if not 0 < size <= len(data) - position:
            raise _corrupt("snappy", f"a block has a size of {size}, and {len(data) - position} bytes are left")
        blocks.append(data[position : position + size])
        position += size
    return blocks


def _mend_lz4_header(data: bytes | memoryview) -> bytes | memoryview:
    """The same frame with the header checksum that the standard asks for.

    0.8 to 0.9 computed it over the frame's mark and descriptor instead of the descriptor alone (KAFKA-3160).
    """
    if len(data) < 7:
        return data
    has_content_size = data[4] & 0x08
    end = 14 if has_content_size else 6
    if len(data) <= end:
        return data
    checksum = (xxhash.xxh32_intdigest(data[4:end]) >> 8) & 0xFF
    if data[end] == checksum:
        return data
    mended = bytearray(data)
    mended[end] = checksum
    return bytes(mended)


def _grow(decompress_into: Callable[..., int], data: bytes | memoryview, limit: int, name: str) -> bytes:
    """Decompress into more and more room until it fits. The library has no limit of its own."""
    room = min(limit, max(64 * 1024, 8 * len(data)))
    while True:
        output = bytearray(room)
        try:
            size = decompress_into(data, output)
            return bytes(memoryview(output)[:size])
        except cramjam.DecompressionError as problem:
            if "write whole buffer" not in str(problem):
                raise _corrupt(name, problem) from None
        if room == limit:
            raise _too_large(name, limit)
        room = min(limit, 8 * room)


def _corrupt(name: str, problem: object) -> InvalidMessageException:
    return InvalidMessageException(f"Compressed message set is corrupt ({name}: {problem})")


def _too_large(name: str, limit: int) -> DecompressionLimitException:
    return DecompressionLimitException(
        f"A {name} message set is larger than {limit} bytes when decompressed; "
        "if it is not an attack, raise fetcher.compression.LIMIT_BYTES",
        limit=limit,
    )
