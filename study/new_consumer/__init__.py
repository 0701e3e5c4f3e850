"""The new consumer (0.9 on) as the seeds show it in Java, over kafka-python's KafkaConsumer, which does the work."""

from __future__ import annotations

from study.new_consumer.config import DEFAULTS, NewConsumerConfig
from study.new_consumer.consumer import NewConsumer
from study.new_consumer.errors import (
    CommitFailedException,
    ConcurrentModificationException,
    NoOffsetForPartitionException,
    RetriableCommitFailedException,
    WakeupException,
)
from study.new_consumer.records import ConsumerRecord, ConsumerRecords, OffsetAndMetadata, PartitionInfo

__all__ = [
    "DEFAULTS",
    "CommitFailedException",
    "ConcurrentModificationException",
    "ConsumerRecord",
    "ConsumerRecords",
    "NewConsumer",
    "NewConsumerConfig",
    "NoOffsetForPartitionException",
    "OffsetAndMetadata",
    "PartitionInfo",
    "RetriableCommitFailedException",
    "WakeupException",
]
