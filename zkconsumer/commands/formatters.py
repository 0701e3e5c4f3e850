"""How the console consumer writes messages (0.8: kafka.tools.MessageFormatter and its implementations).

A formatter of one's own is a Python class with these three methods, named on the command line as module:Class.
"""

from __future__ import annotations

import importlib
import os
import sys
import zlib
from collections.abc import Callable, Mapping
from typing import Protocol, cast

from zkconsumer.errors import IllegalArgumentException
from zkconsumer.streams import MessageAndMetadata

Record = MessageAndMetadata[bytes, bytes]


class BytesOutput(Protocol):
    """What a formatter writes to."""

    def write(self, data: bytes, /) -> int: ...


class MessageFormatter(Protocol):
    """Made without arguments, then init() once, write_to() for each message, close() once."""

    def init(self, properties: Mapping[str, str]) -> None:
        """The --property options."""

    def write_to(self, record: Record, output: BytesOutput) -> None:
        """Write one message; bytes go out as they are."""

    def close(self) -> None:
        """Nothing more comes."""


class DefaultMessageFormatter:
    """The value and a line end; with print.key=true the key and key.separator before it. Null is `null`."""

    def init(self, properties: Mapping[str, str]) -> None:
        self._prints_key = properties.get("print.key", "").strip().lower() == "true"
        self._key_separator = properties.get("key.separator", "\t").encode()
        self._line_separator = properties.get("line.separator", "\n").encode()

    def write_to(self, record: Record, output: BytesOutput) -> None:
        value = record.message
        line = (b"null" if value is None else value) + self._line_separator
        if self._prints_key:
            key = record.key
            line = (b"null" if key is None else key) + self._key_separator + line
        output.write(line)

    def close(self) -> None:
        pass


class NoOpMessageFormatter:
    """Writes nothing: for counting, or for measuring."""

    def init(self, properties: Mapping[str, str]) -> None:
        pass

    def write_to(self, record: Record, output: BytesOutput) -> None:
        pass

    def close(self) -> None:
        pass


class ChecksumMessageFormatter:
    """The CRC-32 that the message would have in format 0, uncompressed; behind the property topic, if given."""

    def init(self, properties: Mapping[str, str]) -> None:
        topic = properties.get("topic")
        self._start = "" if topic is None else f"{topic}:"

    def write_to(self, record: Record, output: BytesOutput) -> None:
        content = bytes(2) + _sized(record.key) + _sized(record.message)  # magic and attributes are 0
        output.write(f"{self._start}checksum:{zlib.crc32(content)}\n".encode())

    def close(self) -> None:
        pass


def _sized(data: bytes | None) -> bytes:
    return b"\xff\xff\xff\xff" if data is None else len(data).to_bytes(4, "big") + data


_OF_KAFKA: dict[str, Callable[[], MessageFormatter]] = {
    "kafka.tools.DefaultMessageFormatter": DefaultMessageFormatter,
    "kafka.tools.NoOpMessageFormatter": NoOpMessageFormatter,
    "kafka.tools.ChecksumMessageFormatter": ChecksumMessageFormatter,
}
DEFAULT_FORMATTER = "kafka.tools.DefaultMessageFormatter"


def new_formatter(name: str) -> MessageFormatter:
    """By its Java name, or module:Class; modules are also looked for in the current directory."""
    if name in _OF_KAFKA:
        return _OF_KAFKA[name]()
    module_name, colon, class_name = name.partition(":")
    if not colon:
        known = ", ".join(_OF_KAFKA)
        raise IllegalArgumentException(f"--formatter {name}: there are {known}, and Python classes as module:Class")
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        made = getattr(importlib.import_module(module_name), class_name)()
    except (ImportError, AttributeError, ValueError) as error:
        raise IllegalArgumentException(f"--formatter {name}: cannot be loaded: {error}") from error
    missing = [method for method in ("init", "write_to", "close") if not callable(getattr(made, method, None))]
    if missing:
        raise IllegalArgumentException(f"--formatter {name}: has no method {', '.join(missing)}")
    return cast(MessageFormatter, made)


def parse_properties_given(given: list[str]) -> dict[str, str]:
    """`key=value` of each --property."""
    if not all("=" in pair for pair in given):
        raise IllegalArgumentException(f"Invalid command line properties: {' '.join(given)}")
    return {key: value for key, _, value in (pair.partition("=") for pair in given)}
