"""What the three releases of Kafka have, lack and call differently. Pure: values in, values out.

0.8.2.2   the release this project keeps alive: message format 0 only, `port` and `host.name`
1.1.1     the last line with the old consumer inside: formats 0, 1 and 2, chosen topic by topic
3.9.1     the last line that runs on ZooKeeper: format 2, older ones only if told to work like a release before 3.0
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from zkconsumer.testing.errors import NotSupported
from zkconsumer.testing.programs import program

# The name of each codec, and since which release brokers know it.
CODECS = {"gzip": "0.7", "snappy": "0.8", "lz4": "0.8.2", "zstd": "2.1"}
# Each message format, and since which release brokers know it.
MESSAGE_FORMATS = {0: "0.8", 1: "0.10", 2: "0.11"}
# The value of message.format.version that makes a broker keep this format.
FORMAT_VERSIONS = {0: "0.9.0", 1: "0.10.2"}

# Small and quick, for a broker that lives for seconds beside others on a small machine.
_SMALL = {
    "num.network.threads": "1",
    "num.io.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "background.threads": "2",
    "log.cleaner.enable": "true",
    "log.cleaner.dedupe.buffer.size": str(2 * 1024 * 1024),
    "log.retention.check.interval.ms": "1000",
    "offsets.topic.num.partitions": "4",
    "offsets.topic.segment.bytes": str(1024 * 1024),
    "offsets.topic.replication.factor": "1",
    "controlled.shutdown.max.retries": "3",
    "controlled.shutdown.retry.backoff.ms": "250",
    "replica.fetch.wait.max.ms": "100",
    # How long a broker waits for one that is paused. By default 30 s, and 0.8.2.2 does not take over a leader's place
    # while its own fetcher still waits for an answer from it.
    "replica.socket.timeout.ms": "5000",
    "controller.socket.timeout.ms": "5000",
}
_STRICT = {
    "auto.create.topics.enable": "false",  # a misspelled topic is to be an error
    "delete.topic.enable": "true",
    "auto.leader.rebalance.enable": "false",  # leaders move when a test says so, not when a timer does
}
_SINCE_0_11 = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


class Release(NamedTuple):
    """One release, and whether this broker of it was told to work like an older one."""

    version: str
    settings: Mapping[str, str] = {}

    @property
    def number(self) -> tuple[int, ...]:
        return _number(self.version)

    @property
    def is_0_8(self) -> bool:
        return self.number < (0, 9)

    @property
    def has_delete_records(self) -> bool:
        return self.number >= (0, 11)

    @property
    def newest_format(self) -> int:
        return max(kept for kept, since in MESSAGE_FORMATS.items() if self.number >= _number(since))

    def check_codec(self, codec: str) -> None:
        """ValueError for a codec nobody knows, NotSupported for one that this release lacks."""
        if codec not in CODECS:
            raise ValueError(
                f"codec {codec!r}: is not known; there are {', '.join(CODECS)}, and None for no compression"
            )
        if self.number < _number(CODECS[codec]):
            raise NotSupported(f"Kafka {self.version} has no {codec}: brokers have it since {CODECS[codec]}")

    def check_format(self, message_format: int) -> None:
        """ValueError for a format that does not exist, NotSupported for one that this release does not keep."""
        if message_format not in MESSAGE_FORMATS:
            raise ValueError(f"message format {message_format!r}: does not exist; there are 0, 1 and 2")
        if message_format > self.newest_format:
            since = MESSAGE_FORMATS[message_format]
            raise NotSupported(
                f"Kafka {self.version} has no message format {message_format}: brokers have it since {since}"
            )
        if message_format < 2 and self.number >= (3,) and not self._works_like_before_3():
            raise NotSupported(
                f"Kafka {self.version} keeps message format 2 only, unless it is started with "
                f'settings={{"inter.broker.protocol.version": "2.8"}}; Kafka 1.1.1 keeps {message_format} as it is'
            )

    def format_of(self, topic_config: Mapping[str, str]) -> int:
        """In which format a topic with this configuration is kept."""
        chosen = topic_config.get("message.format.version")
        if chosen is None or self.is_0_8 or (self.number >= (3,) and not self._works_like_before_3()):
            return self.newest_format
        return max(kept for kept, since in MESSAGE_FORMATS.items() if _number(chosen) >= _number(since))

    def _works_like_before_3(self) -> bool:
        return _number(self.settings.get("inter.broker.protocol.version", self.version)) < (3,)


def release(version: str, settings: Mapping[str, str] | None = None) -> Release:
    """The release of this name; UnknownVersion if nobody here can run it."""
    return Release(program("kafka", version).version, dict(settings or {}))


class Place(NamedTuple):
    """Where a broker is, as seen by itself and by others."""

    broker_id: int
    data_directory: str
    zookeeper_connect: str
    bind_address: str
    port: int
    advertised_host: str
    advertised_port: int


def broker_settings(of: Release, place: Place, session_timeout_ms: int) -> dict[str, str]:
    """server.properties: small defaults, overridden by what the user gave."""
    settings = {
        "broker.id": str(place.broker_id),
        "log.dirs": place.data_directory,
        "zookeeper.connect": place.zookeeper_connect,
        "zookeeper.session.timeout.ms": str(session_timeout_ms),
        "zookeeper.connection.timeout.ms": str(max(30_000, session_timeout_ms)),
        **_SMALL,
        **_STRICT,
        **({} if of.is_0_8 else _SINCE_0_11),
        **_listening(of, place),
    }
    return {**settings, **of.settings}


def _listening(of: Release, place: Place) -> dict[str, str]:
    if of.is_0_8:
        return {
            "host.name": place.bind_address,
            "port": str(place.port),
            "advertised.host.name": place.advertised_host,
            "advertised.port": str(place.advertised_port),
        }
    return {
        "listeners": f"PLAINTEXT://{place.bind_address}:{place.port}",
        "advertised.listeners": f"PLAINTEXT://{place.advertised_host}:{place.advertised_port}",
    }


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("-")[0].split("."))
