"""What a receiver keeps, writes and counts as written; no server is needed for that."""

from __future__ import annotations

from collections.abc import Iterator
from multiprocessing import Pipe
from pathlib import Path

import pyarrow as pa
import pytest

from fetcher.structs import TopicAndPartition
from pipeline.errors import PipelineError
from pipeline.options import SourceOptions
from pipeline.ranges import AtRisk
from pipeline.receiver import ReceiverSettings, StreamSettings, _Receiver, receive
from pipeline.segments import Run, SegmentWriter, names_in, runs_of
from pipeline.tracker import Tracker, _Place

HERE = TopicAndPartition("orders", 0)


def _settings(directory: Path) -> ReceiverSettings:
    options = SourceOptions.of({"zookeeper.connect": "127.0.0.1:1", "group.id": "g", "topics": "orders:2"})
    stream = StreamSettings(options.config, dict(options.streams_of), 1, True, str(directory), most_waiting_bytes=100)
    return ReceiverSettings(stream, str(directory), "run", ("127.0.0.1", 1), b"secret")


@pytest.fixture
def receiver(tmp_path: Path) -> Iterator[_Receiver]:
    """One that owns the partition, not connected to anything but a pipe."""
    ours, theirs = Pipe()
    made = _Receiver(_settings(tmp_path), 0, ours)
    made._positions = {HERE: -1}
    with ours, theirs:
        yield made
    made._connector.metrics.close()


def _batch(first: int, rows: int) -> pa.RecordBatch:
    nothing = pa.array([None] * rows, pa.binary())
    times = pa.array([None] * rows, pa.timestamp("us", tz="UTC"))
    offsets = pa.array(range(first, first + rows), pa.int64())
    return pa.RecordBatch.from_arrays([offsets, times, nothing, nothing], ["offset", "timestamp", "key", "value"])


def _spans(directory: Path) -> list[tuple[int, int]]:
    return [run.span for name in names_in(directory) for run in runs_of(directory / name)]


def test_a_driver_that_is_not_there_is_told_in_a_line(tmp_path: Path) -> None:
    [line] = receive(_settings(tmp_path), 3)

    assert line is not None and line.startswith("receiver 3 cannot reach the driver at 127.0.0.1:1: ")


def test_offsets_that_do_not_exist_belong_to_the_run_behind_them(receiver: _Receiver, tmp_path: Path) -> None:
    for first, rows in ((3, 5), (10, 2), (4, 1)):  # the last one again, as after a hand-over
        receiver._keep(HERE, "a-0", _batch(first, rows))

    assert receiver._write_segment()

    assert _spans(tmp_path) == [(3, 8), (8, 12), (4, 5)]
    assert runs_of(tmp_path / names_in(tmp_path)[0])[0] == Run(HERE, 3, 8, 5, "a-0")
    assert receiver._written == {HERE: 12}


def test_what_is_not_ours_any_more_is_left_to_its_next_owner(receiver: _Receiver, tmp_path: Path) -> None:
    receiver._positions = {}
    receiver._keep(HERE, "a-0", _batch(0, 5))

    assert receiver._write_segment()

    assert names_in(tmp_path) == []
    assert receiver._written == {}


def test_after_a_failed_write_nothing_later_counts_as_written_before_it(receiver: _Receiver, tmp_path: Path) -> None:
    good, receiver._writer = receiver._writer, SegmentWriter(tmp_path / "nowhere", "run-0", durable=True)
    receiver._keep(HERE, "a-0", _batch(0, 5))

    with pytest.raises(OSError):
        receiver._write_segment()
    receiver._keep(HERE, "a-0", _batch(5, 5))
    assert receiver._written == {}
    receiver._writer = good
    receiver._write_segment()

    assert _spans(tmp_path) == [(0, 5), (5, 10)]
    assert receiver._written == {HERE: 10}


def test_a_receiver_stands_still_when_too_much_is_waiting(receiver: _Receiver, tmp_path: Path) -> None:
    receiver._keep(HERE, "a-0", _batch(0, 5))
    assert receiver._write_segment()  # now more than 100 bytes are waiting
    receiver._keep(HERE, "a-0", _batch(5, 5))

    assert not receiver._write_segment()

    assert _spans(tmp_path) == [(0, 5)]


def test_when_it_has_to_let_go_meanwhile_it_leaves_to_the_next_owner_what_it_holds(
    receiver: _Receiver, tmp_path: Path
) -> None:
    receiver._keep(HERE, "a-0", _batch(0, 5))
    receiver._write_segment()
    receiver._keep(HERE, "a-0", _batch(5, 5))

    receiver._has_to_write = True
    assert receiver._write_segment()
    receiver._keep(HERE, "a-0", _batch(10, 5))  # handed out before the rebalance: without what came before it, a gap

    assert not receiver._has_to_write
    assert receiver._received.runs == []
    assert _spans(tmp_path) == [(0, 5)]
    assert receiver._written == {HERE: 5}


def test_what_leaves_with_a_session_is_counted_until_it_is_back_untouched(receiver: _Receiver) -> None:
    receiver._committed = {HERE: 2}
    receiver._keep(HERE, "a-0", _batch(2, 5))

    receiver._let_go()

    assert receiver._doubled_at_most == 5
    assert receiver._at_risk == {HERE: AtRisk(2, 5)}


def test_an_address_that_is_not_the_driver_s_is_told_with_its_setting() -> None:
    with pytest.raises(PipelineError, match=r"cannot listen at 192\.0\.2\.1: .*; set spark\.driver\.host") as error:
        Tracker(_Place("driver.example", "192.0.2.1"))

    assert "\n" not in str(error.value)
