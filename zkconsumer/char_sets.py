"""Sets of characters, and those that Java's regular expressions have names for (0.8: java.util.regex has them inside).

Pure. A set is a row of ranges over all of Unicode, so that Java's unions and intersections of classes can be computed
and the result written as one class that Python reads the same way.
"""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, groupby

_LAST = sys.maxunicode


@dataclass(frozen=True, slots=True)
class CharSet:
    """Ranges of code points, in order, neither overlapping nor touching."""

    ranges: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, chars: str) -> CharSet:
        """These characters."""
        return cls.from_ranges((ord(char), ord(char)) for char in chars)

    @classmethod
    def range(cls, start: str, end: str) -> CharSet:
        """From one character to another, both included."""
        return cls(((ord(start), ord(end)),))

    @classmethod
    def from_ranges(cls, ranges: Iterable[tuple[int, int]]) -> CharSet:
        """In any order, overlapping or not."""
        merged: list[tuple[int, int]] = []
        for start, end in sorted(ranges):
            if merged and start <= merged[-1][1] + 1:
                merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
            else:
                merged.append((start, end))
        return cls(tuple(merged))

    def union(self, other: CharSet) -> CharSet:
        """What is in either."""
        return CharSet.from_ranges((*self.ranges, *other.ranges))

    def complement(self) -> CharSet:
        """Everything else."""
        gaps, start = [], 0
        for first, last in self.ranges:
            if start < first:
                gaps.append((start, first - 1))
            start = last + 1
        return CharSet((*gaps, (start, _LAST)) if start <= _LAST else tuple(gaps))

    def intersection(self, other: CharSet) -> CharSet:
        """What is in both."""
        return self.complement().union(other.complement()).complement()

    def ignoring_ascii_case(self) -> CharSet:
        """With the other case of its ASCII letters."""
        shifted = []
        for first, last in self.ranges:
            shifted += [
                (max(first, start) + shift, min(last, end) + shift)
                for start, end, shift in ((0x41, 0x5A, 0x20), (0x61, 0x7A, -0x20))
                if max(first, start) <= min(last, end)
            ]
        return CharSet.from_ranges((*self.ranges, *shifted))

    def to_regex(self) -> str:
        """A class that Python reads without looking at any flag."""
        if not self.ranges:
            return "(?!)"
        return "[" + "".join(_range_text(first, last) for first, last in self.ranges) + "]"


def property_named(name: str) -> CharSet | None:
    """What \\p{name} stands for: Java's POSIX names and Unicode's general categories; None for all others."""
    if name in POSIX:
        return POSIX[name]
    for prefix in ("general_category=", "gc=", "Is"):
        name = name.removeprefix(prefix)
    if name in _CATEGORIES:
        return _of_categories(_CATEGORIES[name])
    return None


def _range_text(first: int, last: int) -> str:
    return f"\\U{first:08x}" if first == last else f"\\U{first:08x}-\\U{last:08x}"


def _of_categories(prefixes: tuple[str, ...]) -> CharSet:
    found = (ranges for category, ranges in _ranges_by_category().items() if category.startswith(prefixes))
    return CharSet.from_ranges(chain.from_iterable(found))


@lru_cache(maxsize=1)
def _ranges_by_category() -> dict[str, list[tuple[int, int]]]:
    """All of Unicode, once, and only for those who ask for a category: it takes a good part of a second."""
    result: dict[str, list[tuple[int, int]]] = {}
    start = 0
    for category, run in groupby(map(unicodedata.category, map(chr, range(_LAST + 1)))):
        length = sum(1 for _ in run)
        result.setdefault(category, []).append((start, start + length - 1))
        start += length
    return result


_UPPER, _LOWER, _DIGIT = CharSet.range("A", "Z"), CharSet.range("a", "z"), CharSet.range("0", "9")
_ALPHA = _UPPER.union(_LOWER)
_ALNUM = _ALPHA.union(_DIGIT)
_WORD = _ALNUM.union(CharSet.of("_"))
_SPACE = CharSet.of(" \t\n\x0b\f\r")
_PUNCT = CharSet.of("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")
_GRAPH = _ALNUM.union(_PUNCT)
_HORIZONTAL = CharSet.of(" \t\xa0\u1680\u180e\u202f\u205f\u3000").union(CharSet.range("\u2000", "\u200a"))
_VERTICAL = CharSet.of("\n\x0b\f\r\x85\u2028\u2029")

EVERYTHING = CharSet(((0, _LAST),))
LINE_ENDS = CharSet.of("\n\r\x85\u2028\u2029")

# By the letter behind the backslash. Java's \d, \s and \w are ASCII only.
PREDEFINED = {
    "d": _DIGIT,
    "D": _DIGIT.complement(),
    "s": _SPACE,
    "S": _SPACE.complement(),
    "w": _WORD,
    "W": _WORD.complement(),
    "h": _HORIZONTAL,
    "H": _HORIZONTAL.complement(),
    "v": _VERTICAL,
    "V": _VERTICAL.complement(),
}

POSIX = {
    "Lower": _LOWER,
    "Upper": _UPPER,
    "ASCII": CharSet.range("\0", "\x7f"),
    "Alpha": _ALPHA,
    "Digit": _DIGIT,
    "Alnum": _ALNUM,
    "Punct": _PUNCT,
    "Graph": _GRAPH,
    "Print": _GRAPH.union(CharSet.of(" ")),
    "Blank": CharSet.of(" \t"),
    "Cntrl": CharSet.range("\0", "\x1f").union(CharSet.of("\x7f")),
    "XDigit": _DIGIT.union(CharSet.range("a", "f")).union(CharSet.range("A", "F")),
    "Space": _SPACE,
}

_SECOND_LETTERS = {"L": "ultmo", "M": "nce", "N": "dlo", "P": "cdseifo", "S": "mcko", "Z": "slp", "C": "cfson"}
_CATEGORIES: dict[str, tuple[str, ...]] = {
    **{first: (first,) for first in _SECOND_LETTERS},
    **{first + second: (first + second,) for first, seconds in _SECOND_LETTERS.items() for second in seconds},
    "LC": ("Lu", "Ll", "Lt"),
    "LD": ("L", "Nd"),
}
