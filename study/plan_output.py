"""A plan as tables for a terminal, as JSON, and as a picture (SVG, to be opened in a browser)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from xml.sax.saxutils import escape

from rich.console import Console
from rich.table import Table
from rich.text import Text

from fetcher.structs import TopicAndPartition
from study.plan import Change, Group, Outcome

MOST_ROWS = 20
_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
_CELL, _ROW, _LEFT, _WIDTH = 12, 18, 190, 960


def print_tables(console: Console, group: Group, outcomes: Sequence[Outcome], *, detailed: bool) -> None:
    """A line a strategy; then, if wanted or if it is short, who gets what."""
    console.print(_overview(outcomes))
    partitions = sum(group.topics.values())
    for outcome in outcomes:
        if outcome.problem:
            console.print(Text(f"{outcome.strategy}: {outcome.problem}"))
        elif detailed or (partitions <= 60 and len(group.members) <= MOST_ROWS):
            console.print(_details(outcome))


def as_json(group: Group, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    return {
        "topics": dict(group.topics),
        "members": {name: dict(threads) for name, threads in group.members.items()},
        "strategies": {
            outcome.strategy: {
                "problem": outcome.problem,
                "assignment": {name: _numbers_by_topic(mine) for name, mine in outcome.assignment.items()},
                "join": _change_json(outcome.joined),
                "leave": _change_json(outcome.left),
            }
            for outcome in outcomes
        },
    }


def as_svg(group: Group, outcomes: Sequence[Outcome]) -> str:
    """Per strategy a row for each member: a square for each partition in its topic's colour, or a bar."""
    colour_of = {topic: _COLOURS[place % len(_COLOURS)] for place, topic in enumerate(sorted(group.topics))}
    parts: list[str] = []
    y = 30
    for place, (topic, colour) in enumerate(list(colour_of.items())[:7]):
        x = 10 + place * 130
        parts.append(
            f'<rect x="{x}" y="{y - 10}" width="10" height="10" fill="{colour}"/>{_label(x + 14, y, topic, 16)}'
        )
    y += 20
    for outcome in outcomes:
        y += 26
        parts.append(f'<text x="10" y="{y}" font-weight="bold">{escape(_headline(outcome))}</text>')
        most = max(outcome.counts().values(), default=0) or 1
        for name, mine in list(outcome.assignment.items())[:MOST_ROWS]:
            y += _ROW
            parts.append(_label(10, y, name, 26) + _row(mine, most, y, colour_of))
        if len(outcome.assignment) > MOST_ROWS:
            y += _ROW
            parts.append(_label(10, y, f"… and {len(outcome.assignment) - MOST_ROWS} more", 40))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {y + 20}" width="{_WIDTH}"'
        ' font-family="sans-serif" font-size="12">\n<title>Who gets which partitions under each strategy</title>\n'
        f'<rect width="{_WIDTH}" height="{y + 20}" fill="white"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def ranges(numbers: Iterable[int]) -> str:
    """`0-2,5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def _overview(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("STRATEGY", no_wrap=True)
    for heading in ("FEWEST", "MOST", "IDLE", "JOIN", "NEEDLESS", "LEAVE", "NEEDLESS"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        counts = list(outcome.counts().values())
        spread = ["-"] * 3 if not counts else [str(min(counts)), str(max(counts)), str(counts.count(0))]
        table.add_row(outcome.strategy, *spread, *_change_cells(outcome.joined), *_change_cells(outcome.left))
    return table


def _details(outcome: Outcome) -> Table:
    table = Table(title=outcome.strategy, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("MEMBER")
    table.add_column("#", justify="right")
    table.add_column("PARTITIONS")
    for name, mine in list(outcome.assignment.items())[:MOST_ROWS]:
        cells = [f"{topic}({ranges(numbers)})" for topic, numbers in _numbers_by_topic(mine).items()]
        table.add_row(Text(name), str(len(mine)), Text(" ".join(cells)))
    if len(outcome.assignment) > MOST_ROWS:
        table.add_row(f"… and {len(outcome.assignment) - MOST_ROWS} more (--json has all)", "", "")
    return table


def _change_cells(change: Change | None) -> list[str]:
    return ["-", "-"] if change is None else [str(change.moved), str(change.needless)]


def _change_json(change: Change | None) -> dict[str, int] | None:
    return None if change is None else {"moved": change.moved, "needless": change.needless, "rounds": change.rounds}


def _numbers_by_topic(partitions: Iterable[TopicAndPartition]) -> dict[str, list[int]]:
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return by_topic


def _headline(outcome: Outcome) -> str:
    if outcome.problem:
        return f"{outcome.strategy}: {outcome.problem[:110]}"
    moves = [
        f"{change.moved} move when one {what}"
        for what, change in (("joins", outcome.joined), ("leaves", outcome.left))
        if change
    ]
    return ": ".join([outcome.strategy, ", ".join(moves)]) if moves else outcome.strategy


def _row(mine: Sequence[TopicAndPartition], most: int, y: int, colour_of: dict[str, str]) -> str:
    room = _WIDTH - _LEFT - 60
    if most * _CELL > room:
        width = room * len(mine) / most
        return (
            f'<rect x="{_LEFT}" y="{y - 10}" width="{width:.1f}" height="12" fill="{_COLOURS[0]}"/>'
            f'<text x="{_LEFT + width + 4:.1f}" y="{y}">{len(mine)}</text>'
        )
    return "".join(
        f'<rect x="{_LEFT + place * _CELL}" y="{y - 10}" width="{_CELL - 2}" height="{_CELL}"'
        f' fill="{colour_of[topic]}">'
        f"<title>{escape(topic)} {number}</title></rect>"
        for place, (topic, number) in enumerate(sorted(mine))
    )


def _label(x: int, y: int, text: str, most: int) -> str:
    shown = text if len(text) <= most else f"{text[: most - 1]}…"
    return f'<text x="{x}" y="{y}">{escape(shown)}</text>'
