"""Scenarios as files: all that ship can be read, and what is wrong in one is said in a line."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from study.scenarios import ScenarioError, load, parse, shipped

GOOD = """
title = "t"
duration_s = 10
[workload]
topics = { orders = 2 }
rate = 10
[group]
members = 2
"""


def test_a_dozen_scenarios_and_more_ship() -> None:
    names = {scenario.name for scenario in shipped()}

    assert len(names) >= 12
    assert names >= {"rolling-restart", "crash", "herd", "slow-reader", "zookeeper-blink", "broker-death"}
    assert len(next(one for one in shipped() if one.name == "herd").steps[0].members) == 50


def test_one_s_own_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(GOOD + '[[event]]\nat = 2\ndo = "pause"\nmembers = ["m1"]\nfor_s = 1.5\n')

    scenario = load(str(path))

    assert (scenario.name, scenario.members, scenario.topics) == ("mine", ("m1", "m2"), {"orders": 2})
    assert [(step.at_s, step.do, step.members, step.detail) for step in scenario.steps] == [
        (2.0, "pause", ("m1",), "for 1.5 s")
    ]


def event(do: str, *lines: str) -> str:
    return "\n".join(["[[event]]", "at = 1", f'do = "{do}"', *lines, ""])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (GOOD.replace("rate = 10", "rate = 0"), "workload.rate = 0: has to be a whole number from 1 up"),
        (GOOD.replace('title = "t"', ""), "title is missing"),
        (GOOD + "threads = 3", "'threads' is not known"),
        (GOOD + '[[event]]\nat = 2\ndo = "explode"', "event 1.do = 'explode': has to be one of join,"),
        (GOOD + '[[event]]\nat = 11\ndo = "kill"\nmembers = ["m1"]', "event 1.at = 11.0: has to be between 0 and"),
        (GOOD + '[[event]]\nat = 1\ndo = "kill"', "event 1.members is missing"),
        (GOOD + '[servers]\nkafka = "0.8.2.2"', "servers.kafka = '0.8.2.2'"),
        (GOOD.replace("orders = 2", "orders = 0"), "workload.topics.orders = 0"),
        (GOOD.replace("orders = 2", '"or/ders" = 2'), "workload.topics = 'or/ders': has to be a topic's name"),
        (GOOD.replace("orders = 2", ""), "workload.topics = {}: has to be one topic at least"),
        (GOOD + 'pattern = "("', "group.pattern = '(': has to be a regular expression (missing )"),
        (GOOD + "work_ms = { m7 = 1 }", "group.work_ms = 'm7': has to be a member's name: m1, m2"),
        (
            GOOD + "session_timeout_ms = 30000",
            "session_timeout_ms = 30000: has to be a whole number from 1000 to 10000",
        ),
        (GOOD + "[servers]\nbrokers = 9", "servers.brokers = 9: has to be a whole number from 1 to 3"),
        (GOOD + '[event]\nat = 1\ndo = "kill"', "has to be a list of tables: write [[event]]"),
        (GOOD + event("kill", 'members = ["m9"]'), "event 1.members = ['m9']: has to be among those in the group"),
        (GOOD + 2 * event("kill", 'members = ["m1"]'), "event 2.members = ['m1']: has to be among those in the group"),
        (GOOD + event("join", 'members = ["m1"]'), "event 1.members = ['m1']: has to be members that are not in the"),
        (GOOD + event("kill", "members = []"), "event 1.members = []: has to be names"),
        (GOOD + event("kill broker", "broker = 1"), "event 1.broker = 1: has to be a broker that is running then: 0"),
        (GOOD + event("start broker", "broker = 0"), "broker that is dead then: there is none"),
        (GOOD + event("add topic", 'topic = "orders"', "partitions = 1"), "has to be a name that no topic has"),
        (
            GOOD + event("add partitions", 'topic = "x"', "partitions = 1"),
            "event 1.topic = 'x': has to be one of orders",
        ),
        (GOOD + event("add partitions", 'topic = "orders"', "partitions = 2"), "has to be more than the 2 it has"),
        (GOOD + event("restart zookeeper", "for_s = -1"), "event 1.for_s = -1: has to be more than 0 seconds"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse("s", tomllib.loads(text), "s.toml")

    assert str(raised.value).startswith("s.toml: ")
    assert message in str(raised.value)


def test_an_unknown_scenario_is_told_which_there_are() -> None:
    with pytest.raises(ScenarioError, match=r"no scenario 'crush'.* crash,"):
        load("crush")


def test_a_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    (tmp_path / "x.toml").write_text("title = ")

    with pytest.raises(ScenarioError, match=r"x\.toml is no TOML"):
        load(str(tmp_path / "x.toml"))


def test_who_was_killed_may_come_back(tmp_path: Path) -> None:
    """Steps are checked in the order of their times, not in that of the file."""
    late = event("join", 'members = ["m1"]').replace("at = 1", "at = 3")

    scenario = parse("s", tomllib.loads(GOOD + late + event("kill", 'members = ["m1"]')), "s.toml")

    assert [step.do for step in scenario.steps] == ["kill", "join"]


def test_a_file_that_is_not_there_is_named() -> None:
    with pytest.raises(ScenarioError, match=r"nowhere/x\.toml: there is no such file"):
        load("nowhere/x.toml")
