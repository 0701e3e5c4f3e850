"""Kafka 0.8's high-level consumer for today's Python, and real servers to test against (zkconsumer.testing).

    from zkconsumer import ConsumerConfig, ZookeeperConsumerConnector

Public names are loaded when they are first used: `zkconsumer.testing` works, and the command line answers, without the
consumer and its libraries.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fetcher.structs import OffsetAndMetadata, TopicAndPartition
    from zkconsumer.config import ConsumerConfig
    from zkconsumer.connector import ZookeeperConsumerConnector
    from zkconsumer.decoder import Decoder, DefaultDecoder, StringDecoder
    from zkconsumer.emulation import Emulation
    from zkconsumer.errors import (
        ConsumerRebalanceFailedException,
        ConsumerTimeoutException,
        InvalidConfigException,
        KafkaException,
        MessageSizeTooLargeException,
        MessageStreamsExistException,
    )
    from zkconsumer.rebalance_listener import ConsumerRebalanceListener
    from zkconsumer.streams import ConsumerIterator, KafkaStream, MessageAndMetadata
    from zkconsumer.topic_filter import Blacklist, Whitelist

__version__ = "0.1.0"

_HOME_OF = {
    "Blacklist": "zkconsumer.topic_filter",
    "ConsumerConfig": "zkconsumer.config",
    "ConsumerIterator": "zkconsumer.streams",
    "ConsumerRebalanceFailedException": "zkconsumer.errors",
    "ConsumerRebalanceListener": "zkconsumer.rebalance_listener",
    "ConsumerTimeoutException": "zkconsumer.errors",
    "Decoder": "zkconsumer.decoder",
    "DefaultDecoder": "zkconsumer.decoder",
    "Emulation": "zkconsumer.emulation",
    "InvalidConfigException": "zkconsumer.errors",
    "KafkaException": "zkconsumer.errors",
    "KafkaStream": "zkconsumer.streams",
    "MessageAndMetadata": "zkconsumer.streams",
    "MessageSizeTooLargeException": "zkconsumer.errors",
    "MessageStreamsExistException": "zkconsumer.errors",
    "OffsetAndMetadata": "fetcher.structs",
    "StringDecoder": "zkconsumer.decoder",
    "TopicAndPartition": "fetcher.structs",
    "Whitelist": "zkconsumer.topic_filter",
    "ZookeeperConsumerConnector": "zkconsumer.connector",
}

__all__ = [
    "Blacklist",
    "ConsumerConfig",
    "ConsumerIterator",
    "ConsumerRebalanceFailedException",
    "ConsumerRebalanceListener",
    "ConsumerTimeoutException",
    "Decoder",
    "DefaultDecoder",
    "Emulation",
    "InvalidConfigException",
    "KafkaException",
    "KafkaStream",
    "MessageAndMetadata",
    "MessageSizeTooLargeException",
    "MessageStreamsExistException",
    "OffsetAndMetadata",
    "StringDecoder",
    "TopicAndPartition",
    "Whitelist",
    "ZookeeperConsumerConnector",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(home), name)
