"""A plan as tables for a terminal, and as JSON. plan_picture draws it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from heapq import nsmallest
from itertools import islice
from statistics import median_low
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from study.assignors.numbering import Numbering
from study.plan import Change, Group, Outcome

MOST_ROWS = 20
_TERMINAL_STEPS = 12
_MOST_NAMED = 2
_BARS = " ▁▂▃▄▅▆▇█"


def print_tables(console: Console, group: Group, outcomes: Sequence[Outcome], *, detailed: bool) -> None:
    """A line a strategy; then, if wanted or if it is short, who gets what."""
    console.print(_overview(outcomes))
    partitions = sum(group.topics.values())
    for outcome in outcomes:
        if outcome.problem:
            console.print(Text(f"{outcome.strategy}: {outcome.problem}"))
    answered = [outcome for outcome in outcomes if not outcome.problem]
    if detailed or (partitions <= 60 and len(group.members) <= MOST_ROWS):
        for outcome in answered:
            console.print(_details(outcome))
        return
    for title, lines in (
        ("partitions a member: how many members have as many", _spread),
        ("who gives and who takes most when one joins", lambda outcome: most_moved(outcome.joined)),
        ("who gives and who takes most when one leaves", lambda outcome: most_moved(outcome.left)),
    ):
        console.print(_lines(title, answered, lines))


def spread(counts: Iterable[int], most: int) -> list[tuple[int, int, int]]:
    """How many members have from so many to so many partitions: (first, last, members), of at most `most` steps."""
    members_with = Counter(counts)
    if len(members_with) <= most:
        return [(count, count, members_with[count]) for count in sorted(members_with)]
    fewest = min(members_with)
    step = -(-(max(members_with) - fewest + 1) // most)
    members_in = Counter[int]()
    for count, members in members_with.items():
        members_in[(count - fewest) // step] += members
    return [
        (fewest + place * step, fewest + (place + 1) * step - 1, members_in[place])
        for place in range(max(members_in) + 1)
    ]


def as_json(group: Group, outcomes: Iterable[Outcome]) -> dict[str, Any]:
    return {
        "topics": dict(group.topics),
        "members": {name: dict(threads) for name, threads in group.members.items()},
        "strategies": {
            outcome.strategy: {
                "problem": outcome.problem,
                "assignment": {name: _numbers_by_topic(mine, outcome.numbering) for name, mine in outcome.held.items()},
                "join": _change_json(outcome.joined),
                "leave": _change_json(outcome.left),
            }
            for outcome in outcomes
        },
    }


def ranges(numbers: Iterable[int]) -> str:
    """`0-2,5`."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def most_moved(change: Change | None) -> str:
    """`c0 2, c1 1 and 3 more → c9 6`."""
    if change is None:
        return "-"
    if not change.moved:
        return "nobody"
    return f"{_most(change.gave)} → {_most(change.took)}"


def shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _overview(outcomes: Sequence[Outcome]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1, 0, 0))
    table.add_column("STRATEGY", no_wrap=True)
    for heading in ("FEWEST", "MEDIAN", "MOST", "IDLE", "JOIN", "NEEDLESS", "LEAVE", "NEEDLESS"):
        table.add_column(heading, justify="right")
    for outcome in outcomes:
        counts = outcome.counts().values()
        figures = ["-"] * 4
        if counts:
            figures = [str(each) for each in (min(counts), median_low(counts), max(counts), list(counts).count(0))]
        table.add_row(outcome.strategy, *figures, *_change_cells(outcome.joined), *_change_cells(outcome.left))
    return table


def _lines(title: str, outcomes: Sequence[Outcome], text_of: Callable[[Outcome], str]) -> Table:
    table = Table(title=f"\n{title}", title_justify="left", box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column()
    for outcome in outcomes:
        table.add_row(outcome.strategy, Text(text_of(outcome)))
    return table


def _spread(outcome: Outcome) -> str:
    """`99 ×10, 100 ×990`, or steps with their heights."""
    steps = spread(outcome.counts().values(), _TERMINAL_STEPS)
    if all(first == last for first, last, _ in steps):
        return ", ".join(f"{first} ×{members}" for first, _, members in steps)
    highest = max(members for _, _, members in steps)
    bars = "".join(_BARS[-(-members * (len(_BARS) - 1) // highest)] for _, _, members in steps)
    first, last = steps[0][0], steps[-1][1]
    return f"{first} {bars} {last}, the highest bar {highest} members"


def _most(counts: Mapping[str, int]) -> str:
    """The first few by count, then how many more; or what is the same for many."""
    if len(counts) > _MOST_NAMED and len(set(counts.values())) == 1:
        return f"{len(counts)} members {next(iter(counts.values()))} each"
    first = nsmallest(_MOST_NAMED, counts.items(), key=lambda item: (-item[1], item[0]))
    named = ", ".join(f"{shortened(name, 20)} {count}" for name, count in first)
    return named if len(counts) <= _MOST_NAMED else f"{named} and {len(counts) - _MOST_NAMED} more"


def _details(outcome: Outcome) -> Table:
    table = Table(title=outcome.strategy, title_justify="left", box=None, pad_edge=False, header_style="bold")
    table.add_column("MEMBER")
    table.add_column("#", justify="right")
    table.add_column("PARTITIONS")
    for name, mine in islice(outcome.held.items(), MOST_ROWS):
        by_topic = _numbers_by_topic(mine, outcome.numbering)
        cells = [f"{topic}({ranges(numbers)})" for topic, numbers in by_topic.items()]
        table.add_row(Text(name), str(len(mine)), Text(" ".join(cells)))
    if len(outcome.held) > MOST_ROWS:
        table.add_row(f"… and {len(outcome.held) - MOST_ROWS} more (--json has all)", "", "")
    return table


def _change_cells(change: Change | None) -> list[str]:
    return ["-", "-"] if change is None else [str(change.moved), str(change.needless)]


def _change_json(change: Change | None) -> dict[str, Any] | None:
    return None if change is None else dict(vars(change))


def _numbers_by_topic(numbers: Iterable[int], numbering: Numbering) -> dict[str, list[int]]:
    topic_of, first = numbering.topic_of, numbering.first
    by_topic: dict[str, list[int]] = {}
    for number in sorted(numbers):
        topic = topic_of[number]
        if topic in by_topic:
            by_topic[topic].append(number - first[topic])
        else:
            by_topic[topic] = [number - first[topic]]
    return by_topic
