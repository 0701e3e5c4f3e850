"""The four phases of a rebalance, recorded from a real group, as text and as a picture."""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from study.group_requests import Exchange
from study.sequence import as_svg, as_text
from zkconsumer.__main__ import main


def exchange(client: str, api: str, at_s: float, asked: str, answered: str, *, error: bool = False) -> Exchange:
    return Exchange(client, api, 1, at_s, asked, at_s + 0.001, answered, error)


def test_a_real_group_goes_through_the_four_phases(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """§4: find the coordinator, join, sync, heartbeat; the newcomer is noticed by a heartbeat that is refused."""
    picture = tmp_path / "rebalance.svg"

    assert main(["record-rebalance", "--partitions", "3", "--picture", str(picture), "--json"]) == 0

    said = [Exchange(**one) for one in json.loads(capsys.readouterr().out)]
    first = [one for one in said if one.client == "c1"]
    apis = [one.api for one in first]
    phases = ["FindCoordinator", "JoinGroup", "SyncGroup", "Heartbeat"]
    assert [apis.index(api) for api in phases] == sorted(apis.index(api) for api in phases)
    newcomer, joined = [one for one in first if one.api == "JoinGroup"][:2]
    assert newcomer.asked == "without an id, range" and newcomer.answered.startswith("MemberIdRequired 79: c1-")
    assert joined.asked.startswith("as c1-") and joined.answered == "generation 1, range, leader of 1"
    synced = next(one for one in first if one.api == "SyncGroup")
    assert synced.answered == "topic-demo 0 1 2"

    told = next(one for one in first if one.error and one.api == "Heartbeat")
    assert told.answered == "RebalanceInProgress 27"
    second = [one for one in said if one.client == "c2"]
    follower = [one for one in second if one.api == "JoinGroup"][-1]
    assert follower.answered == f"generation 2, range, leader is {joined.asked.removeprefix('as ').partition(',')[0]}"
    assert next(one for one in second if one.api == "SyncGroup").asked == "generation 2, empty"
    assert next(one for one in second if one.api == "SyncGroup").answered == "topic-demo 2"
    assert [one.answered for one in second if one.api == "LeaveGroup"] == ["ok"]
    assert [one.answered for one in first if one.api == "SyncGroup"][-1] == "topic-demo 0 1 2"
    ElementTree.parse(picture)


def test_a_group_as_text_has_one_arrow_for_many_heartbeats() -> None:
    said = [
        exchange("c1", "JoinGroup", 0.1, "without an id, range", "MemberIdRequired 79: c1-00ff", error=True),
        exchange("c1", "Heartbeat", 0.2, "generation 1", "ok"),
        exchange("c2", "Heartbeat", 0.25, "generation 1", "ok"),
        exchange("c1", "Heartbeat", 0.3, "generation 1", "ok"),
        exchange("c1", "Heartbeat", 0.4, "generation 1", "RebalanceInProgress 27", error=True),
    ]

    head, *lines = as_text(said).splitlines()

    assert head.split() == ["phase", "seconds", "c1", "c2", "coordinator"]
    assert [line.split("─ ")[1].strip(" ─►│┤") for line in lines[:-1]] == [
        "JoinGroup without an id, range",
        "! MemberIdRequired 79: c1-00ff",
        "Heartbeat generation 1: ok (2×)",
        "Heartbeat generation 1: ok",
        "Heartbeat generation 1",
        "! RebalanceInProgress 27",
    ]
    assert len({len(line) for line in lines[:-1]}) == 1, "all arrows end at the coordinator"


def test_names_cannot_break_the_picture() -> None:
    said = [exchange("<script>", "JoinGroup", 0.1, "without an id, </text>", "generation 1")]

    root = ElementTree.fromstring(as_svg(said, "a & b"))

    assert root[0].text == "a & b"
    assert "<script>" in [text.text for text in root.iter("{http://www.w3.org/2000/svg}text")]


def test_a_wrong_number_of_members_is_said_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["record-rebalance", "--members", "9"]) == 1

    assert capsys.readouterr().err == "zkconsumer record-rebalance: --members 9: 1 to 8 can be drawn\n"
