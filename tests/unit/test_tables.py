"""Tables cut to a width."""

from __future__ import annotations

from zkconsumer.groups.tables import fitted

TABLE = [
    ["TOPIC", "OFFSET", "CONSUMER-ID"],
    ["orders", "123456789012345", "group1_host-1794980733842-570fa452"],
    ["refunds", "-", "-"],
]


def test_a_table_that_fits_is_not_touched() -> None:
    assert fitted(TABLE, 80) == [
        "TOPIC   OFFSET          CONSUMER-ID",
        "orders  123456789012345 group1_host-1794980733842-570fa452",
        "refunds -               -",
    ]


def test_texts_are_cut_in_the_middle_and_the_longest_first() -> None:
    assert fitted(TABLE, 40) == [
        "TOPIC   OFFSET          CONSUMER-ID",
        "orders  123456789012345 group1_h…70fa452",
        "refunds -               -",
    ]


def test_numbers_are_never_cut() -> None:
    lines = fitted(TABLE, 10)

    assert lines[1].split() == ["orders", "123456789012345", "gro…52"]
    assert fitted([["LONG-TITLE"], ["7"]], 4) == ["LO…E", "7"]
