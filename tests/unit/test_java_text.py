"""Numbers and orders that a Java machine gave for the same texts."""

from __future__ import annotations

import pytest

from fetcher.java import java_abs, java_hash, text_order_key, to_int32

HASHES = {
    "": 0,
    "abc": 96354,
    "t1": 3645,
    "topic1": -868034334,
    "my-topic": -1894580786,
    "[a,0]": 86974003,
    "polygenelubricants": -2147483648,
    "\U0001f600é": 54960102,
    "Ａ": 65313,
}


@pytest.mark.parametrize("text", HASHES, ids=ascii)
def test_text_hashes_as_in_java(text: str) -> None:
    """G12: with overflow, and two units for a character beyond the first 65,536."""
    assert java_hash(text) == HASHES[text]


@pytest.mark.parametrize(
    ("number", "distance"), [(0, 0), (5, 5), (-5, 5), (2147483647, 2147483647), (-2147483647, 2147483647)]
)
def test_abs_is_the_distance_from_zero(number: int, distance: int) -> None:
    assert java_abs(number) == distance


def test_abs_of_the_smallest_int_is_zero() -> None:
    """G12: as in 0.8.2.2's Utils.abs."""
    assert java_abs(-2147483648) == 0


@pytest.mark.parametrize(
    ("topic", "number_of_fetchers", "ids"),
    [
        ("t1", 2, [1, 0, 1, 0, 1]),
        ("t1", 3, [0, 1, 2, 0, 1]),
        ("t1", 4, [3, 0, 1, 2, 3]),
        ("topic1", 2, [0, 1, 0, 1, 0]),
        ("topic1", 3, [0, 2, 1, 0, 2]),
        ("topic1", 4, [2, 1, 0, 3, 2]),
        ("my-topic", 2, [0, 1, 0, 1, 0]),
        ("my-topic", 3, [0, 1, 2, 0, 1]),
        ("my-topic", 4, [2, 3, 0, 1, 2]),
        ("polygenelubricants", 2, [0, 1, 0, 1, 0]),
        ("polygenelubricants", 3, [0, 1, 0, 2, 1]),
        ("polygenelubricants", 4, [0, 3, 2, 1, 0]),
    ],
)
def test_these_make_the_fetcher_ids_of_0_8(topic: str, number_of_fetchers: int, ids: list[int]) -> None:
    """H1: the arithmetic is 32 bits wide and overflows."""
    numbers = [java_abs(to_int32(31 * java_hash(topic) + partition)) for partition in range(5)]

    assert [number % number_of_fetchers for number in numbers] == ids


def test_text_sorts_by_16_bit_units() -> None:
    as_java_sorts = ["B", "a", "a\0", "ab", "z", "\ud83d", "\U0001f600", "Ａ"]
    mixed = as_java_sorts[3:] + as_java_sorts[:3]

    assert sorted(mixed, key=text_order_key) == as_java_sorts
