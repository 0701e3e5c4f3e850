"""Which stream gets which partition's messages (0.8: topicThreadIdAndQueues and topicMessageStreams).

Grows only: queues of topics that went away stay, as in 0.8.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from fetcher.chunk_queue import ChunkQueue
from zkconsumer.streams import KafkaStream
from zkconsumer.topic_count import ConsumerThreadId


class StreamTable:
    """(topic, thread) -> stream. Changed by the rebalancer's thread, read by any."""

    def __init__(self, watch_queue: Callable[[str, int, Callable[[], int]], None]) -> None:
        """`watch_queue(topic, thread number, size)` is told of each queue, for the FetchQueueSize gauges."""
        self._watch_queue = watch_queue
        self._lock = threading.Lock()
        self._streams: dict[tuple[str, ConsumerThreadId], KafkaStream[Any, Any]] = {}
        self._shared: dict[ConsumerThreadId, KafkaStream[Any, Any]] = {}
        self._is_shut_down = False

    def add(self, topic: str, streams_by_thread: Mapping[ConsumerThreadId, KafkaStream[Any, Any]]) -> None:
        """Let these threads of this topic feed these streams."""
        for thread, stream in streams_by_thread.items():
            with self._lock:
                self._streams[topic, thread] = stream
                ends_at_once = self._is_shut_down
            if ends_at_once:
                stream.shut_down()
            self._watch_queue(topic, thread.thread, stream.queue.__len__)

    def add_for_all_topics(self, streams_by_thread: Mapping[ConsumerThreadId, KafkaStream[Any, Any]]) -> None:
        """A wildcard: these threads feed these streams, whatever the topic, also one that is yet to be created."""
        with self._lock:
            self._shared.update(streams_by_thread)
            ends_at_once = self._is_shut_down
        if ends_at_once:
            self.put_shutdown()

    def queue_of(self, topic: str, thread: ConsumerThreadId) -> ChunkQueue:
        """Where a partition owned by this thread puts its chunks."""
        with self._lock:
            stream = self._streams.get((topic, thread))
            shared = self._shared.get(thread)
        if stream is None:
            assert shared is not None, f"no stream for {thread} of {topic}"
            self.add(topic, {thread: shared})
            stream = shared
        return stream.queue

    def clear(self, topics: Collection[str] | None) -> None:
        """Empty the queues of these topics (None: of all), then drop the current chunk of every stream."""
        for queue in self._queues(topics):
            queue.clear()
        for stream in self.streams():
            stream.clear()

    def put_shutdown(self) -> None:
        """Empty each queue, once (KAFKA-1764), and tell its reader that nothing comes any more.

        Streams that are added later, by a thread that does not know yet, end at once.
        """
        with self._lock:
            self._is_shut_down = True
        for stream in self.streams():
            stream.shut_down()

    def streams(self) -> Sequence[KafkaStream[Any, Any]]:
        """Each stream once."""
        with self._lock:
            every = [*self._streams.values(), *self._shared.values()]
            return list({id(stream): stream for stream in every}.values())

    def _queues(self, topics: Collection[str] | None) -> list[ChunkQueue]:
        with self._lock:
            chosen = [stream for (topic, _), stream in self._streams.items() if topics is None or topic in topics]
        return list({id(stream): stream.queue for stream in chosen}.values())
