"""A chain of interceptors around poll and commit (Java: ConsumerInterceptors): what fails in one is logged, no more."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Protocol

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from study.new_consumer.records import ConsumerRecords

log = logging.getLogger(__name__)

Offsets = Mapping[TopicAndPartition, OffsetAndMetadata]


class ConsumerInterceptor(Protocol):
    """What a user writes. `close` is called when the consumer is closed."""

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords: ...

    def on_commit(self, offsets: Offsets) -> None: ...

    def close(self) -> None: ...


class Interceptors:
    """In the order given; each is fed with what the former made of the records."""

    def __init__(self, chain: Sequence[ConsumerInterceptor]) -> None:
        self._chain = chain

    def on_consume(self, records: ConsumerRecords) -> ConsumerRecords:
        for interceptor in self._chain:
            try:
                records = interceptor.on_consume(records)
            except Exception:
                log.warning("Error executing interceptor onConsume callback", exc_info=True)
        return records

    def on_commit(self, offsets: Offsets) -> None:
        for interceptor in self._chain:
            try:
                interceptor.on_commit(offsets)
            except Exception:
                log.warning("Error executing interceptor onCommit callback", exc_info=True)

    def close(self) -> None:
        for interceptor in self._chain:
            try:
                interceptor.close()
            except Exception:
                log.error("Failed to close consumer interceptor", exc_info=True)
