"""Spark's members of a group: real connectors with real ownership, whose streams nobody reads.

What a member is for here is to own partitions and to commit. Which offsets there are is asked of the brokers when a
batch is planned; the records themselves go from brokers to tasks. A member's own fetchers therefore stop when their
queues are full.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass

from fetcher.events import Event
from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from pipeline.options import SourceOptions
from pipeline.ranges import AtRisk, OffsetRange
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.errors import ConsumerRebalanceFailedException, KafkaException
from zkconsumer.events import RebalanceFinished, SessionLost, SessionReconnected, SessionRenewed, SessionSuspended
from zkconsumer.topic_count import ConsumerThreadId
from zkconsumer.topic_filter import Whitelist

log = logging.getLogger(__name__)


@dataclass
class Holding:
    """One partition from claim to release. Guarded by the ledger's lock."""

    where: TopicAndPartition
    thread: str
    stored: int  # the group's position when it was claimed, -1 for none
    position: int | None = None  # where the next range begins; None: not settled yet
    began_at: int = 0  # the first position
    committed: int = -1
    frozen: bool = False  # being released: no more ranges


class Ledger:
    """What is owned, planned and done. Any thread; `changed` is notified whenever something is done or owned."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.holdings: dict[TopicAndPartition, Holding] = {}
        self.planned: dict[TopicAndPartition, OffsetRange] = {}  # of the batch under way, not known to be done
        self.in_checkpoint = False  # … and whether Spark has written it down
        self.rebalances = 0
        self.sessions_lost = 0
        self.doubled_at_most = 0  # given to others before it was known to be done
        self.at_risk: dict[TopicAndPartition, AtRisk] = {}  # the part of it that nobody may have taken yet
        self.kept_by_checkpoint = 0  # left undone when we left: the next run does it
        self.handed_over: dict[TopicAndPartition, OffsetRange] = {}  # … of the batch under way

    def is_under_way(self, where: TopicAndPartition) -> bool:
        """Under the lock."""
        return where in self.planned

    def not_stored(self, where: TopicAndPartition) -> int:
        """How many offsets were planned, perhaps done too, and are not in the group's position. Under the lock."""
        holding = self.holdings[where]
        if holding.position is not None:
            return max(0, holding.position - max(holding.committed, holding.began_at))
        return self.planned[where].length if where in self.planned else 0

    def let_go(self, where: TopicAndPartition, risk: AtRisk) -> None:
        """Under the lock."""
        self.at_risk[where] = risk
        self.doubled_at_most += risk.offsets

    def is_back(self, where: TopicAndPartition, stored: int) -> None:
        """Ours again; if it is where we left it, nobody has read of it. Under the lock."""
        risk = self.at_risk.pop(where, None)
        if risk is not None and risk.stored == stored:
            self.doubled_at_most -= risk.offsets


class Member:
    """One connector, and what its rebalances do to the ledger. Its methods are called in the thread that rebalances."""

    def __init__(self, options: SourceOptions, number: int, ledger: Ledger) -> None:
        config = options.config
        if config.consumer_id is not None and options.members > 1:
            config = config.with_settings(consumer_id=f"{config.consumer_id}-{number}")
        self._options = options
        self._ledger = ledger
        self._mine: set[TopicAndPartition] = set()
        self._away_since_s: float | None = None
        self._committing = threading.Lock()  # of one who commits, or of one who gives partitions away
        self.connector = ZookeeperConsumerConnector(config)
        self.connector.set_consumer_rebalance_listener(self)
        self.connector.events.subscribe(self._note)

    def join(self) -> None:
        """Be a member; a first rebalance that fails is tried again by itself."""
        try:
            if self._options.pattern is not None:
                allowed = Whitelist(self._options.pattern)
                self.connector.create_message_streams_by_filter(allowed, self._options.streams_of_pattern)
            else:
                self.connector.create_message_streams(self._options.streams_of)
        except ConsumerRebalanceFailedException as error:
            log.warning("%s; it tries again", error)

    def is_sure_of_its_partitions(self) -> bool:
        """False when ZooKeeper has been away for so long that it may have given them to others.

        It ends a session that it has not heard of for its whole time-out, T; a client knows after 2/3 T of silence that
        the connection is gone. So for another T/3 nobody else can own what we own.
        """
        since_s = self._away_since_s
        patience_s = self._options.config.zookeeper_session_timeout_ms / 3000
        return since_s is None or time.monotonic() - since_s < patience_s

    def owns(self, where: TopicAndPartition) -> bool:
        """Under the ledger's lock."""
        return where in self._mine

    def commit(self, positions: Mapping[TopicAndPartition, int]) -> None:
        """Store these of ours. Waits while ZooKeeper is away, unless we are leaving."""
        offsets = {where: OffsetAndMetadata(positions[where]) for where in positions}
        self.connector.commit_offsets(offsets, retry_on_failure=True)
        with self._ledger.changed:
            for where, position in positions.items():
                if where in self._ledger.holdings:
                    self._ledger.holdings[where].committed = position

    def commit_if_mine(self, positions: Mapping[TopicAndPartition, int]) -> None:
        """Store those of these that are still ours. Called by: the committer."""
        with self._committing:  # a release waits for it, and comes after
            with self._ledger.changed:
                holdings = self._ledger.holdings
                mine = {w: p for w, p in positions.items() if w in self._mine and p > holdings[w].committed}
            if mine:
                self.commit(mine)

    # --- ConsumerRebalanceListener ---

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        """Let the batch under way be done first, so that whoever comes next begins behind it."""
        ledger = self._ledger
        released = {TopicAndPartition(topic, p) for topic, ps in partition_ownership.items() for p in ps}
        with ledger.changed:
            lost = self._mine - released  # with a session: others may have them by now
            for where in released & ledger.holdings.keys():
                ledger.holdings[where].frozen = True
            ledger.changed.wait_for(
                lambda: not any(ledger.is_under_way(where) for where in released), self._options.release_timeout_s
            )
            for where in lost & ledger.holdings.keys():
                ledger.let_go(where, AtRisk(ledger.holdings[where].committed, ledger.not_stored(where)))
        with self._committing:
            with ledger.changed:
                positions = self._positions_to_leave(released)
                self._note_handed_over()
            if positions:
                self.commit(positions)
            with ledger.changed:
                for where in self._mine:
                    ledger.holdings.pop(where, None)
                self._mine = set()

    def before_starting_fetchers(
        self, consumer_id: str, global_partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        stored = self.connector.owned_partitions
        with self._ledger.changed:
            for topic, threads in global_partition_assignment.items():
                for partition, thread in threads.items():
                    where = TopicAndPartition(topic, partition)
                    if thread.consumer_id == consumer_id and where in stored:
                        self._mine.add(where)
                        self._ledger.is_back(where, stored[where])
                        self._ledger.holdings[where] = Holding(
                            where, str(thread), stored[where], committed=stored[where]
                        )
            self._ledger.changed.notify_all()

    # --- leaving ---

    def leave(self) -> None:
        """Store what has to be stored, and be gone. Idempotent."""
        with self._ledger.changed:
            for where in self._mine:
                self._ledger.holdings[where].frozen = True
            positions = self._positions_to_leave(self._mine)
            self._note_handed_over()  # first: without it the next run would count what it hands over as doubled
        if positions:
            # Not here: it may wait for ZooKeeper, and a shutdown must not.
            storing = threading.Thread(target=self._commit_quietly, args=(positions,), daemon=True)
            storing.start()
            storing.join(2.0)  # ZooKeeper may be away: the session then ends by itself
        self.connector.shutdown()

    def _positions_to_leave(self, partitions: set[TopicAndPartition]) -> dict[TopicAndPartition, int]:
        """Where the next owner shall begin. Under the ledger's lock.

        Behind the batch under way, if Spark's checkpoint has it and handover=checkpoint: Spark writes it sooner or
        later, and the next owner must not. Else before it: that part may come twice.
        """
        ledger = self._ledger
        positions = {}
        for where in partitions & ledger.holdings.keys():
            holding = ledger.holdings[where]
            position = holding.stored if holding.position is None else holding.position
            under_way = ledger.planned.get(where)
            if under_way is not None and ledger.in_checkpoint and self._options.handover == "checkpoint":
                position = max(position, under_way.until)  # not settled yet: a batch of a former run
                ledger.kept_by_checkpoint += under_way.length
                ledger.handed_over[where] = under_way
            elif under_way is not None:
                position = under_way.start
                ledger.let_go(where, AtRisk(max(position, holding.committed), under_way.length))
            if position > holding.committed:
                positions[where] = position
        return positions

    def _note_handed_over(self) -> None:
        """Under the ledger's lock."""
        if self._options.checkpoint is not None and self._ledger.handed_over:
            self._options.checkpoint.note_handed_over(self._ledger.handed_over.values())

    def _commit_quietly(self, positions: Mapping[TopicAndPartition, int]) -> None:
        try:
            with self._committing:
                self.commit(positions)
        except KafkaException as error:
            log.warning("offsets could not be stored when leaving: %s", error)

    def _note(self, event: Event) -> None:
        if isinstance(event, RebalanceFinished):
            self._ledger.rebalances += 1
        elif isinstance(event, SessionSuspended):
            self._away_since_s = time.monotonic()
        elif isinstance(event, SessionReconnected | SessionRenewed):
            self._away_since_s = None
        elif isinstance(event, SessionLost):
            self._away_since_s = None
            with self._ledger.changed:
                self._ledger.sessions_lost += 1
                for where in self._mine & self._ledger.holdings.keys():
                    self._ledger.holdings[where].frozen = True
