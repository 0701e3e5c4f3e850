"""Our consumer."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

from study.subjects.reporting import Reporter
from zkconsumer import ConsumerConfig, ZookeeperConsumerConnector
from zkconsumer.streams import KafkaStream
from zkconsumer.topic_filter import Whitelist


def main(make_reporter: Callable[[], Reporter] = Reporter) -> None:
    logging.basicConfig(level=logging.WARNING)
    reporter = make_reporter()
    settings = reporter.settings
    config = ConsumerConfig(
        zookeeper_connect=settings.zookeeper_connect,
        group_id=settings.group,
        consumer_id=settings.name,
        auto_offset_reset="smallest",
        auto_commit_interval_ms=settings.commit_interval_ms,
        zookeeper_session_timeout_ms=settings.session_timeout_ms,
        zookeeper_connection_timeout_ms=60_000,
        rebalance_max_retries=50,
        rebalance_backoff_ms=500,
    )

    def read(stream: KafkaStream[bytes, bytes]) -> None:
        for record in stream:
            reporter.delivered(record.topic, record.partition, record.offset)

    with ZookeeperConsumerConnector(config) as connector:
        if settings.pattern is not None:
            streams = connector.create_message_streams_by_filter(Whitelist(settings.pattern), 1)
        else:
            by_topic = connector.create_message_streams(dict.fromkeys(settings.topics, 1))
            streams = [stream for found in by_topic.values() for stream in found]
        readers = [threading.Thread(target=read, args=(stream,)) for stream in streams]
        for reader in readers:
            reader.start()
        reporter.leaving.wait()
    for reader in readers:
        reader.join()


if __name__ == "__main__":
    main()
