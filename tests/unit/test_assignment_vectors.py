"""Assignments as the real assignors of 0.8.2.2 and 1.1.1 gave them; vectors/assignment says how they were recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zkconsumer.assignment import AssignmentContext, assignor_for, mine
from zkconsumer.cluster_view import assignment_context
from zkconsumer.emulation import Emulation, emulation
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_count import from_registration
from zkconsumer.znodes import Registration

VECTORS = Path(__file__).parent.parent / "vectors" / "assignment" / "assignments.json"
PROFILES = {"0.8.2.2": "0.8.2", "1.1.1": "1.1"}
NO_TOPICS = (
    "java.lang.NullPointerException"  # of 0.8.2.2 for a group without topics; ours gives it nothing (KAFKA-1648)
)

CASES: list[dict[str, Any]] = json.loads(VECTORS.read_text(encoding="utf-8"))


def context_of(case: dict[str, Any], consumer_id: str, switches: Emulation) -> AssignmentContext:
    """From what was in ZooKeeper, in the order in which it listed it."""
    threads = {
        member: from_registration(
            member, Registration(case["members"][member][1], case["members"][member][0], 0)
        ).threads_by_topic(
            case["listed_topics"],
            exclude_internal_topics=case["exclude_internal_topics"],
            internal_topics=switches.internal_topics,
        )
        for member in case["listed_members"]
    }
    return assignment_context(
        case["group"],
        consumer_id,
        threads,
        lambda topics: {topic: sorted(case["topics"].get(topic, ())) for topic in topics},
        whole_group=switches.reads_partitions_of_the_whole_group,
    )


def answer_of(case: dict[str, Any], release: str, strategy: str, consumer_id: str) -> Any:
    """In the form in which it was recorded."""
    switches = emulation(PROFILES[release])
    try:
        assigned = assignor_for(strategy, switches)(context_of(case, consumer_id, switches))
    except IllegalArgumentException as error:
        return f"java.lang.IllegalArgumentException: {error}"
    answer: dict[str, dict[str, int]] = {}
    for (topic, partition), thread in mine(assigned, consumer_id).items():
        answer.setdefault(topic, {})[str(partition)] = thread.thread
    return answer


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("release", PROFILES)
def test_every_member_gets_what_the_real_assignor_gave_it(release: str, strategy: str) -> None:
    """G3, G6, G8, G9, G10, G11, G13: equal hashes, threads by the dozen, filters, internal topics; errors included."""
    compared = 0
    for case in CASES:
        for its_release, its_strategy, consumer_id, recorded in case["answers"]:
            if (its_release, its_strategy) != (release, strategy):
                continue
            expected = {} if str(recorded).startswith(NO_TOPICS) else recorded
            assert answer_of(case, release, strategy, consumer_id) == expected, (case, consumer_id)
            compared += 1
    assert compared >= len(CASES)


def test_the_vectors_hold_what_they_are_for() -> None:
    """G8, G9: names with one hash subscribed together, refused groups, internal topics, threads beyond nine."""
    subscribed = [set(subscription) for case in CASES for _, subscription in case["members"].values()]
    answers = [answer for case in CASES for *_, answer in case["answers"]]

    assert any({"Aa", "BB"} <= topics for topics in subscribed)
    assert any(isinstance(answer, str) and "requirement failed" in answer for answer in answers)
    assert any("__consumer_offsets" in answer for answer in answers if isinstance(answer, dict))
    assert any(10 in threads.values() for answer in answers if isinstance(answer, dict) for threads in answer.values())
