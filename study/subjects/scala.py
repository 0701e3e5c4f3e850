"""The real Scala consumers of 0.8.2.2 and 1.1.1."""

from __future__ import annotations

import threading

from study.subjects.member import Line, MemberSettings
from zkconsumer.testing.scala import ScalaConsumer, ScalaVersion

SLOW_BATCH = 10


class ScalaMember:
    """A ScalaConsumer with the methods of study.subjects.member.Member.

    A slow application is played from here: SLOW_BATCH records are taken at once, then their working time passes.
    """

    def __init__(self, settings: MemberSettings, version: ScalaVersion) -> None:
        subscription = (
            {"whitelist": settings.pattern}
            if settings.pattern is not None
            else {"topics": dict.fromkeys(settings.topics, 1)}
        )
        self._work_s = settings.work_ms / 1000
        self._consumer = ScalaConsumer(
            settings.zookeeper_connect,
            settings.group,
            version=version,
            consumer_id=settings.name,
            properties={
                "auto.offset.reset": "smallest",
                "auto.commit.interval.ms": str(settings.commit_interval_ms),
                "zookeeper.session.timeout.ms": str(settings.session_timeout_ms),
                "zookeeper.connection.timeout.ms": "60000",
                "rebalance.max.retries": "50",
                "rebalance.backoff.ms": "500",
            },
            report_values=False,
            start_reading=not settings.work_ms,
            **subscription,
        )
        self._taken = 0
        self._ending = threading.Event()
        self._reader = threading.Thread(target=self._read_slowly, name=f"slow-{settings.name}")

    def start(self) -> None:
        self._consumer.start()
        if self._work_s:
            self._reader.start()

    def stop(self) -> None:
        self._end_reading()
        self._consumer.stop()

    def kill(self) -> None:
        self._ending.set()
        self._consumer.kill()

    def pause(self) -> None:
        self._consumer.pause()

    def resume(self) -> None:
        self._consumer.resume()

    def close(self) -> None:
        self._ending.set()
        self._consumer.close()
        if self._reader.is_alive():
            self._reader.join()

    def lines(self) -> list[Line]:
        new = self._consumer.delivered()[self._taken :]
        first = self._taken + 1
        self._taken += len(new)
        return [
            {
                "kind": "delivered",
                "time_ms": record.time_ms,
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "sequence": number,
            }
            for number, record in enumerate(new, start=first)
        ]

    def _end_reading(self) -> None:
        self._ending.set()
        if self._reader.is_alive():
            self._reader.join(self._work_s * SLOW_BATCH + 1)

    def _read_slowly(self) -> None:
        from zkconsumer.testing.errors import ServerError

        try:
            while not self._ending.wait(self._work_s * SLOW_BATCH):
                pending = [
                    self._consumer.begin("take", number, SLOW_BATCH) for number in range(len(self._consumer.streams))
                ]
                while not self._ending.is_set() and not all(one.done for one in pending):
                    self._ending.wait(0.02)
        except ServerError:
            pass  # it was killed, as the scenario wants
