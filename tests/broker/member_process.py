r"""One member of a group as a process of its own, which writes down everything it gets.

    python -m tests.broker.member_process DIRECTORY ZOOKEEPER_CONNECT GROUP CONSUMER_ID TOPIC STREAMS \
        SESSION_TIMEOUT_MS auto|by-hand

The last word is how it commits: on a timer, or by the thread that reads (one stream only), so that each record that was
committed has been written down before, whenever it is killed. SIGTERM: shuts down in order and ends with code 0. At
first, and from SIGUSR2 on, it reads slowly, so that much is fetched and not read when a rebalance comes; from SIGUSR1
on as fast as it can. What it writes survives SIGKILL:

* `notes-<stream>.bin`: each record as soon as next() has returned it (partition, offset, the number in its value). In
  shared memory, since a system call for each record would hand the interpreter to the fetcher thread each time.
* `delivered.log`: each Delivered event. Its time is taken under the lock that a rebalance's clearing needs too, so it
  is one at which the partition had to be ours.
"""

from __future__ import annotations

import mmap
import os
import signal
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from fetcher.events import Event
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.emulation import emulation
from zkconsumer.events import Delivered
from zkconsumer.streams import KafkaStream

_NOTE = struct.Struct("<iqq")
_NOTE_BODY = struct.Struct("<qq")
_NOTE_MARK = struct.Struct("<i")
_MOST_NOTES = 4_000_000  # the file has holes: only what is written takes room
_READ_AT_ONCE = 1 << 16
_COMMIT_INTERVAL_MS = 200
_SLOWNESS_S = 0.002


class Note(NamedTuple):
    """A record that next() returned."""

    partition: int
    offset: int
    number: int


class Delivery(NamedTuple):
    """A Delivered event: these offsets were handed out, the last of them at this time or a little before."""

    thread_id: str
    partition: int
    first_offset: int
    next_offset: int
    time_ms: int


class NoteFile:
    """The notes of one stream, read as they come: each call of read() gives what is new."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> Iterator[Note]:
        if not self._path.exists():
            return
        with self._path.open("rb") as file:
            while True:
                file.seek(self._position)
                data = file.read(_NOTE.size * _READ_AT_ONCE)
                for partition, offset, number in _NOTE.iter_unpack(data[: len(data) // _NOTE.size * _NOTE.size]):
                    if partition == 0:  # not written yet
                        return
                    self._position += _NOTE.size
                    yield Note(partition - 1, offset, number)
                if not data:
                    return


def read_deliveries(directory: Path) -> list[Delivery]:
    """All whole lines of delivered.log."""
    path = directory / "delivered.log"
    if not path.exists():
        return []
    lines = path.read_text().split("\n")[:-1]
    rows = (line.split(" ") for line in lines)
    return [Delivery(thread_id, *map(int, numbers)) for thread_id, *numbers in rows]


def notes_path(directory: Path, stream: int) -> Path:
    return directory / f"notes-{stream}.bin"


def main(arguments: list[str]) -> None:
    directory, zookeeper_connect, group, consumer_id, topic, streams, session_timeout_ms, commits = arguments
    told_to_stop = threading.Event()
    in_a_hurry = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: told_to_stop.set())
    signal.signal(signal.SIGUSR1, lambda *_: in_a_hurry.set())
    signal.signal(signal.SIGUSR2, lambda *_: in_a_hurry.clear())
    config = ConsumerConfig(
        zookeeper_connect=zookeeper_connect,
        group_id=group,
        consumer_id=consumer_id,
        zookeeper_session_timeout_ms=int(session_timeout_ms),
        zookeeper_connection_timeout_ms=60_000,
        rebalance_backoff_ms=300,
        rebalance_max_retries=200,
        auto_commit_enable=commits == "auto",
        auto_commit_interval_ms=_COMMIT_INTERVAL_MS,
        auto_offset_reset="smallest",
        # As in 0.8.2.2 the rest of a chunk comes after the end of a shutdown: not in a test of who may deliver when.
        emulate=emulation("0.8.2").with_switches(drop_chunk_on_shutdown=True),
    )
    connector = ZookeeperConsumerConnector(config)
    connector.events.subscribe(_deliveries_into(Path(directory) / "delivered.log"))
    commit = _at_intervals(connector.commit_offsets) if commits == "by-hand" else None
    with connector:
        readers = [
            threading.Thread(target=_note_all, args=(stream, notes_path(Path(directory), number), in_a_hurry, commit))
            for number, stream in enumerate(connector.create_message_streams({topic: int(streams)})[topic])
        ]
        for reader in readers:
            reader.start()
        told_to_stop.wait()
    for reader in readers:
        reader.join()


def _deliveries_into(path: Path) -> Callable[[Event], None]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(event: Event) -> None:
        if isinstance(event, Delivered):
            where = f"{event.thread_id} {event.partition.partition}"
            time_ms = int(event.wall_time_s * 1000)  # rounded down, as in ZooKeeper's log
            line = f"{where} {event.first_offset} {event.next_offset} {time_ms}\n"
            os.write(descriptor, line.encode())

    return write


def _at_intervals(act: Callable[[], None]) -> Callable[[], None]:
    last_s = 0.0

    def act_if_it_is_time() -> None:
        nonlocal last_s
        if time.monotonic() - last_s > _COMMIT_INTERVAL_MS / 1000:
            last_s = time.monotonic()
            act()

    return act_if_it_is_time


def _note_all(
    stream: KafkaStream[bytes, bytes], path: Path, in_a_hurry: threading.Event, commit: Callable[[], None] | None
) -> None:
    with path.open("xb+") as file:
        file.truncate(_NOTE.size * _MOST_NOTES)
        with mmap.mmap(file.fileno(), 0) as memory:
            position = 0
            for record in stream:
                value = record.message
                assert value is not None
                _NOTE_BODY.pack_into(memory, position + _NOTE_MARK.size, record.offset, int(value.rstrip(b"x")))
                _NOTE_MARK.pack_into(memory, position, record.partition + 1)  # last: now the rest is there
                position += _NOTE.size
                if commit is not None:
                    commit()
                in_a_hurry.wait(_SLOWNESS_S)


if __name__ == "__main__":
    main(sys.argv[1:])
