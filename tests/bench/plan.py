"""`zkconsumer plan` for a large group: seconds a strategy, for who gets what, one more member, and one less.

Each strategy is measured in turn, round by round.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Mapping

from study.plan import STRATEGIES, Group, plan
from tests.bench.promises import AtMost, Promise
from tests.bench.report import Report

BENCH = "plan"
LARGE = "1,000 members, 100 topics with 1,000 partitions each"
SIZES = {
    LARGE: (1_000, 100, 1_000),
    "2 members, one topic with 100,000 partitions": (2, 1, 100_000),  # the most moves a newcomer can cause
}
QUICK = {"100 members, 10 topics with 100 partitions each": (100, 10, 100)}
ROUNDS = 3
SUBJECTS = [name for name in STRATEGIES if name != "broadcast"]  # which lists everything for everybody: refused
ALL = "all of them"
INSTANT_S = 1.0


def cases(*, quick: bool) -> Mapping[str, float]:
    return dict.fromkeys(QUICK, 1.0) if quick else dict.fromkeys(SIZES, 28.0)


def promises() -> Iterator[Promise]:
    """Of each strategy; a table of all of them shows its progress."""
    for name in SUBJECTS:
        yield AtMost(BENCH, LARGE, name, INSTANT_S, "s")


def run(report: Report) -> None:
    for case, (members, topics, partitions) in (QUICK if report.quick else SIZES).items():
        if not report.takes(case):
            continue
        subscription = {f"topic-{number}": 1 for number in range(topics)}
        group = Group(dict.fromkeys(subscription, partitions), {f"c{n}": subscription for n in range(members)})
        with report.case(case, rounds=ROUNDS) as found:
            for _ in found.rounds():
                for name in SUBJECTS:
                    found.sample(name, "s", _seconds, group, name, members, more_is_better=False)
                found.total(ALL, "s")


def _seconds(group: Group, strategy: str, members: int) -> float:
    group = Group(group.topics, group.members)  # which remembers nothing of the strategy before
    gc.disable()  # as the command does
    try:
        start = time.perf_counter()
        plan(group, strategy, join=("newcomer", group.members["c0"]), leave=f"c{members - 1}")
        return time.perf_counter() - start
    finally:
        gc.enable()
