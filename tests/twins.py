"""The compiled reader of records and its twin in Python, side by side: what each makes of the same bytes.

A trace is everything one can learn from a set: messages and their fields, and for whatever raises the error's class,
text and facts. Two traces are equal or one of the twins is wrong.
"""

from __future__ import annotations

import random
import struct
import zlib
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from crc32c import crc32c

import fetcher.pure_cursor
import fetcher.pure_message_set
from fetcher.errors import KafkaException
from tests.builders import Content, batch, message, message_set, wrap, wrapper

try:
    import fetcher._records as compiled_module
except ImportError:
    COMPILED: Any = None
else:
    COMPILED = compiled_module

PURE: Any = SimpleNamespace(
    ByteBufferMessageSet=fetcher.pure_message_set.ByteBufferMessageSet,
    read_batch=fetcher.pure_cursor.read_batch,
    read_columns=fetcher.pure_cursor.read_columns,
)
FORMS = [
    (magic, codec)
    for magic in (0, 1, 2)
    for codec in ("none", "gzip", "snappy", "lz4", "zstd")
    if codec != "zstd" or magic == 2
]
MOST_MESSAGES = 2000  # a broken count may be large, and each of its messages empty

_SUMMARY = ("size_in_bytes", "valid_bytes", "has_whole_entry", "first_offset", "last_offset")
_FIELDS = ("offset", "magic", "attributes", "timestamp_ms", "timestamp_type", "key", "value", "headers", "size")


def trace(twin: Any, data: bytes | memoryview, consumed_offset: int = 0, most_bytes: int = 1 << 30) -> list[Any]:
    """All that one of the twins says about a set."""
    messages = twin.ByteBufferMessageSet(data)
    found: list[Any] = [repr(messages), *(attempt(lambda name=name: getattr(messages, name)) for name in _SUMMARY)]
    found.append(attempt(lambda: _messages_of(messages, found)))
    found += _batch(twin, messages, consumed_offset, most_bytes)
    found += _columns(twin, messages, consumed_offset, most_bytes)
    return found


def within_an_answer(data: bytes, before: int = 47) -> memoryview:
    """The same set as it is received: the end of an answer, which the compiled reader reads where it is."""
    return memoryview(b"\xff" * before + data)[before:]


def attempt(call: Callable[..., Any]) -> Any:
    """What a call returns, or what its error says. Errors that are not ours are not caught."""
    try:
        return call()
    except KafkaException as error:
        return type(error).__name__, str(error), vars(error)


def _messages_of(messages: Any, found: list[Any]) -> None:
    for number, one in enumerate(messages):
        found.append([repr(one), *(attempt(lambda one=one, name=name: getattr(one, name)) for name in _FIELDS)])
        found.append(attempt(one.ensure_valid))
        if number == MOST_MESSAGES:
            return


def _batch(twin: Any, messages: Any, consumed_offset: int, most_bytes: int) -> list[Any]:
    records, error = twin.read_batch(iter(messages), "topic1", 3, None, None, consumed_offset, most_bytes)
    fields = ("topic", "partition", "offset", "key", "message", "timestamp", "timestamp_type", "headers")
    found = [[attempt(lambda one=one, name=name: getattr(one, name)) for name in fields] for one in records]
    return [found, attempt(lambda: _raise(error))]


def _columns(twin: Any, messages: Any, consumed_offset: int, most_bytes: int) -> list[Any]:
    columns, error = twin.read_columns(iter(messages), consumed_offset, most_bytes)
    found: list[Any] = [columns.rows, columns.first_offset, columns.last_offset]
    if columns.buffers is None:
        found += [columns.offsets, columns.timestamps, columns.timestamp_types, columns.keys, columns.values]
    else:
        found += [_numbers(column, form) for column, form in zip(columns[3:6], "qqb", strict=True)]
        found += [_viewed(column, columns.buffers) for column in columns[6:8]]
    return [*found, attempt(lambda: _raise(error))]


def _raise(error: Exception | None) -> None:
    if error is not None:
        raise error


def _is_there(bits: bytes | None, place: int) -> bool:
    return bits is None or bool(bits[place // 8] >> place % 8 & 1)


def _numbers(column: tuple[bytes, bytes | None, int], form: str) -> list[int | None]:
    """Read after Arrow's description of its columns."""
    places, bits, nulls = column
    size = struct.calcsize(form)
    numbers = struct.unpack(f"={len(places) // size}{form}", places)
    read = [number if _is_there(bits, place) else None for place, number in enumerate(numbers)]
    assert read.count(None) == nulls
    return read


def _viewed(column: tuple[bytes, bytes | None, int], buffers: Sequence[tuple[bytes, int]]) -> list[bytes | None]:
    places, bits, nulls = column
    read: list[bytes | None] = []
    for place in range(len(places) // 16):
        view = places[16 * place : 16 * place + 16]
        (size,) = struct.unpack_from("=i", view)
        _, start_of_it, number, position = struct.unpack("=i4sii", view)
        if not _is_there(bits, place):
            read.append(None)
        elif size <= 12:
            read.append(bytes(view[4 : 4 + size]))
        else:
            data, starts_at = buffers[number]
            read.append(data[starts_at + position : starts_at + position + size])
            assert (len(read[-1] or b""), (read[-1] or b"")[:4]) == (size, start_of_it)
    assert read.count(None) == nulls
    return read


# --- sets to try ---


def random_set(chance: random.Random) -> bytes:
    """A valid set of one to four entries of any format and codec, sometimes nested."""
    parts = []
    offset = chance.choice([0, 0, 5, 2**31, 2**63 - 50])
    for _ in range(chance.randint(1, 4)):
        contents = [_random_content(chance, offset + place) for place in range(chance.randint(1, 6))]
        offset += len(contents)
        parts.append(_entry(chance, contents))
    return b"".join(parts)


def _random_content(chance: random.Random, offset: int) -> Content:
    def some_bytes(most: int) -> bytes | None:
        return None if chance.random() < 0.2 else chance.randbytes(chance.choice([0, 1, 12, 13, most]))

    names = chance.choices(["", "h", "längerer Name"], k=chance.choice([0, 0, 0, 1, 3]))
    headers = tuple((name, some_bytes(20)) for name in names)
    timestamp_ms = chance.choice([-1, 0, 1_700_000_000_000, 2**62])
    return Content(offset, some_bytes(20), some_bytes(300), timestamp_ms, headers)


def _entry(chance: random.Random, contents: list[Content]) -> bytes:
    magic, codec = chance.choice(FORMS)
    if magic == 2:
        return batch(contents, codec, attributes=chance.choice([0, 0, 0, 8, 0x20]))
    if codec == "none":
        return message_set(contents, magic)
    if chance.random() < 0.2:
        inner = b"".join(message(content, magic) for content in contents)
        for _ in range(chance.randint(1, 9)):
            inner = wrap(inner, contents[-1].offset, magic, codec)
        return inner
    return wrapper(contents, magic, codec, attributes=chance.choice([0, 0, 8]), timestamp_ms=777)


def mutated(chance: random.Random, data: bytes) -> bytes:
    """Up to four changes: bytes turned, numbers made extreme, pieces cut out, doubled or put elsewhere, the end cut."""
    changed = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        if not changed:
            break
        at = chance.randrange(len(changed))
        size = chance.choice([1, 2, 4, 8, 16, 60])
        match chance.randrange(6):
            case 0:
                changed[at] ^= 1 << chance.randrange(8)
            case 1:
                changed[at] = chance.choice([0, 1, 2, 0x7F, 0x80, 0xFF])
            case 2:
                number = chance.choice([-1, 0, 1, 13, 14, 2**31 - 1, -(2**31), len(changed), len(changed) - at])
                changed[at : at + 4] = struct.pack(">i", number)
            case 3:
                del changed[at : at + size]
            case 4:
                changed[at:at] = changed[max(0, at - size) : at]
            case _:
                del changed[at:]
    return bytes(changed)


def with_right_checksums(data: bytes) -> bytes:
    """The same with checksums that fit, so that what lies behind them is reached."""
    mended = bytearray(data)
    position = 0
    while len(mended) - position >= 26:
        (size,) = struct.unpack_from(">i", mended, position + 8)
        end = position + 12 + size
        if size < 14 or end > len(mended):
            break
        if mended[position + 16] == 2 and size >= 49:
            struct.pack_into(">I", mended, position + 17, crc32c(bytes(mended[position + 21 : end])))
        elif mended[position + 16] != 2:
            struct.pack_into(">I", mended, position + 12, zlib.crc32(mended[position + 16 : end]))
        position = end
    return bytes(mended)
