"""Messages as Arrow wants them, by whichever of the twins."""

from __future__ import annotations

from typing import Any, NamedTuple

from fetcher.message import NO_TIMESTAMP_MS, Message


class Columns(NamedTuple):
    """Messages as Arrow wants them. A column of bytes is a pair of views (or a list of values) and null bits."""

    rows: int
    first_offset: int
    last_offset: int
    offsets: Any
    timestamps: Any
    timestamp_types: Any
    keys: Any
    values: Any
    buffers: list[tuple[bytes, int]] | None  # what the views point into, each from a position on; None: no views


def columns_of(message: Message) -> Columns:
    """A single one."""
    timestamp_ms = message.timestamp_ms if message.timestamp_ms != NO_TIMESTAMP_MS else None
    offset, key, value = message.offset, message.key, message.value
    return Columns(1, offset, offset, [offset], [timestamp_ms], [message.timestamp_type], [key], [value], None)
