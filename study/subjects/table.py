"""All subjects by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple

from study.subjects.java import java_member
from study.subjects.member import Member, MemberSettings, python_member
from study.subjects.scala import ScalaMember
from zkconsumer.testing.errors import ServerError


class Subject(NamedTuple):
    """A consumer under study."""

    name: str
    title: str
    protocol: Literal["old", "new"]
    member: Callable[[MemberSettings], Member]


class UnknownSubject(ServerError):
    """A name that no subject has."""


SUBJECTS = {
    subject.name: subject
    for subject in (
        Subject("ours", "zkconsumer (old protocol, Python)", "old", lambda given: python_member("ours", given)),
        Subject("scala-0.8", "Scala consumer 0.8.2.2 (old)", "old", lambda given: ScalaMember(given, "0.8.2.2")),
        Subject("scala-1.1", "Scala consumer 1.1.1 (old)", "old", lambda given: ScalaMember(given, "1.1.1")),
        Subject("confluent", "confluent-kafka (new)", "new", lambda given: python_member("confluent", given)),
        Subject("kafka-python", "kafka-python (new)", "new", lambda given: python_member("kafka_python", given)),
        Subject("aiokafka", "aiokafka (new)", "new", lambda given: python_member("aio_kafka", given)),
        Subject("java", "Java consumer 3.9.1, range (new)", "new", lambda given: java_member(given, "RangeAssignor")),
        Subject(
            "java-cooperative",
            "Java consumer 3.9.1, cooperative sticky (new)",
            "new",
            lambda given: java_member(given, "CooperativeStickyAssignor"),
        ),
    )
}


def subjects_named(names: str) -> list[Subject]:
    """From "ours,java"; UnknownSubject names what there is."""
    wanted = [name.strip() for name in names.split(",") if name.strip()]
    unknown = [name for name in wanted if name not in SUBJECTS]
    if unknown or not wanted:
        raise UnknownSubject(
            f"subjects {names!r}: {', '.join(unknown) or 'none given'}; there are {', '.join(SUBJECTS)}"
        )
    return [SUBJECTS[name] for name in dict.fromkeys(wanted)]
