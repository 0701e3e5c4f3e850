"""What a consumer counts, under the names of 0.8.2's MBeans (0.8: ConsumerTopicStats, FetchRequestAndResponseStats, …).

Rare things arrive as events (`listen`) or calls; lags, queues and fetch statistics are asked for when read. Not here:
`kafka.producer:type=ProducerRequestMetrics`, which 0.8 shows because it asks for metadata through its producer.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, Protocol, TypeVar

import zkconsumer
from fetcher.events import Enqueued, Event, EventPublisher, Fetched
from fetcher.fetch_statistics import FetchStatistics
from fetcher.structs import Broker, TopicAndPartition
from zkconsumer.events import (
    Committed,
    Delivered,
    PartitionsReleased,
    RebalanceFinished,
    RebalanceGaveUp,
    SessionLost,
)
from zkconsumer.measures import Clock, Gauge, Histogram, Meter, Timer

Measure = Meter | Histogram | Timer | Gauge
M = TypeVar("M", bound=Measure)

_CONNECTOR = ("kafka.consumer", "ZookeeperConsumerConnector")
_MANAGER = ("kafka.consumer", "ConsumerFetcherManager")
_TOPICS = ("kafka.consumer", "ConsumerTopicMetrics")
_FETCHES = ("kafka.consumer", "FetchRequestAndResponseMetrics")
_LAG = ("kafka.server", "FetcherLagMetrics")
_FETCHER = ("kafka.server", "FetcherStats")


class MetricName(NamedTuple):
    """An MBean's name; as text `kafka.consumer:type=…,name=…,clientId=…`."""

    domain: str
    type: str
    name: str
    tags: tuple[tuple[str, str], ...] = ()

    def __str__(self) -> str:
        tags = "".join(f",{tag}={value}" for tag, value in self.tags if value)  # as in 0.8.2.2: empty ones left out
        return f"{self.domain}:type={self.type},name={self.name}{tags}"


class FetcherReadings(Protocol):
    """What is asked of a ConsumerFetcherManager."""

    def lag_of(self) -> Mapping[TopicAndPartition, int]:
        """High watermark minus next offset to fetch; -1 before the first fetch."""

    def max_lag(self) -> int:
        """The largest, at least 0."""

    def statistics(self) -> Mapping[Broker, FetchStatistics]:
        """By broker."""

    def statistics_by_fetcher(self) -> Mapping[tuple[Broker, int], FetchStatistics]:
        """By broker and fetcher id."""


@dataclass(frozen=True, slots=True)
class TopicMeters:
    """Of one topic; each mark counts for all topics too."""

    messages: Meter  # at next()
    bytes: Meter  # when a chunk is handed over, compressed as it came


@dataclass(frozen=True, slots=True)
class _FetchMeasures:
    times: Timer
    sizes: Histogram

    def update(self, *, seconds: float, size_bytes: int) -> None:
        self.times.update(seconds)
        self.sizes.update(size_bytes)


class ConsumerMetrics:
    """All measures of one consumer. Any thread may call any method; nothing runs in the background."""

    def __init__(self, client_id: str, group_id: str, *, clock: Clock = time.monotonic) -> None:
        self._client = ("clientId", client_id)
        self._group = ("groupId", group_id)
        self._clock = clock
        self._lock = threading.Lock()  # over the tables; nothing is asked of others under it
        self._reading = threading.Lock()  # one reader at a time; never taken by those who count
        self._measures: dict[MetricName, Measure] = {}
        self._topics: dict[str, TopicMeters] = {}
        self._owned: Mapping[str, int] = {}
        self._fetchers: FetcherReadings | None = None
        self._fetch_measures: dict[tuple[tuple[str, str], ...], _FetchMeasures] = {}
        self._rates: dict[object, Meter] = {}
        self.before_reading: Callable[[], None] = lambda: None  # brings what was counted elsewhere
        self.kafka_commits = self._meter(_CONNECTOR, "KafkaCommitsPerSec")
        self.zookeeper_commits = self._meter(_CONNECTOR, "ZooKeeperCommitsPerSec")
        self.rebalances = self._add(self._name(_CONNECTOR, "RebalanceRateAndTime"), Timer(clock))
        self.all_topics = TopicMeters(self._meter(_TOPICS, "MessagesPerSec"), self._meter(_TOPICS, "BytesPerSec"))
        self._add(self._name(_CONNECTOR, "OwnedPartitionsCount", self._group), Gauge(lambda: sum(self._owned.values())))
        self._add(MetricName("kafka.common", "AppInfo", "Version"), Gauge(lambda: zkconsumer.__version__))

    # --- what happened ---

    def listen(self, events: EventPublisher) -> Callable[[], None]:
        """Count from events from now on; the result ends it. Costs an event a fetch and a chunk, none a message."""
        return events.subscribe(self.on_event)

    def on_event(self, event: Event) -> None:
        """Count one event."""
        match event:  # the frequent ones first
            case Enqueued():
                self.topic(event.partition.topic).bytes.mark(event.size_bytes)
            case Fetched():
                self.fetched(event.broker, seconds=event.seconds, size_bytes=event.size_bytes)
            case Delivered():
                self.topic(event.partition.topic).messages.mark(event.count)
            case RebalanceFinished():
                self.rebalances.update(event.seconds)
                self.set_owned(event.owned)
            case RebalanceGaveUp():
                self.rebalances.update(event.seconds)
            case PartitionsReleased() | SessionLost():
                self.set_owned(())
            case Committed():
                self.committed(event.storage, event.written)

    def committed(self, storage: str, count: int) -> None:
        """So many partitions sent to Kafka, or nodes written in ZooKeeper."""
        (self.kafka_commits if storage == "kafka" else self.zookeeper_commits).mark(count)

    def set_owned(self, partitions: Iterable[TopicAndPartition]) -> None:
        """These are owned now, and no others."""
        owned: dict[str, int] = {}
        for topic, _ in partitions:
            owned[topic] = owned.get(topic, 0) + 1
        self._owned = owned

    def topic(self, topic: str) -> TopicMeters:
        """The meters of a topic; keep them where messages are counted one by one."""
        if topic not in self._topics:
            with self._lock:
                if topic not in self._topics:
                    self._topics[topic] = TopicMeters(
                        Meter(self._clock, parent=self.all_topics.messages),
                        Meter(self._clock, parent=self.all_topics.bytes),
                    )
        return self._topics[topic]

    def fetched(self, broker: Broker, *, seconds: float, size_bytes: int) -> None:
        """A fetch was answered."""
        for tags in ((), _broker_tags(broker)):
            self._fetches(tags).update(seconds=seconds, size_bytes=size_bytes)

    def _fetches(self, tags: tuple[tuple[str, str], ...]) -> _FetchMeasures:
        if tags not in self._fetch_measures:
            measures = _FetchMeasures(Timer(self._clock), Histogram())
            self._add(self._name(_FETCHES, "FetchRequestRateAndTimeMs", *tags), measures.times)
            self._add(self._name(_FETCHES, "FetchResponseSize", *tags), measures.sizes)
            self._fetch_measures[tags] = measures
        return self._fetch_measures[tags]

    # --- what is asked for when read ---

    def watch_fetchers(self, fetchers: FetcherReadings) -> None:
        """Read lags and statistics from here."""
        self._fetchers = fetchers
        self._add(self._name(_MANAGER, "MaxLag"), Gauge(fetchers.max_lag))
        self._add(self._name(_MANAGER, "MinFetchRate"), Gauge(self._min_fetch_rate))

    def watch_queue(self, topic: str, thread: int, size: Callable[[], int]) -> None:
        """Read the number of chunks that wait for a stream from here."""
        tags = (("topic", topic), ("threadId", str(thread)))
        self._add(self._name(_CONNECTOR, "FetchQueueSize", *tags), Gauge(size))

    def as_dict(self) -> dict[str, dict[str, float | str]]:
        """MBean name -> attributes, as a JMX client would see them."""
        self.before_reading()
        with self._reading:
            return {str(name): dict(measure.read()) for name, measure in self._everything()}

    def prometheus_text(self) -> str:
        """The same in Prometheus' text format: meters as counters, timers and histograms as summaries.

        A sum is left out where its parts are shown, so that adding up a family counts nothing twice.
        """
        families: dict[str, list[str]] = {}
        self.before_reading()
        with self._reading:
            for name, measure in _without_sums(list(self._everything())):
                for family, kind, line in _prometheus_lines(name, measure):
                    families.setdefault(f"# TYPE {family} {kind}", []).append(line)
        return "".join(f"{head}\n" + "".join(f"{line}\n" for line in lines) for head, lines in families.items())

    def close(self) -> None:
        """Forget everything: after a shutdown there is nothing to show."""
        # Unlike 0.8.2.2: only this consumer's; there group g1 takes the metrics of g10 along.
        with self._lock:
            self._measures.clear()
            self._topics.clear()
            self._owned = {}
            self._fetchers = None
            self._fetch_measures.clear()
            self._rates.clear()

    # --- below ---

    def _everything(self) -> Iterator[tuple[MetricName, Measure]]:
        with self._lock:
            measures, topics = list(self._measures.items()), list(self._topics.items())
        yield from measures
        for topic, meters in topics:
            yield self._name(_TOPICS, "MessagesPerSec", ("topic", topic)), meters.messages
            yield self._name(_TOPICS, "BytesPerSec", ("topic", topic)), meters.bytes
        for topic, count in self._owned.items():
            yield self._name(_CONNECTOR, "OwnedPartitionsCount", self._group, ("topic", topic)), _constant(count)
        if self._fetchers is not None:
            yield from self._of_fetchers(self._fetchers)

    def _of_fetchers(self, fetchers: FetcherReadings) -> Iterator[tuple[MetricName, Measure]]:
        for (topic, partition), lag in fetchers.lag_of().items():
            tags = (("topic", topic), ("partition", str(partition)))
            yield self._name(_LAG, "ConsumerLag", *tags), _constant(lag)
        for broker in fetchers.statistics():
            for name, attribute in (("RequestsPerSec", "requests"), ("BytesPerSec", "bytes")):
                full_name = self._name(_FETCHER, name, *_broker_tags(broker))
                yield full_name, self._rate_of(full_name, partial(_sum_of, fetchers, broker, attribute))

    def _min_fetch_rate(self) -> float:
        """The one-minute rate of the slowest fetcher; 0 without fetchers."""
        fetchers = self._fetchers
        keys = fetchers.statistics_by_fetcher() if fetchers is not None else {}
        rates = [self._rate_of(key, partial(_requests_of, fetchers, key)).one_minute_rate for key in keys if fetchers]
        return min(rates, default=0.0)

    def _rate_of(self, key: object, read_count: Callable[[], int]) -> Meter:
        """Kept from one reading to the next: a rate needs to know what was before."""
        if key not in self._rates:
            self._rates[key] = Meter(self._clock, read_count=read_count)
        return self._rates[key]

    def _name(self, place: tuple[str, str], name: str, *tags: tuple[str, str]) -> MetricName:
        return MetricName(*place, name, (self._client, *tags))

    def _meter(self, place: tuple[str, str], name: str) -> Meter:
        return self._add(self._name(place, name), Meter(self._clock))

    def _add(self, name: MetricName, measure: M) -> M:
        with self._lock:
            self._measures[name] = measure
        return measure


def _sum_of(fetchers: FetcherReadings, broker: Broker, attribute: str) -> int:
    return int(getattr(fetchers.statistics().get(broker), attribute, 0))


def _requests_of(fetchers: FetcherReadings, key: tuple[Broker, int]) -> int:
    statistics = fetchers.statistics_by_fetcher().get(key)
    return statistics.requests if statistics is not None else 0


def _broker_tags(broker: Broker) -> tuple[tuple[str, str], ...]:
    return ("brokerHost", broker.host), ("brokerPort", str(broker.port))


def _constant(value: float) -> Gauge:
    return Gauge(lambda: value)


def _without_sums(entries: list[tuple[MetricName, Measure]]) -> Iterator[tuple[MetricName, Measure]]:
    sums = {(*name[:3], name.tags[:length]) for name, _ in entries for length in range(len(name.tags))}
    return ((name, measure) for name, measure in entries if tuple(name) not in sums)


def _prometheus_lines(name: MetricName, measure: Measure) -> Iterator[tuple[str, str, str]]:
    """Family, its kind, and a line, for each line of one measure."""
    family = _snake(f"{name.domain}_{name.type}_{name.name.removesuffix('PerSec').removesuffix('RateAndTimeMs')}")
    family = family.removesuffix("_rate_and_time")
    labels = {_snake(tag): value for tag, value in name.tags if value}
    match measure:
        case Meter():
            yield f"{family}_total", "counter", _line(f"{family}_total", labels, measure.read()["Count"])
        case Gauge():
            value = measure.read()["Value"]
            if isinstance(value, str):
                yield f"{family}_info", "gauge", _line(f"{family}_info", labels | {"value": value}, 1)
            else:
                yield family, "gauge", _line(family, labels, value)
        case Timer():
            yield from _summary(f"{family}_seconds", labels, measure.durations_ms, scale=0.001)
        case Histogram():
            yield from _summary(family, labels, measure, scale=1)


def _summary(
    family: str, labels: Mapping[str, str], histogram: Histogram, *, scale: float
) -> Iterator[tuple[str, str, str]]:
    for quantile, value in histogram.quantiles().items():
        yield family, "summary", _line(family, {**labels, "quantile": str(quantile)}, value * scale)
    yield family, "summary", _line(f"{family}_sum", labels, histogram.total * scale)
    yield family, "summary", _line(f"{family}_count", labels, histogram.count)


def _line(name: str, labels: Mapping[str, str], value: float) -> str:
    inside = ",".join(f'{label}="{_escaped(text)}"' for label, text in labels.items())
    return f"{name}{{{inside}}} {value!r}" if inside else f"{name} {value!r}"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.replace(".", "_").replace("ZooKeeper", "Zookeeper")).lower()


__all__ = ["ConsumerMetrics", "FetcherReadings", "Gauge", "Histogram", "Meter", "MetricName", "Timer", "TopicMeters"]
