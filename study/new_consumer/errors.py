"""What the new consumer raises besides IllegalStateException and IllegalArgumentException of zkconsumer.errors."""

from __future__ import annotations

from fetcher.errors import KafkaException


class WakeupException(KafkaException):
    """Somebody called wakeup(): poll ended early. The consumer can be used on."""


class ConcurrentModificationException(KafkaException):
    """Two threads used one consumer at once. Only wakeup() may be called from another thread."""


class CommitFailedException(KafkaException):
    """The group has moved on without this member: its commit is lost, others have its partitions. Poll again."""


class RetriableCommitFailedException(KafkaException):
    """An asynchronous commit failed for a passing reason. Do not repeat it blindly: a later one may be stored."""


class NoOffsetForPartitionException(KafkaException):
    """Nothing is stored for a partition, or no such record is there, and auto.offset.reset is none: seek first."""
