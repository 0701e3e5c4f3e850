"""Segments: the files by which receivers hand over what they have received.

A segment is an Arrow IPC file. Each of its batches holds records of one partition, received by one stream; what is the
same for all of its rows is kept once, in the file's metadata (its runs). A segment gets its name when it is whole: what
is seen can be read. A durable one has reached the disk by then, its name too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from fetcher.structs import TopicAndPartition
from pipeline.covered import Span
from pipeline.rows import RowForm, arrow_type

SUFFIX = ".arrow"
PARTIAL = ".partial"
STORED = ("offset", "timestamp", "key", "value")
_SCHEMA = pa.schema([pa.field(name, arrow_type(name)) for name in STORED])
_RUNS = b"runs"


class Run(NamedTuple):
    """One batch of a segment: the offsets it stands for (gaps in them hold no records), and who received it."""

    where: TopicAndPartition
    start: int
    until: int
    rows: int
    thread: str

    @property
    def span(self) -> Span:
        return self.start, self.until


class Piece(NamedTuple):
    """What a task reads of a segment: of each of these batches, the rows within these spans."""

    path: str
    wanted: tuple[tuple[int, Run, tuple[Span, ...]], ...]


class SegmentWriter:
    """Writes the segments of one receiver. Used by one thread."""

    def __init__(self, directory: Path, prefix: str, *, durable: bool) -> None:
        self._directory = directory
        self._prefix = prefix
        self._durable = durable
        self._written = 0

    def write(self, runs: Sequence[Run], batches: Sequence[pa.RecordBatch]) -> Path:
        """One segment; it is there when this returns."""
        path = self._directory / f"{self._prefix}-{self._written:09}{SUFFIX}"
        partial = path.with_suffix(PARTIAL)
        try:
            schema = _SCHEMA.with_metadata({_RUNS: json.dumps([[*run.where, *run[1:]] for run in runs])})
            with pa.OSFile(str(partial), "wb") as file, pa.ipc.new_file(file, schema) as writer:
                for batch in batches:
                    writer.write_batch(batch)
            if self._durable:
                _sync(partial)
            partial.rename(path)
            if self._durable:
                _sync(self._directory)
        except BaseException:
            partial.unlink(missing_ok=True)
            raise
        self._written += 1
        return path


def stored_form() -> RowForm:
    """Makes the batches of a segment of what a stream gives."""
    return RowForm(STORED, None)


def names_in(directory: Path) -> list[str]:
    """Of all whole segments, sorted."""
    with os.scandir(directory) as entries:
        return sorted(entry.name for entry in entries if entry.name.endswith(SUFFIX))


def bytes_in(directory: Path) -> int:
    """How much is waiting there."""
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            if not entry.name.endswith(SUFFIX):
                continue
            try:
                total += entry.stat().st_size
            except FileNotFoundError:  # used up since it was listed
                continue
    return total


def runs_of(path: Path) -> list[Run]:
    """What a segment holds, without its rows. FileNotFoundError if it is gone."""
    with pa.memory_map(str(path)) as file:
        metadata = pa.ipc.open_file(file).schema.metadata
        return [
            Run(TopicAndPartition(topic, partition), *rest) for topic, partition, *rest in json.loads(metadata[_RUNS])
        ]


def rows_of(piece: Piece, columns: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
    """The rows of a piece, in Spark's form."""
    with pa.memory_map(piece.path) as file:
        reader = pa.ipc.open_file(file)
        for index, run, spans in piece.wanted:
            batch, form = reader.get_batch(index), RowForm(columns, run.thread)
            for part in [batch] if spans == (run.span,) else _within(batch, spans):
                yield form.spark_batch(_whole(part, run, columns))


def _within(batch: pa.RecordBatch, spans: Sequence[Span]) -> Iterator[pa.RecordBatch]:
    """Rows by offset; offsets grow."""
    import bisect

    offsets = batch.column("offset").to_pylist()
    for start, until in spans:
        first, end = bisect.bisect_left(offsets, start), bisect.bisect_left(offsets, until)
        if first < end:
            yield batch.slice(first, end - first)


def _whole(batch: pa.RecordBatch, run: Run, columns: tuple[str, ...]) -> pa.RecordBatch:
    """With the columns that have one value for all rows, if they are wanted."""
    same: dict[str, Any] = {"topic": run.where.topic, "partition": run.where.partition}
    arrays = {
        name: pa.repeat(pa.scalar(same[name], arrow_type(name)), batch.num_rows) if name in same else batch.column(name)
        for name in columns
        if name != "consumer_thread"
    }
    return pa.RecordBatch.from_pydict(arrays)


def _sync(path: Path) -> None:
    """Onto the disk: a file's bytes, or a directory's names."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
