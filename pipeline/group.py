"""Group mode: a stream whose batches are ranges of the partitions that Spark's members own.

Runs in one long-lived Python process of the query. Spark asks one question at a time: latestOffset plans a batch,
partitions cuts it into tasks, commit says that it is done. A pickled copy goes to the tasks, which only read().

Rules:
* latestOffset(start) also means: all before `start` is in the sink. That is when offsets are committed, by a thread of
  its own, so that batches go on while ZooKeeper is away.
* partitions(start, end) means: `end` is in the checkpoint, and Spark will write that batch whatever happens. A little
  before it commit() of the batch before means the same: Spark calls it right behind writing the new one down.
* Where the checkpoint is ahead of the group's stored offset, the checkpoint counts: those rows are written already.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from fetcher.structs import Broker, TopicAndPartition
from pipeline.cluster import Brokers, Limits
from pipeline.errors import PipelineError
from pipeline.lifeline import Lifeline
from pipeline.members import Holding, Ledger, Member
from pipeline.options import SourceOptions
from pipeline.ranges import OffsetRange, StreamOffset, limited
from pipeline.source import (
    RangePartition,
    brokers_of,
    cluster_view,
    connected,
    partitions_of,
    read_partition,
    stored_offsets,
    told_in_one_line,
)
from zkconsumer.errors import KafkaException

log = logging.getLogger(__name__)


class GroupStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """What Spark talks to. Holds settings only, until the first question that needs the group."""

    def __init__(self, options: SourceOptions, columns: tuple[str, ...]) -> None:
        self._options = options
        self._columns = columns
        self._group: _Group | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": self._options, "_columns": self._columns, "_group": None}

    def initialOffset(self) -> dict[str, Any]:
        return StreamOffset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.most_rows
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:
        with told_in_one_line():
            self._joined().stop_at_what_is_there()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with told_in_one_line():
            begin = StreamOffset.from_json(start)
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            planned = self._joined().plan(begin, most)
        return begin.after(planned).to_json() if planned else start

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Spark shows it as `latestOffset` of the source in the query's progress."""
        return None if self._group is None else self._group.metrics()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_in_one_line():
            if start == end:
                return []
            return self._joined().tasks(StreamOffset.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return read_partition(partition, self._options, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        if self._group is not None:
            self._group.done(StreamOffset.from_json(end))
            self._group.next_is_in_checkpoint()

    def stop(self) -> None:
        if self._group is not None:
            self._group.leave()

    def _joined(self) -> _Group:
        if self._group is None:
            group = _Group(self._options)
            try:
                group.join()
            except BaseException:
                group.leave()
                raise
            self._group = group
        return self._group


class _Group:
    """Members, what they own, and the brokers to ask. Used by the process's main thread, but for leave()."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._ledger = Ledger()
        self._members = [Member(options, number, self._ledger) for number in range(options.members)]
        self._known_at_start: frozenset[TopicAndPartition] = frozenset()
        self._connections: Brokers | None = None
        self._stop_at: Mapping[TopicAndPartition, int] | None = None
        self._ends: dict[TopicAndPartition, int] = {}
        self._planned_end = StreamOffset()
        self._committer = threading.Thread(target=self._commit_done, name="spark-committer", daemon=True)
        self._wake = threading.Condition()
        self._to_commit: dict[TopicAndPartition, int] = {}
        self._leaving = False
        self._left = threading.Lock()

    # --- life ---

    def join(self) -> None:
        """Look whether all is there, then become members."""
        with connected(self._options.config) as zookeeper:
            cluster = cluster_view(zookeeper, self._options.config)
            self._known_at_start = frozenset(partitions_of(cluster, self._options))
            self._find_brokers(cluster.brokers())
        if threading.current_thread() is threading.main_thread():
            Lifeline(self.leave).attach()
        for member in self._members:
            member.join()
        self._committer.start()

    def leave(self) -> None:
        """Give everything back; ids and owners are gone when it returns. Idempotent, any thread."""
        with self._left:
            if self._leaving:
                return
            with self._wake:
                self._leaving = True
                self._wake.notify_all()
            self._look_into_checkpoint()
            leaving = [threading.Thread(target=member.leave) for member in self._members]
            for thread in leaving:
                thread.start()
            for thread in leaving:
                thread.join()

    # --- planning ---

    def plan(self, begin: StreamOffset, most: int | None) -> list[OffsetRange]:
        """The ranges of the next batch; none if there is nothing new."""
        self.done(begin)
        self._settle(begin)
        with self._ledger.changed:
            holdings = [
                holding
                for member in self._members
                if member.is_sure_of_its_partitions()
                for where, holding in self._ledger.holdings.items()
                if member.owns(where) and not holding.frozen and holding.position is not None
            ]
        self._ends |= self._ask().next_offsets([holding.where for holding in holdings])
        with self._ledger.changed:  # again: some may be on their way to others by now
            found = [self._available(h) for h in holdings if self._ledger.holdings.get(h.where) is h and not h.frozen]
            ranges = limited([one for one in found if one is not None], most)
            self._ledger.planned = {one.where: one for one in ranges}
            self._ledger.in_checkpoint = False
            self._ledger.handed_over.clear()
            self._planned_end = begin.after(ranges)
            for one in ranges:
                self._ledger.holdings[one.where].position = one.until
        return ranges

    def tasks(self, end: StreamOffset) -> list[InputPartition]:
        """One a range. Also called for a batch of a former run, which has to be written once more."""
        with self._ledger.changed:
            of_a_former_run = self._ledger.planned.keys() != {found.where for found in end.ranges}
            self._ledger.in_checkpoint = True
            self._ledger.planned = {found.where: found for found in end.ranges}
            if of_a_former_run and self._options.checkpoint is not None:
                noted = self._options.checkpoint.handed_over()
                handed_over = [found for found in end.ranges if (found.where, found.start, found.until) in noted]
                self._ledger.handed_over = {found.where: found for found in handed_over}
        if of_a_former_run:
            self._count_what_others_took(end.ranges)
        return [RangePartition(found, self._ask().known) for found in end.ranges]

    def next_is_in_checkpoint(self) -> None:
        """The batch that was planned last: the sooner we know, the less is doubled if the driver dies now."""
        with self._ledger.changed:
            self._ledger.in_checkpoint = True

    def done(self, end: StreamOffset) -> None:
        """All before this is in the sink."""
        ledger = self._ledger
        with ledger.changed:
            done = {w: found.until for w, found in ledger.planned.items() if end.ends.get(w, -1) >= found.until}
            for where in done:
                del ledger.planned[where]
            mine = {where: until for where, until in done.items() if where in ledger.holdings}
            ledger.changed.notify_all()
        self._commit_soon(mine)

    def stop_at_what_is_there(self) -> None:
        """For availableNow: nothing that comes from now on is planned."""
        self._stop_at = self._ask().next_offsets(sorted(self._known_at_start))

    def metrics(self) -> dict[str, Any]:
        """For the query's progress. Values that Spark can show: numbers and texts."""
        ledger = self._ledger
        with ledger.changed:
            lag = {
                f"{where.topic}/{where.partition}": self._ends[where] - holding.position
                for where, holding in sorted(ledger.holdings.items())
                if holding.position is not None and where in self._ends
            }
            return {
                "lag": sum(lag.values()),
                "lag_by_partition": lag,
                "owned_partitions": len(ledger.holdings),
                "rebalances": ledger.rebalances,
                "sessions_lost": ledger.sessions_lost,
                "doubled_at_most": ledger.doubled_at_most,
                "kept_by_checkpoint": ledger.kept_by_checkpoint,
            }

    # --- how ---

    def _available(self, holding: Holding) -> OffsetRange | None:
        end = self._ends.get(holding.where)
        if end is None or holding.position is None:
            return None
        if self._stop_at is not None:
            end = min(end, self._stop_at.get(holding.where, 0))
        return OffsetRange(holding.where, holding.position, max(end, holding.position), holding.thread)

    def _settle(self, begin: StreamOffset) -> None:
        """Find where to begin in partitions that are newly ours."""
        with self._ledger.changed:
            new = [holding for holding in self._ledger.holdings.values() if holding.position is None]
        if not new:
            return
        behind: dict[TopicAndPartition, int] = {}
        limits = self._ask().limits([holding.where for holding in new])
        with self._ledger.changed:
            for holding in new:
                if holding.where in limits:
                    written = begin.ends.get(holding.where, -1)
                    holding.position = self._start(holding, limits[holding.where], written)
                    holding.began_at = holding.position
                    at_the_end = holding.stored < 0 and self._options.config.auto_offset_reset == "largest"
                    if at_the_end or holding.position == written > holding.stored:
                        # A former run did it and could not say so; or else the next run would begin at a later end.
                        behind[holding.where] = holding.position
        self._commit_soon(behind)

    def _start(self, holding: Holding, limits: Limits, written: int) -> int:
        first, following = limits
        if written > following:  # the topic was made anew
            written = -1
        if holding.stored < 0 and written < 0:
            # One that came while we were there is read from its beginning, or what it got before the claim is lost.
            is_old = holding.where in self._known_at_start
            return following if is_old and self._options.config.auto_offset_reset == "largest" else first
        position = max(holding.stored, written)
        if first <= position <= following:
            return position
        return first if self._options.config.auto_offset_reset == "smallest" else following

    def _look_into_checkpoint(self) -> None:
        """The driver may have died between writing the batch down and saying so. It writes no more: we are leaving."""
        ledger, checkpoint = self._ledger, self._options.checkpoint
        with ledger.changed:
            if checkpoint is not None and ledger.planned and not ledger.in_checkpoint:
                ledger.in_checkpoint = checkpoint.holds(self._planned_end)

    def _count_what_others_took(self, ranges: Sequence[OffsetRange]) -> None:
        """Of a batch of a former run: what it could not hand over when it ended, and is (or will be) read by others.

        Without the note of checkpointLocation, what others read to its end cannot be told from what was handed over.
        """
        try:
            with connected(self._options.config) as zookeeper:
                cluster = cluster_view(zookeeper, self._options.config)
                stored = stored_offsets(zookeeper, cluster, self._options.config, [found.where for found in ranges])
        except KafkaException as error:
            log.warning("what others took of the batch of a former run is not known: %s", error)
            stored = {}
        with self._ledger.changed:
            for found in ranges:
                position = min(stored.get(found.where, -1), found.until)
                if self._is_handed_over(found, position):
                    continue
                taken_until = position if found.where in self._ledger.holdings else found.until
                self._ledger.doubled_at_most += max(0, taken_until - found.start)

    def _is_handed_over(self, found: OffsetRange, stored: int) -> bool:
        """Under the ledger's lock."""
        if self._options.checkpoint is not None:
            return self._ledger.handed_over.get(found.where) == found
        return stored == found.until and self._options.handover == "checkpoint"

    def _commit_soon(self, positions: Mapping[TopicAndPartition, int]) -> None:
        if positions:
            with self._wake:
                self._to_commit |= positions
                self._wake.notify_all()

    def _ask(self) -> Brokers:
        if self._connections is None:
            raise PipelineError("no broker was found")
        return self._connections

    def _find_brokers(self, brokers: Sequence[Broker]) -> None:
        if not brokers:
            raise PipelineError(f"no broker is registered at {self._options.config.zookeeper_connect}")
        self._connections = brokers_of(self._options, brokers)

    def _commit_done(self) -> None:
        """The committer's work: store what is done, as often as ZooKeeper can take it."""
        while True:
            with self._wake:
                self._wake.wait_for(lambda: self._to_commit or self._leaving)
                if self._leaving:
                    return  # what is left is stored by those who leave
                positions, self._to_commit = self._to_commit, {}
            for member in self._members:
                try:
                    member.commit_if_mine(positions)
                except KafkaException as error:
                    log.warning("offsets could not be stored: %s", error)
                    with self._wake:  # those that are still ours then
                        self._to_commit = {**positions, **self._to_commit}
                        self._wake.wait_for(lambda: self._leaving, self._options.config.rebalance_backoff_ms / 1000)
