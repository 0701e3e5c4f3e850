"""The threading models of seed 003 on real brokers: what a failing thread leaves behind is done by the next one."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable

import pytest

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from study.new_consumer import ConsumerRecord
from study.new_consumer.threads import ConsumerThreads, SlidingWindow, WorkerPool
from tests.study.new_consumer.conftest import NewConsumers, properties
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import scaled

COUNT = 40
MODELS: list[Callable[..., ConsumerThreads | WorkerPool]] = [
    lambda *wanted: ConsumerThreads(*wanted, threads=2),
    lambda *wanted: WorkerPool(*wanted, workers=4),
]


def test_a_window_never_passes_an_unfinished_record() -> None:
    window = SlidingWindow()
    for offset in (3, 4, 7, 8):  # what lies between was compacted away
        window.hand_out(offset)
    assert window.committable() is None

    seen = []
    for offset in (4, 3, 8, 7):
        window.done(offset)
        seen.append((window.committable(), window.unfinished))

    assert seen == [(None, 4), (5, 2), (5, 2), (9, 0)]


@pytest.mark.parametrize("model", MODELS, ids=["a consumer per thread", "workers"])
def test_a_thread_that_fails_loses_nothing(
    cluster: KafkaCluster, topic: str, group: str, new_consumer: NewConsumers, model: Callable[..., WorkerPool]
) -> None:
    """Restarted, it begins with the unfinished record: each record is handled at least once, none is passed over."""
    cluster.create_topic(topic, partitions=2)
    for partition in (0, 1):
        cluster.produce(topic, [b"%d" % number for number in range(COUNT)], partition=partition)
    settings = properties(cluster, group_id=group)
    lock = threading.Lock()
    handled: Counter[tuple[int, int]] = Counter()
    everything = {(partition, offset) for partition in (0, 1) for offset in range(COUNT)}

    def handle(record: ConsumerRecord) -> None:
        if (record.partition, record.offset) == (1, 17) and not mended.is_set():
            raise ValueError("record 17 of partition 1")
        with lock:
            handled[record.partition, record.offset] += 1
            if handled.keys() == everything:
                stopping.set()

    mended, stopping = threading.Event(), threading.Event()
    with pytest.raises(ValueError, match="record 17 of partition 1"):
        model(settings, [topic], handle).run(stopping)

    asking = new_consumer(group_id=group)
    stored = asking.committed(TopicAndPartition(topic, 1))
    assert stored is None or stored.offset <= 17, "never past the unfinished record"
    assert (1, 17) not in handled
    done_before = set(handled)

    mended.set()
    stopping = threading.Event()
    giving_up = threading.Timer(scaled(90), stopping.set)
    giving_up.start()
    model(settings, [topic], handle).run(stopping)
    giving_up.cancel()
    giving_up.join()

    assert set(handled) == everything
    ends = {TopicAndPartition(topic, number): OffsetAndMetadata(COUNT) for number in (0, 1)}
    assert {one: asking.committed(one) for one in ends} == ends, "all is done, and stored before it ended"
    begun_at = stored.offset if stored else 0
    again = {key for key, times in handled.items() if times > 1}
    assert again <= done_before
    assert {offset for partition, offset in again if partition == 1} <= set(range(begun_at, COUNT))


def test_a_full_window_is_paused_and_goes_on(cluster: KafkaCluster, topic: str, group: str) -> None:
    """The window slides: no more than so many records are unfinished, however many there are."""
    cluster.create_topic(topic)
    cluster.produce(topic, [b"%d" % number for number in range(COUNT)])
    stopping = threading.Event()
    handled: list[int] = []

    def handle(record: ConsumerRecord) -> None:
        handled.append(record.offset)
        if len(handled) == COUNT:
            stopping.set()

    settings = properties(cluster, group_id=group, max_poll_records=5)
    WorkerPool(settings, [topic], handle, workers=1, most_unfinished=1).run(stopping)

    assert handled == list(range(COUNT)), "with one worker also in order"


def test_automatic_commits_are_refused(cluster: KafkaCluster) -> None:
    with pytest.raises(IllegalArgumentException, match=r"enable\.auto\.commit=true stores what was polled"):
        WorkerPool(properties(cluster, enable_auto_commit=True), ["t"], print)
    with pytest.raises(IllegalArgumentException, match="workers=0: at least 1 is needed"):
        WorkerPool(properties(cluster), ["t"], print, workers=0)
