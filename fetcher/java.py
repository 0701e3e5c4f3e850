"""Text as the Java machine hashes and orders it: all members of a group must come to the same numbers.

A Java text is a row of 16-bit units: a character beyond the first 65,536 counts as two.
"""

from __future__ import annotations

import sys

_NATIVE_UTF_16 = "utf-16-le" if sys.byteorder == "little" else "utf-16-be"


def java_hash(text: str) -> int:
    """String.hashCode: 31·h + unit over all units, a signed 32-bit number."""
    value = 0
    for unit in memoryview(text.encode(_NATIVE_UTF_16, "surrogatepass")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    return to_int32(value)


def java_abs(number: int) -> int:
    """The distance from zero, but 0 for -2³¹, whose opposite no int holds (0.8: Utils.abs)."""
    return 0 if number == -(1 << 31) else abs(number)


def to_int32(number: int) -> int:
    """What is left of a number in a Java int after overflow."""
    return (number + (1 << 31)) % (1 << 32) - (1 << 31)


def text_order_key(text: str) -> bytes:
    """A key that sorts as String.compareTo does: by 16-bit units, not by characters."""
    return text.encode("utf-16-be", "surrogatepass")
