"""Which offsets of each partition a query has taken over from receivers, so that none is taken twice.

Pure. Sets of offsets are sorted, disjoint spans [start, until) that do not touch. What receivers hand over joins up, so
a partition normally has one; order does not matter, so segments may be found in any.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fetcher.structs import TopicAndPartition

Span = tuple[int, int]
Covered = Mapping[TopicAndPartition, tuple[Span, ...]]


def uncovered(spans: tuple[Span, ...], wanted: Span) -> list[Span]:
    """What is left of `wanted`."""
    start, until = wanted
    left = []
    for first, end in spans:
        if end <= start:
            continue
        if first >= until:
            break
        if start < first:
            left.append((start, first))
        start = end
    if start < until:
        left.append((start, until))
    return left


def joined(spans: tuple[Span, ...], new: Span) -> tuple[Span, ...]:
    """The spans and one more; those that touch become one."""
    start, until = new
    if start >= until:
        return spans
    apart = []
    for first, end in spans:
        if end < start or first > until:
            apart.append((first, end))
        else:
            start, until = min(start, first), max(until, end)
    return tuple(sorted([*apart, (start, until)]))


def to_json(covered: Covered) -> dict[str, Any]:
    """As Spark's checkpoint holds it; partitions as text, since JSON has no other keys."""
    stored: dict[str, dict[str, list[list[int]]]] = {}
    for where in sorted(covered):
        stored.setdefault(where.topic, {})[str(where.partition)] = [list(span) for span in covered[where]]
    return stored


def from_json(stored: Mapping[str, Any]) -> dict[TopicAndPartition, tuple[Span, ...]]:
    return {
        TopicAndPartition(topic, int(partition)): tuple((start, until) for start, until in spans)
        for topic, partitions in stored.items()
        for partition, spans in partitions.items()
    }
