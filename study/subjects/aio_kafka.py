"""aiokafka's AIOKafkaConsumer, a new consumer on asyncio."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from aiokafka import AIOKafkaConsumer
from aiokafka.abc import ConsumerRebalanceListener

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


async def consume(reporter: Reporter) -> None:
    settings = reporter.settings
    consumer = AIOKafkaConsumer(
        bootstrap_servers=settings.bootstrap_servers,
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
    await consumer.start()
    try:
        while not reporter.leaving.is_set():
            for where, records in (await consumer.getmany(timeout_ms=POLL_MS, max_records=100)).items():
                for record in records:
                    reporter.handed_over(where.topic, where.partition, record.offset)
                    if settings.work_ms and not reporter.leaving.is_set():
                        await asyncio.sleep(settings.work_ms / 1000)  # else heartbeats would wait for the work too
    finally:
        await consumer.stop()


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    asyncio.run(consume(Reporter()))


if __name__ == "__main__":
    main()
