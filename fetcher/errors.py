"""What can go wrong with brokers and what they send (0.8: kafka.common.*Exception, ErrorMapping).

KafkaException                      base of all
  UnsupportedCodecException         a message is compressed with something we cannot read
  DecompressionLimitException       a compressed message set is larger inside than we are willing to hold
  MalformedResponseException        a response's bytes do not have the form its version has
  ClosedChannelException            a connection was closed, or never made
  BrokerException                   a broker answered with an error code; one class a code, see below
    InvalidMessageException         … also: a message we read ourselves is corrupt
    MessageSizeTooLargeException    … also: a message does not fit into `fetch.message.max.bytes`
    …

Rule: codes and names up to 20 are those of 0.8.2.2; later codes have the names of Kafka 3.9's clients.
"""

from __future__ import annotations

from typing import ClassVar

from fetcher.structs import TopicAndPartition


class KafkaException(Exception):
    """Base of everything raised here. `topic_and_partition` says where, if it is about what a partition holds."""

    topic_and_partition: TopicAndPartition | None = None


class UnsupportedCodecException(KafkaException):
    """`codec` is none we can read (0.8: UnknownCodecException)."""

    def __init__(self, message: str, *, codec: int | None = None) -> None:
        super().__init__(message)
        self.codec = codec


class DecompressionLimitException(KafkaException):
    """A compressed message set would take more than `limit` bytes."""

    def __init__(self, message: str, *, limit: int | None = None) -> None:
        super().__init__(message)
        self.limit = limit


class MalformedResponseException(KafkaException):
    """A response ends too early or says impossible things; the text names the field and where it is."""


class ClosedChannelException(KafkaException):
    """The connection is closed."""


class BrokerException(KafkaException):
    """A broker answered with an error code. `retriable`: the same request may work a little later."""

    code: ClassVar[int] = -1
    retriable: ClassVar[bool] = False
    java_name: ClassVar[str] = "kafka.common.UnknownException"
    meaning: ClassVar[str] = "the broker failed in a way it has no code for"

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or f"{self.meaning} (error code {self.code})")

    def __init_subclass__(
        cls, *, code: int, meaning: str, retriable: bool = False, package: str = "kafka.common"
    ) -> None:
        super().__init_subclass__()
        cls.code, cls.meaning, cls.retriable = code, meaning, retriable
        cls.java_name = f"{package}.{cls.__name__}" if code <= LAST_CODE_OF_0_8_2 else BrokerException.java_name
        _CLASS_OF[code] = cls


LAST_CODE_OF_0_8_2 = 20
_CLASS_OF: dict[int, type[BrokerException]] = {}


def exception_for(code: int, message: str | None = None) -> KafkaException:
    """The exception of a code, ready to be raised (0.8: ErrorMapping.exceptionFor)."""
    if code in _CLASS_OF:
        return _CLASS_OF[code](message)
    return UnknownException(message or f"the broker answered with error code {code}, which we do not know")


def class_name_for(code: int) -> str:
    """The class 0.8.2.2 names in its log lines; codes it did not know yet are its UnknownException."""
    return _CLASS_OF[code].java_name if code in _CLASS_OF else BrokerException.java_name


class UnknownException(BrokerException, code=-1, meaning="the broker failed in a way it has no code for"):
    """Also for codes that are newer than this module."""


class OffsetOutOfRangeException(BrokerException, code=1, meaning="the partition does not hold that offset"):
    """Too old and deleted, or not written yet."""


class InvalidMessageException(
    BrokerException, code=2, meaning="a message is corrupt", retriable=True, package="kafka.message"
):
    """With both checksums, if it was the checksum that was wrong."""

    def __init__(
        self, message: str | None = None, *, stored_crc: int | None = None, computed_crc: int | None = None
    ) -> None:
        super().__init__(message)
        self.stored_crc = stored_crc
        self.computed_crc = computed_crc


class UnknownTopicOrPartitionException(
    BrokerException, code=3, meaning="the broker does not have this partition", retriable=True
):
    """It may not have heard of it yet."""


class InvalidMessageSizeException(BrokerException, code=4, meaning="the fetch size is not valid"):
    """Negative, for instance."""


class LeaderNotAvailableException(
    BrokerException, code=5, meaning="the partition has no leader at the moment", retriable=True
):
    """An election is going on, or no replica in sync is alive."""


class NotLeaderForPartitionException(
    BrokerException, code=6, meaning="the broker does not lead this partition", retriable=True
):
    """Another one does: ask for metadata."""


class RequestTimedOutException(BrokerException, code=7, meaning="the request timed out in the broker", retriable=True):
    """The broker waited for others."""


class BrokerNotAvailableException(BrokerException, code=8, meaning="the broker is not available"):
    """Named by the metadata, but not alive."""


class ReplicaNotAvailableException(BrokerException, code=9, meaning="a replica is not available", retriable=True):
    """In metadata: harmless for a consumer, which needs the leader only."""


class MessageSizeTooLargeException(BrokerException, code=10, meaning="a message is larger than allowed"):
    """With topic, partition and offset, if it is one we fetched."""

    def __init__(
        self,
        message: str | None = None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        fetch_offset: int | None = None,
    ) -> None:
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.fetch_offset = fetch_offset


class ControllerMovedException(BrokerException, code=11, meaning="the controller moved to another broker"):
    """Between brokers only."""


class OffsetMetadataTooLargeException(BrokerException, code=12, meaning="the note beside an offset is too long"):
    """Longer than the broker's `offset.metadata.max.bytes`."""


class OffsetsLoadInProgressException(
    BrokerException, code=14, meaning="the offset manager is still loading its offsets", retriable=True
):
    """It became responsible for the group a moment ago."""


class ConsumerCoordinatorNotAvailableException(
    BrokerException, code=15, meaning="no broker is responsible for the group's offsets yet", retriable=True
):
    """The first question creates the offsets topic."""


class NotCoordinatorForConsumerException(
    BrokerException, code=16, meaning="the broker is not responsible for this group's offsets", retriable=True
):
    """Another one is: ask who."""


class InvalidTopicException(BrokerException, code=17, meaning="the topic's name is not valid"):
    """Illegal characters, too long, or an internal topic."""


class MessageSetSizeTooLargeException(BrokerException, code=18, meaning="a message set is larger than a segment"):
    """For producers."""


class NotEnoughReplicasException(
    BrokerException, code=19, meaning="fewer replicas are in sync than required", retriable=True
):
    """For producers; also answered to offset commits."""


class NotEnoughReplicasAfterAppendException(
    BrokerException, code=20, meaning="written, but to fewer replicas than required", retriable=True
):
    """For producers; also answered to offset commits."""


class IllegalGenerationException(BrokerException, code=22, meaning="the group is in another generation"):
    """Members of the new consumer are in this group."""


class InvalidGroupIdException(BrokerException, code=24, meaning="the group's name is not valid"):
    """Empty, for instance."""


class UnknownMemberIdException(BrokerException, code=25, meaning="the group does not know this member"):
    """Members of the new consumer are in this group."""


class RebalanceInProgressException(BrokerException, code=27, meaning="the group is rebalancing"):
    """Members of the new consumer are in this group."""


class InvalidCommitOffsetSizeException(BrokerException, code=28, meaning="the committed offsets are too large"):
    """Larger than a message may be."""


class TopicAuthorizationException(BrokerException, code=29, meaning="not allowed to read this topic"):
    """An access list of the broker's says so."""


class GroupAuthorizationException(BrokerException, code=30, meaning="not allowed to use this group"):
    """An access list of the broker's says so."""


class ClusterAuthorizationException(BrokerException, code=31, meaning="not allowed to use this cluster"):
    """An access list of the broker's says so."""


class UnsupportedVersionException(BrokerException, code=35, meaning="the broker cannot do this version of the request"):
    """Ask it for its versions."""


class InvalidRequestException(BrokerException, code=42, meaning="the broker cannot understand the request"):
    """Malformed, or not for this broker."""


class UnsupportedForMessageFormatException(
    BrokerException, code=43, meaning="the topic's message format cannot answer the request"
):
    """Times asked of messages that have none."""


class KafkaStorageException(BrokerException, code=56, meaning="a disk of the broker failed", retriable=True):
    """Another replica becomes leader."""


class GroupIdNotFoundException(BrokerException, code=69, meaning="the group does not exist"):
    """Never committed, or expired."""


class FetchSessionIdNotFoundException(
    BrokerException, code=70, meaning="the broker has forgotten the fetch session", retriable=True
):
    """We use no sessions, so this is a broker's mistake."""


class InvalidFetchSessionEpochException(
    BrokerException, code=71, meaning="the fetch session is at another step", retriable=True
):
    """We use no sessions, so this is a broker's mistake."""


class ListenerNotFoundException(
    BrokerException, code=72, meaning="the leader has no address for this listener", retriable=True
):
    """Its listeners differ from those of the broker asked."""


class FencedLeaderEpochException(
    BrokerException, code=74, meaning="the leader epoch asked with is too old", retriable=True
):
    """Ask for metadata."""


class UnknownLeaderEpochException(
    BrokerException, code=75, meaning="the leader epoch asked with is newer than the broker's", retriable=True
):
    """It has not heard of its election yet."""


class UnsupportedCompressionTypeException(
    BrokerException, code=76, meaning="the partition holds zstd and the fetch version is too old for it"
):
    """zstd needs fetch version 10 or later."""


class OffsetNotAvailableException(
    BrokerException, code=78, meaning="a new leader does not know its high watermark yet", retriable=True
):
    """A moment after an election."""


class FencedInstanceIdException(BrokerException, code=82, meaning="another member has this instance id"):
    """Members of the new consumer are in this group."""


class UnstableOffsetCommitException(
    BrokerException, code=88, meaning="offsets of an open transaction are pending", retriable=True
):
    """Wait for its end."""


class ThrottlingQuotaExceededException(BrokerException, code=89, meaning="a quota is used up", retriable=True):
    """Wait."""


class UnknownTopicIdException(
    BrokerException, code=100, meaning="the broker does not know the topic's id", retriable=True
):
    """The topic was deleted, or made a moment ago."""


class InconsistentTopicIdException(
    BrokerException, code=103, meaning="the partition belongs to a topic with another id", retriable=True
):
    """The topic was deleted and made again."""


class OffsetMovedToTieredStorageException(BrokerException, code=109, meaning="the offset is in tiered storage"):
    """For followers."""


class StaleMemberEpochException(BrokerException, code=113, meaning="the member's epoch is old"):
    """Members of the new consumer are in this group."""
