"""What a user of the consumer can catch (0.8: kafka.common.*Exception and the Java exceptions it lets through).

KafkaException                            base of all, also of what brokers answer (fetcher.errors)
├── IllegalArgumentException              also a ValueError
│   └── InvalidConfigException            a setting: `key` and `value` say which
│       └── NumberFormatException         … that is no whole number of 32 bits
├── MessageStreamsExistException          streams are created once a connector; also a RuntimeError
├── ConsumerRebalanceFailedException      `consumer_id` got no partitions after `retries` attempts
├── ConsumerTimeoutException              nothing came within consumer.timeout.ms; go on iterating if you like
├── NoSuchElementException                next() after the end of a stream; also a LookupError
├── IllegalStateException                 a stream used after it failed; also a RuntimeError
├── UnreadableZnode                       `path` holds `data` nobody can read, for this `reason`; also a ValueError
├── OffsetCommitFailed                    Kafka did not store all offsets: `errors` by partition, `stored` the rest
└── ZooKeeperError                        ZooKeeper did not do what was asked
    ├── ZkTimeoutException                no connection within zookeeper.connection.timeout.ms
    ├── ZkNodeExistsException             `path` belongs to another session
    ├── MissingChroot                     the path at the end of zookeeper.connect does not exist
    ├── ZooKeeperSessionExpired           the session was lost during the call, and with it our ephemeral nodes
    └── ZooKeeperStopped                  the consumer was shut down while the call waited

Those of streams and offsets that come from fetcher.errors are here too, so that one import does.
"""

from __future__ import annotations

from collections.abc import Mapping

from fetcher.errors import (
    BrokerException,
    ClosedChannelException,
    DecompressionLimitException,
    InvalidMessageException,
    InvalidMessageSizeException,
    KafkaException,
    LeaderNotAvailableException,
    MalformedResponseException,
    MessageSizeTooLargeException,
    NotLeaderForPartitionException,
    OffsetOutOfRangeException,
    UnknownTopicOrPartitionException,
    UnsupportedCodecException,
)
from fetcher.structs import TopicAndPartition


class IllegalArgumentException(KafkaException, ValueError):
    """A value that cannot be worked with."""


class InvalidConfigException(IllegalArgumentException):
    """A setting that 0.8 refuses too, in its words. `key` is the property key."""

    def __init__(self, message: str, *, key: str = "", value: object = None) -> None:
        super().__init__(message)
        self.key = key
        self.value = value


class NumberFormatException(InvalidConfigException):
    """A setting that should be a number and is none, or does not fit."""


class MessageStreamsExistException(KafkaException, RuntimeError):
    """Too late: the connector has its streams already."""


class ConsumerRebalanceFailedException(KafkaException):
    """All attempts of a rebalance failed. The consumer stays registered; the next change in the group starts anew."""

    def __init__(self, consumer_id: str, retries: int) -> None:
        super().__init__(f"{consumer_id} can't rebalance after {retries} retries")
        self.consumer_id = consumer_id
        self.retries = retries

    def __reduce__(self) -> tuple[type[ConsumerRebalanceFailedException], tuple[str, int]]:
        return type(self), (self.consumer_id, self.retries)


class ConsumerTimeoutException(KafkaException):
    """No message within consumer.timeout.ms. The iterator stays usable."""


class NoSuchElementException(KafkaException, LookupError):
    """The stream has ended: the connector was shut down."""


class IllegalStateException(KafkaException, RuntimeError):
    """Something was used that broke before."""


class UnreadableZnode(KafkaException, ValueError):
    """Bytes in ZooKeeper that cannot be read. The text is the reason, behind the path once that is known."""

    def __init__(self, path: str, data: bytes | None, reason: str) -> None:
        super().__init__(f"{path}: {reason}" if path else reason)
        self.path = path
        self.data = data
        self.reason = reason

    def at(self, path: str) -> UnreadableZnode:
        """The same, found at this path: what decodes bytes does not know where they stood."""
        return UnreadableZnode(path, self.data, self.reason)

    def __reduce__(self) -> tuple[type[UnreadableZnode], tuple[str, bytes | None, str]]:
        return type(self), (self.path, self.data, self.reason)


class OffsetCommitFailed(KafkaException):
    """Kafka did not store all offsets: `errors` has the code of each refused one, `stored` is what it took."""

    def __init__(
        self,
        message: str,
        errors: Mapping[TopicAndPartition, int] | None = None,
        stored: frozenset[TopicAndPartition] = frozenset(),
    ) -> None:
        super().__init__(message)
        self.errors = dict(errors or {})
        self.stored = stored


class ZooKeeperError(KafkaException):
    """ZooKeeper refused, or is not there."""


class ZkTimeoutException(ZooKeeperError):
    """The first connection took longer than zookeeper.connection.timeout.ms. `connect` says to where."""

    def __init__(self, message: str, connect: str = "") -> None:
        super().__init__(message)
        self.connect = connect

    def __reduce__(self) -> tuple[type[ZkTimeoutException], tuple[str, str]]:
        return type(self), (str(self), self.connect)


class ZkNodeExistsException(ZooKeeperError):
    """Somebody else's node stands at `path`."""

    def __init__(self, path: str, message: str = "") -> None:
        super().__init__(message or f"{path} exists already and belongs to another session")
        self.path = path

    def __reduce__(self) -> tuple[type[ZkNodeExistsException], tuple[str, str]]:
        return type(self), (self.path, str(self))


class MissingChroot(ZooKeeperError):
    """The consumer never creates the chroot; `path` is the one that is missing."""

    def __init__(self, path: str) -> None:
        super().__init__(
            f"the path {path} at the end of zookeeper.connect does not exist: create it, or take it out of the setting"
        )
        self.path = path

    def __reduce__(self) -> tuple[type[MissingChroot], tuple[str]]:
        return type(self), (self.path,)


class ZooKeeperSessionExpired(ZooKeeperError):
    """The session in which the call began is over. A new one comes by itself; the consumer registers again in it."""


class ZooKeeperStopped(ZooKeeperError):
    """The wait for a lost connection was given up because the consumer is shutting down."""


__all__ = [
    "BrokerException",
    "ClosedChannelException",
    "ConsumerRebalanceFailedException",
    "ConsumerTimeoutException",
    "DecompressionLimitException",
    "IllegalArgumentException",
    "IllegalStateException",
    "InvalidConfigException",
    "InvalidMessageException",
    "InvalidMessageSizeException",
    "KafkaException",
    "LeaderNotAvailableException",
    "MalformedResponseException",
    "MessageSizeTooLargeException",
    "MessageStreamsExistException",
    "MissingChroot",
    "NoSuchElementException",
    "NotLeaderForPartitionException",
    "NumberFormatException",
    "OffsetCommitFailed",
    "OffsetOutOfRangeException",
    "UnknownTopicOrPartitionException",
    "UnreadableZnode",
    "UnsupportedCodecException",
    "ZkNodeExistsException",
    "ZkTimeoutException",
    "ZooKeeperError",
    "ZooKeeperSessionExpired",
    "ZooKeeperStopped",
]
