"""Whether a scenario's steps can be played: nobody leaves who is not there, no broker dies twice. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from study.scenarios import Step


class Timeline:
    """What stands at a point of the timeline; next() goes over one step."""

    def __init__(self, members: Iterable[str], topics: Mapping[str, int], brokers: int) -> None:
        self._here = set(members)
        self._partitions = dict(topics)
        self._brokers = brokers
        self._down: set[int] = set()

    def next(self, step: Step) -> tuple[str, object, str] | None:
        """What is wrong with the step: the key, its value, and what it has to be."""
        if step.do == "join":
            return self._join(step)
        if step.members:
            return self._of_members(step)
        if step.do in ("kill broker", "start broker"):
            return self._of_a_broker(step)
        if step.topic:
            return self._of_a_topic(step)
        return None

    def _join(self, step: Step) -> tuple[str, object, str] | None:
        twice = self._here.intersection(step.members)
        if twice:
            return "members", list(step.members), f"members that are not in the group then; {_listed(twice)} are"
        self._here.update(step.members)
        return None

    def _of_members(self, step: Step) -> tuple[str, object, str] | None:
        if not self._here.issuperset(step.members):
            return "members", list(step.members), f"among those in the group then: {_listed(self._here)}"
        if step.do in ("leave", "kill"):
            self._here.difference_update(step.members)
        return None

    def _of_a_broker(self, step: Step) -> tuple[str, object, str] | None:
        up = set(range(self._brokers)) - self._down
        can = up if step.do == "kill broker" else self._down
        if step.broker not in can:
            state = "running" if can is up else "dead"
            return "broker", step.broker, f"a broker that is {state} then: {_listed(can) or 'there is none'}"
        self._down ^= {step.broker}
        return None

    def _of_a_topic(self, step: Step) -> tuple[str, object, str] | None:
        have = self._partitions.get(step.topic)
        if step.do == "add topic" and have is not None:
            return "topic", step.topic, "a name that no topic has"
        if step.do == "add partitions" and have is None:
            return "topic", step.topic, f"one of {_listed(self._partitions)}"
        if step.do == "add partitions" and have is not None and step.partitions <= have:
            return "partitions", step.partitions, f"more than the {have} it has"
        self._partitions[step.topic] = step.partitions
        return None


def _listed(things: Iterable[object]) -> str:
    return ", ".join(sorted(map(str, things)))
