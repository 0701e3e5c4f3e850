"""Measure how fast a topic can be consumed (0.8: kafka-consumer-perf-test.sh, ConsumerPerformance).

Reads until nothing has come for 5 seconds, which are not counted, and prints one row; with --show-detailed-stats rows
for each thread instead. Note: it deletes all that the group has in ZooKeeper first, and commits nothing at its end.
"""

from __future__ import annotations

import argparse
import logging
import math
import random
import threading
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import NamedTuple

from fetcher.threads import ShutdownableThread
from zkconsumer.auto_commit import AutoCommitter
from zkconsumer.commands.common import (
    FAILED,
    Output,
    StopSignals,
    check_required,
    fail_with_usage,
    log_to_stderr,
    remember_usage,
    remove_group,
)
from zkconsumer.commands.java_dates import JavaDateFormat
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.errors import ConsumerTimeoutException, KafkaException
from zkconsumer.streams import KafkaStream
from zkconsumer.topic_count import ConsumerThreadId

log = logging.getLogger(__name__)

EXAMPLES = """\
  zkconsumer consumer-perf --zookeeper 127.0.0.1:2181 --topic orders --threads 1
  zkconsumer consumer-perf --zookeeper 127.0.0.1:2181 --topic orders --messages 100000 --threads 4
                                                  up to 100,000 messages a thread
  zkconsumer consumer-perf --zookeeper 127.0.0.1:2181 --topic orders --show-detailed-stats --reporting-interval 20000
  zkconsumer consumer-perf --zookeeper 127.0.0.1:2181 --topic orders --hide-header --date-format HH:mm:ss >> perf.csv"""

HEADER = "start.time, end.time, fetch.size, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
# As in 0.8.2.2: the thread's number, second in each row, has no name.
DETAILED_HEADER = "time, fetch.size, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec"
IDLE_MS = 5000
FILL_QUEUES_S = 1.0
MB = 1024 * 1024


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    what = parser.add_argument_group("what to read (--zookeeper and --topic are required)")
    what.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]")
    what.add_argument("--topic", metavar="TOPIC")
    what.add_argument(
        "--group",
        metavar="GROUP",
        default=f"perf-consumer-{random.randrange(100_000)}",
        help="its znodes are deleted first (default: perf-consumer- and a number)",
    )
    what.add_argument("--from-latest", action="store_true", help="start at the newest message, not at the oldest")
    what.add_argument("--messages", metavar="N", type=int, default=2**63 - 1, help="a thread (default: no limit)")
    how = parser.add_argument_group("how to read")
    how.add_argument("--threads", metavar="N", type=int, default=10, help="streams, each with a thread (default 10)")
    how.add_argument("--num-fetch-threads", metavar="N", type=int, default=1, help="fetchers a broker (default 1)")
    how.add_argument(
        "--fetch-size", metavar="BYTES", type=int, default=MB, help="fetched at once of a partition (default 1048576)"
    )
    how.add_argument(
        "--socket-buffer-size", metavar="BYTES", type=int, default=2 * MB, help="of a connection (default 2097152)"
    )
    output = parser.add_argument_group("what to write")
    output.add_argument("--show-detailed-stats", action="store_true", help="rows for each thread instead of the sum")
    output.add_argument(
        "--reporting-interval", metavar="N", type=int, default=5000, help="messages between such rows (default 5000)"
    )
    output.add_argument("--hide-header", action="store_true")
    output.add_argument(
        "--date-format",
        metavar="PATTERN",
        default="yyyy-MM-dd HH:mm:ss:SSS",
        help="as Java's SimpleDateFormat has it (default yyyy-MM-dd HH:mm:ss:SSS)",
    )


def run(arguments: argparse.Namespace) -> int:
    """0 measured, 1 failed or standard output closed, 128 + signal when ended by one."""
    fill_in_servers(arguments, zookeeper="zookeeper")
    problem = check_required(arguments, "topic", "zookeeper")
    if problem is None and min(arguments.threads, arguments.reporting_interval) < 1:
        problem = "--threads and --reporting-interval take numbers of at least 1"
    if problem is not None:
        return fail_with_usage(arguments, problem)
    log_to_stderr()
    style = RowStyle(JavaDateFormat(arguments.date_format), arguments.fetch_size)
    return PerformanceTest(arguments, _config(arguments), style).run()


def _config(arguments: argparse.Namespace) -> ConsumerConfig:
    return ConsumerConfig.from_properties(
        {
            "zookeeper.connect": arguments.zookeeper,
            "group.id": arguments.group,
            "socket.receive.buffer.bytes": arguments.socket_buffer_size,
            "fetch.message.max.bytes": arguments.fetch_size,
            "auto.offset.reset": "largest" if arguments.from_latest else "smallest",
            "consumer.timeout.ms": IDLE_MS,
            "num.consumer.fetchers": arguments.num_fetch_threads,
            "auto.commit.enable": False,  # by ourselves, see _Commits
        }
    )


class Amount(NamedTuple):
    """Read by a thread."""

    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True, slots=True)
class RowStyle:
    """How rows look."""

    date_format: JavaDateFormat
    fetch_size: int

    def total(self, amount: Amount, began_ms: int, ended_ms: int) -> str:
        """The row without details."""
        # As in 0.8.2.2: always, so a run that ended because of --messages shows negative rates.
        seconds = (ended_ms - began_ms - IDLE_MS) / 1000
        megabytes = amount.bytes / MB
        dates = f"{self.date_format.format(began_ms)}, {self.date_format.format(ended_ms)}, {self.fetch_size}"
        rates = java_decimal(divided(megabytes, seconds)), java_decimal(divided(amount.messages, seconds))
        return f"{dates}, {megabytes:.4f}, {rates[0]}, {amount.messages}, {rates[1]}"

    def details(self, thread: int, amount: Amount, before: Amount, began_ms: int, ended_ms: int) -> str:
        """A row of one thread: totals so far, rates since `before`."""
        elapsed_ms = ended_ms - began_ms
        megabytes_a_second = 1000 * divided((amount.bytes - before.bytes) / MB, elapsed_ms)
        # As in 0.8.2.2: whole messages a millisecond, so this is a multiple of 1000. There 0 ms end the thread.
        messages_a_second = (amount.messages - before.messages) // elapsed_ms * 1000 if elapsed_ms > 0 else 0
        start = f"{self.date_format.format(ended_ms)}, {thread}, {self.fetch_size}, {amount.bytes / MB:.4f}"
        return f"{start}, {java_decimal(megabytes_a_second)}, {amount.messages}, {messages_a_second}.0000"


def divided(number: float, by: float) -> float:
    """As Java divides: by zero too."""
    if by:
        return number / by
    return math.copysign(math.inf, number) if number else math.nan


def java_decimal(number: float) -> str:
    """As Java's %.4f."""
    if math.isfinite(number):
        return f"{number:.4f}"
    return "NaN" if math.isnan(number) else "Infinity" if number > 0 else "-Infinity"


class PerformanceTest:
    """One run."""

    def __init__(self, arguments: argparse.Namespace, config: ConsumerConfig, style: RowStyle) -> None:
        self._arguments = arguments
        self._config = config
        self._style = style
        self._stopping = threading.Event()
        self._connector = ZookeeperConsumerConnector(config)
        self._commits = _Commits(self._connector)
        self._signals = StopSignals(self._stop)
        self._output = Output(on_failure=self._signals.request, give_up=lambda: self._signals.requested)

    def run(self) -> int:
        if not self._arguments.hide_header:
            self._output.write_line(DETAILED_HEADER if self._arguments.show_detailed_stats else HEADER)
        remove_group(self._config)
        with self._signals:
            try:
                self._measure()
            except KafkaException:
                if not self._signals.requested:
                    raise
            finally:
                self._stop()
        return self._signals.exit_code or (FAILED if self._output.failed else 0)

    def _measure(self) -> None:
        with ExitStack() as stack:
            self._connector.set_consumer_rebalance_listener(self._commits)
            streams = self._connector.create_message_streams({self._arguments.topic: self._arguments.threads})
            threads = [
                PerformanceThread(number, stream, self._arguments, self._style, self._output)
                for number, stream in enumerate(streams[self._arguments.topic])
            ]
            for thread in threads:
                stack.callback(thread.shutdown)
            stack.callback(self._stop)  # before those: it ends the streams that threads wait for
            self._commits.start()
            self._stopping.wait(FILL_QUEUES_S)
            began_ms = _now_ms()
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.await_result()
            self._report([thread.amount for thread in threads], began_ms)

    def _report(self, amounts: list[Amount], began_ms: int) -> None:
        if not self._signals.requested and not self._arguments.show_detailed_stats:
            total = Amount(sum(amount.messages for amount in amounts), sum(amount.bytes for amount in amounts))
            self._output.write_line(self._style.total(total, began_ms, _now_ms()))

    def _stop(self) -> None:
        self._stopping.set()
        self._commits.initiate_stop()
        self._connector.shutdown()
        self._commits.await_stop()


class PerformanceThread(ShutdownableThread):
    """Reads one stream (0.8: ConsumerPerfThread). The connector's shutdown ends it."""

    def __init__(
        self,
        number: int,
        stream: KafkaStream[bytes, bytes],
        arguments: argparse.Namespace,
        style: RowStyle,
        output: Output,
    ) -> None:
        super().__init__(f"kafka-zk-consumer-{number}", on_death=self._remember)
        self.amount = Amount()
        self._number = number
        self._stream = stream
        self._messages: int = arguments.messages
        self._interval: int = arguments.reporting_interval
        self._shows_details: bool = arguments.show_detailed_stats
        self._style = style
        self._output = output
        self._done = threading.Event()
        self._error: BaseException | None = None

    def await_result(self) -> None:
        """Wait without limit; raise what ended it, if that was an error."""
        self._done.wait()
        if self._error is not None:
            raise self._error

    def do_work(self) -> None:
        self._read()
        self.stopping.set()
        self._done.set()

    def _remember(self, error: BaseException) -> None:
        self._error = error
        self._done.set()

    def _read(self) -> None:
        began_ms = reported_ms = _now_ms()
        reported = Amount()
        messages = size = 0
        stream = self._stream.iterator()
        try:
            # As in 0.8.2.2: it waits for one message more than it wants.
            while stream.has_next() and messages < self._messages:
                value = next(stream).message
                messages += 1
                size += len(value) if value is not None else 0
                if messages % self._interval == 0:
                    self._show(Amount(messages, size), reported, reported_ms)
                    reported, reported_ms = Amount(messages, size), _now_ms()
        except ConsumerTimeoutException:
            pass
        self.amount = Amount(messages, size)
        # As in 0.8.2.2: the last row counts messages since the row before, but time since the start.
        self._show(self.amount, reported, began_ms)

    def _show(self, amount: Amount, before: Amount, began_ms: int) -> None:
        if self._shows_details:
            self._output.write_line(self._style.details(self._number, amount, before, began_ms, _now_ms()))


class _Commits:
    """Auto commit as the consumer has it, without its last commit: 0.8.2.2 just exits, so offsets stay as they are."""

    def __init__(self, connector: ZookeeperConsumerConnector) -> None:
        self._connector = connector
        interval_ms = connector.config.auto_commit_interval_ms
        self._committer = AutoCommitter(
            connector.consumer_id, interval_ms, lambda: connector.commit_offsets(retry_on_failure=False)
        )

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        self._connector.commit_offsets()

    def before_starting_fetchers(
        self, consumer_id: str, global_partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        pass

    def start(self) -> None:
        self._committer.start()

    def initiate_stop(self) -> None:
        """Before the connector is shut down: no commit begins after this."""
        self._committer.initiate_shutdown()

    def await_stop(self) -> None:
        """After that, which has ended a commit that waited for ZooKeeper."""
        self._committer.await_shutdown()


def _now_ms() -> int:
    return time.time_ns() // 1_000_000
