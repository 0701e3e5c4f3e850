"""One receiver: a real member of the group that runs as a long task on an executor (Spark 1 and 2: KafkaReceiver).

Its streams are read as Arrow batches, a thread each; every BLOCK_INTERVAL_S what came is written as one segment.

Rules:
* Offsets are committed only of what stands in segments, with write-ahead only of what is on the disk. Whoever owns a
  partition next begins behind it; what is in our hands just then is left out, or comes twice and is dropped later.
* When too much is waiting to be processed, nothing more is written, buffers fill up, and the streams stand still. A
  rebalance drops what is in the buffers then: whoever owns the partitions next reads it again.
* The connection to the driver is the lifeline: a word from there, or its end, and the receiver leaves the group.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import AuthenticationError
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, NamedTuple

from fetcher.errors import KafkaException
from fetcher.events import Event, OffsetReset
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from pipeline.errors import PipelineError
from pipeline.ranges import AtRisk
from pipeline.segments import Run, SegmentWriter, bytes_in, stored_form
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.errors import ConsumerRebalanceFailedException
from zkconsumer.events import RebalanceFinished, SessionLost
from zkconsumer.streams import KafkaStream
from zkconsumer.topic_count import ConsumerThreadId

log = logging.getLogger(__name__)

BLOCK_INTERVAL_S = 0.2  # spark.streaming.blockInterval
MOST_SEGMENT_BYTES = 16 * 1024 * 1024
MOST_BUFFERED_BYTES = 2 * MOST_SEGMENT_BYTES
WRITE_AHEAD_COMMITS_EVERY_S = 1.0
TELL_EVERY_S = 1.0
RELEASE_TIMEOUT_S = 5.0
MARKER = ".receiving"


@dataclass(frozen=True)
class StreamSettings:
    """What create_stream() was asked for."""

    config: ConsumerConfig
    streams_of: dict[str, int]
    receivers: int
    write_ahead: bool
    directory: str | None
    most_waiting_bytes: int


@dataclass(frozen=True)
class ReceiverSettings:
    """All that a receiver has to know; sent to executors. `directory` is where its run's segments go."""

    stream: StreamSettings
    directory: str
    run: str
    tracker: tuple[str, int]
    secret: bytes


def receive(settings: ReceiverSettings, number: int) -> Iterator[str | None]:
    """The task: until it is told to stop. Gives what went wrong, in a line, or None."""
    try:
        connection = Client(settings.tracker, authkey=settings.secret)
    except (OSError, EOFError) as error:
        yield f"receiver {number} cannot reach the driver at {settings.tracker[0]}:{settings.tracker[1]}: {error}"
        return
    with connection:
        connection.send_bytes(json.dumps({"role": "receiver", "run": settings.run, "number": number}).encode())
        try:
            _Receiver(settings, number, connection).run()
        except (KafkaException, OSError, ValueError) as error:
            yield f"receiver {number}: {error}"
        else:
            yield None


class _Received(NamedTuple):
    runs: list[Run]
    batches: list[Any]


class _Receiver:
    """What is shared between the streams' threads, the thread that rebalances and the task's own, which writes."""

    def __init__(self, settings: ReceiverSettings, number: int, connection: Connection[Any, Any]) -> None:
        self._settings = settings.stream
        self._run, self._tracker, self._secret = settings.run, settings.tracker, settings.secret
        self._directory = Path(settings.directory)
        self._connection = connection
        config = self._settings.config
        if config.consumer_id is not None:
            config = config.with_settings(consumer_id=f"{config.consumer_id}-{number}")
        self._connector = ZookeeperConsumerConnector(config)
        self._connector.set_consumer_rebalance_listener(self)
        self._connector.events.subscribe(self._note)
        prefix = f"{settings.run}-{number}-{time.time_ns():x}"
        self._writer = SegmentWriter(self._directory, prefix, durable=self._settings.write_ahead)
        self._changed = threading.Condition()  # guards all below
        self._received = _Received([], [])
        self._received_bytes = 0
        self._positions: dict[TopicAndPartition, int] = {}  # of what we own: up to where it was received
        self._written: dict[TopicAndPartition, int] = {}  # … and up to where it stands in segments
        self._committed: dict[TopicAndPartition, int] = {}  # … and up to where the group's offset is known to be
        self._at_risk: dict[TopicAndPartition, AtRisk] = {}
        self._doubled_at_most = self._sessions_lost = 0
        self._unwritten = 0  # batches received, not yet in a segment
        self._has_to_write = False
        self._closing = False
        self._failure: Exception | None = None
        self._committing = threading.Lock()  # of one who commits, or of one who gives partitions away
        self._ended = threading.Event()
        self._commit_soon = threading.Event()
        self._hung_up = False
        self._rows = self._rebalances = 0
        self._driver_is_gone = False

    # --- the task's thread ---

    def run(self) -> None:
        self._check_directory()
        committer = threading.Thread(target=self._commit_now_and_then, name="receiver-committer", daemon=True)
        readers: list[threading.Thread] = []
        restore = self._listen_for_hang_up()
        try:
            for stream in self._streams():
                readers.append(threading.Thread(target=self._read, args=(stream,), daemon=True))
                readers[-1].start()
            committer.start()
            self._write_until_told_to_stop()
        finally:
            self._leave()
            self._tell()
            for thread in [*readers, *([committer] if committer.is_alive() else [])]:
                thread.join(RELEASE_TIMEOUT_S)
            restore()
            if self._driver_is_gone and not self._settings.write_ahead and not self._driver_answers():
                shutil.rmtree(self._directory, ignore_errors=True)  # of no use to anybody, and nobody else is left
        if self._failure is not None:
            raise self._failure

    def _check_directory(self) -> None:
        try:
            seen = (self._directory / MARKER).read_text()
        except OSError:
            seen = ""
        if seen != self._run:
            raise PipelineError(
                f"{self._directory} is not the directory that the driver made: receivers, executors and the driver must"
                " see the same one; give create_stream(directory=…) one that they share"
            )

    def _streams(self) -> list[KafkaStream[bytes, bytes]]:
        try:
            found = self._connector.create_message_streams(self._settings.streams_of)
        except ConsumerRebalanceFailedException as error:
            raise PipelineError(f"{error}; the group may need rebalance.max.retries or rebalance.backoff.ms") from None
        return [stream for streams in found.values() for stream in streams]

    def _write_until_told_to_stop(self) -> None:
        tell_at_s = 0.0
        while not self._is_told_to_stop():
            with self._changed:
                self._changed.wait_for(self._is_urgent, BLOCK_INTERVAL_S)
                if self._failure is not None:
                    return
            if not self._write_segment():
                with self._changed:  # too much is waiting: look again in a while
                    self._changed.wait_for(lambda: self._has_to_write, BLOCK_INTERVAL_S)
            if time.monotonic() >= tell_at_s:
                self._tell()
                tell_at_s = time.monotonic() + TELL_EVERY_S

    def _is_urgent(self) -> bool:
        return self._has_to_write or self._failure is not None or self._received_bytes >= MOST_SEGMENT_BYTES

    def _write_segment(self) -> bool:
        """False: not now, Spark is behind."""
        with self._changed:
            if not self._received.runs:
                return True
            if not self._closing and self._is_too_much_waiting():
                if not self._has_to_write:
                    return False
                self._drop_received()
                return True
            taken, size = self._received, self._received_bytes
            self._received, self._received_bytes = _Received([], []), 0
            self._changed.notify_all()
        try:
            self._writer.write(*taken)
        except BaseException:
            with self._changed:  # nothing that came later may be written, and committed, before it
                later = self._received
                self._received = _Received([*taken.runs, *later.runs], [*taken.batches, *later.batches])
                self._received_bytes += size
            raise
        with self._changed:
            for run in taken.runs:
                self._rows += run.rows
                if run.where in self._positions:
                    self._written[run.where] = max(run.until, self._written.get(run.where, -1))
            self._unwritten -= len(taken.runs)
            self._has_to_write = self._has_to_write and self._unwritten > 0
            self._changed.notify_all()
        return True

    def _drop_received(self) -> None:
        """A rebalance waits for it. What comes late of these partitions must not be kept without it. Under the lock."""
        for run in self._received.runs:
            self._positions.pop(run.where, None)
        self._unwritten -= len(self._received.runs)
        self._has_to_write = self._unwritten > 0
        self._received, self._received_bytes = _Received([], []), 0
        self._changed.notify_all()

    def _is_too_much_waiting(self) -> bool:
        """Spark is behind. Counts what all receivers of the directory wrote."""
        return bytes_in(self._directory) >= self._settings.most_waiting_bytes

    def _is_told_to_stop(self) -> bool:
        if self._hung_up:
            return True
        try:
            if self._connection.poll():
                self._connection.recv_bytes()
                return True
        except (OSError, EOFError):
            self._driver_is_gone = True
            return True
        return False

    def _driver_answers(self) -> bool:
        """Whether it was only our connection that ended."""
        try:
            Client(self._tracker, authkey=self._secret).close()
        except (OSError, EOFError, AuthenticationError):
            return False
        return True

    def _tell(self) -> None:
        with self._changed:
            status = {
                "consumer": self._connector.consumer_id,
                "host": os.uname().nodename,
                "pid": os.getpid(),
                "owned_partitions": len(self._positions),
                "rebalances": self._rebalances,
                "rows": self._rows,
                "sessions_lost": self._sessions_lost,
                "doubled_at_most": self._doubled_at_most,
                "not_committed": sum(risk.offsets for risk in self._not_committed().values()),
            }
        try:
            self._connection.send_bytes(json.dumps(status).encode())
        except OSError:
            self._driver_is_gone = True

    def _listen_for_hang_up(self) -> Any:
        """Spark's Python daemon hangs up on its workers when the executor ends. A handler only notes it."""
        if threading.current_thread() is not threading.main_thread():
            return lambda: None

        def note(*_: object) -> None:
            self._hung_up = True

        before = signal.signal(signal.SIGHUP, note)
        return lambda: signal.signal(signal.SIGHUP, before)

    def _leave(self) -> None:
        """Write and commit what we have, and be gone from the group."""
        with self._changed:
            self._closing = True  # what comes from now on is not ours to keep
            self._has_to_write = True
            self._changed.notify_all()
        try:
            self._write_segment()
        except OSError as error:
            log.warning("the last segment could not be written: %s", error)
        self._ended.set()
        self._commit_soon.set()
        storing = threading.Thread(target=self._commit, daemon=True)  # it may wait for ZooKeeper; leaving must not
        storing.start()
        storing.join(2.0)
        self._connector.shutdown()

    # --- the streams' threads ---

    def _read(self, stream: KafkaStream[bytes, bytes]) -> None:
        form, thread = stored_form(), str(stream.thread_id)
        try:
            for batch in stream.arrow_batches(views=False):
                where = TopicAndPartition(batch.column("topic")[0].as_py(), batch.column("partition")[0].as_py())
                self._keep(where, thread, form.spark_batch(batch))
        except Exception as error:
            with self._changed:
                self._failure = self._failure or error
                self._changed.notify_all()

    def _keep(self, where: TopicAndPartition, thread: str, batch: Any) -> None:
        offsets = batch.column("offset")
        first, last = offsets[0].as_py(), offsets[-1].as_py()
        with self._changed:
            self._changed.wait_for(lambda: self._received_bytes < MOST_BUFFERED_BYTES or self._closing)
            if self._closing or where not in self._positions:  # the next owner will get it
                return
            # Offsets that do not exist belong to the run behind them, but for the first run after a claim: that may
            # have been handed out before a rebalance, and then nothing is known of what is before it.
            start = min(first, self._positions[where]) if self._positions[where] >= 0 else first
            self._received.runs.append(Run(where, start, last + 1, batch.num_rows, thread))
            self._received.batches.append(batch)
            self._received_bytes += batch.nbytes
            self._positions[where] = last + 1
            self._unwritten += 1
            if self._is_urgent():
                self._changed.notify_all()

    # --- committing ---

    def _commit_now_and_then(self) -> None:
        config = self._settings.config
        every_s = WRITE_AHEAD_COMMITS_EVERY_S if self._settings.write_ahead else config.auto_commit_interval_ms / 1000
        while True:
            self._commit_soon.wait(every_s)
            self._commit_soon.clear()
            if self._ended.is_set():
                return  # who leaves commits
            self._commit()

    def _commit(self) -> None:
        """Store how far the segments reach, of what is ours."""
        with self._committing:
            with self._changed:
                new = {w: p for w, p in self._written.items() if p > self._committed.get(w, -1)}
            self._store(new)

    def _store(self, positions: dict[TopicAndPartition, int]) -> None:
        if not positions:
            return
        try:
            offsets = {where: OffsetAndMetadata(position) for where, position in positions.items()}
            self._connector.commit_offsets(offsets, retry_on_failure=True)
        except KafkaException as error:
            log.warning("offsets could not be stored, tried again later: %s", error)
        else:
            with self._changed:
                self._committed |= positions

    # --- ConsumerRebalanceListener: the thread that rebalances ---

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        """Write what was received, so that the next owner begins behind it."""
        released = {TopicAndPartition(topic, p) for topic, ps in partition_ownership.items() for p in ps}
        with self._changed:
            self._has_to_write = self._unwritten > 0
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._has_to_write or self._closing, RELEASE_TIMEOUT_S)
        with self._committing:
            with self._changed:
                mine = {w: p for w, p in self._written.items() if w in released and p > self._committed.get(w, -1)}
            self._store(mine)
            with self._changed:
                self._has_to_write = self._closing  # also if it took too long: what is dropped is not of the next claim
                self._let_go()

    def before_starting_fetchers(
        self, consumer_id: str, global_partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        stored = self._connector.owned_partitions
        with self._changed:
            self._positions = dict.fromkeys(stored, -1)
            self._committed = {where: offset for where, offset in stored.items() if offset >= 0}
            for where in stored.keys() & self._at_risk.keys():
                risk = self._at_risk.pop(where)
                if risk.stored == stored[where]:  # nobody has read of it
                    self._doubled_at_most -= risk.offsets

    def _let_go(self) -> None:
        """Of all that we own. Under the lock."""
        risks = self._not_committed()
        self._at_risk |= risks
        self._doubled_at_most += sum(risk.offsets for risk in risks.values())
        self._positions, self._written, self._committed = {}, {}, {}

    def _not_committed(self) -> dict[TopicAndPartition, AtRisk]:
        """What another owner would read again. Under the lock."""
        return {
            where: AtRisk(self._committed[where], position - self._committed[where])
            for where, position in self._positions.items()
            if position > self._committed.get(where, position)
        }

    def _note(self, event: Event) -> None:
        if isinstance(event, RebalanceFinished):
            self._rebalances += 1
        elif isinstance(event, SessionLost):  # others may have our partitions by now: keep and commit nothing of them
            with self._changed:
                self._sessions_lost += 1
                self._let_go()
        elif isinstance(event, OffsetReset) and not event.out_of_range:
            with self._changed:  # else one that is started again, before the next commit, would begin at a later end
                if event.partition in self._positions:
                    self._written.setdefault(event.partition, event.new_offset)
            self._commit_soon.set()
        elif isinstance(event, OffsetReset) and event.new_offset < event.old_offset:
            with self._changed:
                self._failure = PipelineError(
                    f"{event.partition} does not reach offset {event.old_offset}, where the group stands: the topic was"
                    " made anew, or records were lost with a broker; set the group's offset and use a new checkpoint"
                )
                self._changed.notify_all()


__all__ = ["MARKER", "ReceiverSettings", "StreamSettings", "receive"]
