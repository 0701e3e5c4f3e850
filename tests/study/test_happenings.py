"""What a scenario did, in words, and which pauses are put down to which of it."""

from __future__ import annotations

from typing import Any

from study.happenings import happenings

Row = dict[str, Any]


def event(at_ms: int, what: str, member: str = "", detail: str = "") -> Row:
    return {"event": what, "member": member, "time_ms": 10_000 + at_ms, "detail": detail}


def pause(from_ms: int, until_ms: int) -> Row:
    return {"from_ms": 10_000 + from_ms, "until_ms": 10_000 + until_ms, "pause_ms": until_ms - from_ms}


def test_a_pause_belongs_to_what_happened_last_before_it() -> None:
    events = [event(0, "start"), event(2000, "join", "m3"), event(6000, "kill", "m2"), event(9000, "end")]
    pauses = [
        pause(-900, -100),  # of the first joins
        pause(500, 700),  # of nothing the scenario did
        pause(2300, 2500),
        pause(2310, 2600),
        pause(5980, 9100),  # its last record came just before the kill
    ]

    found = happenings(events, pauses)

    assert [(one.kind, one.text, one.at_s, one.pauses, one.longest_pause_ms) for one in found] == [
        ("join", "m3 joins", 2.0, 2, 290),
        ("kill", "m2 is killed", 6.0, 1, 3120),
    ]


def test_what_comes_at_once_is_one_and_what_comes_again_is_numbered() -> None:
    herd = [event(1000 + number, "join", f"m{number}") for number in range(50)]
    events = [
        event(0, "start"), *herd, event(3000, "leave", "m1"), event(3010, "leave", "m2"),
        event(4000, "pause", "m3", "for 2 s"), event(5000, "restart zookeeper", "", "for 1 s"),
        event(6000, "kill broker", "", "broker 1"), event(7000, "kill broker", "", "broker 1"),
        event(8000, "no session to expire", "m3"),
    ]  # fmt: skip

    assert [one.text for one in happenings(events, [])] == [
        "50 members join", "m1 and m2 leave", "m3 stands still for 2 s", "ZooKeeper is away for 1 s",
        "broker 1 is killed", "broker 1 is killed (2.)",
    ]  # fmt: skip
