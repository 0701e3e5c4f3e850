"""A plan as a picture (SVG, to be opened in a browser).

Of a small group a row for each member; of a large one how evenly partitions are spread, and how much moves.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from xml.sax.saxutils import escape

from study.assignors.numbering import Numbering
from study.plan import Change, Group, Outcome
from study.plan_output import MOST_ROWS, most_moved, shortened, spread

_COLOURS = ("#4477aa", "#ee6677", "#228833", "#ccbb44", "#66ccee", "#aa3377", "#777777")
_STAYS, _NEEDED, _NEEDLESS = "#dddddd", "#4477aa", "#ee6677"
_CELL, _ROW, _LEFT, _WIDTH = 12, 18, 190, 960
_STEPS, _STEP, _HEIGHT = 20, 16, 56
_MOVES_LEFT, _MOVES_WIDTH = 430, 300


def as_svg(group: Group, outcomes: Sequence[Outcome]) -> str:
    """A self-contained picture. Everything colours say stands there as text too."""
    large = len(group.members) > MOST_ROWS
    colour_of = {topic: _COLOURS[place % len(_COLOURS)] for place, topic in enumerate(sorted(group.topics))}
    parts = _legend_of_moves() if large else _legend_of_topics(colour_of)
    y = 50
    for outcome in outcomes:
        y += 26
        parts.append(f'<text x="10" y="{y}" font-weight="bold">{escape(_headline(outcome, large=large))}</text>')
        if outcome.problem:
            continue
        if large:
            parts += _summary(outcome, y + 10)
            y += _HEIGHT + 34
            continue
        most = max(outcome.counts().values(), default=0) or 1
        for name, mine in islice(outcome.held.items(), MOST_ROWS):
            y += _ROW
            parts.append(_label(10, y, name, 26) + _row(mine, most, y, outcome.numbering, colour_of))
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {_WIDTH} {y + 20}" width="{_WIDTH}"'
        ' font-family="sans-serif" font-size="12">\n<title>Who gets which partitions under each strategy</title>\n'
        f'<rect width="{_WIDTH}" height="{y + 20}" fill="white"/>\n'
    )
    return head + "\n".join(parts) + "\n</svg>\n"


def _legend_of_topics(colour_of: dict[str, str]) -> list[str]:
    return [_key(10 + place * 130, colour, topic) for place, (topic, colour) in enumerate(islice(colour_of.items(), 7))]


def _legend_of_moves() -> list[str]:
    return [
        _label(10, 30, "members by their number of partitions", 60),
        _key(_MOVES_LEFT, _NEEDED, "moves, its owner left"),
        _key(_MOVES_LEFT + 150, _NEEDLESS, "moves, its owner is still there"),
        _key(_MOVES_LEFT + 350, _STAYS, "stays"),
    ]


def _key(x: int, colour: str, text: str) -> str:
    return f'<rect x="{x}" y="20" width="10" height="10" fill="{colour}"/>{_label(x + 14, 30, text, 32)}'


def _headline(outcome: Outcome, *, large: bool) -> str:
    if outcome.problem:
        return f"{outcome.strategy}: {outcome.problem[:110]}"
    moves = [
        f"{change.moved} move when one {what}"
        for what, change in (("joins", outcome.joined), ("leaves", outcome.left))
        if change
    ]
    return outcome.strategy if large or not moves else f"{outcome.strategy}: {', '.join(moves)}"


def _summary(outcome: Outcome, y: int) -> list[str]:
    """On the left how many members have how many partitions, on the right what moves."""
    counts = outcome.counts().values()
    steps = spread(counts, _STEPS)
    highest = max(members for _, _, members in steps)
    parts = []
    for place, (first, last, members) in enumerate(steps):
        height = max(_HEIGHT * members / highest, 1 if members else 0)  # what is there is seen
        numbers = str(first) if first == last else f"{first} to {last}"
        parts.append(
            f'<rect x="{10 + place * _STEP}" y="{y + _HEIGHT - height:.1f}" width="{_STEP - 2}" height="{height:.1f}"'
            f' fill="{_COLOURS[0]}"><title>{numbers} partitions: {members} members</title></rect>'
        )
    idle = sum(not count for count in counts)
    fewest, most = min(counts), max(counts)
    words = f"{fewest} partitions each" if fewest == most else f"{fewest} to {most} partitions each"
    parts.append(_label(10, y + _HEIGHT + 14, words + (f", {idle} idle" if idle else ""), 66))
    for place, (what, change) in enumerate((("joins", outcome.joined), ("leaves", outcome.left))):
        if change:
            parts += _moves(f"one {what}", change, sum(counts), y + 2 + place * 36)
    return parts


def _moves(what: str, change: Change, partitions: int, y: int) -> list[str]:
    """A bar as long as all partitions: moved with need, without, not at all."""
    x = float(_MOVES_LEFT + 68)
    parts = [_label(_MOVES_LEFT, y + 10, what, 20)]
    needed = change.moved - change.needless
    for colour, count in ((_NEEDED, needed), (_NEEDLESS, change.needless), (_STAYS, partitions - change.moved)):
        width = max(_MOVES_WIDTH * count / (partitions or 1), 2 if count else 0)
        parts.append(f'<rect x="{x:.1f}" y="{y}" width="{width:.1f}" height="12" fill="{colour}"/>')
        x += width
    parts.append(f'<text x="{x + 6:.1f}" y="{y + 10}">{change.moved:,} of {partitions:,}</text>')
    parts.append(_label(_MOVES_LEFT + 68, y + 25, most_moved(change), 76))
    return parts


def _row(numbers: Sequence[int], most: int, y: int, numbering: Numbering, colour_of: dict[str, str]) -> str:
    room = _WIDTH - _LEFT - 60
    if most * _CELL > room:
        width = room * len(numbers) / most
        return (
            f'<rect x="{_LEFT}" y="{y - 10}" width="{width:.1f}" height="12" fill="{_COLOURS[0]}"/>'
            f'<text x="{_LEFT + width + 4:.1f}" y="{y}">{len(numbers)}</text>'
        )
    return "".join(
        f'<rect x="{_LEFT + place * _CELL}" y="{y - 10}" width="{_CELL - 2}" height="{_CELL}"'
        f' fill="{colour_of[topic]}">'
        f"<title>{escape(topic)} {number}</title></rect>"
        for place, (topic, number) in enumerate(numbering.partition_of[each] for each in sorted(numbers))
    )


def _label(x: int, y: int, text: str, most: int) -> str:
    return f'<text x="{x}" y="{y}">{escape(shortened(text, most))}</text>'
