"""A fetcher that has asked ahead, when what it asked for is no longer what it wants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from fetcher.chunk_queue import ChunkQueue
from fetcher.simple_consumer import SimpleConsumer
from fetcher.wire.list_offsets import EARLIEST
from tests.scripted_broker import (
    API_VERSIONS,
    FETCH,
    LIST_OFFSETS,
    Answer,
    HangUp,
    Part,
    Request,
    ScriptedBroker,
    Silence,
    asked_offsets,
    fetch_answer,
    message,
    offsets_answer,
)
from tests.unit.test_fetcher_thread import (
    NAME,
    NOT_LEADER,
    OUT_OF_RANGE,
    SETTINGS,
    T0,
    T1,
    Running,
    chunk,
    fetcher,
    partition,
    values,
)
from zkconsumer.testing.waiting import eventually

NEWEST = replace(SETTINGS, request_versions="newest")
LAST = 6


def ancient(script: Callable[[Request], Answer]) -> Callable[[Request], Answer]:
    """A broker that closes the connection when asked for its versions, and so is sent the oldest."""
    return lambda request: HangUp if request.api_key == API_VERSIONS else script(request)


def one_by_one(request: Request) -> Answer:
    """For each partition the message at the offset asked for; from LAST on, silence."""
    asked = asked_offsets(request)
    if any(offset >= LAST for offset, _ in asked.values()):
        return Silence
    parts = {number: Part(message(offset, b"%d" % offset)) for (_, number), (offset, _) in asked.items()}
    return fetch_answer({"t": parts})


def offsets_asked(running: Running) -> list[dict[int, int]]:
    return [
        {number: offset for (_, number), (offset, _) in asked_offsets(request).items()} for request in running.fetches
    ]


def take_all(queue: ChunkQueue, first: int = 0) -> list[bytes | None]:
    return [value for _ in range(first, LAST) for value in values(chunk(queue))]


@pytest.mark.parametrize(("release", "is_ahead"), [("newest", True), ("0.8.2", False), ("0.9", False)])
def test_the_next_fetch_is_asked_for_while_a_queue_is_full_unless_a_release_is_imitated(
    release: str, is_ahead: bool
) -> None:
    """H3, H9: as 0.8.2.2, one after the other, if its requests are wanted; else ahead, and by one request only."""
    queue = ChunkQueue(1)
    info = partition(0, queue)
    fetched_when_asked: list[int] = []
    throttle_time = b"\0\0\0\0" if release == "0.9" else b""

    def script(request: Request) -> Answer:
        fetched_when_asked.append(info.fetched_offset)
        answer = one_by_one(request)
        return throttle_time + answer if isinstance(answer, bytes) else answer

    with fetcher(ancient(script), [info], replace(SETTINGS, request_versions=release)) as running:  # type: ignore[arg-type]
        if is_ahead:
            eventually(lambda: len(running.fetches) == 3)
            assert fetched_when_asked[2] == info.fetched_offset == 1  # the second chunk waits for room
            assert running.statistics.responses == 2  # the third answer is left where it is

        assert take_all(queue) == [b"%d" % offset for offset in range(LAST)]
        eventually(lambda: len(running.fetches) == LAST + 1)

        assert offsets_asked(running) == [{0: offset} for offset in range(LAST + 1)]
        assert is_ahead or fetched_when_asked == list(range(LAST + 1))


def test_a_partition_removed_meanwhile_gets_nothing_of_what_was_asked_for_ahead() -> None:
    """H11: and a partition that is given again begins where it was fetched to, whatever is under way."""
    queue, other = ChunkQueue(1), ChunkQueue(100)
    info = partition(0, queue)
    with fetcher(ancient(one_by_one), [info, partition(1, other)], NEWEST) as running:
        eventually(lambda: len(running.fetches) == 3)
        running.thread.remove_partitions([T0])
        eventually(lambda: len(other) == LAST)

        assert (len(queue), info.fetched_offset) == (1, 1)
        assert offsets_asked(running)[2] == {0: 2, 1: 2}

    anew = ChunkQueue(100)
    info.queue = anew
    with fetcher(ancient(one_by_one), [info], NEWEST):
        assert take_all(anew, first=1) == [b"%d" % offset for offset in range(1, LAST)]


def test_a_partition_removed_and_given_again_meanwhile_loses_and_doubles_nothing() -> None:
    """H11: the answer to the old request is not for it."""
    queue = ChunkQueue(1)
    info = partition(0, queue)
    with fetcher(ancient(one_by_one), [info], NEWEST) as running:
        eventually(lambda: len(running.fetches) == 3)
        running.thread.remove_partitions([T0])
        running.thread.add_partitions([info])

        assert take_all(queue) == [b"%d" % offset for offset in range(LAST)]
        assert not running.deaths


def test_a_partition_without_an_offset_that_comes_meanwhile_is_reset_and_fetched() -> None:
    """H6: over the same connection, after the answer that is under way."""
    queue, other = ChunkQueue(1), ChunkQueue(100)

    def script(request: Request) -> Answer:
        return offsets_answer("t", 1, 3) if request.api_key == LIST_OFFSETS else one_by_one(request)

    with fetcher(ancient(script), [partition(0, queue)], NEWEST) as running:
        eventually(lambda: len(running.fetches) == 3)
        running.thread.add_partitions([partition(1, other, offset=-1)])

        assert values(chunk(queue)) == [b"0"]
        assert values(chunk(queue)) == [b"1"]
        assert values(chunk(queue)) == [b"2"]
        assert values(chunk(other)) == [b"3"]
        assert len({request.connection for request in running.server.requests if request.api_key != API_VERSIONS}) == 1


def test_a_connection_lost_with_a_request_ahead_costs_nothing() -> None:
    """H4: asked once more, over a new connection."""
    queue = ChunkQueue(1)
    lost: list[int] = []

    def script(request: Request) -> Answer:
        if asked_offsets(request)["t", 0][0] == 2 and not lost:
            lost.append(request.connection)
            return HangUp
        return one_by_one(request)

    with fetcher(ancient(script), [partition(0, queue)], NEWEST) as running:
        eventually(lambda: lost)

        assert take_all(queue) == [b"%d" % offset for offset in range(LAST)]
        assert running.put_back == []
        assert offsets_asked(running)[2:4] == [{0: 2}, {0: 2}]


def test_an_error_in_what_was_asked_for_ahead_is_treated_as_any() -> None:
    """H5, H6: out of range is reset, another leader is looked for; after an error nothing is asked for ahead."""
    queue, other = ChunkQueue(1), ChunkQueue(100)

    def script(request: Request) -> Answer:
        if request.api_key == LIST_OFFSETS:
            return offsets_answer("t", 0, 4)
        asked = asked_offsets(request)
        if asked.get(("t", 0), (0, 0))[0] == 2:
            return fetch_answer({"t": {0: Part(error_code=OUT_OF_RANGE), 1: Part(error_code=NOT_LEADER)}})
        return one_by_one(request)

    with fetcher(ancient(script), [partition(0, queue), partition(1, other)], NEWEST) as running:
        eventually(lambda: len(running.fetches) == 3)

        assert take_all(queue, first=2) == [b"0", b"1", b"4", b"5"]
        assert running.put_back == [T1]
        assert running.thread.partitions == (T0,)
        assert len(other) == 2
        kinds = [request.api_key for request in running.server.requests if request.api_key != API_VERSIONS]
        assert kinds[:5] == [FETCH, FETCH, FETCH, LIST_OFFSETS, FETCH]


def test_nothing_is_asked_ahead_of_a_corrupt_answer_or_an_empty_one() -> None:
    """H8: the same offset is fetched again, and not until then anything behind it."""
    queue = ChunkQueue(100)
    corrupt = message(0, b"zero") + b"\0" * 8 + b"\xff" * 20
    answers: list[Answer] = [fetch_answer({"t": {0: Part(corrupt)}}), fetch_answer({"t": {0: Part()}})]

    def script(request: Request) -> Answer:
        return answers.pop(0) if answers else one_by_one(request)

    with fetcher(ancient(script), [partition(0, queue)], NEWEST) as running:
        assert take_all(queue) == [b"%d" % offset for offset in range(LAST)]

        assert offsets_asked(running)[:3] == [{0: 0}, {0: 0}, {0: 0}]


def test_shutdown_with_a_request_ahead_ends_at_once_and_skips_nothing() -> None:
    queue = ChunkQueue(1)
    info = partition(0, queue)
    with fetcher(ancient(one_by_one), [info], NEWEST) as running:
        eventually(lambda: len(running.fetches) == 3)
        running.thread.shutdown()

        assert not running.thread.is_running
        assert running.put_back == []
        assert (len(queue), info.fetched_offset) == (1, 1)


def test_another_request_than_that_asked_for_ahead_gets_its_own_answer() -> None:
    """Over a new connection: it could not wait behind an answer that nobody wants."""

    def script(request: Request) -> Answer:
        return offsets_answer("t", 0, 5) if request.api_key == LIST_OFFSETS else one_by_one(request)

    with ScriptedBroker(ancient(script)) as server:
        consumer = SimpleConsumer(server.broker, NEWEST, owner=NAME)
        try:
            assert not consumer.ask_ahead({T0: (0, 100)})  # not connected
            consumer.fetch({T0: (0, 100)})

            assert consumer.ask_ahead({T0: (1, 100)})
            assert not consumer.ask_ahead({T0: (1, 100)})  # one is the most
            assert bytes(consumer.fetch({T0: (3, 100)}).partitions[T0].messages) == message(3, b"3")

            assert consumer.ask_ahead({T0: (4, 100)})
            assert consumer.offsets_before(T0, EARLIEST) == 5

            assert consumer.ask_ahead({T0: (2, 100)})
            assert bytes(consumer.fetch({T0: (2, 100)}).partitions[T0].messages) == message(2, b"2")
            assert [request.correlation_id for request in server.requests if request.api_key == FETCH] == [
                1,
                2,
                3,
                4,
                5,
            ]
        finally:
            consumer.close()
