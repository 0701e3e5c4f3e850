"""Tables that fit the terminal. Pure: the width is given; whoever reads a pipe gets every character."""

from __future__ import annotations

from collections.abc import Sequence

NARROWEST = 6  # of a column with texts


def fitted(table: Sequence[Sequence[str]], width: int, gap: str = " ") -> list[str]:
    """The first row holds titles. Texts too long are cut in the middle, the longest first; numbers never are."""
    columns = list(zip(*table, strict=True))
    widths = [max(map(len, column)) for column in columns]
    least = [
        max((len(cell) for cell in cells), default=0) if _are_numbers(cells) else NARROWEST
        for _, *cells in columns
    ]  # fmt: skip
    while sum(widths) + len(gap) * (len(widths) - 1) > width:
        shrinkable = [number for number, one in enumerate(widths) if one > least[number]]
        if not shrinkable:
            break  # the terminal has to wrap it
        widths[max(shrinkable, key=lambda number: widths[number])] -= 1
    return [
        gap.join(f"{_cut(cell, one):<{one}}" for cell, one in zip(row, widths, strict=True)).rstrip() for row in table
    ]


def _are_numbers(cells: Sequence[str]) -> bool:
    return all(cell.lstrip("-").isdigit() or cell == "-" for cell in cells)


def _cut(text: str, width: int) -> str:
    """Both ends tell more than the beginning alone: ids differ in the last letters."""
    if len(text) <= width:
        return text
    tail = (width - 1) // 2
    return f"{text[: width - 1 - tail]}…{text[len(text) - tail :]}"
