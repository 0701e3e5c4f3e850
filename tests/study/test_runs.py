"""The folder of a run: whole or not there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from study import runs
from study.scenarios import load
from study.subjects.table import subjects_named


@pytest.mark.parametrize("end", [KeyboardInterrupt, OSError])
def test_half_a_run_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: type[BaseException]) -> None:
    played: list[Any] = []

    def play(*given: Any, **_: Any) -> list[dict[str, Any]]:
        played.append(given)
        if len(played) == 2:
            raise end
        return [{"kind": "event"}]

    monkeypatch.setattr(runs, "play", play)

    with pytest.raises(end):
        runs.record(load("crash"), subjects_named("ours,java"), tmp_path / "new" / "run")

    assert len(played) == 2
    assert list(tmp_path.iterdir()) == []


def test_what_lay_in_the_folder_before_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def play(*_: Any, **__: Any) -> list[dict[str, Any]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(runs, "play", play)
    (tmp_path / "notes").write_text("mine")

    with pytest.raises(KeyboardInterrupt):
        runs.record(load("crash"), subjects_named("ours"), tmp_path)

    assert [one.name for one in tmp_path.iterdir()] == ["notes"]
