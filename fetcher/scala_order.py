"""The order in which Scala's hash maps and sets give what was put into them (2.10 to 2.12, with which Kafka was built).

Nobody should depend on it, and 0.8 does: round robin deals partitions of equal hash in the order of a map of topics, so
members agree only if they go through it alike; and the error text of its precondition names the map's first topic. What
a consumer asks for has such an order, too, by which it can be known (see request_order.py).

Pure. Keys are strings, hashed as Java does, unless a hash is given; a map keeps the place of a key that is put again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TypeVar

from fetcher.java import java_hash

T = TypeVar("T")

_UNSIGNED = 0xFFFFFFFF
_FIRST_TABLE_SIZE = 16
_FIRST_SET_SIZE = 32
_LARGEST_UNHASHED = 4  # Map1 to Map4, Set1 to Set4 keep the order of arrival
_MULTIPLIER = 0x9E3775CD
_SEED = 4  # bits of an index into the first table; kept when the table grows


def _hash(key: object) -> int:
    return java_hash(str(key))


def mutable_map_order(keys: Iterable[T], hash_of: Callable[[T], int] = _hash) -> list[T]:
    """Of a scala.collection.mutable.HashMap: chains in a table that doubles when it is three quarters full."""
    unique = list(dict.fromkeys(keys))
    improved = {key: _improved(hash_of(key)) for key in unique}
    size = _FIRST_TABLE_SIZE
    table: list[list[T]] = [[] for _ in range(size)]  # the last of a list is the first of its chain
    for number, key in enumerate(unique, start=1):
        table[_index(improved[key], size)].append(key)
        if number > size * 3 // 4:
            table = _grown(table, improved)
            size *= 2
    return [key for chain in reversed(table) for key in reversed(chain)]


def immutable_map_order(keys: Iterable[T], hash_of: Callable[[T], int] = _hash) -> list[T]:
    """Of a scala.collection.immutable.Map made of these, one after the other."""
    unique = list(dict.fromkeys(keys))
    return unique if len(unique) <= _LARGEST_UNHASHED else sorted(unique, key=lambda key: _trie_path(hash_of(key)))


def mutable_set_order(items: Iterable[str]) -> list[str]:
    """Of a scala.collection.mutable.HashSet: a table where what finds its place taken goes to the next that is free."""
    kept: list[str] = []
    size = _FIRST_SET_SIZE
    for number, item in enumerate(dict.fromkeys(items), start=1):
        kept.append(item)
        if number >= size * 45 // 100:
            kept = _placed(kept, size)  # as the larger table is filled
            size *= 2
    return _placed(kept, size)


def concurrent_map_order(keys: Iterable[T], hash_of: Callable[[T], int] = _hash) -> list[T]:
    """Of a java.util.concurrent.ConcurrentHashMap (Kafka's Pool), but for what shares a place after it has grown."""
    unique = list(dict.fromkeys(keys))
    size = _FIRST_TABLE_SIZE
    while len(unique) >= size * 3 // 4:
        size *= 2

    def place(key: T) -> int:
        value = hash_of(key) & _UNSIGNED
        return (value ^ value >> 16) & size - 1

    return sorted(unique, key=place)


def immutable_set_order(items: Iterable[T], hash_of: Callable[[T], int]) -> list[T]:
    """Of a scala.collection.immutable.Set made of these (to 2.11: of equal hashes the last comes first)."""
    unique = list(dict.fromkeys(items))
    if len(unique) <= _LARGEST_UNHASHED:
        return unique
    last_first = unique[::-1]
    return sorted(last_first, key=lambda item: _trie_path(hash_of(item)))


def case_class_hash(fields: Sequence[int]) -> int:
    """Of an object of a case class, by the hashes of its fields (MurmurHash3)."""
    value = 0xCAFEBABE
    for field in fields:
        value = _rotated_left(value ^ _scrambled(field & _UNSIGNED), 13) * 5 + 0xE6546B64 & _UNSIGNED
    value ^= len(fields)
    value = (value ^ value >> 16) * 0x85EBCA6B & _UNSIGNED
    value = (value ^ value >> 13) * 0xC2B2AE35 & _UNSIGNED
    return value ^ value >> 16


def _placed(items: Iterable[str], size: int) -> list[str]:
    bits = size.bit_length() - 1
    table: list[str | None] = [None] * size
    for item in items:
        place = _improved(java_hash(item), bits) >> (32 - bits)
        while table[place] is not None:
            place = (place + 1) % size
        table[place] = item
    return [item for item in table if item is not None]


def _grown(table: Sequence[list[T]], improved: dict[T, int]) -> list[list[T]]:
    """Twice as large. Each chain is taken from its head, so those that stay together change places."""
    size = 2 * len(table)
    grown: list[list[T]] = [[] for _ in range(size)]
    for chain in reversed(table):
        for key in reversed(chain):
            grown[_index(improved[key], size)].append(key)
    return grown


def _index(improved: int, size: int) -> int:
    return improved >> (32 - (size.bit_length() - 1))


def _improved(hash_code: int, seed: int = _SEED) -> int:
    swapped = int.from_bytes((hash_code * _MULTIPLIER & _UNSIGNED).to_bytes(4, "little"), "big")
    return _rotated_left(swapped * _MULTIPLIER & _UNSIGNED, 32 - seed)


def _trie_path(hash_code: int) -> list[int]:
    """Where it is in a tree of 32 branches a level, which is walked from left to right."""
    value = hash_code + ~(hash_code << 9) & _UNSIGNED
    value ^= value >> 14
    value = value + (value << 4) & _UNSIGNED
    value ^= value >> 10
    return [value >> level & 31 for level in range(0, 35, 5)]


def _scrambled(value: int) -> int:
    return _rotated_left(value * 0xCC9E2D51 & _UNSIGNED, 15) * 0x1B873593 & _UNSIGNED


def _rotated_left(value: int, bits: int) -> int:
    return (value << bits | value >> (32 - bits)) & _UNSIGNED
