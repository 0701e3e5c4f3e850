"""Rows about a group, of either world, in the columns of kafka-consumer-groups (KIP-175), as 1.1 prints them.

Pure. A value that is not known is None and printed as `-`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from fetcher.errors import KafkaException
from fetcher.structs import TopicAndPartition
from zkconsumer.groups.kafka_group import KafkaGroup, KafkaMember
from zkconsumer.groups.tables import fitted
from zkconsumer.groups.zookeeper_group import ZooKeeperGroup


@dataclass(frozen=True)
class OffsetRow:
    """One partition, or a member that has none."""

    topic: str | None
    partition: int | None
    current_offset: int | None
    log_end_offset: int | None
    consumer_id: str | None
    host: str | None = None
    client_id: str | None = None

    @property
    def lag(self) -> int | None:
        """Below 0 if the offset is beyond the log."""
        if self.current_offset is None or self.log_end_offset is None:
            return None
        return self.log_end_offset - self.current_offset


def zookeeper_rows(
    group: ZooKeeperGroup,
    partitions: Iterable[TopicAndPartition],
    offsets: Mapping[TopicAndPartition, int],
    ends: Mapping[TopicAndPartition, int | KafkaException],
    topics_of: Mapping[str, Sequence[str]],
) -> Iterator[OffsetRow]:
    """A row a partition; `topics_of` members without partitions a row a topic."""
    owners = {where: text.rpartition("-")[0] or text for where, text in group.owner_texts().items()}
    for where in partitions:
        yield OffsetRow(*where, _known(offsets.get(where)), _end(ends.get(where)), owners.get(where))
    idle = set(group.members) - set(owners.values())
    for consumer_id in sorted(idle):
        for topic in topics_of.get(consumer_id, ()):
            yield OffsetRow(topic, None, None, None, consumer_id)


def kafka_rows(
    group: KafkaGroup, offsets: Mapping[TopicAndPartition, int], ends: Mapping[TopicAndPartition, int | KafkaException]
) -> Iterator[OffsetRow]:
    """Assigned partitions member by member, then those that have an offset but no member, then idle members."""
    assigned = {where: member for member in group.members for where in member.partitions}
    for where in sorted({*assigned, *offsets}):
        member = assigned.get(where)
        yield OffsetRow(*where, _known(offsets.get(where)), _end(ends.get(where)), *_columns(member))
    for member in group.members:
        if not member.partitions:
            yield OffsetRow(None, None, None, None, *_columns(member))


def format_offsets(rows: Sequence[OffsetRow], *, with_hosts: bool, width: int | None = None) -> list[str]:
    """Lines after the empty one; groups in ZooKeeper know no hosts and clients. width: of a terminal."""
    topic = _width(15, (row.topic for row in rows if row.partition is not None))
    consumer = _width(15, (row.consumer_id for row in rows))
    host = _width(15, (row.host for row in rows))
    titles = ["TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID", "HOST", "CLIENT-ID"]
    table: list[list[object]] = [list(titles)]
    table += [
        [row.topic if row.partition is not None else None,  # as the original
         row.partition, row.current_offset, row.log_end_offset, row.lag, row.consumer_id, row.host, row.client_id]
        for row in rows
    ]  # fmt: skip
    widths = [topic, 10, 15, 15, 15, consumer, host, 0]
    shown = table if with_hosts else [row[:6] for row in table]
    return _lines(shown, widths, last_padded=not with_hosts, width=width)


def format_members(members: Sequence[KafkaMember], *, verbose: bool, width: int | None = None) -> list[str]:
    """Who has how many partitions, or which."""
    titles: list[object] = ["CONSUMER-ID", "HOST", "CLIENT-ID", "#PARTITIONS"]
    table: list[list[object]] = [[*titles, "ASSIGNMENT"] if verbose else titles]
    for member in members:
        row: list[object] = [member.consumer_id, member.host, member.client_id, len(member.partitions)]
        table.append([*row, as_assignment(member.partitions)] if verbose else row)
    widths = [
        _width(15, (member.consumer_id for member in members)),
        _width(15, (member.host for member in members)),
        _width(15, (member.client_id for member in members)),
        15,
        0,
    ]
    return _lines(table, widths, last_padded=True, width=width)


def format_state(coordinator: str, strategy: str, state: str, members: int, *, width: int | None = None) -> list[str]:
    """The group in one line."""
    widths = [max(25, len(coordinator)), 25, 20, 0]
    titles = ["COORDINATOR (ID)", "ASSIGNMENT-STRATEGY", "STATE", "#MEMBERS"]
    return _lines([titles, [coordinator, strategy, state, members]], widths, last_padded=True, width=width)


def as_assignment(partitions: Iterable[TopicAndPartition]) -> str:
    """`t1(0,1), t2(3)`, or `-`."""
    by_topic: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        by_topic.setdefault(topic, []).append(partition)
    return ", ".join(f"{topic}({','.join(map(str, numbers))})" for topic, numbers in by_topic.items()) or "-"


def _columns(member: KafkaMember | None) -> tuple[str | None, str | None, str | None]:
    return (None, None, None) if member is None else (member.consumer_id, member.host, member.client_id)


def _known(offset: int | None) -> int | None:
    return None if offset is None or offset < 0 else offset


def _end(end: int | KafkaException | None) -> int | None:
    return end if isinstance(end, int) else None


def _width(least: int, texts: Iterable[str | None]) -> int:
    return max([least, *(len(text) for text in texts if text is not None)])


def _lines(
    table: Sequence[Sequence[object]], widths: Sequence[int], *, last_padded: bool, width: int | None
) -> list[str]:
    """As the original has it, unless that does not fit the terminal."""
    lines = [_line(row, widths, last_padded=last_padded) for row in table]
    if width is None or all(len(line.rstrip()) <= width for line in lines):
        return lines
    return fitted([["-" if cell is None else str(cell) for cell in row] for row in table], width)


def _line(cells: Sequence[object], widths: Sequence[int], *, last_padded: bool) -> str:
    texts = ["-" if cell is None else str(cell) for cell in cells]
    padded = [f"{text:<{width}}" for text, width in zip(texts, widths, strict=False)]
    return " ".join(padded) + (" " if last_padded and widths[len(cells) - 1] else "")
