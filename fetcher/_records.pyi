"""What the compiled module offers: the same as its twins in Python, from where the types come."""

from fetcher.message import Message
from fetcher.pure_cursor import (
    ConsumedOffset,
    MessageAndMetadata,
    RecordCursor,
    read_batch,
    read_columns,
    with_direct_next,
)
from fetcher.pure_message_set import ByteBufferMessageSet

__all__ = [
    "ByteBufferMessageSet",
    "ConsumedOffset",
    "Message",
    "MessageAndMetadata",
    "RecordCursor",
    "crc32",
    "crc32c",
    "read_batch",
    "read_columns",
    "receive",
    "receive_answer",
    "send_some",
    "with_direct_next",
]

def crc32(data: bytes, *, at_most: int = 2) -> int: ...
def receive(descriptor: int, waker: int, target: memoryview, timeout_ms: int) -> int: ...
def send_some(descriptor: int, source: memoryview) -> int: ...
def crc32c(data: bytes, *, at_most: int = 2) -> int: ...
def receive_answer(
    descriptor: int, waker: int, likely: int, smallest: int, most: int, timeout_ms: int
) -> tuple[int, int, bytes | None]: ...
