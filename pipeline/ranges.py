"""Which records a batch holds: ranges of offsets, and how Spark's checkpoint keeps them.

Pure. A stream's offset is a JSON object: the ranges of the batch that ends there, and the end of every partition that
the query has ever read. A batch can be read again from it alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from fetcher.structs import TopicAndPartition

VERSION = 1


class OffsetRange(NamedTuple):
    """Records of one partition from one offset up to before another, and the stream that owned it (None: nobody)."""

    where: TopicAndPartition
    start: int
    until: int
    thread: str | None = None

    @property
    def length(self) -> int:
        """How many offsets; of a compacted topic there may be fewer records."""
        return self.until - self.start


class AtRisk(NamedTuple):
    """Offsets of a partition that was let go: whoever owns it next begins at `stored`, and reads them too."""

    stored: int
    offsets: int


class StreamOffset(NamedTuple):
    """A point in the life of a query."""

    ranges: tuple[OffsetRange, ...] = ()
    ends: Mapping[TopicAndPartition, int] = {}

    def after(self, ranges: Iterable[OffsetRange]) -> StreamOffset:
        """The end of a batch of these ranges that begins here."""
        planned = tuple(ranges)
        return StreamOffset(planned, {**self.ends, **{found.where: found.until for found in planned}})

    def to_json(self) -> dict[str, Any]:
        """As Spark's checkpoint holds it; `partition` as text, since JSON has no other keys."""
        ends: dict[str, dict[str, int]] = {}
        for where in sorted(self.ends):
            ends.setdefault(where.topic, {})[str(where.partition)] = self.ends[where]
        ranges = [[*found.where, found.start, found.until, found.thread] for found in self.ranges]
        return {"version": VERSION, "ranges": ranges, "ends": ends}

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> StreamOffset:
        if stored.get("version") != VERSION:
            raise ValueError(f"the checkpoint holds offsets of version {stored.get('version')}, this is {VERSION}")
        ends = {
            TopicAndPartition(topic, int(partition)): end
            for topic, partitions in stored["ends"].items()
            for partition, end in partitions.items()
        }
        ranges = tuple(
            OffsetRange(TopicAndPartition(topic, partition), start, until, thread)
            for topic, partition, start, until, thread in stored["ranges"]
        )
        return cls(ranges, ends)


def limited(ranges: Iterable[OffsetRange], most: int | None) -> list[OffsetRange]:
    """At most so many offsets in all: the smallest ranges whole, the others an equal share of what is left."""
    left = [found for found in ranges if found.length > 0]
    if most is None:
        return sorted(left)
    result = []
    for position, found in enumerate(sorted(left, key=lambda one: (one.length, one.where))):
        share = min(found.length, -(-most // (len(left) - position)))
        if share:
            result.append(found._replace(until=found.start + share))
        most -= share
    return sorted(result)
