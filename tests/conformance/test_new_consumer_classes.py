"""The new consumer's own classes, of kafka-clients 1.1.1 and 3.9.1, beside ours: who gets what, and defaults."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from study.assignors import Member
from study.new_consumer import DEFAULTS
from tests.conformance.real_new_assignors import Question, RealNewAssignors, next_question
from tests.conformance.real_new_settings import WITHOUT_A_DEFAULT, as_java_prints, defaults_of_release
from tests.new_consumer_tables import (
    ASSIGNORS,
    RANGE,
    ROUND_ROBIN,
    STICKY,
    STICKY_WITHOUT_C1,
    TWOS,
    Row,
    alike,
    ordered,
    shown,
    table,
)
from zkconsumer.testing.errors import JarError, JavaNotFound

GROUPS, STEPS = 8, 5
RELEASES = ["1.1.1", "3.9.1"]
Ask = Callable[[str], RealNewAssignors]


@pytest.fixture(scope="module")
def real(request: pytest.FixtureRequest) -> Iterator[Ask]:
    """`real(release)`: that release's classes, in a Java process that is kept."""
    started: dict[str, RealNewAssignors] = {}
    with ExitStack() as closing:

        def of(release: str) -> RealNewAssignors:
            if release not in started:
                try:
                    started[release] = RealNewAssignors(release)
                except (JarError, JavaNotFound) as error:
                    if request.config.getoption("--strict-servers"):
                        raise
                    pytest.skip(str(error))
                closing.callback(started[release].close)
            return started[release]

        yield of


def check_table(real: Ask, release: str, strategy: str, row: Row) -> None:
    """The real class answers what the table says, and so do we."""
    partitions, members, expected = row
    answer = real(release).ask(Question(release, strategy, partitions, members))
    assert shown(answer) == table(expected), f"the real {strategy} of {release}"
    assert shown(ASSIGNORS[release, strategy](partitions, members)) == table(expected)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("row", RANGE)
def test_range_tables_are_those_of_the_class(real: Ask, release: str, row: Row) -> None:
    """P1"""
    check_table(real, release, "range", row)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("row", ROUND_ROBIN)
def test_round_robin_tables_are_those_of_the_class(real: Ask, release: str, row: Row) -> None:
    """P2: also where the seeds let the second topic begin again with the first member."""
    check_table(real, release, "roundrobin", row)


@pytest.mark.parametrize("release", RELEASES)
@pytest.mark.parametrize("row", STICKY)
def test_sticky_tables_are_those_of_the_class(real: Ask, release: str, row: Row) -> None:
    """P3"""
    check_table(real, release, "sticky", row)


@pytest.mark.parametrize(("release", "expected"), STICKY_WITHOUT_C1.items(), ids=STICKY_WITHOUT_C1)
def test_sticky_after_a_loss_is_as_in_the_class(real: Ask, release: str, expected: str) -> None:
    """P4: C1 goes; the others bring along what the class gave them first."""
    first = real(release).ask(Question(release, "sticky", TWOS, alike("C0 C1 C2", *TWOS)))
    left = {name: Member(frozenset(TWOS), tuple(first[name]), generation=1) for name in ("C0", "C2")}

    check_table(real, release, "sticky", Row(TWOS, left, expected))


@pytest.mark.parametrize(("release", "strategy"), ASSIGNORS, ids=" ".join)
def test_groups_made_by_chance_get_what_the_class_gives(
    real: Ask, release: str, strategy: str, record_property: Callable[[str, object], None]
) -> None:
    """P1, P2, P3, P4: other groups in every run than the recorded ones; each lives through five rebalances."""
    seed = random.SystemRandom().randrange(2**32)
    record_property("seed", seed)
    for number in range(GROUPS):
        chance = random.Random(f"{seed} {number}")
        question, answer = None, None
        for _ in range(STEPS):
            question = next_question(question, answer, chance, f"{release} {strategy}")
            answer = real(release).ask(question)
            ours = ASSIGNORS[release, strategy](question.topics, question.members)

            assert ordered(ours) == ordered(answer), f"seed {seed}: {question.to_json()}"


ABSENT = "(absent)"
DIFFERS_FROM_2_3 = {  # as the spec's notes have it
    "1.1.1": {
        "group.id": "",
        "request.timeout.ms": "305000",
        "default.api.timeout.ms": ABSENT,
        "group.instance.id": ABSENT,
        "client.rack": ABSENT,
        "allow.auto.create.topics": ABSENT,
    },
    "3.9.1": {
        "session.timeout.ms": "45000",
        "partition.assignment.strategy": "[RangeAssignor, CooperativeStickyAssignor]",
    },
}


@pytest.mark.parametrize("release", RELEASES)
def test_defaults_differ_from_ours_where_the_release_does(release: str) -> None:
    """P9: ours are 2.3's, as recorded from its class."""
    real = defaults_of_release(release)

    given = {key: real.get(key, ABSENT).replace("class org.apache.kafka.clients.consumer.", "") for key in DEFAULTS}
    ours = {key: as_java_prints(key, value) for key, value in DEFAULTS.items()}
    differing = {key: text for key, text in given.items() if key not in WITHOUT_A_DEFAULT and text != ours[key]}
    assert differing == DIFFERS_FROM_2_3[release]
