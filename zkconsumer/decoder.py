"""Bytes to what the application wants (0.8: kafka.serializer.Decoder).

A decoder is called at each access to a message's key or value, in the thread of the application; one that fails does so
there and leaves the stream intact. It never sees a missing key or value.
"""

from __future__ import annotations

import codecs
from collections.abc import Mapping
from typing import Protocol, TypeVar

from zkconsumer.errors import InvalidConfigException

T_co = TypeVar("T_co", covariant=True)


class Decoder(Protocol[T_co]):
    """Anything with this method."""

    def from_bytes(self, data: bytes) -> T_co:
        """The value, made anew each time (0.8: fromBytes)."""


class DefaultDecoder:
    """The bytes as they are."""

    def from_bytes(self, data: bytes) -> bytes:
        """Exactly what was given."""
        return data


class StringDecoder:
    """Text; bytes that are none become U+FFFD, as in Java."""

    def __init__(self, encoding: str = "UTF8") -> None:
        """Raises InvalidConfigException for an encoding Python does not know."""
        try:
            codecs.lookup(encoding)
        except LookupError as error:
            raise InvalidConfigException(
                f"Wrong value {encoding} of serializer.encoding: no such encoding",
                key="serializer.encoding",
                value=encoding,
            ) from error
        self.encoding = encoding

    @classmethod
    def from_properties(cls, properties: Mapping[str, str]) -> StringDecoder:
        """With `serializer.encoding`, which is no setting of the consumer's (0.8: new StringDecoder(props))."""
        return cls(properties.get("serializer.encoding", "UTF8"))

    def from_bytes(self, data: bytes) -> str:
        """Never fails."""
        return data.decode(self.encoding, "replace")
