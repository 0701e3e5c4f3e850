"""With dual commit: whether somebody set an offset back in ZooKeeper alone (no 0.8 counterpart; J11, "fixed").

Of two places the larger offset counts, since members that store in Kafka alone leave ZooKeeper behind. So that a node
set back by hand can be told from one left behind, what is stored in Kafka has a note of what ZooKeeper held before. A
node that holds neither this nor what was stored with the note was written since, by somebody else. Members that know
nothing of it store offsets without a note, and then the larger one counts again.

Pure.
"""

from __future__ import annotations

from zkconsumer.offsets import NO_OFFSET

_PREFIX = "zookeeper="


def note_of(in_zookeeper_before: int) -> str:
    """To be stored beside an offset in Kafka."""
    return f"{_PREFIX}{in_zookeeper_before}"


def start_of(in_kafka: int, note: str, in_zookeeper: int) -> int:
    """Where to go on."""
    before = note.removeprefix(_PREFIX)
    if not note.startswith(_PREFIX) or not before.removeprefix("-").isdecimal():
        return max(in_kafka, in_zookeeper)
    if in_zookeeper in (NO_OFFSET, int(before)):  # none, or Kafka took the offset and ZooKeeper did not any more
        return max(in_kafka, in_zookeeper)
    return in_zookeeper
