"""The real Scala consumer (kafka.javaapi.consumer.ConsumerConnector) as a child process: the oracle for ours.

    with ScalaConsumer(zookeeper_connect, "g1", {"t1": 2}, properties={"auto.offset.reset": "smallest"}) as real:
        real.wait_until_delivered(100)
        real.log()          # as in production, log4j at INFO
        real.kill()         # or stop(), pause(), resume()

It does only what it is told: its settings are those given, everything else is the release's default. Without topics or
filter it is connected, and no more; create_streams() then shows what the real one raises. Streams that are not read by
themselves (start_reading=False, or hold()) are used step by step with has_next(), peek() and take().
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Mapping
from types import TracebackType
from typing import Literal, NamedTuple, Self, TypeVar

from zkconsumer.testing import scala_protocol
from zkconsumer.testing.errors import NotSupported, ServerStartError
from zkconsumer.testing.java import class_path_of, find_java, unpack_into
from zkconsumer.testing.java_compiler import compiled
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.programs import FULL_SPEED, QUICK_START, program
from zkconsumer.testing.scala_protocol import (
    AnswerFile,
    BeforeReleasingPartitions,
    BeforeStartingFetchers,
    Delivered,
    DeliveryFile,
    JavaError,
    LogEntry,
    ScalaEvent,
)
from zkconsumer.testing.waiting import eventually

T = TypeVar("T")

ScalaVersion = Literal["0.8.2.2", "1.1.1"]
DecoderName = Literal["bytes", "string", "failing"]

ANSWER_TIMEOUT_S = 60.0
RETRIES, BACKOFF_MS = ("rebalance.max.retries", "4"), ("rebalance.backoff.ms", "2000")  # and what they are by default
HEAP_MB = 512

_SOURCES: dict[str, str] = {"0.8.2.2": "ScalaConsumer", "1.1.1": "ScalaConsumerSince09"}


def log4j_properties(file: str, level: str) -> str:
    """Kafka's own layout, into a file."""
    return f"""\
log4j.rootLogger={level}, file
log4j.appender.file=org.apache.log4j.FileAppender
log4j.appender.file.File={file}
log4j.appender.file.layout=org.apache.log4j.PatternLayout
log4j.appender.file.layout.ConversionPattern=[%d] %p %m (%c)%n
"""


class Subscription(NamedTuple):
    """What createMessageStreams or createMessageStreamsByFilter is given."""

    pattern: Literal["static", "white_list", "black_list"]
    streams: dict[str, int]  # by topic, or by the one regular expression


class Pending:
    """A command that was given and may still run: the real consumer can hang, and a test may want to see that."""

    def __init__(self, consumer: ScalaConsumer, number: int, command: str) -> None:
        self._consumer = consumer
        self.number = number
        self._command = command

    @property
    def done(self) -> bool:
        """Whether it has ended, well or not."""
        return self._consumer.answer_to(self.number) is not None

    def wait(self, timeout_s: float = ANSWER_TIMEOUT_S) -> tuple[str, ...]:
        """Its result; JavaError if it threw, WaitTimeout if it still runs."""
        what = f"{self._consumer.name}: an answer to {self._command!r}"
        answer = self._consumer.wait_for(lambda: self._consumer.answer_to(self.number), what, timeout_s)
        if answer.error is not None:
            raise answer.error
        return answer.words


class ScalaConsumer:
    """One connector in a process of its own.

    States: new → (start) connected → (create_streams) consuming → (shutdown) shut down → (stop) ended; kill() ends it
    from anywhere, close() also forgets its files. What it delivered, told and logged can be read to the end and after.
    """

    def __init__(
        self,
        zookeeper_connect: str,
        group: str,
        topics: Mapping[str, int] | None = None,
        *,
        whitelist: str | None = None,
        blacklist: str | None = None,
        streams: int = 1,
        version: ScalaVersion = "0.8.2.2",
        consumer_id: str | None = None,
        properties: Mapping[str, str] | None = None,
        start_reading: bool = True,
        report_values: bool = True,
        decoder: DecoderName = "bytes",
        log_level: str = "INFO",
        full_speed: bool = False,
    ) -> None:
        """`streams` counts for a filter; `decoder` other than bytes shows what decoding in the application does."""
        self._program = program("kafka", version)
        if version not in _SOURCES:
            raise NotSupported(
                f"Kafka {version} has no Scala consumer, which was removed in 2.0: use {' or '.join(_SOURCES)}"
            )
        self.version = version
        self.name = f"scala-consumer-{version}"
        self._properties = {"zookeeper.connect": zookeeper_connect, "group.id": group}
        self._properties |= {"consumer.id": consumer_id} if consumer_id is not None else {}
        self._properties |= properties or {}
        self._subscription = subscription_of(topics, whitelist=whitelist, blacklist=blacklist, streams=streams)
        self._start_reading = start_reading
        self._report_values = report_values
        self._decoder: DecoderName = decoder
        self._log_level = log_level
        self._java_options = [f"-Xmx{HEAP_MB}m", *(FULL_SPEED if full_speed else QUICK_START)]
        self._process = GuardedProcess(self.name)
        self._answers = AnswerFile(self._process.output)
        self._deliveries = DeliveryFile(self._process.directory / "delivered.bin")
        self._log_file = self._process.directory / "consumer.log"
        self._errors_file = self._process.directory / "errors.log"
        self._last_log = ""
        self._consumer_id: str | None = None
        self._last_number = 0
        self._creations: list[int] = []
        self._lock = threading.Lock()

    # --- life ---

    def start(self) -> None:
        """Start the process, connect, and create the streams if a subscription was given; JavaError as it comes."""
        try:
            self._spawn()
            self.start_again()
        except BaseException:
            self.close()
            raise

    def start_again(self) -> None:
        """After shutdown(): the same process makes another connector, with the same settings, and new streams."""
        (self._consumer_id,) = self.ask("connect")
        if self._subscription is not None:
            self._create(self._subscription, self._start_reading, self._decoder)

    def shutdown(self) -> None:
        """connector.shutdown(); the process stays, so that its streams can be asked again.

        One of 0.8.2.2 that is in the middle of a rebalance first uses up its retries, each of which fails (Q7).
        """
        retries, backoff_ms = (int(self._properties.get(*one)) for one in (RETRIES, BACKOFF_MS))
        self.begin("shutdown").wait(ANSWER_TIMEOUT_S + retries * backoff_ms / 1000)

    def stop(self) -> None:
        """Shut down in order and end the process. Idempotent."""
        self.resume()
        if self._process.poll():
            self.shutdown()
            self._process.write(scala_protocol.command_line(0, "quit", ()))
            self._process.wait(ANSWER_TIMEOUT_S)

    def kill(self) -> None:
        """End it without warning: its session lives on until ZooKeeper gives it up."""
        self._process.end(signal.SIGKILL)

    def pause(self) -> None:
        """Let the whole process stand still (SIGSTOP)."""
        self._process.signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        self._process.signal(signal.SIGCONT)

    def close(self) -> None:
        """Kill it if it runs, remove its files; what they told stays readable. Idempotent."""
        self._process.end(signal.SIGKILL)
        self._read()
        self.log()
        self._process.close()

    @property
    def running(self) -> bool:
        """Whether its process exists (paused counts)."""
        return self._process.poll()

    @property
    def pid(self) -> int | None:
        return self._process.pid

    @property
    def consumer_id(self) -> str:
        """The full id, as in /consumers/<group>/ids."""
        if self._consumer_id is None:
            raise ServerStartError(f"{self.name}: has no consumer id before it is connected")
        return self._consumer_id

    # --- streams ---

    @property
    def streams(self) -> list[str | None]:
        """The topic of each stream by index, or None for streams made by a filter."""
        answers = (self.answer_to(number) for number in self._creations)
        return [topic or None for answer in answers if answer is not None for topic in answer.words]

    def create_streams(
        self,
        topics: Mapping[str, int] | None = None,
        *,
        whitelist: str | None = None,
        blacklist: str | None = None,
        streams: int = 1,
        start_reading: bool = True,
        decoder: DecoderName = "bytes",
    ) -> list[str | None]:
        """createMessageStreams(topics) or ...ByFilter(filter, streams); the topics of the new streams, by index."""
        subscription = subscription_of(topics, whitelist=whitelist, blacklist=blacklist, streams=streams)
        if subscription is None:
            raise ValueError("create_streams: give topics (an empty map is legal), a whitelist or a blacklist")
        return self._create(subscription, start_reading, decoder)

    def begin_creating_streams(self, topics: Mapping[str, int]) -> Pending:
        """The same for topics, not waited for: the real one may hang. The streams are read when it returns."""
        return self._begin_creating(Subscription("static", dict(topics)), True, "bytes")

    def read(self, stream: int | None = None) -> None:
        """Let a stream (default: all) be read by its thread as fast as it goes."""
        self.ask("read", *([] if stream is None else [stream]))

    def hold(self, stream: int | None = None) -> None:
        """Stop reading. Nothing is delivered from now on, but a thread waiting in hasNext() may still see an item."""
        self.ask("hold", *([] if stream is None else [stream]))

    def has_next(self, stream: int = 0) -> bool:
        """hasNext() of the stream's iterator."""
        return self.ask("has_next", stream) == ("true",)

    def peek(self, stream: int = 0) -> int:
        """The offset of what peek() shows."""
        return int(self.ask("peek", stream)[0])

    def take(self, count: int = 1, *, stream: int = 0, timeout_s: float = ANSWER_TIMEOUT_S) -> list[Delivered]:
        """next() this many times."""
        before = len(self._of_stream(stream))
        self.begin("take", stream, count).wait(timeout_s)
        return self._of_stream(stream)[before:]

    def stream_text(self, stream: int = 0) -> str:
        """The stream's toString."""
        return self.ask("text", stream)[0]

    # --- offsets, listener, inside ---

    def commit_offsets(self, *, retry_on_failure: bool | None = None) -> None:
        """commitOffsets(), or commitOffsets(retryOnFailure)."""
        self.ask("commit", *([] if retry_on_failure is None else [str(retry_on_failure).lower()]))

    def commit_offsets_of(self, offsets: Mapping[tuple[str, int], int], *, retry_on_failure: bool = True) -> None:
        """commitOffsets(map, retryOnFailure) of 0.9 and later."""
        words = [word for (topic, partition), offset in offsets.items() for word in (topic, partition, offset, "")]
        self.ask("commit_map", str(retry_on_failure).lower(), *words)

    def set_rebalance_listener(self, *, releasing_failures: int = 0, starting_failures: int = 0) -> None:
        """setConsumerRebalanceListener of 0.9 and later; the first calls may be made to throw. See listener_calls()."""
        self.ask("listener", releasing_failures, starting_failures)

    def session(self) -> tuple[int, bytes]:
        """Id and password of its ZooKeeper session, as kazoo's client_id: who has them can end the session."""
        number, password = self.ask("session")
        return int(number), bytes.fromhex(password)

    def assign(
        self, strategy: str, group: str, consumer_id: str, *, exclude_internal_topics: bool = True
    ) -> dict[tuple[str, int], str]:
        """What the release's own assignor gives a member: thread ids by topic and partition, claiming nothing.

        Any group will do, also one written by hand: it reads /brokers/topics and /consumers/<group>/ids, no more.
        """
        words = self.ask("assign", strategy, group, consumer_id, str(exclude_internal_topics).lower())
        return {(topic, int(partition)): thread for topic, partition, thread in scala_protocol.groups(words, 3)}

    def thread_names(self) -> list[str]:
        """Of all threads of the process."""
        return list(self.ask("threads"))

    def metric_names(self, pattern: str = "kafka.*:*") -> list[str]:
        """MBeans, e.g. kafka.consumer:type=ZookeeperConsumerConnector,name=…"""
        return list(self.ask("metrics", pattern))

    def metric(self, name: str, attribute: str = "Value") -> str:
        """An attribute of an MBean as text."""
        return self.ask("metric", name, attribute)[0]

    # --- what it told ---

    def delivered(self) -> list[Delivered]:
        """Everything delivered so far, in order over all streams."""
        self._read()
        return list(self._deliveries.delivered)

    @property
    def number_delivered(self) -> int:
        self._read()
        return len(self._deliveries.delivered)

    def wait_until_delivered(self, number: int, timeout_s: float = 30.0) -> list[Delivered]:
        """Everything delivered, once it is at least so much."""
        self.wait_for(
            lambda: self.number_delivered >= number,
            lambda: f"{self.name}: {number} messages delivered (were {self.number_delivered}, error: {self.error()})",
            timeout_s,
        )
        return self.delivered()

    @property
    def events(self) -> list[ScalaEvent]:
        """What happened by itself, in order."""
        self._read()
        return list(self._answers.events)

    def listener_calls(self) -> list[BeforeReleasingPartitions | BeforeStartingFetchers]:
        """Calls of the rebalance listener, in order."""
        calls = (scala_protocol.listener_call(event) for event in self.events)
        return [call for call in calls if call is not None]

    def error(self) -> JavaError | None:
        """The last exception out of a command, else out of a stream being read (a time-out there is only an event)."""
        self._read()
        failures = [JavaError(*event.words[1:]) for event in self._answers.events if event.name == "failed"]
        failures += [answer.error for answer in self._answers.answers.values() if answer.error is not None]
        return failures[-1] if failures else None

    def log(self) -> str:
        """Its log4j log."""
        if self._log_file.exists():
            self._last_log = self._log_file.read_text(errors="replace")
        return self._last_log

    def log_entries(self) -> list[LogEntry]:
        """The log, entry by entry."""
        return list(scala_protocol.log_entries(self.log()))

    def wait_until_logged(self, text: str, timeout_s: float = 30.0) -> None:
        """Until this text stands somewhere in the log."""
        self.wait_for(lambda: text in self.log(), f"{self.name}: a log with {text!r}", timeout_s)

    # --- commands ---

    def ask(self, command: str, *words: object) -> tuple[str, ...]:
        """Give a command and wait for its answer."""
        return self.begin(command, *words).wait()

    def begin(self, command: str, *words: object) -> Pending:
        """Give a command; it runs beside others, except that each stream does one thing at a time."""
        with self._lock:
            self._last_number += 1
            number = self._last_number
            if not self._process.write(scala_protocol.command_line(number, command, words)):
                raise self._ended(f"{command!r} cannot be done")
        return Pending(self, number, command)

    def answer_to(self, number: int) -> scala_protocol.Answer | None:
        """The answer to a command, if it is there."""
        self._read()
        return self._answers.answers.get(number)

    def wait_for(self, condition: Callable[[], T | None], what: str | Callable[[], str], timeout_s: float) -> T:
        """The condition's first true result; ServerStartError as soon as the process is gone without it."""

        def true_or_still_running() -> T | None:
            running = self._process.poll()
            result = condition()
            if not result and not running:
                raise self._ended("it will not happen")
            return result

        result = eventually(true_or_still_running, what, timeout_s)
        assert result is not None
        return result

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error_type is None:
                self.stop()
        finally:
            self.close()

    # --- private ---

    def _spawn(self) -> None:
        jars = self._program.jars()
        main_class = _SOURCES[self.version]
        classes = compiled(f"{main_class}.java", jars)
        self._process.open()
        directory = self._process.directory
        (directory / "log4j.properties").write_text(log4j_properties(str(self._log_file), self._log_level))
        settings = directory / "consumer.properties"
        settings.write_text(scala_protocol.properties_text(self._properties))
        command = [str(find_java()), *self._java_options, unpack_into(directory)]
        command += ["-cp", class_path_of([directory, classes, *jars]), main_class]
        command += [str(settings), str(directory / "delivered.bin"), "values" if self._report_values else "no-values"]
        self._process.spawn(command, errors=self._errors_file)

    def _create(self, subscription: Subscription, start_reading: bool, decoder: DecoderName) -> list[str | None]:
        return [topic or None for topic in self._begin_creating(subscription, start_reading, decoder).wait()]

    def _begin_creating(self, subscription: Subscription, start_reading: bool, decoder: DecoderName) -> Pending:
        reading = "read" if start_reading else "hold"
        pending = self.begin("create", reading, decoder, subscription.pattern, *_flat(subscription.streams))
        self._creations.append(pending.number)
        return pending

    def _of_stream(self, stream: int) -> list[Delivered]:
        return [message for message in self.delivered() if message.stream == stream]

    def _read(self) -> None:
        with self._lock:
            self._answers.read()
            self._deliveries.read()

    def _ended(self, consequence: str) -> ServerStartError:
        code = self._process.exit_code
        state = "has not been started" if self._process.pid is None and code is None else f"has ended with code {code}"
        log = self._process.log_tail(self._log_file, self._errors_file)
        return ServerStartError(f"{self.name}: {state}, so {consequence}", log)


def subscription_of(
    topics: Mapping[str, int] | None, *, whitelist: str | None, blacklist: str | None, streams: int
) -> Subscription | None:
    """What was asked for, if anything; ValueError if more than one thing was."""
    given = [choice for choice in (topics, whitelist, blacklist) if choice is not None]
    if len(given) > 1:
        raise ValueError("give topics, a whitelist or a blacklist: a connector subscribes to one of them only")
    if whitelist is not None:
        return Subscription("white_list", {whitelist: streams})
    if blacklist is not None:
        return Subscription("black_list", {blacklist: streams})
    return None if topics is None else Subscription("static", dict(topics))


def _flat(streams: Mapping[str, int]) -> list[str]:
    return [str(word) for pair in streams.items() for word in pair]
