r"""A consumer of ours in a process of its own, spoken to as ScalaConsumer's is: the same commands, answers and files.

    python -m tests.conformance.our_process PROPERTIES.json DELIVERED.bin PROFILE SWITCHES

So it can be killed and paused like the real one, and a test can have either. java_sources/ScalaConsumer.java has the
protocol; here are the commands that groups need: connect, create, commit, session, shutdown, quit.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus, unquote_plus

from fetcher.settings import RequestVersions
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.emulation import ZooKeeperRequests, emulation
from zkconsumer.streams import KafkaStream
from zkconsumer.testing import scala_protocol
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.topic_filter import Blacklist, TopicFilter, Whitelist

ROOT = Path(__file__).parents[2]
_HEADER = struct.Struct(">ihhiqqii")


class OurProcess(ScalaConsumer):
    """ScalaConsumer's handles on ours. `version` says which real ones it is to be like."""

    def __init__(
        self,
        *arguments: Any,
        request_versions: RequestVersions = "newest",
        zookeeper_requests: ZooKeeperRequests = "many at a time",
        profile: str | None = None,
        **keywords: Any,
    ) -> None:
        super().__init__(*arguments, **keywords)
        self._profile = profile or self.version.rpartition(".")[0]
        self.name = f"our-consumer-{self.version}"
        self._switches = {"request_versions": request_versions, "zookeeper_requests": zookeeper_requests}

    def _spawn(self) -> None:
        self._process.open()
        directory = self._process.directory
        settings = directory / "properties.json"
        settings.write_text(json.dumps(self._properties))
        command = [sys.executable, "-m", "tests.conformance.our_process", str(settings)]
        command += [str(directory / "delivered.bin"), self._profile, json.dumps(self._switches)]
        path = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
        self._process.spawn(command, environment={"PYTHONPATH": path}, errors=self._errors_file)


class Deliveries:
    """The file of what was delivered. A record is one write, so it is there even if the process is killed next."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._lock = threading.Lock()
        self._topics: dict[str, int] = {}

    def add(self, stream: int, record: Any) -> None:
        with self._lock:
            number = self._topics.get(record.topic)
            if number is None:
                number = self._topics[record.topic] = len(self._topics)
                self._write(-1, number, 0, 0, record.topic.encode(), None)
            self._write(stream, number, record.partition, record.offset, record.key, record.message)

    def _write(
        self, stream: int, topic: int, partition: int, offset: int, key: bytes | None, value: bytes | None
    ) -> None:
        body = (key or b"") + (value or b"")
        size = _HEADER.size + len(body) + 3 & ~3
        lengths = [-1 if part is None else len(part) for part in (key, value)]
        header = _HEADER.pack(size, stream, topic, partition, offset, int(time.time() * 1000), *lengths)
        os.write(self._file, (header + body).ljust(size, b"\0"))


class Served:
    """One connector at a time and the threads that read its streams."""

    def __init__(
        self, properties: dict[str, str], deliveries: Deliveries, profile: str, changes: dict[str, str]
    ) -> None:
        switches = emulation(profile).with_switches(**changes)
        self._config = ConsumerConfig.from_properties(properties, emulate=switches)
        self._connector = ZookeeperConsumerConnector(self._config)
        self._is_used = False
        self._deliveries = deliveries
        self._says = threading.Lock()

    def answer(self, number: str, command: str, words: Sequence[str]) -> None:
        try:
            self._say(number, "ok", *self._run(command, words))
        except Exception as error:
            name, trace = type(error).__name__, traceback.format_exc()
            self._say(number, "error", name, str(error), trace)

    def _run(self, command: str, words: Sequence[str]) -> Sequence[object]:
        match command:
            case "connect":
                if self._is_used:
                    self._connector = ZookeeperConsumerConnector(self._config)
                self._is_used = True
                self._connector.start()
                return [self._connector.consumer_id]
            case "create":
                return self._create(words)
            case "commit":
                self._connector.commit_offsets()
            case "session":
                number, password = self._connector._zookeeper.client.client_id
                return [number, password.hex()]
            case "shutdown":
                self._connector.shutdown()
            case _:
                raise NotImplementedError(f"this process cannot {command}")
        return []

    def _create(self, words: Sequence[str]) -> list[str]:
        _, _, pattern, *rest = words
        streams: list[tuple[str, KafkaStream[bytes, bytes]]]
        if pattern == "static":
            counts = {topic: int(count) for topic, count in scala_protocol.groups(rest, 2)}
            created = self._connector.create_message_streams(counts)
            streams = [(topic, stream) for topic in counts for stream in created[topic]]
        else:
            chosen: TopicFilter = (Whitelist if pattern == "white_list" else Blacklist)(rest[0])
            found = self._connector.create_message_streams_by_filter(chosen, int(rest[1]))
            streams = [("", stream) for stream in found]
        for number, (_, stream) in enumerate(streams):
            threading.Thread(target=self._read, args=(number, stream), daemon=True).start()
        return [topic for topic, _ in streams]

    def _read(self, number: int, stream: KafkaStream[bytes, bytes]) -> None:
        for record in stream:
            self._deliveries.add(number, record)

    def _say(self, *words: object) -> None:
        first, second, *rest = words
        with self._says:
            print(first, second, *(quote_plus(str(word)) for word in rest), flush=True)


def main(arguments: list[str]) -> None:
    properties, delivered, profile, switches = arguments
    given = json.loads(Path(properties).read_text())
    served = Served(given, Deliveries(delivered), profile, json.loads(switches))
    for line in sys.stdin:
        number, command, *words = (unquote_plus(word) for word in line.rstrip("\n").split(" "))
        if command == "quit":
            break
        threading.Thread(target=served.answer, args=(number, command, words), daemon=True).start()
    os._exit(0)  # nothing is to happen that was not asked for


if __name__ == "__main__":
    main(sys.argv[1:])
