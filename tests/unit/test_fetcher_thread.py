"""A fetcher at moments no real broker can be brought into: answers too late, corrupt, wrong, or cut off."""

from __future__ import annotations

import logging
import struct
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from fetcher.chunk_queue import SHUTDOWN, ChunkQueue, FetchedDataChunk
from fetcher.errors import KafkaException
from fetcher.events import Event, EventPublisher, OffsetReset, PartitionFailed
from fetcher.fetch_statistics import FetchStatistics
from fetcher.fetcher_thread import ConsumerFetcherThread
from fetcher.partition import PartitionTopicInfo
from fetcher.settings import FetcherSettings
from fetcher.simple_consumer import AncientBrokers, SimpleConsumer
from fetcher.structs import TopicAndPartition
from fetcher.wire.list_offsets import EARLIEST, LATEST
from tests.scripted_broker import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    Answer,
    HangUp,
    Part,
    Raw,
    Request,
    ScriptedBroker,
    Silence,
    asked_offsets,
    fetch_answer,
    message,
    offsets_answer,
)
from zkconsumer.testing.waiting import eventually, scaled

NAME = "ConsumerFetcherThread-group_host-1-0-0"
SETTINGS = FetcherSettings(
    client_id="the client", request_versions="0.8.2", socket_timeout_ms=600_000, auto_offset_reset="smallest"
)
T0, T1 = TopicAndPartition("t", 0), TopicAndPartition("t", 1)
NOT_LEADER, OUT_OF_RANGE = 6, 1


class Running:
    """A fetcher on a scripted broker, and what it told its owners."""

    def __init__(self, server: ScriptedBroker, settings: FetcherSettings) -> None:
        self.server = server
        self.put_back: list[TopicAndPartition] = []
        self.deaths: list[BaseException] = []
        self.events: list[Event] = []
        publisher = EventPublisher("group_host-1")
        publisher.subscribe(self.events.append)
        self.statistics = FetchStatistics()
        self.thread = ConsumerFetcherThread(
            NAME,
            fetcher_id=0,
            settings=settings,
            consumer=SimpleConsumer(server.broker, settings, owner=NAME, statistics=self.statistics),
            statistics=self.statistics,
            events=publisher,
            put_back=self.put_back.extend,
            on_death=self.deaths.append,
        )

    @property
    def fetches(self) -> list[Request]:
        return [request for request in self.server.requests if request.api_key == FETCH]


@contextmanager
def fetcher(
    script: Callable[[Request], Answer], infos: Sequence[PartitionTopicInfo], settings: FetcherSettings = SETTINGS
) -> Iterator[Running]:
    with ScriptedBroker(script) as server:
        running = Running(server, settings)
        running.thread.add_partitions(infos)
        running.thread.start()
        try:
            yield running
        finally:
            running.thread.shutdown()
            assert not running.thread.is_running


def partition(number: int, queue: ChunkQueue, offset: int = 0) -> PartitionTopicInfo:
    return PartitionTopicInfo("t", number, queue, 1 << 20, consumed_offset=offset, fetched_offset=offset)


def answering(*answers: Answer) -> Callable[[Request], Answer]:
    """These, one after the other, then silence."""
    left = list(answers)
    return lambda request: left.pop(0) if left else Silence


def chunk(queue: ChunkQueue) -> FetchedDataChunk:
    taken = queue.take(scaled(20))
    assert taken is not None and taken is not SHUTDOWN
    return taken


def values(taken: FetchedDataChunk) -> list[bytes | None]:
    return [one.value for one in taken.messages]


def test_a_fetch_asks_as_it_was_told_to() -> None:
    """H3: replica -1, max_wait, min_bytes, per-partition bytes, client.id as configured; version 0 for 0.8.2."""
    settings = FetcherSettings(
        client_id="my client",
        request_versions="0.8.2",
        fetch_wait_max_ms=123,
        fetch_min_bytes=45,
        fetch_message_max_bytes=6789,
    )
    with fetcher(answering(), [partition(0, ChunkQueue(2), 42), partition(1, ChunkQueue(2), 7)], settings) as running:
        request = eventually(lambda: running.server.requests[:1])[0]

    assert (request.api_key, request.version, request.client_id) == (FETCH, 0, "my client")
    assert struct.unpack_from(">iii", request.body) == (-1, 123, 45)
    assert asked_offsets(request) == {("t", 0): (42, 6789), ("t", 1): (7, 6789)}


def test_what_is_fetched_is_handed_over_and_the_next_fetch_goes_on_behind_it() -> None:
    queue = ChunkQueue(2)
    first = fetch_answer({"t": {0: Part(message(5, b"five") + message(6, b"six") + message(7, b"seven")[:-1])}})
    with fetcher(answering(first), [partition(0, queue, 5)]) as running:
        taken = chunk(queue)
        eventually(lambda: len(running.fetches) == 2)

        assert values(taken) == [b"five", b"six"]
        assert taken.fetch_offset == 5
        assert taken.info.fetched_offset == 7
        assert asked_offsets(running.fetches[1])["t", 0][0] == 7


def test_lag_is_what_is_left_to_fetch() -> None:
    """M4: ConsumerLag is high watermark - next offset to fetch; -1 before the first fetch."""
    answers = answering(fetch_answer({"t": {0: Part(message(5, b"five"), high_watermark=100)}}))
    with fetcher(answers, [partition(0, ChunkQueue(2), 5), partition(1, ChunkQueue(2))]) as running:
        eventually(lambda: len(running.fetches) == 2)

        assert running.thread.lags() == {T0: 94, T1: -1}


def test_requests_and_bytes_are_counted() -> None:
    queue = ChunkQueue(2)
    entry = message(0, b"value")
    answer = fetch_answer({"t": {0: Part(entry + message(1, b"cut off")[:-2])}})
    with fetcher(answering(answer), [partition(0, queue)]) as running:
        eventually(lambda: len(running.fetches) == 2)
        statistics = running.statistics

        assert (statistics.requests, statistics.bytes, statistics.responses) == (1, len(entry), 1)
        assert statistics.response_bytes == statistics.largest_response_bytes == 4 + len(answer)
        assert statistics.response_seconds == statistics.longest_response_seconds > 0


def test_those_that_got_nothing_are_asked_for_first() -> None:
    """A full answer leaves out the last partitions: so they must not stay the last."""
    throttle_time = b"\0\0\0\0"
    answer = throttle_time + fetch_answer({"t": {0: Part(message(0, b"zero")), 1: Part()}})
    infos = [partition(0, ChunkQueue(2)), partition(1, ChunkQueue(2))]
    with fetcher(answering(answer), infos, replace(SETTINGS, request_versions="1.1")) as running:
        second = eventually(lambda: running.fetches[1:])[0]

        assert (second.version, list(asked_offsets(second))) == (3, [("t", 1), ("t", 0)])


def test_before_version_3_the_order_stays() -> None:
    """H3: no answer is full as a whole there, and 0.8.2.2 always names its partitions in the same order."""
    answer = fetch_answer({"t": {0: Part(message(0, b"zero")), 1: Part()}})
    with fetcher(answering(answer), [partition(0, ChunkQueue(2)), partition(1, ChunkQueue(2))]) as running:
        second = eventually(lambda: running.fetches[1:])[0]

        assert list(asked_offsets(second)) == [("t", 0), ("t", 1)]


def test_partitions_without_an_offset_are_reset_one_by_one_before_the_first_fetch() -> None:
    """H6: over the fetcher's own connection; the ones it already fetches wait meanwhile, as in 0.8.2.2. Its map has
    partition 1 of t before partition 0."""
    script = answering(offsets_answer("t", 1, 9), offsets_answer("t", 0, 7))
    infos = [partition(0, ChunkQueue(2), offset=-1), partition(1, ChunkQueue(2), offset=-1)]
    with fetcher(script, infos) as running:
        [fetch] = eventually(lambda: running.fetches)

        assert [request.api_key for request in running.server.requests] == [LIST_OFFSETS, LIST_OFFSETS, FETCH]
        assert {request.connection for request in running.server.requests} == {fetch.connection}
        assert [request.correlation_id for request in running.server.requests] == [0, 0, 0]
        assert {where: offset for where, (offset, _) in asked_offsets(fetch).items()} == {("t", 0): 7, ("t", 1): 9}
        assert [info.consumed_offset for info in infos] == [7, 9]
        assert [event.out_of_range for event in running.events if isinstance(event, OffsetReset)] == [False, False]


def test_a_partition_whose_reset_fails_goes_back_to_the_leader_finder() -> None:
    """H6: the others are fetched."""
    script = answering(offsets_answer("t", 1, 9), offsets_answer("t", 0, 0, NOT_LEADER))
    infos = [partition(0, ChunkQueue(2), offset=-1), partition(1, ChunkQueue(2), offset=-1)]
    with fetcher(script, infos) as running:
        [fetch] = eventually(lambda: running.fetches)

        assert running.put_back == [T0]
        assert list(asked_offsets(fetch)) == [("t", 1)]


def test_an_answer_for_a_partition_removed_meanwhile_is_ignored() -> None:
    """H11: a fetch answer arriving after the partition moved is ignored."""
    removed = threading.Event()
    queue, other = ChunkQueue(2), ChunkQueue(2)
    answer = fetch_answer({"t": {0: Part(message(0, b"too late")), 1: Part(message(0, b"in time"))}})

    def script(request: Request) -> Answer:
        return answer if removed.wait(scaled(20)) and len(asked_offsets(request)) == 2 else Silence

    with fetcher(script, [partition(0, queue), partition(1, other)]) as running:
        eventually(lambda: running.fetches)
        running.thread.remove_partitions([T0])
        removed.set()

        assert values(chunk(other)) == [b"in time"]
        assert len(queue) == 0
        assert running.thread.partitions == (T1,)


def test_an_answer_for_another_offset_than_the_present_one_is_ignored() -> None:
    """H11: a fetch answer arriving after the partition's offset changed is ignored."""
    changed = threading.Event()
    queue = ChunkQueue(2)
    info = partition(0, queue)

    def script(request: Request) -> Answer:
        offset, _ = asked_offsets(request)["t", 0]
        if offset == 0:
            changed.wait(scaled(20))
            return fetch_answer({"t": {0: Part(message(0, b"too late"))}})
        return fetch_answer({"t": {0: Part(message(50, b"in time"))}}) if offset == 50 else Silence

    with fetcher(script, [info]) as running:
        eventually(lambda: running.fetches)
        running.thread.remove_partitions([T0])
        info.reset(50)
        running.thread.add_partitions([info])
        changed.set()

        assert values(chunk(queue)) == [b"in time"]
        assert not running.deaths


def test_a_corrupt_size_is_logged_and_other_partitions_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """H12: corrupt size in an entry: logged, other partitions unaffected."""
    caplog.set_level(logging.INFO)
    corrupt = message(0, b"good") + struct.pack(">qi", 1, 13) + bytes(13)
    answer = fetch_answer({"t": {0: Part(corrupt), 1: Part(message(0, b"good"))}})
    queue, other = ChunkQueue(2), ChunkQueue(2)
    with fetcher(answering(answer), [partition(0, queue), partition(1, other)]) as running:
        assert values(chunk(other)) == [b"good"]
        second = eventually(lambda: running.fetches[1:])[0]

        assert asked_offsets(second) == {("t", 0): (0, 1 << 20), ("t", 1): (1, 1 << 20)}
        assert len(queue) == 0
    assert (
        f"[{NAME}], Found invalid messages during fetch for partition [t,0] offset 0 "
        "error Message found with corrupt size (13)"
    ) in caplog.messages


def test_a_failing_request_is_sent_once_more_over_a_new_connection(caplog: pytest.LogCaptureFixture) -> None:
    """H13: the connection is re-opened once per failing request."""
    caplog.set_level(logging.INFO)
    queue = ChunkQueue(2)
    answers = answering(HangUp, fetch_answer({"t": {0: Part(message(0, b"zero"))}}))
    with fetcher(answers, [partition(0, queue)]) as running:
        assert values(chunk(queue)) == [b"zero"]

        assert [request.connection for request in running.fetches[:2]] == [1, 2]
        assert running.put_back == []
    assert any(line.startswith(f"[{NAME}], Reconnect due to socket error: ") for line in caplog.messages)


def test_a_request_that_fails_twice_puts_its_partitions_back(caplog: pytest.LogCaptureFixture) -> None:
    """H13: the connection is re-opened once per failing request, not more often."""
    with fetcher(answering(HangUp, HangUp), [partition(0, ChunkQueue(2), 9), partition(1, ChunkQueue(2))]) as running:
        eventually(lambda: running.put_back)

        assert sorted(running.put_back) == [T0, T1]
        assert running.thread.partitions == ()
        assert running.server.number_of_connections == 2
        assert running.thread.is_running
    (line,) = [line for line in caplog.messages if "Error in fetch" in line]
    assert line.startswith(
        f"[{NAME}], Error in fetch Name: FetchRequest; Version: 0; CorrelationId: 1; ClientId: the client; "
        "ReplicaId: -1; MaxWait: 100 ms; MinBytes: 1 bytes; "
        "RequestInfo: [t,0] -> PartitionFetchInfo(9,1048576),[t,1] -> PartitionFetchInfo(0,1048576). Possible cause: "
    )


@pytest.mark.parametrize(
    "nonsense",
    [
        Raw(struct.pack(">i", -5)),
        Raw(struct.pack(">ii", 8, 999) + bytes(4)),
        struct.pack(">i", 2**31 - 1),
        b"\0\0\0\1\0\1",
    ],
    ids=["negative length", "another correlation id", "too many topics", "cut off"],
)
def test_an_answer_that_makes_no_sense_does_no_harm(nonsense: Answer) -> None:
    queue = ChunkQueue(2)
    with fetcher(answering(nonsense, nonsense), [partition(0, queue)]) as running:
        eventually(lambda: running.put_back or len(running.fetches) > 2)

        assert running.put_back == [T0]
        assert running.thread.is_running
        assert len(queue) == 0


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (NOT_LEADER, "kafka.common.NotLeaderForPartitionException"),
        (3, "kafka.common.UnknownTopicOrPartitionException"),
        (-1, "kafka.common.UnknownException"),
        (12345, "kafka.common.UnknownException"),
    ],
)
def test_a_partition_in_error_is_put_back_and_the_others_go_on(
    caplog: pytest.LogCaptureFixture, code: int, name: str
) -> None:
    """H5: ERROR `Error for partition [t,p] to broker b:class …`; the partition needs a leader again."""
    other = ChunkQueue(2)
    answer = fetch_answer({"t": {0: Part(error_code=code), 1: Part(message(0, b"good"))}})
    with fetcher(answering(answer), [partition(0, ChunkQueue(2)), partition(1, other)]) as running:
        assert values(chunk(other)) == [b"good"]
        second = eventually(lambda: running.fetches[1:])[0]

        assert running.put_back == [T0]
        assert list(asked_offsets(second)) == [("t", 1)]
        (event,) = [event for event in running.events if isinstance(event, PartitionFailed)]
        assert (event.partition, event.error_code, event.exception_name) == (T0, code, name)
    assert f"[{NAME}], Error for partition [t,0] to broker 0:class {name}" in caplog.messages


@pytest.mark.parametrize(("setting", "time"), [("smallest", EARLIEST), ("largest", LATEST)])
def test_out_of_range_goes_on_where_the_broker_says(caplog: pytest.LogCaptureFixture, setting: str, time: int) -> None:
    """H7: ERROR `Current offset … out of range; reset offset to …`; fetched and consumed offset are set."""
    settings = FetcherSettings(client_id="c", request_versions="0.8.2", auto_offset_reset=setting)
    info = partition(0, ChunkQueue(2), 99999)
    answers = answering(fetch_answer({"t": {0: Part(error_code=OUT_OF_RANGE)}}), offsets_answer("t", 0, 17))
    with fetcher(answers, [info], settings) as running:
        eventually(lambda: len(running.fetches) == 2)

        asked = running.server.requests[1]
        assert (asked.api_key, asked.version) == (LIST_OFFSETS, 0)
        assert asked.body == struct.pack(">iih1siiqi", -1, 1, 1, b"t", 1, 0, time, 1)
        assert (info.fetched_offset, info.consumed_offset) == (17, 17)
        assert asked_offsets(running.fetches[1])["t", 0][0] == 17
        (event,) = [event for event in running.events if isinstance(event, OffsetReset)]
        assert (event.old_offset, event.new_offset, event.out_of_range) == (99999, 17, True)
    assert f"[{NAME}], Current offset 99999 for partition [t,0] out of range; reset offset to 17" in caplog.messages


def test_a_partition_whose_offset_cannot_be_reset_is_put_back(caplog: pytest.LogCaptureFixture) -> None:
    info = partition(0, ChunkQueue(2), 99999)
    answers = answering(
        fetch_answer({"t": {0: Part(error_code=OUT_OF_RANGE)}}), offsets_answer("t", 0, 0, error_code=NOT_LEADER)
    )
    with fetcher(answers, [info]) as running:
        eventually(lambda: running.put_back == [T0])

        assert info.fetched_offset == 99999
    assert f"[{NAME}], Error getting offset for partition [t,0] to broker 0" in caplog.messages


def test_a_hand_over_that_is_impossible_ends_the_thread_after_the_others_were_handed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """H16: the owner is told of a fetcher's death, and can have its partitions fetched again."""
    asked = threading.Event()
    info, other = partition(0, ChunkQueue(2)), ChunkQueue(2)
    answer = fetch_answer({"t": {0: Part(message(0, b"zero")), 1: Part(message(0, b"good"))}})
    with fetcher(lambda _: answer if asked.wait(scaled(20)) else Silence, [info, partition(1, other)]) as running:
        eventually(lambda: running.fetches)
        info.reset(3)  # which nobody may do while it is fetched
        asked.set()
        (death,) = eventually(lambda: running.deaths)

        assert isinstance(death, KafkaException)
        assert str(death) == "error processing data for partition [t,0] offset 0"
        assert str(death.__cause__) == "Offset doesn't match for partition [t,0] pti offset: 3 fetch offset: 0"
        assert values(chunk(other)) == [b"good"]
        assert set(running.thread.close()) == {T0, T1}
        assert not running.thread.add_partitions([info])
    assert f"[{NAME}], Error due to " in caplog.messages


def test_a_full_queue_holds_back_all_partitions_of_the_fetcher() -> None:
    """H9: a full queue blocks the fetcher, and with it its other partitions."""
    unread, other = ChunkQueue(1), ChunkQueue(5)

    def script(request: Request) -> Answer:
        offset = asked_offsets(request)["t", 0][0]
        return fetch_answer({"t": {n: Part(message(offset, b"%d" % offset)) for n in (0, 1)}})

    with fetcher(script, [partition(0, unread), partition(1, other)]) as running:
        eventually(lambda: running.thread.lags()[T0] == 1000 - 2)  # the second one is about to be handed over
        assert len(other) == 1
        assert len(running.fetches) == 2

        chunk(unread)

        eventually(lambda: len(other) == 2)


def test_a_partition_removed_while_its_hand_over_waits_gives_up() -> None:
    unread, other = ChunkQueue(1), ChunkQueue(5)

    def script(request: Request) -> Answer:
        asked = asked_offsets(request)
        parts = {number: Part(message(offset, b"x")) for (_, number), (offset, _) in asked.items()}
        return fetch_answer({"t": parts}) if asked["t", 1][0] < 3 else Silence

    with fetcher(script, [partition(0, unread), partition(1, other)]) as running:
        eventually(lambda: running.thread.lags()[T0] == 1000 - 2)

        running.thread.remove_partitions([T0])

        eventually(lambda: len(other) == 3)
        assert len(unread) == 1


def test_shutdown_ends_a_hand_over_that_waits() -> None:
    unread = ChunkQueue(1)
    answers = answering(*[fetch_answer({"t": {0: Part(message(offset, b"x"))}}) for offset in range(2)])
    info = partition(0, unread)
    with fetcher(answers, [info]) as running:
        eventually(lambda: running.thread.lags() == {T0: 1000 - 2})

        running.thread.shutdown()

        assert not running.thread.is_running
        assert len(unread) == 1
        assert info.fetched_offset == 1  # so that nothing is skipped later


def test_shutdown_ends_a_fetch_that_is_not_answered(caplog: pytest.LogCaptureFixture) -> None:
    with fetcher(answering(), [partition(0, ChunkQueue(2))]) as running:
        eventually(lambda: running.fetches)

        running.thread.shutdown()

        assert not running.thread.is_running
        assert running.put_back == []
        assert running.server.number_of_connections == 1
    assert not any("Error in fetch" in line for line in caplog.messages)


def test_a_broker_that_cannot_be_asked_for_versions_is_fetched_with_version_0_and_remembered() -> None:
    ancient = AncientBrokers()
    settings = FetcherSettings(client_id="c", request_versions="newest")

    def script(request: Request) -> Answer:
        return HangUp if request.api_key == API_VERSIONS else fetch_answer({"t": {0: Part(message(0, b"zero"))}})

    with ScriptedBroker(script) as server:
        for _ in range(2):
            consumer = SimpleConsumer(server.broker, settings, owner=NAME, ancient_brokers=ancient)
            assert bytes(consumer.fetch({T0: (0, 1000)}).partitions[T0].messages) == message(0, b"zero")
            consumer.close()

        assert [(request.api_key, request.version) for request in server.requests] == [
            (API_VERSIONS, 0),
            (FETCH, 0),
            (FETCH, 0),
        ]
        assert server.broker in ancient


def test_a_broker_that_stops_while_it_is_asked_for_versions_is_not_taken_for_an_old_one() -> None:
    ancient = AncientBrokers()
    with ScriptedBroker(lambda _: HangUp) as server:
        consumer = SimpleConsumer(server.broker, FetcherSettings(client_id="c"), owner=NAME, ancient_brokers=ancient)
        with pytest.raises(KafkaException):
            consumer.fetch({T0: (0, 1000)})

        assert server.broker not in ancient


@pytest.mark.parametrize(("release", "version"), [("0.8.2", 0), ("0.9", 1), ("1.1", 3)])
def test_a_release_asked_for_sends_its_own_versions_without_asking(release: str, version: int) -> None:
    settings = FetcherSettings(client_id="c", request_versions=release)  # type: ignore[arg-type]
    with ScriptedBroker(lambda _: HangUp) as server:
        consumer = SimpleConsumer(server.broker, settings, owner=NAME)
        with pytest.raises(KafkaException):
            consumer.fetch({T0: (0, 1000)})
        with pytest.raises(KafkaException):
            consumer.offsets_before(T0, EARLIEST)

        sent = {(request.api_key, request.version) for request in server.requests}
        assert sent == {(FETCH, version), (LIST_OFFSETS, 0)}
