"""Moving partitions from those with most to those with fewest until that helps no more: both sticky assignors' heart.

(Java: StickyAssignor.balance of 0.11 to 2.3, AbstractStickyAssignor.GeneralAssignmentBuilder.balance since.) The two
differ in the order in which partitions are tried and in a first pass over the new ones, which the caller decides.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapreplace

from fetcher.structs import TopicAndPartition
from study.assignors.java_order import partition_map_order
from study.assignors.model import Assignment, in_java_order

Owned = dict[TopicAndPartition, None]
"""A member's partitions in order; a dict, because one is taken out of thousands."""


class ByCount:
    """Members from the one with fewest partitions to the one with most, ties by id (Java: a TreeSet).

    Sorted numbers, count · members + place among the ids: comparing those is what most of the time goes into.
    """

    def __init__(self, owned: Mapping[str, Owned]) -> None:
        self.owned = owned
        self._names = in_java_order(owned)
        self._place = {name: place for place, name in enumerate(self._names)}
        self._sorted = sorted(map(self._entry, owned))

    def __iter__(self) -> Iterator[str]:
        members = len(self._names)
        return (self._names[entry % members] for entry in self._sorted)

    def spread(self) -> int:
        """How many more the fullest has than the emptiest."""
        members = len(self._names)
        return self._sorted[-1] // members - self._sorted[0] // members if self._sorted else 0

    def remove(self, name: str) -> None:
        """To be called before the member's count changes."""
        del self._sorted[bisect_left(self._sorted, self._entry(name))]

    def add(self, name: str) -> None:
        insort(self._sorted, self._entry(name))

    def give(
        self, partitions: Sequence[TopicAndPartition], candidates: Mapping[str, frozenset[str]]
    ) -> dict[TopicAndPartition, str]:
        """Each to the member with fewest that may have it; to whom each went.

        Counts only grow, so that a heap for each set of candidates will do: an entry that is out of date is too small.
        """
        members, place = len(self._names), self._place
        counts = {name: len(mine) for name, mine in self.owned.items()}
        heaps: dict[frozenset[str], list[int]] = {}
        went: dict[TopicAndPartition, str] = {}
        for partition in partitions:
            able = candidates[partition.topic]
            heap = heaps.get(able)
            if heap is None:
                heap = heaps[able] = sorted(counts[name] * members + place[name] for name in able)
            while True:
                count, least = divmod(heap[0], members)
                name = self._names[least]
                if counts[name] == count:
                    break
                heapreplace(heap, counts[name] * members + least)
            counts[name] = count + 1
            heapreplace(heap, heap[0] + members)
            self.owned[name][partition] = None
            went[partition] = name
        self._sorted = sorted(map(self._entry, (self._names[entry % members] for entry in self._sorted)))
        return went

    def _entry(self, name: str) -> int:
        return len(self.owned[name]) * len(self._names) + self._place[name]


@dataclass(frozen=True)
class Movement:
    """From whom to whom a partition went, taken all its moves together."""

    source: str
    target: str


class Movements:
    """What has moved so far, so that two members do not swap partitions of one topic (Java: PartitionMovements)."""

    def __init__(self) -> None:
        self._of: dict[TopicAndPartition, Movement] = {}
        self._partitions: dict[str, dict[Movement, Owned]] = {}

    def instead_of(self, partition: TopicAndPartition, source: str, target: str) -> TopicAndPartition:
        """The one to move: one that went the opposite way before goes back, if there is any."""
        made = self._of.get(partition)
        origin = made.source if made else source
        opposite = self._partitions.get(partition.topic, {}).get(Movement(target, origin))
        return partition_map_order(opposite)[0] if opposite else partition

    def note(self, partition: TopicAndPartition, source: str, target: str) -> None:
        made = self._of.pop(partition, None)
        if made:
            by_movement = self._partitions[partition.topic]
            del by_movement[made][partition]
            if not by_movement[made]:
                del by_movement[made]
        movement = Movement(made.source if made else source, target)
        if movement.source != target:
            self._of[partition] = movement
            self._partitions.setdefault(partition.topic, {}).setdefault(movement, {})[partition] = None


class Balancer:
    """One assignment in the making. `owned` and `owner_of` are changed in place."""

    def __init__(
        self, owned: dict[str, Owned], partitions: Mapping[str, int], candidates: Mapping[str, Sequence[str]]
    ) -> None:
        """`candidates`: who subscribes to each topic with partitions."""
        self.owned = owned
        self.owner_of = {partition: name for name, mine in owned.items() for partition in mine}
        sets = {id(names): frozenset(names) for names in candidates.values()}  # many topics have the same list
        self._candidates = {topic: sets[id(names)] for topic, names in candidates.items()}
        partitions_for: dict[frozenset[str], int] = {}
        for topic, names in self._candidates.items():
            partitions_for[names] = partitions_for.get(names, 0) + partitions[topic]
        self._at_most = dict.fromkeys(owned, 0)
        for names, count in partitions_for.items():
            for name in names:
                self._at_most[name] += count
        self._movements = Movements()
        self._by_count = ByCount(owned)
        self._witness: tuple[str, str, TopicAndPartition] | None = None

    def balance(
        self,
        unassigned: Sequence[TopicAndPartition],
        order: Sequence[TopicAndPartition],
        *,
        new_ones_first: bool,
    ) -> Assignment:
        """Give away what nobody has, then move partitions in this order while it helps."""
        initializing = not any(self.owned.values())
        self._assign(unassigned)
        fixed = self._set_aside()
        before = {name: dict(mine) for name, mine in self.owned.items()}
        if new_ones_first:
            self._reassign([partition for partition in unassigned if self._movable(partition.topic)])
        moved = self._reassign([partition for partition in order if self._movable(partition.topic)])
        if not initializing and moved and _score(self.owned) >= _score(before):
            self.owned.update(before)
        return {name: list(mine) for name, mine in (self.owned | fixed).items()}

    def _assign(self, unassigned: Sequence[TopicAndPartition]) -> None:
        self.owner_of.update(self._by_count.give(unassigned, self._candidates))

    def _set_aside(self) -> dict[str, Owned]:
        """Take out the members that can neither give nor take."""
        fixed = {}
        for name in list(self.owned):
            if len(self.owned[name]) < self._at_most[name] or any(
                self._movable(topic) for topic, _ in self.owned[name]
            ):
                continue
            self._by_count.remove(name)
            fixed[name] = self.owned.pop(name)
        return fixed

    def _movable(self, topic: str) -> bool:
        return len(self._candidates[topic]) >= 2

    def _reassign(self, order: Sequence[TopicAndPartition]) -> bool:
        """Over and over until nothing moves. True if anything did."""
        performed = False
        modified = True
        while modified:
            modified = False
            for partition in order:
                if self._balanced():
                    break
                mine = len(self.owned[self.owner_of[partition]])
                target = self._emptiest(partition.topic)
                if mine > len(self.owned[target]) + 1:
                    self._move(partition, target)
                    performed = modified = True
        return performed

    def _emptiest(self, topic: str) -> str:
        candidates = self._candidates[topic]
        return next(name for name in self._by_count if name in candidates)

    def _move(self, wanted: TopicAndPartition, target: str) -> None:
        partition = self._movements.instead_of(wanted, self.owner_of[wanted], target)
        source = self.owner_of[partition]
        self._by_count.remove(source)
        if target != source:
            self._by_count.remove(target)
        self._movements.note(partition, source, target)
        del self.owned[source][partition]
        self.owned[target][partition] = None
        self.owner_of[partition] = target
        self._by_count.add(target)
        if target != source:
            self._by_count.add(source)

    def _balanced(self) -> bool:
        """Nobody could take a partition from one that has more than it."""
        if self._by_count.spread() <= 1:
            return True
        if self._witness and self._proves(*self._witness):  # asked before each partition: mostly the same answer
            return False
        self._witness = self._find_witness()
        return self._witness is None

    def _find_witness(self) -> tuple[str, str, TopicAndPartition] | None:
        for topic, candidates in self._candidates.items():
            living = [name for name in candidates if name in self.owned]
            if len(living) < 2:
                continue
            least = min(living, key=lambda name: len(self.owned[name]))
            count = len(self.owned[least])
            for owner in living:
                if len(self.owned[owner]) > count:
                    # From the back: moves take from the front, and a dict's front is slow once much was taken out.
                    partition = next((one for one in reversed(self.owned[owner]) if one.topic == topic), None)
                    if partition is not None:
                        return least, owner, partition
        return None

    def _proves(self, poor: str, rich: str, partition: TopicAndPartition) -> bool:
        return self.owner_of[partition] == rich and len(self.owned[poor]) < len(self.owned[rich])


def _score(owned: Mapping[str, Owned]) -> int:
    """The sum of the differences of all pairs' counts: 0 is perfect."""
    counts = sorted(map(len, owned.values()))
    return sum(count * (2 * place - len(counts) + 1) for place, count in enumerate(counts))
