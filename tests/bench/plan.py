"""`zkconsumer plan` for a large group: seconds a strategy, for who gets what, one more member, and one less.

Each strategy is measured in turn, round by round. The peer is the new round robin, the simplest of all.
"""

from __future__ import annotations

import gc
import time

from study.plan import STRATEGIES, Group, plan
from tests.bench.report import Measured, Report

SIZES = {
    "1,000 members, 100 topics with 1,000 partitions each": (1_000, 100, 1_000),
    "2 members, one topic with 100,000 partitions": (2, 1, 100_000),  # the most moves a newcomer can cause
}
QUICK = {"100 members, 10 topics with 100 partitions each": (100, 10, 100)}
ROUNDS = 3
SUBJECTS = [name for name in STRATEGIES if name != "broadcast"]  # which lists everything for everybody: refused


def run(report: Report) -> None:
    for case, (members, topics, partitions) in (QUICK if report.quick else SIZES).items():
        subscription = {f"topic-{number}": 1 for number in range(topics)}
        group = Group(dict.fromkeys(subscription, partitions), {f"c{n}": subscription for n in range(members)})
        samples: dict[str, list[float]] = {name: [] for name in [*SUBJECTS, "all of them"]}
        for _ in range(report.rounds(ROUNDS)):
            whole = 0.0
            for name in SUBJECTS:
                seconds = _seconds(Group(group.topics, group.members), name, members)
                samples[name].append(seconds)
                whole += seconds
            samples["all of them"].append(whole)
        report.add(*(Measured("plan", case, name, "s", found, more_is_better=False) for name, found in samples.items()))
        report.show_case("plan", case, "roundrobin")


def _seconds(group: Group, strategy: str, members: int) -> float:
    gc.disable()  # as the command does
    try:
        start = time.perf_counter()
        plan(group, strategy, join=("newcomer", group.members["c0"]), leave=f"c{members - 1}")
        return time.perf_counter() - start
    finally:
        gc.enable()
