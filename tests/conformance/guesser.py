"""Tries to say which members are ours, by what it learned from others whose sides it was told.

Two ways, since one may see what the other does not. `Weigher` adds up what each clue says for or against (naive Bayes,
also what is missing counts); `SingleClue` believes the one clue that tells most. Measures are turned into clues by the
threshold that parts best what is known.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple, Protocol


class Member(NamedTuple):
    """Somebody to judge. Names of groups only keep what belongs together together."""

    group: str
    is_ours: bool
    clues: frozenset[str]
    measures: Mapping[str, float]


class Guesser(Protocol):
    def learn(self, known: Sequence[Member]) -> None: ...

    def is_ours(self, clues: frozenset[str]) -> bool: ...


class Weigher:
    """Every clue that some of the known have and some have not, by the logarithm of its odds."""

    def learn(self, known: Sequence[Member]) -> None:
        ours = [member.clues for member in known if member.is_ours]
        theirs = [member.clues for member in known if not member.is_ours]
        self._weights: dict[str, tuple[float, float]] = {}
        for clue in _telling(known):
            share, other = _share(clue, ours), _share(clue, theirs)
            self._weights[clue] = math.log(share / other), math.log((1 - share) / (1 - other))

    def is_ours(self, clues: frozenset[str]) -> bool:
        return sum(there if clue in clues else missing for clue, (there, missing) in self._weights.items()) > 0


class SingleClue:
    """The one that is right about most of the known."""

    def learn(self, known: Sequence[Member]) -> None:
        self.clue, self._means_ours, best = "", True, -1
        for clue in sorted(_telling(known)):
            right = sum((clue in member.clues) == member.is_ours for member in known)
            for means_ours, count in ((True, right), (False, len(known) - right)):
                if count > best:
                    self.clue, self._means_ours, best = clue, means_ours, count

    def is_ours(self, clues: frozenset[str]) -> bool:
        return (self.clue in clues) is self._means_ours


class Verdict(NamedTuple):
    """How often a guesser was right about groups it had not learned from."""

    right: int
    of: int
    best_clues: tuple[str, ...] = ()

    @property
    def chance(self) -> float:
        """How likely somebody who tosses a coin is right as often, or more often."""
        return sum(math.comb(self.of, count) for count in range(self.right, self.of + 1)) / (1 << self.of)

    def __str__(self) -> str:
        return f"{self.right} of {self.of} right (p = {self.chance:.3f})"


def judge(members: Sequence[Member], make: Callable[[], Guesser], *, by_the_clock: bool = False) -> Verdict:
    """Each group is judged by who learned from all the others."""
    right, best = 0, list[str]()
    for group in dict.fromkeys(member.group for member in members):
        known = [member for member in members if member.group != group]
        judged = [member for member in members if member.group == group]
        if by_the_clock:
            thresholds = _thresholds(known)
            known, judged = ([_timed(one, thresholds) for one in some] for some in (known, judged))
        guesser = make()
        guesser.learn(known)
        right += sum(guesser.is_ours(member.clues) == member.is_ours for member in judged)
        best += [guesser.clue] if isinstance(guesser, SingleClue) else []
    return Verdict(right, len(members), tuple(dict.fromkeys(best)))


def telltales(members: Sequence[Member], least: float = 0.8) -> list[tuple[float, str]]:
    """Clues that alone are right about this share of all, the best first: what to look into."""
    found = []
    for clue in _telling(members):
        right = sum((clue in member.clues) == member.is_ours for member in members) / len(members)
        found.append((max(right, 1 - right), clue))
    return sorted((one for one in found if one[0] >= least), reverse=True)


def _telling(known: Sequence[Member]) -> set[str]:
    clues = [member.clues for member in known]
    return set().union(*clues) - frozenset.intersection(*clues)


def _share(clue: str, members: Sequence[frozenset[str]]) -> float:
    return (sum(clue in member for member in members) + 1) / (len(members) + 2)


def _thresholds(known: Sequence[Member]) -> dict[str, float]:
    """For each measure the value that parts ours from theirs best."""
    names = set().union(*(member.measures for member in known))
    return {
        name: _threshold([(one.measures[name], one.is_ours) for one in known if name in one.measures]) for name in names
    }


def _threshold(values: Sequence[tuple[float, bool]]) -> float:
    def parted(limit: float) -> int:
        right = sum((value > limit) == is_ours for value, is_ours in values)
        return max(right, len(values) - right)

    points: list[float] = sorted({value for value, _ in values})
    between = [(low + high) / 2 for low, high in pairwise(points)]
    return max([*between, points[0]], key=parted)


def _timed(member: Member, thresholds: Mapping[str, float]) -> Member:
    """Judged by its measures alone."""
    return member._replace(
        clues=frozenset(name for name, limit in thresholds.items() if member.measures.get(name, limit) > limit)
    )
