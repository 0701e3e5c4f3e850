"""Handing out the records of a chunk: _records.pyx where it was compiled, else pure_cursor.py, which says how."""

from __future__ import annotations

from typing import TYPE_CHECKING

from fetcher.columns import Columns, columns_of
from fetcher.implementation import IMPLEMENTATION
from fetcher.message import invalid_offset

if TYPE_CHECKING or IMPLEMENTATION == "pure":
    from fetcher.pure_cursor import (
        ConsumedOffset,
        MessageAndMetadata,
        RecordCursor,
        read_batch,
        read_columns,
        with_direct_next,
    )
else:
    from fetcher._records import (
        ConsumedOffset,
        MessageAndMetadata,
        RecordCursor,
        read_batch,
        read_columns,
        with_direct_next,
    )

__all__ = [
    "Columns",
    "ConsumedOffset",
    "MessageAndMetadata",
    "RecordCursor",
    "columns_of",
    "invalid_offset",
    "read_batch",
    "read_columns",
    "with_direct_next",
]
