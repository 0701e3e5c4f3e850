"""The Java new consumer of Kafka 3.9.1's clients, with eager range assignment or the cooperative one."""

from __future__ import annotations

from study.subjects.member import MemberSettings, ProcessMember
from zkconsumer.testing.java import class_path_of, find_java
from zkconsumer.testing.java_compiler import compiled
from zkconsumer.testing.programs import QUICK_START, program

CLIENTS = "3.9.1"
ASSIGNORS = "org.apache.kafka.clients.consumer."


def java_member(settings: MemberSettings, assignor: str) -> ProcessMember:
    """`assignor` is the class's plain name."""
    jars = program("kafka", CLIENTS).jars()
    given = {
        "bootstrap.servers": settings.bootstrap_servers,
        "group.id": settings.group,
        "client.id": settings.name,
        "auto.offset.reset": "earliest",
        "auto.commit.interval.ms": settings.commit_interval_ms,
        "session.timeout.ms": settings.session_timeout_ms,
        "heartbeat.interval.ms": settings.session_timeout_ms // 3,
        "metadata.max.age.ms": 1000,
        "partition.assignment.strategy": ASSIGNORS + assignor,
    }
    topics = f"pattern:{settings.pattern}" if settings.pattern is not None else ",".join(settings.topics)
    command = [
        str(find_java()),
        *QUICK_START,
        "-Xmx256m",
        "-cp",
        class_path_of([compiled("NewConsumer.java", jars), *jars]),
    ]
    command += ["NewConsumer", topics, str(settings.work_ms), *(f"{key}={value}" for key, value in given.items())]
    return ProcessMember(settings, command)
