"""Decompression: what libraries and real producers write, and what nobody should."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
import zlib

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.compression import GZIP, LIMIT_BYTES, LZ4, SNAPPY, ZSTD, decompress, limit_for
from fetcher.errors import (
    DecompressionLimitException,
    InvalidMessageException,
    KafkaException,
    UnsupportedCodecException,
)
from tests.builders import CODECS, compress, xerial

NAMES = ("gzip", "snappy", "lz4", "zstd")
TEXT = b"the same again and again, " * 5000


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("data", [b"", b"x", TEXT, bytes(range(256)) * 1000], ids=["empty", "one", "text", "binary"])
def test_what_was_compressed_comes_back(name: str, data: bytes) -> None:
    assert decompress(CODECS[name], compress(name, data)) == data


def test_snappy_may_come_without_a_frame() -> None:
    assert decompress(SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT))) == TEXT


def test_framed_snappy_streams_may_be_put_end_to_end() -> None:
    assert decompress(SNAPPY, xerial(b"one ") + xerial(b"two")) == b"one two"


def test_gzip_members_may_be_put_end_to_end() -> None:
    assert decompress(GZIP, gzip.compress(b"one ") + gzip.compress(b"two")) == b"one two"


def test_a_wrong_lz4_header_checksum_is_an_error_in_format_2() -> None:
    with pytest.raises(InvalidMessageException, match="lz4"):
        decompress(LZ4, compress("lz4", TEXT, wrong_lz4_header=True))


def test_a_wrong_lz4_header_checksum_is_mended_for_formats_0_and_1() -> None:
    """I1: KAFKA-3160."""
    assert decompress(LZ4, compress("lz4", TEXT, wrong_lz4_header=True), check_lz4_header=False) == TEXT


@pytest.mark.parametrize("codec", [0, 5, 7, -1])
def test_an_unknown_codec_has_its_number_in_the_error(codec: int) -> None:
    with pytest.raises(UnsupportedCodecException, match=f"^{codec} is an unknown compression codec$"):
        decompress(codec, b"")


@pytest.mark.parametrize("name", NAMES)
def test_exactly_the_limit_is_allowed(name: str) -> None:
    assert decompress(CODECS[name], compress(name, TEXT), limit=len(TEXT)) == TEXT


@pytest.mark.parametrize("name", NAMES)
def test_one_byte_more_than_the_limit_is_not(name: str) -> None:
    with pytest.raises(DecompressionLimitException) as caught:
        decompress(CODECS[name], compress(name, TEXT), limit=len(TEXT) - 1)

    assert caught.value.limit == len(TEXT) - 1


@pytest.mark.parametrize("name", NAMES)
def test_a_small_limit_bounds_the_memory_a_bomb_takes(name: str) -> None:
    limit = 256 * 1024
    bomb = compress(name, bytes(64 * limit))

    tracemalloc.start()
    try:
        with pytest.raises(DecompressionLimitException):
            decompress(CODECS[name], bomb, limit=limit)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 4 * limit


def test_a_snappy_block_that_claims_four_gigabytes_is_not_believed() -> None:
    with pytest.raises(DecompressionLimitException):
        decompress(SNAPPY, b"\xff\xff\xff\xff\x0f")


@pytest.mark.parametrize("size", [-1, 0, 2**31 - 1, -(2**31)])
def test_a_framed_snappy_block_of_impossible_size_is_an_error(size: int) -> None:
    with pytest.raises(InvalidMessageException, match=f"size of {size}"):
        decompress(SNAPPY, xerial(b"") + struct.pack(">i", size) + b"abc")


def test_the_limit_grows_with_what_came() -> None:
    assert limit_for(10) == LIMIT_BYTES
    assert limit_for(LIMIT_BYTES) == 128 * LIMIT_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_data_cut_anywhere_is_an_error(name: str) -> None:
    whole = compress(name, b"some text, some text, some text")

    for length in range(len(whole)):
        if name == "snappy" and length == 16:
            continue  # a frame without blocks is whole
        with pytest.raises(InvalidMessageException):
            decompress(CODECS[name], whole[:length])


@given(st.sampled_from([GZIP, SNAPPY, LZ4, ZSTD]), st.binary(max_size=200), st.booleans())
def test_any_bytes_give_bytes_or_a_typed_error(codec: int, data: bytes, check_lz4_header: bool) -> None:
    try:
        decompress(codec, data, limit=4096, check_lz4_header=check_lz4_header)
    except KafkaException:
        pass


@given(st.sampled_from(NAMES), st.binary(max_size=300), st.data())
def test_a_changed_byte_gives_bytes_or_a_typed_error(name: str, data: bytes, choose: st.DataObject) -> None:
    changed = bytearray(compress(name, data))
    changed[choose.draw(st.integers(0, len(changed) - 1))] ^= choose.draw(st.integers(1, 255))

    try:
        assert len(decompress(CODECS[name], bytes(changed), limit=4096)) <= 4096
    except KafkaException:
        pass


def test_gzip_without_its_checksum_is_an_error() -> None:
    with pytest.raises(InvalidMessageException, match="ends too early"):
        decompress(GZIP, gzip.compress(TEXT)[:-8])


def test_gzip_with_a_wrong_checksum_is_an_error() -> None:
    broken = gzip.compress(TEXT)[:-8] + struct.pack("<II", zlib.crc32(TEXT) ^ 1, len(TEXT))

    with pytest.raises(InvalidMessageException, match="gzip"):
        decompress(GZIP, broken)
