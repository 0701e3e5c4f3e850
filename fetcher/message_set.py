"""What a fetch brings: a message set, and the messages in it (0.8: ByteBufferMessageSet, Message).

Read by _records.pyx where it was compiled, else by pure_message_set.py, which says how. `IMPLEMENTATION` tells which.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from fetcher.implementation import IMPLEMENTATION
from fetcher.message import Message

if TYPE_CHECKING or IMPLEMENTATION == "pure":
    from fetcher.pure_message_set import DEEPEST_NESTING, ByteBufferMessageSet
else:
    from fetcher import _records
    from fetcher._records import DEEPEST_NESTING, ByteBufferMessageSet

    Message.register(_records.Message)

__all__ = ["DEEPEST_NESTING", "IMPLEMENTATION", "ByteBufferMessageSet", "Message"]
