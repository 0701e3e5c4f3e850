"""What receivers hand over, as a stream of Spark: its batches are lists of segments.

Like group.py, this runs in one long-lived Python process of the query, the planner, whose connection to the tracker
lets receivers begin and leave. The checkpoint holds the names of a batch's segments, and which offsets were taken so
far: rows that come again (a receiver died before it could commit) are dropped and counted.

Rule: latestOffset(start) and commit(end) mean that all before is in the sink. Only then are segments removed.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Client, Connection
from pathlib import Path
from typing import Any, NamedTuple

from pyspark.sql.datasource import DataSource, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows
from pyspark.sql.types import StructType

from fetcher.structs import TopicAndPartition
from pipeline import covered as spans
from pipeline.covered import Covered, Span
from pipeline.errors import DataLost, PipelineError
from pipeline.rows import SCHEMA, checked_columns
from pipeline.segments import Piece, Run, names_in, rows_of, runs_of
from pipeline.source import told_in_one_line

log = logging.getLogger(__name__)

NAME = "zkconsumer-received"
VERSION = 1


class ReceivedOffset(NamedTuple):
    """A point in the life of a query."""

    segments: tuple[str, ...] = ()  # of the batch that ends here
    taken: Mapping[TopicAndPartition, tuple[Span, ...]] = {}

    def to_json(self) -> dict[str, Any]:
        return {"version": VERSION, "segments": list(self.segments), "taken": spans.to_json(self.taken)}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> ReceivedOffset:
        if stored.get("version") != VERSION or "taken" not in stored:
            raise PipelineError("the checkpoint is not one of a stream of create_stream()")
        return cls(tuple(stored["segments"]), spans.from_json(stored["taken"]))


class Wanted(NamedTuple):
    """Of one batch of a segment, the rows that did not come before."""

    position: int
    run: Run
    spans: tuple[Span, ...]


def new_in(runs: Sequence[Run], taken: Covered) -> tuple[list[Wanted], Covered]:
    """What of a segment is new, and what is taken then."""
    wanted, after = [], dict(taken)
    for index, run in enumerate(runs):
        before = after.get(run.where, ())
        left = spans.uncovered(before, run.span)
        if left:
            wanted.append(Wanted(index, run, tuple(left)))
            after[run.where] = spans.joined(before, run.span)
    return wanted, after


class ReceivedDataSource(DataSource):
    """Made by create_stream() only."""

    @classmethod
    def name(cls) -> str:
        return NAME

    def schema(self) -> str:
        return SCHEMA

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        with told_in_one_line():
            return ReceivedStreamReader(dict(self.options), checked_columns(schema))


class SegmentsPartition(InputPartition):
    """One task's work."""

    def __init__(self, pieces: Sequence[Piece]) -> None:
        super().__init__(tuple(pieces))


class ReceivedStreamReader(DataSourceStreamReader):
    """What Spark talks to. Holds settings only, until the first question that needs the receivers."""

    def __init__(self, options: Mapping[str, str], columns: tuple[str, ...]) -> None:
        self._options = dict(options)
        self._columns = columns
        self._planner: _Planner | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {"_options": {}, "_columns": self._columns, "_planner": None}

    def initialOffset(self) -> dict[str, Any]:
        return ReceivedOffset().to_json()

    def getDefaultReadLimit(self) -> ReadLimit:
        most = self._options.get("mostrows")
        return ReadMaxRows(int(most)) if most else ReadAllAvailable()

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        with told_in_one_line():
            most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
            planned = self._receiving().plan(ReceivedOffset.from_json(start), most)
        return start if planned is None else planned.to_json()

    def reportLatestOffset(self) -> dict[str, Any] | None:
        """Spark shows it as `latestOffset` of the source in the query's progress."""
        return None if self._planner is None else self._planner.metrics()

    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> Sequence[InputPartition]:
        with told_in_one_line():
            if start == end:
                return []
            return self._receiving().tasks(ReceivedOffset.from_json(start), ReceivedOffset.from_json(end))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, SegmentsPartition):  # Spark makes one of its own where there are none
            for piece in partition.value:
                yield from rows_of(piece, self._columns)

    def commit(self, end: dict[str, Any]) -> None:
        if self._planner is not None:
            self._planner.done(ReceivedOffset.from_json(end))

    def stop(self) -> None:
        if self._planner is not None:
            self._planner.close()

    def _receiving(self) -> _Planner:
        if self._planner is None:
            self._planner = _Planner(self._options)
        return self._planner


class _Planner:
    """The connection to the tracker, and the directory of segments."""

    def __init__(self, options: Mapping[str, str]) -> None:
        host, _, port = options["tracker"].rpartition(":")
        try:
            self._link: Connection[Any, Any] = Client((host, int(port)), authkey=bytes.fromhex(options["token"]))
            self._link.send_bytes(json.dumps({"role": "planner", "stream": options["stream"]}).encode())
            answer = json.loads(self._link.recv_bytes())
        except (OSError, EOFError):
            raise PipelineError("the driver that called create_stream() cannot be reached: call it again") from None
        if "refused" in answer:
            raise PipelineError(answer["refused"])
        self._directory = Path(answer["directory"])
        self._write_ahead: bool = answer["write_ahead"]
        self._tasks: int = answer["tasks"]
        self._runs: dict[str, list[Run]] = {}  # of segments that are waiting
        self._removed: set[str] = set()  # of the batch before
        self._waiting_rows = 0
        self._doubled_rows = 0
        self._lost_segments = 0
        self._status: dict[str, Any] = {}

    def close(self) -> None:
        self._link.close()

    def plan(self, begin: ReceivedOffset, most: int | None) -> ReceivedOffset | None:
        """The next batch; None if nothing new is there."""
        self.done(begin)
        self._ask()
        chosen: list[str] = []
        taken, rows, waiting = begin.taken, 0, 0
        for name in names_in(self._directory):
            if name in begin.segments:  # could not be removed yet
                continue
            runs = self._runs_of(name)
            size = sum(run.rows for run in runs)
            if most is not None and chosen and rows + size > most:
                waiting += size
                continue
            wanted, after = new_in(runs, taken)
            if not wanted:  # all of it came before
                self._doubled_rows += size
                self._remove(name)
                continue
            chosen.append(name)
            taken, rows = after, rows + size
        self._waiting_rows = waiting
        return ReceivedOffset(tuple(chosen), taken) if chosen else None

    def tasks(self, begin: ReceivedOffset, end: ReceivedOffset) -> list[InputPartition]:
        """Also called for a batch of a former run, which has to be written once more: it comes out the same."""
        pieces: list[tuple[int, Piece]] = []
        taken = begin.taken
        for name in end.segments:
            path = self._directory / name
            try:
                runs, size = self._runs_of(name), path.stat().st_size
            except FileNotFoundError:
                self._miss(path)
                continue
            wanted, taken = new_in(runs, taken)
            self._doubled_rows += sum(run.rows for run in runs) - _rows_in(wanted)
            pieces.append((size, Piece(str(path), tuple(wanted))))
        return [SegmentsPartition(share) for share in _shares(pieces, self._tasks)]

    def done(self, end: ReceivedOffset) -> None:
        """All before this is in the sink."""
        new = set(end.segments) - self._removed
        for name in new:
            self._remove(name)
        if new:
            self._removed = set(end.segments)

    def metrics(self) -> dict[str, Any]:
        return {
            **{name: value for name, value in self._status.items() if name != "fatal"},
            "waiting_segments": len(self._runs),
            "waiting_rows": self._waiting_rows,
            "duplicates_dropped": self._doubled_rows,
            "segments_lost": self._lost_segments,
        }

    # --- how ---

    def _ask(self) -> None:
        try:
            self._link.send_bytes(b"status")
            self._status = json.loads(self._link.recv_bytes())
        except (OSError, EOFError):
            raise PipelineError("the driver has stopped the receivers") from None
        if self._status["fatal"] is not None:
            raise PipelineError(self._status["fatal"])

    def _runs_of(self, name: str) -> list[Run]:
        if name not in self._runs:
            self._runs[name] = runs_of(self._directory / name)
        return self._runs[name]

    def _remove(self, name: str) -> None:
        self._runs.pop(name, None)
        (self._directory / name).unlink(missing_ok=True)

    def _miss(self, path: Path) -> None:
        if self._write_ahead:
            raise DataLost(
                f"segment {path}, which the checkpoint names, is gone: give create_stream() the directory it had before"
            )
        log.warning("segment %s was received by a former run and not processed: its rows are lost", path.name)
        self._lost_segments += 1


def _rows_in(wanted: Sequence[Wanted]) -> int:
    """About: of runs that came in part, as much as their offsets say."""
    return sum(min(one.run.rows, sum(until - start for start, until in one.spans)) for one in wanted)


def _shares(pieces: Sequence[tuple[int, Piece]], tasks: int) -> list[list[Piece]]:
    """For so many tasks, about the same bytes each: the largest first, to whom has least."""
    shares: list[list[Piece]] = [[] for _ in range(min(tasks, len(pieces)))]
    sizes = [0] * len(shares)
    for size, piece in sorted(pieces, key=lambda one: -one[0]):
        least = sizes.index(min(sizes))
        shares[least].append(piece)
        sizes[least] += size
    return shares


__all__ = ["ReceivedDataSource", "ReceivedStreamReader"]
