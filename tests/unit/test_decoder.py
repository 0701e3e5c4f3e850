"""Decoders, as Kafka's own serializers behave."""

from __future__ import annotations

import pytest

from zkconsumer.decoder import Decoder, DefaultDecoder, StringDecoder
from zkconsumer.errors import InvalidConfigException


def test_default_decoder_gives_the_bytes_as_they_are() -> None:
    data = b"\x00\xff"

    assert DefaultDecoder().from_bytes(data) is data


@pytest.mark.parametrize(
    ("encoding", "data", "text"),
    [
        ("UTF8", "grün€😀".encode(), "grün€😀"),
        ("UTF8", b"a\xffb", "a\ufffdb"),
        ("ISO-8859-1", b"gr\xfcn", "grün"),
        ("UTF-16BE", b"\x20\xac", "€"),
        ("UTF8", b"", ""),
    ],
    ids=["utf-8", "no utf-8", "latin 1", "utf-16", "empty"],
)
def test_string_decoder_gives_text(encoding: str, data: bytes, text: str) -> None:
    assert StringDecoder(encoding).from_bytes(data) == text


@pytest.mark.parametrize(("properties", "encoding"), [({}, "UTF8"), ({"serializer.encoding": "UTF-16BE"}, "UTF-16BE")])
def test_encoding_comes_from_serializer_encoding(properties: dict[str, str], encoding: str) -> None:
    assert StringDecoder.from_properties(properties).encoding == encoding


def test_unknown_encoding_is_refused_when_the_decoder_is_made() -> None:
    with pytest.raises(InvalidConfigException, match=r"^Wrong value KLINGON of serializer\.encoding"):
        StringDecoder("KLINGON")


def test_anything_with_from_bytes_is_a_decoder() -> None:
    class Length:
        def from_bytes(self, data: bytes) -> int:
            return len(data)

    decoder: Decoder[int] = Length()

    assert decoder.from_bytes(b"abc") == 3
