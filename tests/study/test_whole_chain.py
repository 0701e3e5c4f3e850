"""From a scenario to a report: real servers, real members, Spark, a browser. Nothing is put into a history by hand."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest

from study import runner
from study.charts import COLOURS
from study.runs import record
from study.scenarios import load
from study.subjects.member import MemberSettings, ProcessMember
from study.subjects.table import SUBJECTS, Subject
from tests.study.browser import Browser, Colour
from tests.study.faulty_member import AT, BACK_TO, LATE, ZOMBIE
from zkconsumer.__main__ import main

ROOT = str(Path(__file__).parents[2])

QUIET = """
title = "Members stand still for a moment"
duration_s = 6
[workload]
topics = { orders = 4 }
rate = 200
[group]
members = 2
session_timeout_ms = 6000
commit_interval_ms = 500
[[event]]
at = 0.2
do = "pause"
members = ["m1", "m2"]
for_s = 0.2
"""

# Nothing was committed when m2 dies: its records come again, whichever consumer it is.
CRASH = """
title = "A crash before the first commit"
duration_s = 6
[workload]
topics = { orders = 4 }
rate = 200
[group]
members = 2
commit_interval_ms = 60_000
[[event]]
at = 1
do = "kill"
members = ["m2"]
"""


def faulty_member(settings: MemberSettings) -> ProcessMember:
    return ProcessMember(settings, [sys.executable, "-m", "tests.study.faulty_member"], {"PYTHONPATH": ROOT})


def rgb(colour: str) -> Colour:
    red, green, blue = bytes.fromhex(colour.removeprefix("#"))
    return red, green, blue


@pytest.mark.timeout(600)
def test_planted_faults_are_found_with_their_evidence_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], browser: Browser
) -> None:
    """A delivery dropped, one doubled, one late, one by a zombie, a commit that goes back; and an honest group."""
    monkeypatch.setattr(runner, "DRAIN_TIMEOUT_S", 5.0)  # what was dropped never comes
    (tmp_path / "quiet.toml").write_text(QUIET)
    honest = SUBJECTS["ours"]._replace(name="honest", title="Honest")
    faulty = Subject("faulty", "Faulty", "old", faulty_member)
    record(load(str(tmp_path / "quiet.toml")), [honest, faulty], tmp_path / "run")

    assert main(["study", "report", str(tmp_path / "run"), "--json"]) == 1, "a record was lost"

    stored = json.loads((tmp_path / "run" / "figures.json").read_text())
    good, bad = stored["figures"]
    assert json.loads(capsys.readouterr().out) == [good, bad]
    assert all(good["verdicts"].values())
    assert not any(bad["verdicts"].values())
    found = {
        check: {tuple(row[column] for column in columns) for row in stored["evidence"][check]}
        for check, columns in {
            "lost": ("subject", "partition", "first_offset", "last_offset", "records"),
            "duplicated": ("subject", "partition", "offset"),
            "reordered": ("subject", "partition", "offset", "after_offset"),
            "delivered_by_non_owner": ("subject", "partition", "offset", "member", "owner"),
        }.items()
    }
    [(_, _, lost_at, _, _)] = found["lost"]
    [twice] = [offset for _, partition, offset in found["duplicated"] if partition == 1]
    late = lost_at + LATE - AT
    assert found == {
        "lost": {("faulty", 0, lost_at, lost_at, 1)},
        "duplicated": {("faulty", 1, twice), ("faulty", 2, ZOMBIE)},
        "reordered": {("faulty", 0, late, late + 1)},
        "delivered_by_non_owner": {("faulty", 2, ZOMBIE, "m1", "m2")},
    }
    [back] = stored["evidence"]["commits_going_back"]
    assert (back["subject"], back["partition"], back["offset"], back["store"]) == ("faulty", 3, BACK_TO, "zookeeper")
    assert back["after_offset"] > BACK_TO and back["after_ms"] <= back["time_ms"]

    page = tmp_path / "run" / "report.html"
    document = browser.document(page)
    shown = dict(re.findall(r'data-figure="([^"]+)">([^<]*)<', document))
    for one in (good, bad):
        for check in one["verdicts"]:
            assert shown[f"{one['subject']} {check}"] == str(one[check])
        assert shown[f"{one['subject']} produced"] == f"{one['produced']:,}"
    for line in (
        "Lost: 1 found",
        "Delivered again: 2 found",
        "Delivered by a non-owner: 1 found",
        "going back: 1 found",
    ):
        assert line in document
    picture = browser.picture(page, width=1200, height=4000)
    for member in range(2):
        assert picture[rgb(COLOURS[member])] > 5_000, "a colour of an owner is missing"
    assert 0.02 < 1 - picture[255, 255, 255] / picture.total() < 0.9, "neither blank nor black"


@pytest.mark.timeout(600)
def test_two_runs_give_the_same_verdicts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("crash.toml").write_text(CRASH)

    main(["study", "spread", "crash.toml", "--subjects", "ours,confluent", "--runs", "2", "--out", "runs", "--json"])

    result: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert result["unsteady_verdicts"] == result["differing_verdicts"] == []
    assert result["found"]["ours"] == result["found"]["confluent"] == {
        "lost": 0, "duplicated": 2, "reordered": 0, "delivered_by_non_owner": 0, "commits_going_back": 0,
    }  # fmt: skip
    assert main(["study", "compare", "runs/run-01", "runs/run-02"]) == 0
    assert "ours: same verdicts\nconfluent: same verdicts\n" in capsys.readouterr().out

    # What was played is kept: the same command again judges only.
    before = Path("runs/run-01/history.jsonl").stat().st_mtime_ns
    main(["study", "spread", "crash.toml", "--subjects", "ours,confluent", "--runs", "2", "--out", "runs", "--json"])
    assert json.loads(capsys.readouterr().out) == result
    assert Path("runs/run-01/history.jsonl").stat().st_mtime_ns == before
    assert main(["study", "spread", "crash.toml", "--subjects", "ours", "--runs", "2", "--out", "runs"]) == 1
    assert "is a run of crash with ours, confluent: give another --out" in capsys.readouterr().err


@pytest.mark.timeout(600)
def test_the_demo_ends_with_a_table_and_a_page(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, browser: Browser
) -> None:
    """With a shorter scenario than the one it has by itself; it plays, judges and writes like `study run`."""
    monkeypatch.chdir(tmp_path)
    Path("crash.toml").write_text(CRASH)

    assert main(["demo", "--scenario", "crash.toml", "--subjects", "ours,confluent", "--out", "shown"]) == 0

    said = capsys.readouterr().out
    assert "One scenario, three consumers side by side" in said
    assert re.search(r"2 subjects one after the other, about \d+ s", said)
    for told in ("ZooKeeper and Kafka start", "kill m2", "the rest is read", "Spark judges the history"):
        assert told in said
    assert re.search(r"delivered again[ │]+[1-9]", said) and "what it means for a migration" in said
    assert f"report: {tmp_path / 'shown' / 'report.html'}" in " ".join(said.split())
    shown = browser.document(tmp_path / "shown" / "report.html")
    stored = json.loads((tmp_path / "shown" / "figures.json").read_text())["figures"]
    assert [one["subject"] for one in stored] == ["ours", "confluent"]
    for one in stored:
        assert f'data-figure="{one["subject"]} duplicated">{one["duplicated"]:,}<' in shown
