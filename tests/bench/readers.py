"""The Python readers that are compared, each in a process of its own: `python -m tests.bench.readers WAY TASK`.

Reads a topic to its end as fast as it goes and prints records and seconds. The clock is the same for all: it begins
when the first record, or the first batch of them, is handed over, and what was handed over by then does not count.
Every partition holds the same number of records, so the end of each is known by its offset.
"""

from __future__ import annotations

import json
import logging
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any, NamedTuple

FETCH_BYTES = 1024 * 1024  # fetch.message.max.bytes, by default
RECEIVE_BUFFER_BYTES = 64 * 1024  # socket.receive.buffer.bytes, by default
AT_ONCE = 500


class Task(NamedTuple):
    """Which topic, and how much of it; `records` is for all partitions together."""

    zookeeper_connect: str
    bootstrap_servers: str
    topic: str
    partitions: int
    streams: int  # of each member
    records: int
    members: int = 1  # ours only

    @property
    def last_offset(self) -> int:
        return self.records // self.partitions - 1


class Clock:
    """Runs from the first hand-over; for several threads."""

    def __init__(self) -> None:
        self._began_s = 0.0
        self._before = 0
        self._lock = threading.Lock()

    def begin(self, handed_over: int = 1) -> None:
        with self._lock:
            if not self._began_s:
                self._began_s, self._before = time.perf_counter(), handed_over

    def result(self, records: int) -> tuple[int, float]:
        return records - self._before, time.perf_counter() - self._began_s


# --- ours ---


class Left:
    """Records still to come, in all streams."""

    def __init__(self, records: int) -> None:
        self._records = records
        self._lock = threading.Lock()
        self.done = threading.Event()

    def is_all(self, records: int) -> bool:
        """Take off so many; whether none are left."""
        with self._lock:
            self._records -= records
            if self._records <= 0:
                self.done.set()
        return self.done.is_set()


ReadStream = Callable[[Any, int, Clock, Left], None]


def ours(read_stream: ReadStream) -> Callable[[Task], tuple[int, float]]:
    """A way to read one stream, for all streams of all members, a thread each; one alone is read by the main thread."""

    def run(task: Task) -> tuple[int, float]:
        from zkconsumer.config import ConsumerConfig
        from zkconsumer.connector import ZookeeperConsumerConnector
        from zkconsumer.errors import ConsumerTimeoutException

        is_one = task.streams * task.members == 1
        config = ConsumerConfig(
            zookeeper_connect=task.zookeeper_connect,
            group_id=_group("ours"),
            auto_offset_reset="smallest",
            consumer_timeout_ms=-1 if is_one else 500,
            rebalance_max_retries=4 if task.members == 1 else 50,
            rebalance_backoff_ms=2000 if task.members == 1 else 200,  # which is no work
        )
        clock, left = Clock(), Left(task.records)

        def read(stream: Any) -> None:
            while not left.done.is_set():
                try:
                    read_stream(stream, task.last_offset, clock, left)
                except ConsumerTimeoutException:
                    pass  # look whether the other streams are done

        with ExitStack() as members:
            streams = []
            for _ in range(task.members):
                connector = members.enter_context(ZookeeperConsumerConnector(config))
                streams += connector.create_message_streams({task.topic: task.streams})[task.topic]
            if is_one:
                read(streams[0])
                return clock.result(task.records)
            threads = [threading.Thread(target=read, args=(stream,)) for stream in streams]
            for thread in threads:
                thread.start()
            left.done.wait()
            result = clock.result(task.records)
            for thread in threads:
                thread.join()
            return result

    return run


def iterate(stream: Any, last: int, clock: Clock, left: Left) -> None:
    """A partition at its end counts as a whole."""
    for _ in stream:
        clock.begin()
        break
    for record in stream:
        if record.offset == last and left.is_all(last + 1):
            return


def read_values(stream: Any, last: int, clock: Clock, left: Left) -> None:
    for _ in stream:
        clock.begin()
        break
    for record in stream:
        _ = record.message
        if record.offset == last and left.is_all(last + 1):
            return


def take_lists(stream: Any, last: int, clock: Clock, left: Left) -> None:
    for batch in stream.batches():
        clock.begin(len(batch))
        if left.is_all(len(batch)):
            return


def take_arrow(stream: Any, last: int, clock: Clock, left: Left) -> None:
    for batch in stream.arrow_batches():
        clock.begin(batch.num_rows)
        if left.is_all(batch.num_rows):
            return


# --- the others ---


def confluent_poll(task: Task) -> tuple[int, float]:
    """Default settings, a record at a time, as its examples do."""
    from confluent_kafka import Consumer

    consumer = Consumer(_confluent_settings(task))
    consumer.subscribe([task.topic])
    clock, last, open_partitions = Clock(), task.last_offset, task.partitions
    while open_partitions:
        record = consumer.poll(1.0)
        if record is None or record.error() is not None:
            continue
        clock.begin()
        _ = record.value()
        if record.offset() == last:
            open_partitions -= 1
    result = clock.result(task.records)
    consumer.close()
    return result


def confluent_tuned(task: Task) -> tuple[int, float]:
    """Many at a time, and no wait of a second when its queue was full."""
    from confluent_kafka import Consumer

    consumer = Consumer(_confluent_settings(task) | {"fetch.queue.backoff.ms": 10, "queued.min.messages": 1_000_000})
    consumer.subscribe([task.topic])
    clock, last, open_partitions = Clock(), task.last_offset, task.partitions
    while open_partitions:
        records = [record for record in consumer.consume(AT_ONCE, 1.0) if record.error() is None]
        if records:
            clock.begin(len(records))
        for record in records:
            _ = record.value()
            if record.offset() == last:
                open_partitions -= 1
    result = clock.result(task.records)
    consumer.close()
    return result


def _confluent_settings(task: Task) -> dict[str, Any]:
    return {
        "bootstrap.servers": task.bootstrap_servers,
        "group.id": _group("confluent"),
        "auto.offset.reset": "earliest",
        "log_level": 2,
    }


def aio_kafka(task: Task) -> tuple[int, float]:
    """By getmany(), its faster way."""
    import asyncio  # here, since it costs the others' start 40 ms

    return asyncio.run(_aio_kafka(task))


async def _aio_kafka(task: Task) -> tuple[int, float]:
    from aiokafka import AIOKafkaConsumer

    consumer = AIOKafkaConsumer(
        task.topic,
        bootstrap_servers=task.bootstrap_servers,
        group_id=_group("aiokafka"),
        auto_offset_reset="earliest",
    )
    await consumer.start()
    clock, last, open_partitions = Clock(), task.last_offset, task.partitions
    try:
        while open_partitions:
            for records in (await consumer.getmany(timeout_ms=1000)).values():
                clock.begin(len(records))
                for record in records:
                    _ = record.value
                    if record.offset == last:
                        open_partitions -= 1
        return clock.result(task.records)
    finally:
        await consumer.stop()


def kafka_python(task: Task) -> tuple[int, float]:
    """By poll(), its faster way."""
    from kafka import KafkaConsumer

    consumer = KafkaConsumer(
        task.topic,
        bootstrap_servers=task.bootstrap_servers.split(","),
        group_id=_group("kafka-python"),
        auto_offset_reset="earliest",
    )
    clock, last, open_partitions = Clock(), task.last_offset, task.partitions
    while open_partitions:
        for records in consumer.poll(timeout_ms=1000).values():
            clock.begin(len(records))
            for record in records:
                _ = record.value
                if record.offset == last:
                    open_partitions -= 1
    result = clock.result(task.records)
    consumer.close()
    return result


# --- the limit ---


def raw_socket(task: Task) -> tuple[int, float]:
    """The same fetch responses into one buffer, looked at by nobody: where each begins was found in a pass before."""
    from fetcher.message_set import ByteBufferMessageSet
    from fetcher.structs import TopicAndPartition
    from fetcher.wire.fetch import decode_fetch_response, encode_fetch_request

    version, where = 4, TopicAndPartition(task.topic, 0)
    host, _, port = task.bootstrap_servers.partition(":")
    with socket.socket() as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BUFFER_BYTES)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.connect((host, int(port)))
        buffer = memoryview(bytearray(2 * FETCH_BYTES))
        requests, offset, first = [], 0, 0
        while offset < task.records:
            asked = {where: (offset, FETCH_BYTES)}
            requests.append(encode_fetch_request(version, 1, "raw", 100, 1, FETCH_BYTES, asked))
            connection.sendall(requests[-1])
            response = decode_fetch_response(version, bytes(_receive(connection, buffer)))
            for record in ByteBufferMessageSet(response.partitions[where].messages):
                offset = record.offset + 1
            first = first or offset
        for number, request in enumerate(requests):
            connection.sendall(request)
            _receive(connection, buffer)
            if number == 0:
                began_s = time.perf_counter()
        return task.records - first, time.perf_counter() - began_s


def _receive(connection: socket.socket, buffer: memoryview) -> memoryview:
    connection.recv_into(buffer[:4], 4, socket.MSG_WAITALL)
    (size,) = struct.unpack(">i", buffer[:4])
    if connection.recv_into(buffer[:size], size, socket.MSG_WAITALL) != size:
        raise SystemExit("the broker closed the connection")
    return buffer[:size]


def _group(name: str) -> str:
    return f"{name}-{time.monotonic_ns()}"


WAYS: dict[str, Callable[[Task], tuple[int, float]]] = {
    "iterate": ours(iterate),
    "value-read": ours(read_values),
    "batches": ours(take_lists),
    "arrow": ours(take_arrow),
    "confluent-poll": confluent_poll,
    "confluent-tuned": confluent_tuned,
    "aiokafka": aio_kafka,
    "kafka-python": kafka_python,
    "raw": raw_socket,
}


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    way, task = sys.argv[1:]
    records, seconds = WAYS[way](Task(**json.loads(task)))
    print(records, round(seconds * 1e9))


if __name__ == "__main__":
    main()
