"""Spark's checkpoint, looked at by the process of the members. What it holds: tests/spark/test_checkpoint.py."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fetcher.structs import TopicAndPartition
from pipeline.checkpoint import Checkpoint, directory_of
from pipeline.errors import UnknownOption
from pipeline.ranges import OffsetRange, StreamOffset

BATCH = OffsetRange(TopicAndPartition("orders", 0), 60, 100, "thread")
END = StreamOffset().after([BATCH])


def write(directory: Path, number: int, end: StreamOffset) -> None:
    offsets = directory / "offsets"
    offsets.mkdir(exist_ok=True)
    (offsets / str(number)).write_text(f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps(end.to_json())}')


def test_only_the_batch_that_was_written_down_last_counts(tmp_path: Path) -> None:
    checkpoint = Checkpoint(str(tmp_path))
    assert not checkpoint.holds(END)
    write(tmp_path, 9, END)
    (tmp_path / "offsets" / ".10.8ddbd5c2.tmp").write_text("v1")  # Spark was killed while it wrote the next one
    assert checkpoint.holds(END)
    write(tmp_path, 10, END.after([BATCH._replace(start=100, until=120)]))
    assert not checkpoint.holds(END)


def test_what_was_handed_over_is_noted_for_the_next_run(tmp_path: Path) -> None:
    assert Checkpoint(str(tmp_path)).handed_over() == set()
    Checkpoint(str(tmp_path)).note_handed_over([BATCH])
    Checkpoint(str(tmp_path)).note_handed_over([BATCH._replace(until=90)])
    assert Checkpoint(str(tmp_path)).handed_over() == {(BATCH.where, 60, 90)}
    Checkpoint(str(tmp_path / "nowhere")).note_handed_over([BATCH])  # which must not keep a member from leaving


@pytest.mark.parametrize(
    ("location", "directory"),
    [("/a/b c", "/a/b c"), ("file:/a/b%20c", "/a/b c"), ("file:///a", "/a"), ("relative/a", "relative/a")],
)
def test_a_location_may_be_given_as_spark_takes_it(location: str, directory: str) -> None:
    assert directory_of(location) == Path(directory)


def test_a_location_that_is_no_directory_is_refused() -> None:
    with pytest.raises(UnknownOption, match=r"option checkpointLocation=hdfs://one/two should be a directory"):
        directory_of("hdfs://one/two")
