"""kafka-python's KafkaConsumer, a new consumer in Python."""

from __future__ import annotations

import logging
from typing import Any

from kafka import KafkaConsumer
from kafka.consumer.subscription_state import ConsumerRebalanceListener

from study.subjects.reporting import Reporter

POLL_MS = 100


class Listener(ConsumerRebalanceListener):  # type: ignore[misc]
    """Tells what the group decided."""

    def __init__(self, reporter: Reporter) -> None:
        self._reporter = reporter

    def on_partitions_assigned(self, assigned: Any) -> None:
        self._reporter.assigned(assigned)

    def on_partitions_revoked(self, revoked: Any) -> None:
        self._reporter.revoked(revoked)


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    reporter = Reporter()
    settings = reporter.settings
    consumer = KafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers.split(","),
        group_id=settings.group,
        client_id=settings.name,
        auto_offset_reset="earliest",
        auto_commit_interval_ms=settings.commit_interval_ms,
        session_timeout_ms=settings.session_timeout_ms,
        heartbeat_interval_ms=settings.session_timeout_ms // 3,
        metadata_max_age_ms=1000,
    )
    topics = {"pattern": settings.pattern} if settings.pattern is not None else {"topics": list(settings.topics)}
    consumer.subscribe(**topics, listener=Listener(reporter))
    try:
        while not reporter.leaving.is_set():
            for where, records in consumer.poll(timeout_ms=POLL_MS).items():
                for record in records:
                    reporter.delivered(where.topic, where.partition, record.offset)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
