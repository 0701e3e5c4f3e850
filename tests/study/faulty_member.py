"""A member with a fault for every check: our consumer, whose application does what none should.

Run as a member's process, see study.subjects. It is honest until it was paused and goes on (SIGCONT): that tells it
that the timeline has begun. With four partitions and two members, m1 owns 0 and 1, m2 2 and 3; counted from there

* m1 drops record AT of partition 0, and hands over that of partition 1 twice;
* m1 hands over record LATE of partition 0 after the next one;
* m1 hands over offset ZOMBIE of partition 2, which it reads behind the group's back: a zombie's delivery;
* m2 sets the stored offset of partition 3 back to BACK_TO, once a later one was stored.
"""

from __future__ import annotations

import signal
import threading

from confluent_kafka import Consumer, TopicPartition
from kazoo.client import KazooClient

from study.subjects import ours
from study.subjects.reporting import Reporter

AT, LATE = 20, 30
ZOMBIE, BACK_TO = 20, 5


class Polled(threading.Event):
    """A wait that Python code takes part in: a signal taken by another thread would not end it, nor be handled."""

    def wait(self, timeout: float | None = None) -> bool:
        while timeout is None and not super().wait(0.05):
            pass
        return super().wait(timeout)


class FaultyReporter(Reporter):
    def __init__(self) -> None:
        super().__init__()
        self.leaving = Polled()
        self._begun = threading.Event()
        self._first: dict[int, int] = {}
        signal.signal(signal.SIGCONT, lambda *_: self._begun.set())

    def delivered(self, topic: str, partition: int, offset: int) -> None:
        if not self._begun.is_set():
            super().delivered(topic, partition, offset)
            return
        number = offset - self._first.setdefault(partition, offset)
        if (partition, number) in ((0, AT), (0, LATE)):
            return
        super().delivered(topic, partition, offset)
        if (partition, number) == (0, LATE + 1):
            super().delivered(topic, partition, offset - 1)
        if (partition, number) == (1, AT):
            super().delivered(topic, partition, offset)
        if (partition, number) == (1, 2 * AT):
            self._deliver_what_is_anothers(topic)
        if (partition, number) == (3, 2 * AT):
            threading.Thread(target=self._set_back, args=(topic,)).start()

    def _deliver_what_is_anothers(self, topic: str) -> None:
        reader = Consumer({"bootstrap.servers": self.settings.bootstrap_servers, "group.id": "behind-its-back"})
        reader.assign([TopicPartition(topic, 2, ZOMBIE)])
        record = reader.poll(30)
        reader.close()
        assert record is not None and record.error() is None
        super().delivered(topic, 2, ZOMBIE)

    def _set_back(self, topic: str) -> None:
        client = KazooClient(self.settings.zookeeper_connect)
        client.start()
        path = f"/consumers/{self.settings.group}/offsets/{topic}/3"
        while not client.exists(path) or int(client.get(path)[0]) <= BACK_TO:
            self.leaving.wait(0.05)
        client.set(path, b"%d" % BACK_TO)
        client.stop()
        client.close()


if __name__ == "__main__":
    ours.main(FaultyReporter)
