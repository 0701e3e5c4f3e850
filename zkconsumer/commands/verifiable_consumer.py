"""Tell what a consumer does, an event a line in JSON, for tests of whole systems (Kafka 1.1: VerifiableConsumer).

Events: startup_complete, partitions_revoked, partitions_assigned, records_consumed, record_data (--verbose),
offsets_committed (without --enable-autocommit), shutdown_complete. Each has `timestamp` (ms) and `name` first.
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import threading
import time
from dataclasses import dataclass

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from zkconsumer.commands.common import (
    FAILED,
    NO_STDOUT,
    Output,
    StopSignals,
    check_required,
    fail_with_usage,
    log_to_stderr,
    read_properties,
    remember_usage,
)
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.emulation import emulation
from zkconsumer.errors import ConsumerTimeoutException, KafkaException
from zkconsumer.streams import KafkaStream, MessageAndMetadata
from zkconsumer.topic_count import ConsumerThreadId

log = logging.getLogger(__name__)

EXAMPLES = """\
  zkconsumer verifiable-consumer --zookeeper 127.0.0.1:2181 --topic orders --group-id group1
                                                  until Ctrl-C or SIGTERM
  zkconsumer verifiable-consumer --zookeeper 127.0.0.1:2181 --topic orders --group-id group1 --max-messages 9 --verbose
  zkconsumer verifiable-consumer --zookeeper 127.0.0.1:2181 --topic orders --group-id group1 --enable-autocommit"""

RESET_POLICIES = {"earliest": "smallest", "latest": "largest"}
BATCH_MESSAGES = 500  # as many as poll() returns at most in the consumer of 1.1
BATCH_WAIT_MS = 100
LAST_BATCH_S = 3.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    required = parser.add_argument_group("required")
    required.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="instead of the original's --broker-list")
    required.add_argument("--topic", metavar="TOPIC")
    required.add_argument("--group-id", metavar="GROUP")
    optional = parser.add_argument_group("optional")
    optional.add_argument("--max-messages", metavar="N", type=int, default=-1, help="end after N messages")
    optional.add_argument(
        "--session-timeout", metavar="MS", type=int, help="of the ZooKeeper session (default: the consumer's, 6000)"
    )
    optional.add_argument("--verbose", action="store_true", help="a record_data event for each message as well")
    optional.add_argument(
        "--enable-autocommit", action="store_true", help="commit on a timer instead of after each records_consumed"
    )
    optional.add_argument(
        "--reset-policy", choices=list(RESET_POLICIES), default="earliest", help="without offsets (default earliest)"
    )
    optional.add_argument(
        "--consumer.config", dest="consumer_config", metavar="FILE", help="a consumer.properties; options go before it"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 also when a signal ends it, as tests do; 1 failed or standard output closed."""
    fill_in_servers(arguments, zookeeper="zookeeper")
    problem = check_required(arguments, "zookeeper", "topic", "group-id")
    if problem is not None:
        return fail_with_usage(arguments, problem)
    log_to_stderr()
    return VerifiableConsumer(arguments, _config(arguments)).run()


def _config(arguments: argparse.Namespace) -> ConsumerConfig:
    properties: dict[str, str | int | bool] = {
        **read_properties(arguments.consumer_config),
        "zookeeper.connect": arguments.zookeeper,
        "group.id": arguments.group_id,
        "auto.offset.reset": RESET_POLICIES[arguments.reset_policy],
        "auto.commit.enable": bool(arguments.enable_autocommit),
        "consumer.timeout.ms": BATCH_WAIT_MS,
    }
    if arguments.session_timeout is not None:
        properties["zookeeper.session.timeout.ms"] = arguments.session_timeout
    # What has_next() holds ready when partitions move would be reported here and by their next owner.
    switches = emulation("0.8.2").with_switches(drop_ready_item_on_rebalance=True)
    return ConsumerConfig.from_properties(properties, emulate=switches)


@dataclass(slots=True)
class _Summary:
    """Of one partition in a batch."""

    count: int
    min_offset: int
    max_offset: int


class VerifiableConsumer:
    """One run. What was read is reported and committed in batches; a rebalance waits until the batch so far is.

    Rule: taking a message and noting it is one step under `_lock`, and so is reporting. A rebalance has cleared the
    streams when it calls us, so everything handed out before is reported before partitions_revoked, nothing after.
    """

    def __init__(self, arguments: argparse.Namespace, config: ConsumerConfig) -> None:
        self._topic: str = arguments.topic
        self._maximum: int = arguments.max_messages
        self._is_verbose: bool = arguments.verbose
        self._commits: bool = not arguments.enable_autocommit
        self._connector = ZookeeperConsumerConnector(config)
        self._signals = StopSignals(self._stop)
        self._output = Output(on_failure=self._signals.request, give_up=lambda: self._signals.requested)
        self._is_reading = False
        self._has_read = threading.Event()
        self._lock = threading.RLock()
        self._batch: dict[TopicAndPartition, _Summary] = {}
        self._batch_count = 0
        self._consumed = 0

    def run(self) -> int:
        with self._signals:
            try:
                self._consume()
            except KafkaException:
                if not self._signals.requested:
                    raise
            finally:
                self._connector.shutdown()
                self._tell("shutdown_complete")
        if self._output.failed:
            print(NO_STDOUT, file=sys.stderr)
            return FAILED
        return 0

    # --- ConsumerRebalanceListener; called by: whoever rebalances ---

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        with self._lock:
            self._end_batch()
        revoked = [
            _partition(topic, partition)
            for topic, partitions in sorted(partition_ownership.items())
            for partition in sorted(partitions)
        ]
        self._tell("partitions_revoked", partitions=revoked)

    def before_starting_fetchers(
        self, consumer_id: str, global_partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        assigned = [
            _partition(topic, partition)
            for topic, owners in sorted(global_partition_assignment.items())
            for partition, thread in sorted(owners.items())
            if thread.consumer_id == consumer_id
        ]
        self._tell("partitions_assigned", partitions=assigned)

    # --- below ---

    def _consume(self) -> None:
        self._connector.start()
        self._tell("startup_complete")
        self._connector.set_consumer_rebalance_listener(self)
        [stream] = self._connector.create_message_streams({self._topic: 1})[self._topic]
        self._is_reading = True
        try:
            while not self._signals.requested and not self._is_finished():
                self._read(stream)
        finally:
            with self._lock:
                self._end_batch()
            self._has_read.set()

    def _stop(self) -> None:
        """A reader notices by itself and ends its batch; a commit that waits for ZooKeeper is not waited for long."""
        if self._is_reading:
            self._has_read.wait(LAST_BATCH_S)
        self._connector.shutdown()

    def _is_finished(self) -> bool:
        return 0 <= self._maximum <= self._consumed

    def _read(self, stream: KafkaStream[bytes, bytes]) -> None:
        """One message, or the end of a batch because none came."""
        messages = stream.iterator()
        try:
            if not messages.has_next():  # waits without the lock
                self._signals.request()  # the connector was shut down
                return
            with self._lock:
                self._note(next(messages))
                if self._batch_count >= BATCH_MESSAGES:
                    self._end_batch()
        except ConsumerTimeoutException:
            with self._lock:
                self._end_batch()

    def _note(self, record: MessageAndMetadata[bytes, bytes]) -> None:
        where = TopicAndPartition(record.topic, record.partition)
        summary = self._batch.setdefault(where, _Summary(0, record.offset, record.offset))
        summary.count += 1
        summary.max_offset = record.offset
        self._batch_count += 1
        self._consumed += 1
        if self._is_verbose:
            self._tell("record_data", key=_text(record.key), value=_text(record.message), **_position(record))

    def _end_batch(self) -> None:
        batch, count = self._batch, self._batch_count
        self._batch, self._batch_count = {}, 0
        if not batch:
            return
        summaries = [
            _partition(*where) | {"count": of.count, "minOffset": of.min_offset, "maxOffset": of.max_offset}
            for where, of in batch.items()
        ]
        self._tell("records_consumed", count=count, partitions=summaries)
        if self._commits:
            self._commit({where: OffsetAndMetadata(of.max_offset + 1) for where, of in batch.items()})

    def _commit(self, offsets: dict[TopicAndPartition, OffsetAndMetadata]) -> None:
        outcome: dict[str, object] = {"success": True}
        try:
            self._connector.commit_offsets(offsets)
        except KafkaException as error:
            outcome = {"error": str(error), "success": False}
        committed = [_partition(*where) | {"offset": position.offset} for where, position in offsets.items()]
        self._tell("offsets_committed", offsets=committed, **outcome)

    def _tell(self, name: str, **facts: object) -> None:
        event = {"timestamp": time.time_ns() // 1_000_000, "name": name} | facts
        line = json.dumps(event, ensure_ascii=False, separators=(",", ":"))
        if name == "record_data":
            self._output.write(line.encode(errors="replace") + b"\n")  # many: they go out with their summary
        else:
            self._output.write_line(line)


def _partition(topic: str, partition: int) -> dict[str, object]:
    return {"topic": topic, "partition": partition}


def _position(record: MessageAndMetadata[bytes, bytes]) -> dict[str, object]:
    return _partition(record.topic, record.partition) | {"offset": record.offset}


def _text(data: bytes | None) -> str | None:
    return None if data is None else data.decode(errors="replace")
