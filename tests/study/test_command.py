"""The command on things that are not there; no server is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zkconsumer.__main__ import main


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", "crush"], "there is no scenario 'crush'"),
        (["run", "crash", "--subjects", "ours,theirs"], "theirs; there are ours,"),
        (["report", "nowhere"], "nowhere is no run of `zkconsumer study run`"),
        (["compare", "nowhere", "neither"], "nowhere is no run"),
        (["verdicts", "nowhere"], "nowhere is no run"),
    ],
)
def test_a_mistake_gets_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)

    assert main(["study", *arguments]) == 1

    printed = capsys.readouterr()
    assert message in printed.err
    assert len(printed.err.splitlines()) == 1


def test_the_list_can_be_read_by_programs(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["study", "list", "--json"]) == 0

    found = json.loads(capsys.readouterr().out)
    assert "ours" in found["subjects"]
    assert "crash" in {scenario["name"] for scenario in found["scenarios"]}


def run_folder(folder: Path, *, lost: bool) -> str:
    folder.mkdir()
    figures = {"subject": "ours", "verdicts": {"lost": not lost}} | dict.fromkeys(
        ("title", "lost", "duplicated", "reordered", "delivered_by_non_owner", "rebalances", "rebalance_ms",
         "partitions_stopped", "partitions_moved", "median_pause_ms", "longest_pause_ms",
         "zookeeper_packets", "most_lag"), 1
    ) | {"longest_wait_ms": 1500}  # fmt: skip
    (folder / "run.json").write_text(json.dumps({"scenario": folder.name}))
    (folder / "figures.json").write_text(json.dumps({"figures": [figures]}))
    return str(folder)


def test_comparing_tells_whether_verdicts_differ(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    one, same, other = (run_folder(tmp_path / name, lost=name == "other") for name in ("one", "same", "other"))

    assert main(["study", "compare", one, same]) == 0
    assert "ours: same verdicts" in capsys.readouterr().out
    assert main(["study", "compare", one, other]) == 1
    assert "ours: verdicts differ: lost" in capsys.readouterr().out


def test_many_runs_fit_in_one_table(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """Of the figures of run_folder each check found one, the commits' one aside, which is not there."""
    runs = [run_folder(tmp_path / name, lost=True) for name in ("one", "two")]

    assert main(["study", "verdicts", *runs, "--markdown"]) == 1, "a record was lost"
    cell = "1.5 s, 1 lost, 1 again, 1 out of order, 1 non-owner"
    assert capsys.readouterr().out.splitlines() == [
        "| scenario | ours |", "| --- | --- |", f"| `one` | {cell} |", f"| `two` | {cell} |",
    ]  # fmt: skip
    assert main(["study", "verdicts", *runs, "--json"]) == 1
    assert [one["scenario"] for one in json.loads(capsys.readouterr().out)] == ["one", "two"]
    main(["study", "verdicts", *runs])
    assert "1 non-owner" in " ".join(capsys.readouterr().out.split())


def test_of_many_consumers_each_has_a_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    run = tmp_path / "crash"
    run_folder(run, lost=True)
    [one] = json.loads((run / "figures.json").read_text())["figures"]
    many = [one | {"subject": f"consumer-{number}", "duplicated": 1000 * number} for number in range(5)]
    (run / "figures.json").write_text(json.dumps({"figures": many}))

    assert main(["study", "verdicts", str(run)]) == 1

    said = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert ["wait", "pause", "lost", "again", "out", "of", "order", "non-owner"] in said
    assert ["crash", "consumer-0", "1.5", "s", "0.0", "s", "1", "1", "1"] in said
    assert ["consumer-4", "1.5", "s", "0.0", "s", "1", "4,000", "1", "1"] in said
