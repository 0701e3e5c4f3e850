"""Metrics: the MBean names of 0.8.2, Yammer's rates by a clock of our own, Prometheus' text."""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping

import pytest

import zkconsumer
from fetcher.events import Enqueued, EventPublisher, Fetched
from fetcher.fetch_statistics import FetchStatistics
from fetcher.structs import Broker, TopicAndPartition
from zkconsumer.events import Committed, Delivered, PartitionsReleased, RebalanceFinished, RebalanceGaveUp, SessionLost
from zkconsumer.measures import Histogram, Meter, Timer
from zkconsumer.metrics import ConsumerMetrics
from zkconsumer.topic_count import ConsumerThreadId

BROKER = Broker(0, "127.0.0.1", 39090)
TZ0 = TopicAndPartition("tz", 0)
TZ1 = TopicAndPartition("tz", 1)
TY0 = TopicAndPartition("ty", 0)


class Clock:
    def __init__(self) -> None:
        self.now_s = 100.0

    def __call__(self) -> float:
        return self.now_s


class Readings:
    """Numbers as a fetcher manager shows them."""

    def __init__(self) -> None:
        self.lags = {TZ0: 7, TZ1: -1}
        self.by_fetcher = {(BROKER, 0): FetchStatistics(), (BROKER, 1): FetchStatistics()}

    def lag_of(self) -> Mapping[TopicAndPartition, int]:
        return self.lags

    def max_lag(self) -> int:
        return 7

    def statistics(self) -> Mapping[Broker, FetchStatistics]:
        return {
            BROKER: FetchStatistics(
                requests=sum(part.requests for part in self.by_fetcher.values()),
                bytes=sum(part.bytes for part in self.by_fetcher.values()),
            )
        }

    def statistics_by_fetcher(self) -> Mapping[tuple[Broker, int], FetchStatistics]:
        return self.by_fetcher


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def metrics(clock: Clock) -> ConsumerMetrics:
    return ConsumerMetrics("gB", "gG", clock=clock)


CONNECTOR = "kafka.consumer:type=ZookeeperConsumerConnector"


def test_names_are_those_of_0_8_2(metrics: ConsumerMetrics) -> None:
    """Section 17: as seen by JMX, the per-topic ones from source."""
    metrics.watch_fetchers(Readings())
    metrics.watch_queue("tz", 10, lambda: 2)
    metrics.set_owned([TZ0])
    metrics.topic("tz").messages.mark()
    metrics.fetched(BROKER, seconds=0.1, size_bytes=10)

    assert set(metrics.as_dict()) == {
        f"{CONNECTOR},name=KafkaCommitsPerSec,clientId=gB",
        f"{CONNECTOR},name=ZooKeeperCommitsPerSec,clientId=gB",
        f"{CONNECTOR},name=RebalanceRateAndTime,clientId=gB",
        f"{CONNECTOR},name=FetchQueueSize,clientId=gB,topic=tz,threadId=10",
        f"{CONNECTOR},name=OwnedPartitionsCount,clientId=gB,groupId=gG",
        f"{CONNECTOR},name=OwnedPartitionsCount,clientId=gB,groupId=gG,topic=tz",
        "kafka.consumer:type=ConsumerFetcherManager,name=MaxLag,clientId=gB",
        "kafka.consumer:type=ConsumerFetcherManager,name=MinFetchRate,clientId=gB",
        "kafka.consumer:type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=gB",
        "kafka.consumer:type=ConsumerTopicMetrics,name=BytesPerSec,clientId=gB",
        "kafka.consumer:type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=gB,topic=tz",
        "kafka.consumer:type=ConsumerTopicMetrics,name=BytesPerSec,clientId=gB,topic=tz",
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=gB",
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchResponseSize,clientId=gB",
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchRequestRateAndTimeMs,clientId=gB,"
        "brokerHost=127.0.0.1,brokerPort=39090",
        "kafka.consumer:type=FetchRequestAndResponseMetrics,name=FetchResponseSize,clientId=gB,"
        "brokerHost=127.0.0.1,brokerPort=39090",
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=gB,topic=tz,partition=0",
        "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=gB,topic=tz,partition=1",
        "kafka.server:type=FetcherStats,name=RequestsPerSec,clientId=gB,brokerHost=127.0.0.1,brokerPort=39090",
        "kafka.server:type=FetcherStats,name=BytesPerSec,clientId=gB,brokerHost=127.0.0.1,brokerPort=39090",
        "kafka.common:type=AppInfo,name=Version",
    }


def test_empty_tags_are_left_out() -> None:
    names = ConsumerMetrics("", "").as_dict()

    assert f"{CONNECTOR},name=KafkaCommitsPerSec" in names
    assert f"{CONNECTOR},name=OwnedPartitionsCount" in names


def test_lag_is_shown_as_the_fetchers_have_it(metrics: ConsumerMetrics) -> None:
    """M4: -1 before the first fetch."""
    metrics.watch_fetchers(Readings())

    shown = metrics.as_dict()

    lag = "kafka.server:type=FetcherLagMetrics,name=ConsumerLag,clientId=gB,topic=tz,partition="
    assert [shown[f"{lag}{partition}"] for partition in (0, 1)] == [{"Value": 7}, {"Value": -1}]
    assert shown["kafka.consumer:type=ConsumerFetcherManager,name=MaxLag,clientId=gB"] == {"Value": 7}


@pytest.mark.parametrize(
    "loss",
    [PartitionsReleased(consumer_id="c", partitions=(TZ0, TZ1, TY0)), SessionLost(consumer_id="c")],
    ids=["released", "session lost"],
)
def test_owned_partitions_follow_the_owner_nodes(
    metrics: ConsumerMetrics, loss: PartitionsReleased | SessionLost
) -> None:
    """M5: 0 while released, and the gauge of each topic is gone."""
    name = f"{CONNECTOR},name=OwnedPartitionsCount,clientId=gB,groupId=gG"

    metrics.on_event(RebalanceFinished(consumer_id="c", attempts=1, seconds=0.1, owned=(TZ0, TZ1, TY0)))
    owned = metrics.as_dict()
    metrics.on_event(loss)
    released = metrics.as_dict()

    assert [owned[name], owned[f"{name},topic=tz"], owned[f"{name},topic=ty"]] == [
        {"Value": 3},
        {"Value": 2},
        {"Value": 1},
    ]
    assert released[name] == {"Value": 0}
    assert f"{name},topic=tz" not in released


def test_messages_and_bytes_are_counted_for_the_topic_and_for_all(metrics: ConsumerMetrics) -> None:
    """M6: messages when taken, bytes when handed over."""
    thread = ConsumerThreadId("c", 0)

    metrics.on_event(Enqueued(consumer_id="c", partition=TZ0, first_offset=0, next_offset=9, size_bytes=900))
    metrics.on_event(
        Delivered(consumer_id="c", partition=TZ0, thread_id=thread, first_offset=0, next_offset=4, count=4)
    )
    metrics.topic("ty").messages.mark(2)

    shown = metrics.as_dict()
    topics = "kafka.consumer:type=ConsumerTopicMetrics,name="
    assert shown[f"{topics}MessagesPerSec,clientId=gB"]["Count"] == 6
    assert shown[f"{topics}MessagesPerSec,clientId=gB,topic=tz"]["Count"] == 4
    assert shown[f"{topics}MessagesPerSec,clientId=gB,topic=ty"]["Count"] == 2
    assert shown[f"{topics}BytesPerSec,clientId=gB"]["Count"] == 900
    assert shown[f"{topics}BytesPerSec,clientId=gB,topic=tz"]["Count"] == 900


def test_rare_things_are_counted_from_events(metrics: ConsumerMetrics) -> None:
    publisher = EventPublisher("c")
    stop = metrics.listen(publisher)

    publisher.publish(Committed(consumer_id="c", offsets={TZ0: 1, TZ1: 2}, storage="kafka", written=2, seconds=0.1))
    publisher.publish(Committed(consumer_id="c", offsets={TZ0: 1, TZ1: 2}, storage="zookeeper", written=1, seconds=0.1))
    publisher.publish(RebalanceFinished(consumer_id="c", attempts=1, seconds=0.25, owned=()))
    publisher.publish(RebalanceGaveUp(consumer_id="c", attempts=4, seconds=8.0))
    publisher.publish(Fetched(consumer_id="c", broker=BROKER, seconds=0.5, size_bytes=100))
    stop()
    publisher.publish(RebalanceGaveUp(consumer_id="c", attempts=4, seconds=8.0))

    shown = metrics.as_dict()
    assert shown[f"{CONNECTOR},name=KafkaCommitsPerSec,clientId=gB"]["Count"] == 2
    assert shown[f"{CONNECTOR},name=ZooKeeperCommitsPerSec,clientId=gB"]["Count"] == 1
    rebalances = shown[f"{CONNECTOR},name=RebalanceRateAndTime,clientId=gB"]
    assert (rebalances["Count"], rebalances["Min"], rebalances["Max"]) == (2, 250, 8000)
    fetches = "kafka.consumer:type=FetchRequestAndResponseMetrics,name="
    assert shown[f"{fetches}FetchRequestRateAndTimeMs,clientId=gB"]["Max"] == 500
    assert shown[f"{fetches}FetchResponseSize,clientId=gB,brokerHost=127.0.0.1,brokerPort=39090"]["Mean"] == 100


def test_what_is_counted_elsewhere_is_brought_before_reading(metrics: ConsumerMetrics) -> None:
    """M6: messages of a chunk that is still being read count too."""
    metrics.before_reading = lambda: metrics.topic("tz").messages.mark(3)

    name = "kafka.consumer:type=ConsumerTopicMetrics,name=MessagesPerSec,clientId=gB,topic=tz"
    assert metrics.as_dict()[name]["Count"] == 3
    assert 'messages_total{client_id="gB",topic="tz"} 6' in metrics.prometheus_text()


def test_slowest_fetcher_gives_the_minimum_fetch_rate(metrics: ConsumerMetrics, clock: Clock) -> None:
    readings = Readings()
    metrics.watch_fetchers(readings)
    name = "kafka.consumer:type=ConsumerFetcherManager,name=MinFetchRate,clientId=gB"
    assert metrics.as_dict()[name] == {"Value": 0.0}

    readings.by_fetcher[BROKER, 0].requests += 50
    readings.by_fetcher[BROKER, 1].requests += 10
    clock.now_s += 5

    shown = metrics.as_dict()
    assert shown[name] == {"Value": 2.0}
    requests = "kafka.server:type=FetcherStats,name=RequestsPerSec,clientId=gB,brokerHost=127.0.0.1,brokerPort=39090"
    assert (shown[requests]["Count"], shown[requests]["OneMinuteRate"]) == (60, 12.0)


def test_first_tick_sets_the_rate_and_later_ones_weigh_it(clock: Clock) -> None:
    """Yammer's own MeterMetric test: 3 events in the first five seconds, then silence for a minute."""
    meter = Meter(clock)
    meter.mark(3)

    assert meter.one_minute_rate == 0.0
    clock.now_s += 5
    assert meter.one_minute_rate == pytest.approx(0.6, abs=1e-9)
    clock.now_s += 60
    assert meter.one_minute_rate == pytest.approx(0.22072766, abs=1e-6)
    clock.now_s += 60
    assert meter.one_minute_rate == pytest.approx(0.08120117, abs=1e-6)
    assert meter.read()["FifteenMinuteRate"] == pytest.approx(0.52510399, abs=1e-6)


def test_rate_does_not_depend_on_how_often_it_is_read(clock: Clock) -> None:
    often, seldom = Meter(clock), Meter(clock)
    for _ in range(24):
        often.mark(10)
        seldom.mark(10)
        clock.now_s += 5
        assert often.one_minute_rate == pytest.approx(2.0)

    assert seldom.read() == pytest.approx(often.read())


def test_no_mark_is_lost_between_threads() -> None:
    all_topics = Meter()
    meter = Meter(parent=all_topics)

    def mark() -> None:
        for _ in range(20_000):
            meter.mark()

    threads = [threading.Thread(target=mark) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert (meter.count, all_topics.count) == (80_000, 80_000)


def test_histogram_knows_its_values() -> None:
    histogram = Histogram()
    for value in range(1, 101):
        histogram.update(value)

    shown = histogram.read()
    assert (shown["Count"], shown["Min"], shown["Max"], shown["Mean"]) == (100, 1, 100, 50.5)
    assert shown["StdDev"] == pytest.approx(29.011491975882016)
    assert shown["50thPercentile"] == 50.5
    assert shown["99thPercentile"] == pytest.approx(99.99)


def test_unused_measures_show_zeros() -> None:
    assert set(Timer().read().values()) == {0.0}


def test_prometheus_text_counts_nothing_twice(metrics: ConsumerMetrics) -> None:
    metrics.set_owned([TZ0, TY0])
    metrics.topic("tz").messages.mark(4)
    metrics.topic("ty").messages.mark(2)
    metrics.rebalances.update(2.0)

    lines = metrics.prometheus_text().splitlines()

    assert 'kafka_consumer_consumer_topic_metrics_messages_total{client_id="gB",topic="tz"} 4' in lines
    assert 'kafka_consumer_consumer_topic_metrics_messages_total{client_id="gB"} 6' not in lines
    assert sum(line.startswith("kafka_consumer_consumer_topic_metrics_messages_total{") for line in lines) == 2
    assert 'kafka_consumer_zookeeper_consumer_connector_rebalance_seconds_sum{client_id="gB"} 2.0' in lines
    assert f'kafka_common_app_info_version_info{{value="{zkconsumer.__version__}"}} 1' in lines


def test_prometheus_text_is_well_formed(metrics: ConsumerMetrics) -> None:
    metrics.watch_fetchers(Readings())
    metrics.watch_queue('a"b\\c\nd', 0, lambda: 1)

    text = metrics.prometheus_text()

    sample = re.compile(r'[a-z_]+(\{([a-z_]+="([^"\\\n]|\\["\\n])*",?)*\})? -?[0-9.e+-]+')
    heads = [line for line in text.splitlines() if line.startswith("#")]
    assert len(heads) == len(set(heads))
    assert all(sample.fullmatch(line) for line in text.splitlines() if not line.startswith("#"))
    assert text.endswith("\n")


def test_nothing_is_shown_after_a_shutdown(metrics: ConsumerMetrics) -> None:
    metrics.watch_fetchers(Readings())
    metrics.close()

    assert metrics.as_dict() == {}
    assert metrics.prometheus_text() == ""
