"""What the real consumer's process writes, read while it is still being written."""

from __future__ import annotations

import struct
from pathlib import Path

from zkconsumer.testing.scala_protocol import (
    Answer,
    AnswerFile,
    BeforeReleasingPartitions,
    BeforeStartingFetchers,
    Delivered,
    DeliveryFile,
    LogEntry,
    ScalaEvent,
    command_line,
    listener_call,
    log_entries,
    properties_text,
)

TOPIC_T = struct.pack(">ihhiqqii", 40, -1, 0, 0, 0, 0, 1, -1) + b"t\0\0\0"
# stream 1, topic 0, partition 2, offset 3, at 4 ms, key "k", value "four!"
MESSAGE = struct.pack(">ihhiqqii", 44, 1, 0, 2, 3, 4, 1, 5) + b"kfour!\0\0"
NULL_AND_LEFT_OUT = struct.pack(">ihhiqqii", 36, 0, 0, 0, 0, 5, -1, -2)
NOT_WRITTEN_YET = bytes(100)


def test_deliveries_are_read_as_they_are_written(tmp_path: Path) -> None:
    path = tmp_path / "delivered.bin"
    file = DeliveryFile(path)
    file.read()
    lengths = []
    for content in (
        TOPIC_T + NOT_WRITTEN_YET,
        TOPIC_T + MESSAGE[:20],
        TOPIC_T + MESSAGE + NOT_WRITTEN_YET,
        TOPIC_T + MESSAGE + NULL_AND_LEFT_OUT,
    ):
        path.write_bytes(content)
        file.read()
        lengths.append(len(file.delivered))

    assert lengths == [0, 0, 1, 2]
    assert file.delivered == [Delivered(1, "t", 2, 3, b"k", b"four!", 4), Delivered(0, "t", 0, 0, None, None, 5)]


def test_a_size_that_is_not_there_yet_ends_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "delivered.bin"
    path.write_bytes(TOPIC_T + bytes(4) + MESSAGE[4:])
    file = DeliveryFile(path)

    file.read()

    assert file.delivered == []


def test_answers_and_events_are_read_line_by_line(tmp_path: Path) -> None:
    path = tmp_path / "output"
    file = AnswerFile(path)
    path.write_text("1 ok a+b \nevent timeout 17")
    file.read()
    assert file.events == []
    path.write_text("1 ok a+b \nevent timeout 17 0\n2 error java.lang.X one%0Atwo trace\n")

    file.read()

    assert file.answers[1] == Answer(("a b", ""), None)
    assert file.events == [ScalaEvent("timeout", 17, ("0",))]
    error = file.answers[2].error
    assert error is not None
    assert (error.class_name, error.message, error.trace) == ("java.lang.X", "one\ntwo", "trace")


def test_words_of_a_command_may_hold_anything() -> None:
    assert command_line(3, "create", ["a b", "", "%\nü", 1]) == "3 create a+b  %25%0A%C3%BC 1\n"


def test_log_entries_keep_their_further_lines() -> None:
    text = (
        "[2026-11-18 11:06:28,049] INFO [g_c], begin rebalancing consumer g_c try #0 (kafka.consumer.Zoo)\n"
        "[2026-11-18 11:06:28,050] ERROR consumed offset: 1 (one) is wrong;\n Consumer may lose data (kafka.a.B$)\n"
        "[2026-11-18 11:06:28,051] INFO exception during rebalance  (kafka.c.D)\njava.lang.X: [2]\n\tat y(Z.java)\n"
    )

    assert list(log_entries(text)) == [
        LogEntry("INFO", "[g_c], begin rebalancing consumer g_c try #0", "kafka.consumer.Zoo", ""),
        LogEntry("ERROR", "consumed offset: 1 (one) is wrong;\n Consumer may lose data", "kafka.a.B$", ""),
        LogEntry("INFO", "exception during rebalance ", "kafka.c.D", "java.lang.X: [2]\n\tat y(Z.java)"),
    ]


def test_events_of_the_listener_become_calls() -> None:
    releasing = ScalaEvent("before_releasing_partitions", 1, ("t", "0", "t", "2", "u", "1"))
    starting = ScalaEvent("before_starting_fetchers", 2, ("g_c", "t", "0", "g_c-0", "t", "1", "g_d-0"))

    assert listener_call(releasing) == BeforeReleasingPartitions({"t": {0, 2}, "u": {1}})
    assert listener_call(starting) == BeforeStartingFetchers("g_c", {("t", 0): "g_c-0", ("t", 1): "g_d-0"})
    assert listener_call(ScalaEvent("timeout", 3, ("0",))) is None


def test_properties_are_written_as_java_reads_them() -> None:
    assert properties_text({"group.id": "g:1", "x": " ü\\\n😀"}) == (
        "group.id=g\\u003a1\nx=\\u0020\\u00fc\\u005c\\u000a\\ud83d\\ude00\n"
    )
