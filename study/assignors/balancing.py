"""Moving partitions from those with most to those with fewest until that helps no more: both sticky assignors' heart.

(Java: StickyAssignor.balance of 0.11 to 2.3, AbstractStickyAssignor.GeneralAssignmentBuilder.balance since.) The two
differ in the order in which partitions are tried and in a first pass over the new ones, which the caller decides.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from heapq import heapreplace
from itertools import chain, pairwise

from study.assignors.java_order import first_of_map
from study.assignors.numbering import Held, Roster

Loose = dict[int, None]
"""A member's partitions in order, while some are taken out: of a list that would be slow."""

Movement = tuple[str, str]
"""From whom to whom a partition went, taken all its moves together."""


def deal(numbers: Sequence[int], names: Sequence[str], held: Held) -> None:
    """Round and round."""
    for place, name in enumerate(names):
        held[name] += numbers[place :: len(names)]


def give_to_fewest(free: Sequence[int], names: Sequence[str], held: Held) -> None:
    """Each to the one that has fewest, of several to the first: so all that have as few get one in turn.

    `names` in order.
    """
    place_of = {name: place for place, name in enumerate(names)}
    with_count: dict[int, list[str]] = {}
    for name in names:
        with_count.setdefault(len(held[name]), []).append(name)
    lowest: list[str] = []
    given = 0
    for count, following in pairwise([*sorted(with_count), None]):
        if given == len(free):
            return
        lowest = sorted(chain(lowest, with_count[count or 0]), key=place_of.__getitem__)
        enough = len(free) if following is None else given + (following - (count or 0)) * len(lowest)
        deal(free[given:enough], lowest, held)
        given = min(enough, len(free))


class ByCount:
    """Members from the one with fewest partitions to the one with most, ties by id (Java: a TreeSet).

    Sorted numbers, count · members + place among the ids: comparing those is what most of the time goes into.
    """

    def __init__(self, owned: Mapping[str, Collection[int]], names: Sequence[str]) -> None:
        """`names`: all of them, in order."""
        self.owned = owned
        self._names = names
        self._place = {name: place for place, name in enumerate(names)}
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

    def _entry(self, name: str) -> int:
        return len(self.owned[name]) * len(self._names) + self._place[name]


def give_to_fewest_able(free: Sequence[int], roster: Roster, held: Held) -> None:
    """Each to the member with fewest that subscribes to its topic.

    Counts only grow, so that a heap for each list of candidates will do: an entry that is out of date is too small.
    """
    names, topic_of = roster.names, roster.numbering.topic_of
    members, place = len(names), {name: place for place, name in enumerate(names)}
    counts = [len(held[name]) for name in names]
    heap_of: dict[int, list[int]] = {}
    for able in roster.candidates.values():
        if id(able) not in heap_of:
            heap_of[id(able)] = sorted(counts[place[name]] * members + place[name] for name in able)
    heaps = {topic: heap_of[id(able)] for topic, able in roster.candidates.items()}
    for number in free:
        heap = heaps[topic_of[number]]
        while True:
            count, least = divmod(heap[0], members)
            if counts[least] == count:
                break
            heapreplace(heap, counts[least] * members + least)
        counts[least] = count + 1
        heapreplace(heap, heap[0] + members)
        held[names[least]].append(number)


class Movements:
    """What has moved so far, so that two members do not swap partitions of one topic (Java: PartitionMovements)."""

    def __init__(self, roster: Roster) -> None:
        self._topic_of = roster.numbering.topic_of
        self._spread_hash = roster.numbering.spread_hash
        self._made: dict[int, Movement] = {}
        self._numbers: dict[str, dict[Movement, Loose]] = {}

    def instead_of(self, number: int, source: str, target: str) -> int:
        """The one to move: one that went the opposite way before goes back, if there is any."""
        made = self._made.get(number)
        origin = made[0] if made else source
        opposite = self._numbers.get(self._topic_of[number], {}).get((target, origin))
        return first_of_map(opposite, self._spread_hash) if opposite else number

    def note(self, number: int, source: str, target: str) -> None:
        topic = self._topic_of[number]
        made = self._made.pop(number, None)
        if made:
            by_movement = self._numbers[topic]
            del by_movement[made][number]
            if not by_movement[made]:
                del by_movement[made]
        movement = (made[0] if made else source, target)
        if movement[0] != target:
            self._made[number] = movement
            self._numbers.setdefault(topic, {}).setdefault(movement, {})[number] = None


class Balancer:
    """One assignment in the making. The lists in `owned` are changed in place."""

    def __init__(self, owned: Held, roster: Roster) -> None:
        self._roster = roster
        self._topic_of = roster.numbering.topic_of
        sets = {id(names): frozenset(names) for names in roster.candidates.values()}  # many topics have the same list
        self._candidates = {topic: sets[id(names)] for topic, names in roster.candidates.items()}
        self._given = owned
        self._owned: dict[str, Collection[int]] = dict(owned)

    def balance(self, unassigned: Sequence[int], order: Sequence[int], *, new_ones_first: bool) -> Held:
        """Give away what nobody has, then move partitions in this order while it helps."""
        given, names = self._given, self._roster.names
        initializing = not any(given.values())
        if len(set(map(id, self._roster.candidates.values()))) == 1:
            give_to_fewest(unassigned, next(iter(self._roster.candidates.values())), given)
        else:
            give_to_fewest_able(unassigned, self._roster, given)
        self._by_count = ByCount(self._owned, names)
        self._set_aside()
        if self._balanced_by_count():
            return given
        self._owner_of = [""] * len(self._roster.numbering)
        for name, mine in given.items():
            for number in mine:
                self._owner_of[number] = name
        self._movements = Movements(self._roster)
        self._witness: tuple[str, str, int] | None = None
        before = _score(map(len, self._owned.values()))
        if new_ones_first:
            self._reassign(self._movable(unassigned))
        moved = self._reassign(self._movable(order))
        if not initializing and moved and _score(map(len, self._owned.values())) >= before:
            return given
        return {name: list(self._owned.get(name, mine)) for name, mine in given.items()}

    def _set_aside(self) -> None:
        """Take out the members that can neither give nor take."""
        at_most = self._at_most()
        for name, mine in self._given.items():
            if len(mine) < at_most[name] or any(self._is_movable(self._topic_of[number]) for number in mine):
                continue
            self._by_count.remove(name)
            del self._owned[name]

    def _at_most(self) -> dict[str, int]:
        partitions_for: dict[frozenset[str], int] = {}
        for topic, names in self._candidates.items():
            partitions_for[names] = partitions_for.get(names, 0) + self._roster.numbering.counts[topic]
        at_most = dict.fromkeys(self._owned, 0)
        for names, count in partitions_for.items():
            for name in names:
                at_most[name] += count
        return at_most

    def _is_movable(self, topic: str) -> bool:
        return len(self._candidates[topic]) >= 2

    def _movable(self, order: Sequence[int]) -> Sequence[int]:
        if all(map(self._is_movable, self._candidates)):
            return order
        return [number for number in order if self._is_movable(self._topic_of[number])]

    def _reassign(self, order: Sequence[int]) -> bool:
        """Over and over until nothing moves. True if anything did."""
        performed = False
        modified = True
        while modified:
            modified = False
            for number in order:
                if self._balanced():
                    break
                mine = len(self._owned[self._owner_of[number]])
                target = self._emptiest(self._topic_of[number])
                if mine > len(self._owned[target]) + 1:
                    self._move(number, target)
                    performed = modified = True
        return performed

    def _emptiest(self, topic: str) -> str:
        candidates = self._candidates[topic]
        return next(name for name in self._by_count if name in candidates)

    def _move(self, wanted: int, target: str) -> None:
        number = self._movements.instead_of(wanted, self._owner_of[wanted], target)
        source = self._owner_of[number]
        self._by_count.remove(source)
        if target != source:
            self._by_count.remove(target)
        self._movements.note(number, source, target)
        del self._loose(source)[number]
        self._loose(target)[number] = None
        self._owner_of[number] = target
        self._by_count.add(target)
        if target != source:
            self._by_count.add(source)

    def _loose(self, name: str) -> Loose:
        """Of a member that moves are made with, apart from the list, which is what it had before."""
        mine = self._owned[name]
        if not isinstance(mine, dict):
            mine = self._owned[name] = dict.fromkeys(mine)
        return mine

    def _balanced_by_count(self) -> bool:
        return self._by_count.spread() <= 1

    def _balanced(self) -> bool:
        """Nobody could take a partition from one that has more than it."""
        if self._balanced_by_count():
            return True
        if self._witness and self._proves(*self._witness):  # asked before each partition: mostly the same answer
            return False
        self._witness = self._find_witness()
        return self._witness is None

    def _find_witness(self) -> tuple[str, str, int] | None:
        for topic, candidates in self._candidates.items():
            living = [name for name in candidates if name in self._owned]
            if len(living) < 2:
                continue
            least = min(living, key=lambda name: len(self._owned[name]))
            count = len(self._owned[least])
            for owner in living:
                mine = self._owned[owner]
                if len(mine) > count:
                    # From the back: moves take from the front, and a dict's front is slow once much was taken out.
                    from_the_back = reversed(mine)  # type: ignore[call-overload]
                    number = next((one for one in from_the_back if self._topic_of[one] == topic), None)
                    if number is not None:
                        return least, owner, number
        return None

    def _proves(self, poor: str, rich: str, number: int) -> bool:
        return self._owner_of[number] == rich and len(self._owned[poor]) < len(self._owned[rich])


def _score(counts: Iterable[int]) -> int:
    """The sum of the differences of all pairs' counts: 0 is perfect."""
    in_order = sorted(counts)
    return sum(count * (2 * place - len(in_order) + 1) for place, count in enumerate(in_order))
