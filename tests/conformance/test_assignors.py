"""Who gets which partition: ours against the assignors of 0.8.2.2 and 1.1.1, on groups made by chance."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.conformance.generated_groups import Case, Registered, cases
from tests.conformance.real_assignors import (
    RELEASES,
    STRATEGIES,
    Answer,
    Question,
    RealAssignors,
    real_assignors,
    some_members,
)
from tests.zookeeper.sessions import connected
from zkconsumer.assignment import AssignmentContext, assignor_for, mine
from zkconsumer.cluster_view import ClusterView
from zkconsumer.emulation import emulation
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.testing.scala_protocol import JavaError
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.zookeeper import ZooKeeper

CASES = 160
CASES_OF_THE_FULL_RUN = int(os.environ.get("ZKCONSUMER_ASSIGNMENT_CASES", "2000"))
# A group without any topic: `head` of an empty map. Ours gives it nothing, as from 0.9 on (KAFKA-1648).
NO_TOPICS = "java.lang.NullPointerException: Cannot invoke"

Oracle = tuple[RealAssignors, ZooKeeper]


@pytest.fixture(scope="module")
def oracle(zookeeper_server: ZooKeeperServer) -> Iterator[Oracle]:
    with real_assignors(zookeeper_server) as (address, real), connected(address) as session:
        yield real, session


def our_context(session: ZooKeeper, case: Case, profile: str, consumer_id: str) -> AssignmentContext:
    """By our own reading of the same znodes."""
    return ClusterView(
        session, case.group, exclude_internal_topics=case.exclude_internal_topics, emulation=emulation(profile)
    ).read_group(consumer_id)


def our_answer(context: AssignmentContext, strategy: str, profile: str) -> Answer:
    try:
        assigned = assignor_for(strategy, emulation(profile))(context)
    except IllegalArgumentException as error:
        return f"java.lang.IllegalArgumentException: {error}"
    answer: dict[str, dict[int, int]] = {}
    for (topic, partition), thread in mine(assigned, context.consumer_id).items():
        answer.setdefault(topic, {})[partition] = thread.thread
    return answer


def ask_both(oracle: Oracle, case: Case, members: list[str]) -> dict[Question, tuple[Answer, Answer]]:
    """Theirs and ours, where they differ; what differs on purpose is checked here."""
    real, session = oracle
    theirs = real.ask(case, members)
    contexts = {
        (release, member): our_context(session, case, profile, member)
        for release, profile in RELEASES.items()
        for member in members
    }
    different = {}
    for question, answer in theirs.items():
        context = contexts[question.release, question.consumer_id]
        ours = our_answer(context, question.strategy, RELEASES[question.release])
        if isinstance(answer, str) and answer.startswith(NO_TOPICS):
            assert (question.release, question.strategy, ours) == ("0.8.2.2", "roundrobin", {})
            assert not context.consumers_for_topic
        elif ours != answer:
            different[question] = (answer, ours)
    return different


@pytest.mark.timeout(600)
def test_the_real_assignors_and_ours_agree_case_by_case(oracle: Oracle) -> None:
    """G1, G2, G3, G5, G6, G7, G8, G9, G10, G11, G13, C13, C15: on groups of one seed; errors to the letter."""
    kinds: set[str] = set()
    for number, case in enumerate(cases(seed=1, count=CASES)):
        different = ask_both(oracle, case, some_members(case, number))

        assert not different, f"{case.to_json()}: (theirs, ours) {different}"
        kinds |= {member.pattern for member in case.members.values()}
    assert kinds == {"static", "white_list", "black_list"}


@pytest.mark.conformance_full
@pytest.mark.timeout(1800)
def test_they_agree_on_thousands(oracle: Oracle) -> None:
    """G11: another seed, a few thousand groups."""
    for number, case in enumerate(cases(seed=2, count=CASES_OF_THE_FULL_RUN)):
        different = ask_both(oracle, case, some_members(case, number))

        assert not different, f"{case.to_json()}: (theirs, ours) {different}"


TOPICS = st.sampled_from(["Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB", "t", "u"])
STREAMS = st.integers(1, 11)
PARTITIONS = st.integers(0, 4).map(lambda count: list(range(count)))
MEMBERS = st.dictionaries(
    st.sampled_from(["a", "a-1", "a-10", "a-2", "b"]),
    st.one_of(
        st.dictionaries(TOPICS, STREAMS, max_size=8).map(lambda streams: Registered("static", streams)),
        st.tuples(st.sampled_from(["white_list", "black_list"]), st.sampled_from([".*", "A.*", "t"]), STREAMS).map(
            lambda found: Registered(found[0], {found[1]: found[2]})
        ),
    ),
    min_size=1,
)
_numbers = iter(range(10**9))


@settings(
    max_examples=25,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(topics=st.dictionaries(TOPICS, PARTITIONS), members=MEMBERS)
def test_they_agree_on_whatever_is_made_of_tied_names(oracle: Oracle, topics: Any, members: Any) -> None:
    """G8, G11: every topic name but two has the hash of another; a failure is shrunk to the smallest group."""
    group = f"h{next(_numbers)}"  # registrations of an example before are not to be seen
    case = Case(group, topics, {f"{group}_{name}": one for name, one in members.items()}, exclude_internal_topics=True)

    assert not ask_both(oracle, case, list(case.members)[:2])


def test_the_log_lines_are_the_same(oracle: Oracle, caplog: pytest.LogCaptureFixture) -> None:
    """M1, G4: words, order of topics, and no prefix, which the assignors of 0.8 do not have."""
    caplog.set_level(logging.INFO, "zkconsumer.assignment")
    real, session = oracle
    members = {
        "logged_c-10": Registered("static", {"t1": 2, "BB": 11, "Aa": 2, "zeta": 1, "a": 1, "none": 2}),
        "logged_c-2": Registered("white_list", {".*": 3}),
    }
    case = Case("logged", {"t1": [0, 1], "BB": [0], "Aa": [2, 0, 1], "zeta": [0], "a": [0, 1, 2]}, members, True)
    case.write(real.client)
    release = real.consumers[0]

    for strategy in STRATEGIES:
        for member in members:
            logged_before = len(release.log_entries())
            caplog.clear()
            try:
                release.assign(strategy, "logged", member)
            except JavaError:
                assert strategy == "roundrobin"  # which refuses unequal subscriptions, in both before its first line
            our_answer(our_context(session, case, "0.8.2", member), strategy, "0.8.2")

            theirs = [
                (entry.level, entry.message)
                for entry in release.log_entries()[logged_before:]
                if entry.logger.startswith("kafka.consumer.R")
            ]
            ours = [(record.levelname.replace("WARNING", "WARN"), record.getMessage()) for record in caplog.records]
            # Threads of one topic are in the order of a hash set there.
            assert sorted(ours) == sorted(theirs)
            assert _topics_in(ours) == _topics_in(theirs)
            assert bool(ours) == (strategy == "range")


@pytest.mark.parametrize("release", [0, 1], ids=list(RELEASES))
def test_round_robin_says_the_same(oracle: Oracle, caplog: pytest.LogCaptureFixture, release: int) -> None:
    """M1: a group that it accepts, in the order in which it goes through the topics."""
    caplog.set_level(logging.INFO, "zkconsumer.assignment")
    real, session = oracle
    group = f"dealt{release}"
    members = {f"{group}_{name}": Registered("static", {"t1": 2, "BB": 2, "Aa": 2, "a": 2, "b": 2}) for name in "xy"}
    case = Case(group, {"t1": [0, 1], "BB": [0], "Aa": [2, 0, 1], "a": [0, 1, 2], "b": []}, members, True)
    case.write(real.client)
    consumer, profile = real.consumers[release], list(RELEASES.values())[release]
    logged_before = len(consumer.log_entries())

    consumer.assign("roundrobin", group, f"{group}_x")
    our_answer(our_context(session, case, profile, f"{group}_x"), "roundrobin", profile)

    theirs = [entry.message for entry in consumer.log_entries()[logged_before:] if "RoundRobin" in entry.logger]
    assert [record.getMessage() for record in caplog.records] == theirs
    assert len(theirs) == 1 + len(case.topics)


def _topics_in(lines: list[tuple[str, str]]) -> list[str]:
    return [line for _, line in lines if "rebalancing the following partitions" in line]
