"""Segments, and which of their rows are new."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from fetcher.structs import TopicAndPartition
from pipeline.covered import Covered, Span, from_json, joined, to_json, uncovered
from pipeline.segments import Piece, Run, SegmentWriter, bytes_in, names_in, rows_of, runs_of

HERE = TopicAndPartition("orders", 0)


@pytest.mark.parametrize(
    ("spans", "wanted", "left"),
    [
        ((), (3, 7), [(3, 7)]),
        (((0, 3),), (3, 7), [(3, 7)]),
        (((0, 5),), (3, 7), [(5, 7)]),
        (((0, 9),), (3, 7), []),
        (((4, 5),), (3, 7), [(3, 4), (5, 7)]),
        (((0, 1), (2, 4), (6, 9)), (0, 8), [(1, 2), (4, 6)]),
        (((7, 9),), (3, 7), [(3, 7)]),
    ],
)
def test_what_is_left_of_a_span(spans: tuple[Span, ...], wanted: Span, left: list[Span]) -> None:
    assert uncovered(spans, wanted) == left


@pytest.mark.parametrize(
    ("spans", "new", "after"),
    [
        ((), (3, 7), ((3, 7),)),
        (((0, 3),), (3, 7), ((0, 7),)),
        (((0, 2),), (3, 7), ((0, 2), (3, 7))),
        (((0, 2), (5, 9)), (2, 5), ((0, 9),)),
        (((5, 9),), (0, 2), ((0, 2), (5, 9))),
        (((5, 9),), (4, 4), ((5, 9),)),
    ],
)
def test_spans_that_touch_become_one(spans: tuple[Span, ...], new: Span, after: tuple[Span, ...]) -> None:
    assert joined(spans, new) == after


def test_what_was_taken_survives_a_checkpoint() -> None:
    taken: Covered = {HERE: ((0, 5), (7, 9)), TopicAndPartition("clicks", 2): ((1, 2),)}

    assert from_json(to_json(taken)) == taken


def _batch(first: int, rows: int) -> pa.RecordBatch:
    offsets = list(range(first, first + rows))
    return pa.RecordBatch.from_pydict(
        {
            "offset": pa.array(offsets, pa.int64()),
            "timestamp": pa.array([None] * rows, pa.timestamp("us", tz="UTC")),
            "key": pa.array([None] * rows, pa.binary()),
            "value": pa.array([str(offset).encode() for offset in offsets], pa.binary()),
        }
    )


def _segment(directory: Path, *, durable: bool) -> tuple[Path, list[Run]]:
    runs = [Run(HERE, 0, 5, 5, "a-0"), Run(TopicAndPartition("clicks", 2), 10, 14, 3, "a-1")]
    path = SegmentWriter(directory, "run-0", durable=durable).write(runs, [_batch(0, 5), _batch(10, 3)])
    return path, runs


@pytest.mark.parametrize("durable", [False, True])
def test_a_segment_holds_what_was_written(tmp_path: Path, durable: bool) -> None:
    path, runs = _segment(tmp_path, durable=durable)

    piece = Piece(str(path), tuple((i, run, (run.span,)) for i, run in enumerate(runs)))
    found = pa.Table.from_batches(rows_of(piece, ("topic", "offset", "value", "consumer_thread"))).to_pylist()

    assert runs_of(path) == runs
    assert names_in(tmp_path) == [path.name]
    assert bytes_in(tmp_path) == path.stat().st_size
    assert [row["offset"] for row in found] == [0, 1, 2, 3, 4, 10, 11, 12]
    assert found[0] == {"topic": "orders", "offset": 0, "value": b"0", "consumer_thread": "a-0"}
    assert found[-1] == {"topic": "clicks", "offset": 12, "value": b"12", "consumer_thread": "a-1"}


def test_rows_that_came_before_are_left_out(tmp_path: Path) -> None:
    path, [first, _] = _segment(tmp_path, durable=False)

    piece = Piece(str(path), ((0, first, ((0, 1), (3, 4))),))

    assert [batch.column("offset").to_pylist() for batch in rows_of(piece, ("offset", "partition"))] == [[0], [3]]


def test_what_could_not_be_written_leaves_nothing(tmp_path: Path) -> None:
    with pytest.raises(pa.ArrowInvalid):
        SegmentWriter(tmp_path, "run-0", durable=True).write([], [pa.RecordBatch.from_pydict({"offset": [1]})])

    assert list(tmp_path.iterdir()) == []
