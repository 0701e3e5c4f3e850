"""The leader finder when brokers, or those that list them, fail it; and that it can be stopped wherever it waits."""

from __future__ import annotations

import logging
import random
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import pytest

from fetcher.chunk_queue import ChunkQueue
from fetcher.events import Event, EventPublisher, LeadersFound, LeadersNotFound
from fetcher.manager import ConsumerFetcherManager
from fetcher.partition import PartitionTopicInfo
from fetcher.settings import FetcherSettings, RequestVersions
from fetcher.structs import Broker, TopicAndPartition
from tests.scripted_broker import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    METADATA,
    Answer,
    HangUp,
    Request,
    ScriptedBroker,
    Silence,
    array,
    offsets_answer,
    text,
)
from zkconsumer.testing.waiting import eventually

CONSUMER = "group_host-1"
FINDER = "group_host-1-leader-finder-thread"
NOT_LEADER = 6
T0 = TopicAndPartition("t", 0)


class Running:
    """A manager and what it published."""

    def __init__(self, list_brokers: Callable[[], Sequence[Broker]], request_versions: RequestVersions) -> None:
        publisher = EventPublisher(CONSUMER)
        self.events: list[Event] = []
        publisher.subscribe(self.events.append)
        settings = FetcherSettings(
            client_id="the client",
            request_versions=request_versions,
            socket_timeout_ms=600_000,
            refresh_leader_backoff_ms=10,
            auto_offset_reset="smallest",
        )
        self.manager = ConsumerFetcherManager(
            consumer_id=CONSUMER, settings=settings, list_brokers=list_brokers, events=publisher
        )

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


@contextmanager
def finding(
    list_brokers: Callable[[], Sequence[Broker]],
    offset: int = 0,
    caplog: pytest.LogCaptureFixture | None = None,
    request_versions: RequestVersions = "0.8.2",
) -> Iterator[tuple[Running, PartitionTopicInfo]]:
    if caplog is not None:
        caplog.set_level(logging.INFO)
    running = Running(list_brokers, request_versions)
    info = PartitionTopicInfo("t", 0, ChunkQueue(2), 1 << 20, offset, offset)
    running.manager.start_connections([info])
    try:
        yield running, info
    finally:
        running.manager.stop_connections()


def metadata_answer(broker: Broker, leader: int, error_code: int = 0) -> bytes:
    """A metadata response of version 0: one broker, and topic t with partition 0."""
    brokers = array([struct.pack(">i", broker.id) + text(broker.host) + struct.pack(">i", broker.port)])
    partition = struct.pack(">hii", error_code, 0, leader) + array([]) + array([])
    return brokers + array([struct.pack(">h", 0) + text("t") + array([partition])])


def test_a_list_of_brokers_that_cannot_be_had_is_asked_for_again(caplog: pytest.LogCaptureFixture) -> None:
    """H4: WARN `Failed to find leader for Set(…)`, again and again."""

    def list_brokers() -> Sequence[Broker]:
        raise RuntimeError("ZooKeeper is away")

    with finding(list_brokers, caplog=caplog) as (running, _):
        eventually(lambda: running.count(LeadersNotFound) >= 3)

        assert running.manager.partitions_without_leader == (T0,)
    records = [one for one in caplog.records if one.getMessage() == f"[{FINDER}], Failed to find leader for Set([t,0])"]
    assert len(records) >= 3
    assert records[0].levelno == logging.WARNING
    assert records[0].exc_info is not None and str(records[0].exc_info[1]) == "ZooKeeper is away"
    assert any(line.endswith("Added fetcher for partitions ArrayBuffer()") for line in caplog.messages)


def test_without_brokers_the_reason_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with finding(list, caplog=caplog) as (running, _):
        eventually(lambda: running.count(LeadersNotFound))

        (cause,) = {event.cause for event in running.events if isinstance(event, LeadersNotFound)}
        assert cause == "fetching topic metadata for topics [Set(t)] from broker [ArrayBuffer()] failed"


def test_one_broker_after_the_other_is_asked(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "shuffle", lambda _: None)  # else the good one would come first now and then
    with (
        ScriptedBroker(lambda _: HangUp) as bad,
        ScriptedBroker(lambda request: answer(good, request)) as good,
        finding(lambda: [bad.broker, good.broker], caplog=caplog) as (running, _),
    ):
        eventually(lambda: running.count(LeadersFound))

        assert [request.version for request in good.requests if request.api_key == METADATA] == [0]
    assert [line for line in caplog.messages if "metadata" in line] == [
        f"[{FINDER}], Fetching metadata from broker {bad.broker} with correlation id 0 for 1 topic(s) Set(t)",
        f"[{FINDER}], Fetching topic metadata with correlation id 0 for topics [Set(t)] "
        f"from broker [{bad.broker}] failed",
        f"[{FINDER}], Fetching metadata from broker {good.broker} with correlation id 0 for 1 topic(s) Set(t)",
    ]


def answer(server: ScriptedBroker, request: Request) -> Answer:
    """Leads partition 0, and never answers a fetch."""
    return metadata_answer(server.broker, leader=0) if request.api_key == METADATA else Silence


def test_a_partition_without_leader_is_asked_for_again_with_the_next_correlation_id() -> None:
    def script(request: Request) -> Answer:
        leader = -1 if request.correlation_id < 2 else 0
        return metadata_answer(server.broker, leader, error_code=5) if request.api_key == METADATA else Silence

    with ScriptedBroker(script) as server, finding(lambda: [server.broker]) as (running, _):
        eventually(lambda: running.count(LeadersFound))

        asked = [request for request in server.requests if request.api_key == METADATA]
        assert [request.correlation_id for request in asked] == [0, 1, 2]
        assert {(request.client_id, request.body) for request in asked} == {("the client", array([text("t")]))}


def test_a_partition_whose_start_cannot_be_found_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    """H8: a negative start is replaced by the broker's answer, without `out of range` in the log."""
    offsets: list[Answer] = [
        offsets_answer("t", 0, 0, error_code=NOT_LEADER),
        HangUp,
        HangUp,
        offsets_answer("t", 0, 33),
    ]

    def script(request: Request) -> Answer:
        if request.api_key == API_VERSIONS:
            return HangUp  # a broker before 0.10
        return offsets.pop(0) if request.api_key == LIST_OFFSETS else answer(server, request)

    with ScriptedBroker(script) as server, finding(lambda: [server.broker], -1, caplog, "newest") as (_, info):
        eventually(lambda: any(request.api_key == FETCH for request in server.requests))

        assert (info.fetched_offset, info.consumed_offset) == (33, 33)
    retried = [
        line for line in caplog.messages if line.endswith("Failed to add leader for partitions [t,0]; will retry")
    ]
    assert len(retried) == 2
    (added,) = [line for line in caplog.messages if "initOffset" in line]
    lines = f"Added fetcher for partitions ArrayBuffer([[t,0], initOffset -1 to broker {server.broker}] )"
    assert re.fullmatch(r"\[ConsumerFetcherManager-\d+\] " + re.escape(lines), added)
    assert not any("out of range" in line for line in caplog.messages)


@pytest.mark.parametrize("silent", [METADATA, LIST_OFFSETS], ids=["metadata", "start offsets"])
def test_stopping_does_not_wait_for_an_answer(caplog: pytest.LogCaptureFixture, silent: int) -> None:
    def script(request: Request) -> Answer:
        return Silence if request.api_key == silent else answer(server, request)

    with ScriptedBroker(script) as server, finding(lambda: [server.broker], -1, caplog) as (running, _):
        eventually(lambda: any(request.api_key == silent for request in server.requests))

        running.manager.stop_connections()

        assert running.manager.partitions_without_leader == ()
    assert not any("still running" in line or "Failed" in line for line in caplog.messages)
    assert [line for line in caplog.messages if line.startswith(f"[{FINDER}]")][-2:] == [
        f"[{FINDER}], Stopped ",
        f"[{FINDER}], Shutdown completed",
    ]


def test_starting_twice_without_a_stop_is_an_error() -> None:
    with finding(list) as (running, info), pytest.raises(RuntimeError, match="stop_connections"):
        running.manager.start_connections([info])
