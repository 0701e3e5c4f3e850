"""How the real consumer's process is spoken to (java_sources/ScalaConsumer.java has the other side).

Commands, answers and events are lines of URL-encoded words; what was delivered is a file of binary records. The process
only ever adds, so whoever reads goes on where it stopped.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote_plus, unquote_plus

from zkconsumer.testing.errors import ServerError

_HEADER = struct.Struct(">ihhiqqii")
_NAMES_A_TOPIC = -1
_LOG_ENTRY = re.compile(
    r"^\[\d{4}-\d\d-\d\d [\d:,]+\] ([A-Z]+) (.*?)(?=^\[\d{4}-\d\d-\d\d |\Z)", re.DOTALL | re.MULTILINE
)
_LOGGER = re.compile(r" \(([\w.$]+)\)\n")


class JavaError(ServerError):
    """An exception out of the real consumer: its class, its message (`null` if it has none) and its stack trace."""

    def __init__(self, class_name: str, message: str, trace: str = "") -> None:
        super().__init__(f"{class_name}: {message}")
        self.class_name = class_name
        self.message = message
        self.trace = trace


class Delivered(NamedTuple):
    """One message as `next()` of a stream returned it."""

    stream: int
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None  # None also if values are not reported
    time_ms: int


class ScalaEvent(NamedTuple):
    """Something that happened by itself.

    ended STREAM · timeout STREAM · failed STREAM CLASS MESSAGE ·
    decoding_failed STREAM TOPIC PARTITION OFFSET MESSAGE ·
    before_releasing_partitions (TOPIC PARTITION)… · before_starting_fetchers CONSUMER (TOPIC PARTITION THREAD)…
    """

    name: str
    time_ms: int
    words: tuple[str, ...]


class BeforeReleasingPartitions(NamedTuple):
    """A call of the rebalance listener: what this consumer owned."""

    partitions: dict[str, set[int]]


class BeforeStartingFetchers(NamedTuple):
    """A call of the rebalance listener: the thread of every partition of the topics subscribed to."""

    consumer_id: str
    threads: dict[tuple[str, int], str]


class LogEntry(NamedTuple):
    """One call of the logger."""

    level: str
    message: str
    logger: str
    trace: str


class Answer(NamedTuple):
    """What came back for a command: words, or an error."""

    words: tuple[str, ...]
    error: JavaError | None


def command_line(number: int, command: str, words: Sequence[object]) -> str:
    """A command as the process reads it."""
    return " ".join([str(number), command, *(quote_plus(str(word)) for word in words)]) + "\n"


class AnswerFile:
    """Answers and events, read as far as they are written."""

    def __init__(self, path: Path) -> None:
        self._tail = _Tail(path)
        self.answers: dict[int, Answer] = {}
        self.events: list[ScalaEvent] = []

    def read(self) -> None:
        """Take what is new."""
        data = self._tail.read()
        *lines, unfinished = data.split(b"\n")
        self._tail.used(len(data) - len(unfinished))
        for line in lines:
            first, second, *words = (unquote_plus(word) for word in line.decode().split(" "))
            if first == "event":
                self.events.append(ScalaEvent(second, int(words[0]), tuple(words[1:])))
            elif second == "ok":
                self.answers[int(first)] = Answer(tuple(words), None)
            else:
                self.answers[int(first)] = Answer((), JavaError(*words))


class DeliveryFile:
    """What was delivered, read as far as it is written."""

    def __init__(self, path: Path) -> None:
        self._tail = _Tail(path)
        self._topics: dict[int, str] = {}
        self.delivered: list[Delivered] = []

    def read(self) -> None:
        """Take what is new."""
        data = self._tail.read()
        start = 0
        while start + _HEADER.size <= len(data):
            size, stream, topic, partition, offset, time_ms, key_length, value_length = _HEADER.unpack_from(data, start)
            if size == 0 or start + size > len(data):
                break
            key_start = start + _HEADER.size
            value_start = key_start + max(key_length, 0)
            key = None if key_length < 0 else data[key_start:value_start]
            if stream == _NAMES_A_TOPIC:
                self._topics[topic] = (key or b"").decode()
            else:
                value = None if value_length < 0 else data[value_start : value_start + value_length]
                self.delivered.append(Delivered(stream, self._topics[topic], partition, offset, key, value, time_ms))
            start += size
        self._tail.used(start)


class _Tail:
    """A growing file. What its reader cannot use yet, since the end is missing, is read again the next time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def read(self) -> bytes:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                return file.read()
        except FileNotFoundError:  # not yet, or no more
            return b""

    def used(self, length: int) -> None:
        self._position += length


def log_entries(text: str) -> Iterator[LogEntry]:
    """A log in Kafka's usual layout, `[time] LEVEL message (logger)`, each entry with the lines that follow it."""
    for match in _LOG_ENTRY.finditer(text):
        level, rest = match.groups()
        found = _LOGGER.search(rest)
        if found is not None:
            yield LogEntry(level, rest[: found.start()], found[1], rest[found.end() :].rstrip("\n"))


def listener_call(event: ScalaEvent) -> BeforeReleasingPartitions | BeforeStartingFetchers | None:
    """The event as a call of the rebalance listener, if it is one."""
    if event.name == "before_releasing_partitions":
        partitions: dict[str, set[int]] = {}
        for topic, partition in groups(event.words, 2):
            partitions.setdefault(topic, set()).add(int(partition))
        return BeforeReleasingPartitions(partitions)
    if event.name == "before_starting_fetchers":
        consumer_id, *words = event.words
        threads = {(topic, int(partition)): thread for topic, partition, thread in groups(words, 3)}
        return BeforeStartingFetchers(consumer_id, threads)
    return None


def properties_text(properties: dict[str, str]) -> str:
    """A Java properties file that means exactly this."""
    return "".join(f"{_escaped(key)}={_escaped(value)}\n" for key, value in properties.items())


def _escaped(text: str) -> str:
    units = struct.unpack(f">{len(text.encode('utf-16-be')) // 2}H", text.encode("utf-16-be"))
    return "".join(chr(unit) if re.match(r"[\w./,-]", chr(unit), re.ASCII) else f"\\u{unit:04x}" for unit in units)


def groups(words: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    """Words of a list of tuples."""
    for start in range(0, len(words), size):
        yield words[start : start + size]
