"""What fetchers hand to a stream: a few chunks, and at the end a marker (0.8: BlockingQueue[FetchedDataChunk]).

Rule: nobody waits here without a waker. A put is woken by a take, clear() or wake(); a take by a put, its time-out, or
put_shutdown().
"""

from __future__ import annotations

import threading
import time
from collections import deque
from enum import Enum
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from fetcher.message_set import ByteBufferMessageSet

if TYPE_CHECKING:
    from fetcher.partition import PartitionTopicInfo


FOR_EVER_S = -1.0  # as Lock.acquire() has it


class FetchedDataChunk(NamedTuple):
    """What one fetch brought for one partition, and the offset it had asked for."""

    messages: ByteBufferMessageSet
    info: PartitionTopicInfo
    fetch_offset: int


class ShutdownMarker(Enum):
    """The last thing in a queue (0.8: ZookeeperConsumerConnector.shutdownCommand)."""

    SHUTDOWN = "shutdown"


SHUTDOWN: Final = ShutdownMarker.SHUTDOWN
Shutdown = Literal[ShutdownMarker.SHUTDOWN]


class ChunkQueue:
    """A queue of at most `capacity` chunks (`queued.max.message.chunks`); fetchers put, one stream takes."""

    def __init__(self, capacity: int) -> None:
        if capacity < 1:
            raise ValueError(f"queued.max.message.chunks is {capacity}; a queue must have room for at least 1 chunk")
        self.capacity = capacity
        self._chunks: deque[FetchedDataChunk | Shutdown] = deque()
        self._lock = threading.Lock()
        self._not_full = threading.Condition(self._lock)
        # A lock that is open after something came, since a signal in Condition.wait() can leave its lock released, and
        # signals reach the user's thread only.
        self._arrived = threading.Lock()
        self._arrived.acquire()

    def put(self, chunk: FetchedDataChunk, stopping: threading.Event | None = None) -> bool:
        """Wait for room and put. False if `stopping` is set, before or meanwhile: then call wake() after setting it.

        Called by: the fetcher threads.
        """
        with self._lock:
            while True:
                if stopping is not None and stopping.is_set():
                    return False
                if len(self._chunks) < self.capacity:
                    self._chunks.append(chunk)
                    self._announce()
                    return True
                self._not_full.wait()

    def put_shutdown(self) -> None:
        """Put the marker behind what is there; there is always room for it."""
        with self._lock:
            self._chunks.append(SHUTDOWN)
            self._announce()

    def take(self, timeout_s: float | None = None) -> FetchedDataChunk | Shutdown | None:
        """The next chunk or the marker; None if nothing came in time. None as time: wait for ever.

        Called by: the user's thread. A Ctrl-C there never costs a chunk.
        """
        deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
        taken: FetchedDataChunk | Shutdown | None = None
        try:
            while True:
                with self._lock:
                    if self._chunks:
                        self._not_full.notify_all()  # they run when we leave the lock
                        # Signals are handled after calls, so popleft() could lose what it returns.
                        taken = self._chunks[0]
                        del self._chunks[0]
                        return taken
                left_s = FOR_EVER_S if deadline_s is None else deadline_s - time.monotonic()
                if left_s <= 0 and deadline_s is not None:
                    return None
                self._arrived.acquire(timeout=min(left_s, threading.TIMEOUT_MAX))
        except BaseException:
            self._put_back(taken)
            raise

    def clear(self) -> None:
        """Drop all chunks; the marker stays, since whoever waits for it has nothing else to wait for."""
        with self._lock:
            marked = SHUTDOWN in self._chunks
            self._chunks.clear()
            if marked:
                self._chunks.append(SHUTDOWN)
            self._not_full.notify_all()

    def wake(self) -> None:
        """Let blocked puts look at their `stopping`. Called by: whoever stops a fetcher."""
        with self._lock:
            self._not_full.notify_all()

    def __len__(self) -> int:
        return len(self._chunks)

    def _announce(self) -> None:
        """Wake a take, or let the next one look. The lock is held."""
        if self._arrived.locked():
            self._arrived.release()

    def _put_back(self, taken: FetchedDataChunk | Shutdown | None) -> None:
        with self._lock:
            if taken is not None and not (self._chunks and self._chunks[0] is taken):
                self._chunks.appendleft(taken)
            if self._chunks:
                self._announce()
