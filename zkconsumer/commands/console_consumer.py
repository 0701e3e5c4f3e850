"""Print the messages of topics to standard output (0.8: kafka-console-consumer.sh).

--topic is a whitelist too: its value is a regular expression. Without a group.id in --consumer.config the command makes
up a group and removes it at the end. Only messages go to standard output; all else goes to standard error.
"""

from __future__ import annotations

import argparse
import logging
import random
import sys
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from fetcher.events import Event
from zkconsumer.commands.common import (
    EXIT_TIMEOUT_MS,
    FAILED,
    NO_STDOUT,
    Output,
    StopSignals,
    check_required,
    delete_subtree,
    fail_with_usage,
    log_to_stderr,
    nothing_given,
    read_properties,
    remember_usage,
    remove_group,
    tool_zookeeper,
)
from zkconsumer.commands.csv_reporter import DEFAULT_DIRECTORY, CsvReporter
from zkconsumer.commands.formatters import (
    DEFAULT_FORMATTER,
    MessageFormatter,
    Record,
    new_formatter,
    parse_properties_given,
)
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.errors import ConsumerTimeoutException, KafkaException
from zkconsumer.events import Delivered
from zkconsumer.paths import BROKER_IDS, GroupPaths
from zkconsumer.streams import KafkaStream
from zkconsumer.topic_filter import Blacklist, TopicFilter, Whitelist

log = logging.getLogger(__name__)

EXAMPLES = """\
  zkconsumer console-consumer --zookeeper 127.0.0.1:2181 --topic orders --from-beginning
                                                  all messages, then new ones, until Ctrl-C
  zkconsumer console-consumer --zookeeper 127.0.0.1:2181 --topic orders --from-beginning --max-messages 10
  zkconsumer console-consumer --zookeeper 127.0.0.1:2181 --whitelist 'orders|payments' --property print.key=true
  zkconsumer console-consumer --zookeeper 127.0.0.1:2181 --topic orders --consumer.config consumer.properties
                                                  as a member of the group in the file
  zkconsumer console-consumer --zookeeper 127.0.0.1:2181 --topic orders --from-beginning --timeout-ms 5000 > all.txt"""

DESCRIPTION = "The console consumer is a tool that reads data from Kafka and outputs it to standard output."


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    which = parser.add_argument_group("what to read (--zookeeper and exactly one of the others are required)")
    which.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]")
    which.add_argument("--topic", metavar="TOPIC", help="a topic, or a regular expression for several")
    which.add_argument("--whitelist", metavar="REGEX", help="all topics whose name matches, also future ones")
    which.add_argument("--blacklist", metavar="REGEX", help="all topics but those whose name matches")
    how = parser.add_argument_group("how to read")
    how.add_argument(
        "--consumer.config", dest="consumer_config", metavar="FILE", help="a consumer.properties, e.g. with group.id"
    )
    how.add_argument(
        "--from-beginning", action="store_true", help="a group without offsets starts at the oldest message"
    )
    how.add_argument(
        "--delete-consumer-offsets", action="store_true", help="first delete all the group has in ZooKeeper"
    )
    how.add_argument("--max-messages", metavar="N", type=int, default=-1, help="end after N messages")
    how.add_argument("--timeout-ms", metavar="MS", type=int, help="end when no message has come for so long (0.9)")
    output = parser.add_argument_group("what to write")
    output.add_argument(
        "--formatter",
        metavar="CLASS",
        default=DEFAULT_FORMATTER,
        help="kafka.tools.DefaultMessageFormatter, NoOpMessageFormatter, ChecksumMessageFormatter, or module:Class",
    )
    output.add_argument(
        "--property",
        metavar="KEY=VALUE",
        action="append",
        default=[],
        help="for the formatter, may be repeated: print.key=true, key.separator, line.separator",
    )
    output.add_argument("--skip-message-on-error", action="store_true", help="go on when a message cannot be formatted")
    output.add_argument("--csv-reporter-enabled", action="store_true", help="write metrics to files as well")
    output.add_argument(
        "--metrics-dir", metavar="DIRECTORY", default=DEFAULT_DIRECTORY, help=f"where (default {DEFAULT_DIRECTORY})"
    )


def run(arguments: argparse.Namespace) -> int:
    """0 all read, 1 failed or standard output closed, 128 + signal when ended by one."""
    problem = _usage_problem(arguments)
    if problem is not None:
        return fail_with_usage(arguments, problem)
    log_to_stderr()
    formatter = new_formatter(arguments.formatter)
    formatter.init(parse_properties_given(arguments.property))
    config, group_is_made_up = _config(arguments)
    topic_filter = _topic_filter(arguments)
    refusal = _prepare_group(arguments, config)
    if refusal is not None:
        print(refusal, file=sys.stderr)
        return FAILED
    console = ConsoleConsumer(
        config,
        topic_filter,
        formatter,
        maximum=arguments.max_messages,
        skip_message_on_error=arguments.skip_message_on_error,
        metrics_directory=Path(arguments.metrics_dir) if arguments.csv_reporter_enabled else None,
        remove_group_at_end=group_is_made_up,
    )
    return console.run()


def _usage_problem(arguments: argparse.Namespace) -> str | None:
    choices = (arguments.topic, arguments.whitelist, arguments.blacklist)
    if nothing_given(arguments):
        return DESCRIPTION
    fill_in_servers(arguments, zookeeper="zookeeper")
    if arguments.zookeeper is not None and sum(choice is not None for choice in choices) != 1:
        return "Exactly one of whitelist/blacklist/topic is required."
    return check_required(arguments, "zookeeper")


def _config(arguments: argparse.Namespace) -> tuple[ConsumerConfig, bool]:
    """The settings, and whether the group is one of our own making."""
    properties = read_properties(arguments.consumer_config)
    group_is_made_up = "group.id" not in properties
    if group_is_made_up:
        properties["group.id"] = f"console-consumer-{random.randrange(100_000)}"
    # As in 0.8.2.2: these two always, whatever the file says.
    properties["auto.offset.reset"] = "smallest" if arguments.from_beginning else "largest"
    properties["zookeeper.connect"] = arguments.zookeeper
    if arguments.timeout_ms is not None:
        properties["consumer.timeout.ms"] = str(arguments.timeout_ms)
    return ConsumerConfig.from_properties(properties), group_is_made_up


def _topic_filter(arguments: argparse.Namespace) -> TopicFilter:
    if arguments.blacklist is not None:
        return Blacklist(arguments.blacklist)
    return Whitelist(arguments.topic if arguments.topic is not None else arguments.whitelist)


def _prepare_group(arguments: argparse.Namespace, config: ConsumerConfig) -> str | None:
    """Forget the group if told to. What speaks against starting, in the words of 0.8 and 0.9; else None."""
    group = config.group_id
    paths = GroupPaths(group)
    with tool_zookeeper(config) as zookeeper:
        if arguments.delete_consumer_offsets:
            delete_subtree(zookeeper, paths.directory)
        elif arguments.from_beginning and zookeeper.exists(paths.offsets):
            return (
                f"Found previous offset information for this group {group}. "
                "Please use --delete-consumer-offsets to delete previous offsets metadata"
            )
        # Unlike 0.8.2.2: as in 0.9, since with a wrong chroot it would wait for ever, and in silence.
        return None if zookeeper.exists(BROKER_IDS) else "No brokers found in ZK."


@dataclass(slots=True)
class _Counts:
    taken: int = 0  # from the stream, which decides when N are reached
    written: int = 0


class ConsoleConsumer:
    """One run: join the group, write each message as it comes, leave."""

    def __init__(
        self,
        config: ConsumerConfig,
        topic_filter: TopicFilter,
        formatter: MessageFormatter,
        *,
        maximum: int = -1,
        skip_message_on_error: bool = False,
        metrics_directory: Path | None = None,
        remove_group_at_end: bool = False,
    ) -> None:
        self._config = config
        self._topic_filter = topic_filter
        self._formatter = formatter
        self._maximum = maximum
        self._skip_message_on_error = skip_message_on_error
        self._metrics_directory = metrics_directory
        self._remove_group_at_end = remove_group_at_end
        self._connector = ZookeeperConsumerConnector(config)
        self._signals = StopSignals(self._connector.shutdown)
        self._output = Output(on_failure=self._signals.request, give_up=lambda: self._signals.requested)
        self._counts = _Counts()

    def run(self) -> int:
        """Until the maximum, a time-out, a signal, or nobody reads any more."""
        with self._signals:
            try:
                self._consume()
            except Exception as error:
                # A shutdown ends whatever was under way with an error of its own, which is no news.
                if not self._signals.requested:
                    if isinstance(error, KafkaException | OSError):
                        raise  # said in one line, if it is about a stream, ZooKeeper or a file
                    log.exception("Error processing message, stopping consumer: ")
                    return FAILED
            finally:
                self._connector.shutdown()
                if self._remove_group_at_end:
                    remove_group(self._config, timeout_ms=EXIT_TIMEOUT_MS)
        if self._output.failed and not self._signals.exit_code:
            return FAILED
        return self._signals.exit_code

    def _consume(self) -> None:
        with ExitStack() as stack:
            stack.callback(self._finish)
            # A stream tells of what it handed out before it waits for more: the moment to let the reader have it.
            stack.callback(self._connector.events.subscribe(self._flush_when_delivered))
            if self._metrics_directory is not None:
                stack.enter_context(CsvReporter(self._connector.metrics, self._metrics_directory))
            [stream] = self._connector.create_message_streams_by_filter(self._topic_filter, 1)
            self._write_messages(stream)

    def _write_messages(self, stream: KafkaStream[bytes, bytes]) -> None:
        counts, maximum = self._counts, self._maximum
        messages = iter(stream)
        # The stream is asked only when one more is wanted, so the last of N is the last one committed.
        while not self._signals.requested and (maximum < 0 or counts.taken < maximum):
            try:
                record = next(messages, None)
            except ConsumerTimeoutException:
                return
            if record is None:
                return
            counts.taken += 1
            self._write(record)

    def _write(self, record: Record) -> None:
        try:
            self._formatter.write_to(record, self._output)
            self._counts.written += 1
        except Exception:
            if not self._skip_message_on_error:
                raise
            log.exception("Error processing message, skipping this message: ")

    def _flush_when_delivered(self, event: Event) -> None:
        if isinstance(event, Delivered):
            self._output.flush()

    def _finish(self) -> None:
        self._output.flush()
        if self._output.failed and not self._signals.exit_code:
            print(NO_STDOUT, file=sys.stderr)
        else:
            print(f"Consumed {self._counts.written} messages", file=sys.stderr)
        self._formatter.close()
