"""confluent-kafka's Consumer (librdkafka), a new consumer in C under Python."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer

from study.subjects.reporting import Reporter

POLL_S = 0.1


def main() -> None:
    reporter = Reporter()
    settings = reporter.settings
    consumer = Consumer(
        {
            "bootstrap.servers": settings.bootstrap_servers,
            "group.id": settings.group,
            "client.id": settings.name,
            "auto.offset.reset": "earliest",
            "auto.commit.interval.ms": settings.commit_interval_ms,
            "session.timeout.ms": settings.session_timeout_ms,
            "heartbeat.interval.ms": settings.session_timeout_ms // 3,
            "topic.metadata.refresh.interval.ms": 1000,
            "log_level": 2,
        }
    )

    def pairs(partitions: Sequence[Any]) -> list[tuple[str, int]]:
        return [(partition.topic, partition.partition) for partition in partitions]

    topics = [f"^{settings.pattern}"] if settings.pattern is not None else list(settings.topics)
    consumer.subscribe(
        topics,
        on_assign=lambda _, partitions: reporter.assigned(pairs(partitions)),
        on_revoke=lambda _, partitions: reporter.revoked(pairs(partitions)),
        on_lost=lambda _, partitions: reporter.revoked(pairs(partitions)),
    )
    try:
        while not reporter.leaving.is_set():
            record: Any = consumer.poll(POLL_S)
            if record is not None and record.error() is None:
                reporter.delivered(record.topic(), record.partition(), record.offset())
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
