"""A run as a folder: history.jsonl (what happened), parquet/ (the same as tables), figures.json, report.html.

Recording and judging are two steps: a run can be judged again at any time, with nothing but its history.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from study.figures import Figures, figures
from study.runner import estimate_s, play
from study.scenarios import Scenario
from study.subjects.table import Subject
from zkconsumer.testing.errors import ServerError

HISTORY, ABOUT, FIGURES, REPORT = "history.jsonl", "run.json", "figures.json", "report.html"
JUDGE_ESTIMATE_S = 20.0
Tell = Callable[[str, float], None]
"""What begins now, and about how many seconds are left of the recording."""


class StudyError(ServerError):
    """Something a user asked for that is not there."""


def recording_s(scenario: Scenario, subjects: Sequence[Subject]) -> float:
    """How long recording takes, before anything was measured."""
    return estimate_s(scenario) * len(subjects)


def record(
    scenario: Scenario,
    subjects: Sequence[Subject],
    folder: Path,
    tell: Tell = lambda *_: None,
    *,
    wait_s: float = 0.0,
) -> None:
    """Play the scenario to one subject after the other; `run.json` stands only when all have been played."""
    with _nothing_left_of_half_a_run(folder):
        _play_all(scenario, subjects, folder, tell, wait_s)
    about = {
        "scenario": scenario.name, "title": scenario.title, "about": scenario.about,
        "subjects": {subject.name: [subject.title, subject.protocol] for subject in subjects},
    }  # fmt: skip
    (folder / ABOUT).write_text(json.dumps(about, indent=1))


def _play_all(scenario: Scenario, subjects: Sequence[Subject], folder: Path, tell: Tell, wait_s: float) -> None:
    (folder / HISTORY).write_bytes(b"")
    each_s = estimate_s(scenario)
    for number, subject in enumerate(subjects):
        began_s, left_s = time.monotonic(), each_s * (len(subjects) - number)

        def say(text: str, title: str = subject.title, began_s: float = began_s, left_s: float = left_s) -> None:
            tell(f"{title}: {text}", left_s - (time.monotonic() - began_s))

        lines = play(scenario, subject, say, wait_s=wait_s)
        with (folder / HISTORY).open("a") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        each_s = time.monotonic() - began_s  # measured beats estimated


@contextmanager
def _nothing_left_of_half_a_run(folder: Path) -> Iterator[None]:
    """The folder and its parents, as far as they are new; on Ctrl-C or an error they go again."""
    new = [one for one in (folder, *folder.parents) if not one.exists()]
    folder.mkdir(parents=True, exist_ok=True)
    try:
        yield
    except BaseException:
        (folder / HISTORY).unlink(missing_ok=True)
        with suppress(OSError):  # somebody else has put something there meanwhile
            for one in new:
                one.rmdir()
        raise


def is_recorded(folder: Path) -> bool:
    """A run that was cut off is none."""
    return (folder / ABOUT).is_file()


def about_run(folder: Path) -> dict[str, Any]:
    """What record() wrote of a run."""
    if not is_recorded(folder):
        raise StudyError(f"{folder} is no run of `zkconsumer study run`: it has no {ABOUT}")
    about: dict[str, Any] = json.loads((folder / ABOUT).read_text())
    return about


def figures_of(folder: Path) -> dict[str, dict[str, Any]]:
    """By subject, as they were judged."""
    about_run(folder)
    if not (folder / FIGURES).is_file():
        raise StudyError(f"{folder} was not judged: `zkconsumer study report {folder}` does it")
    stored = json.loads((folder / FIGURES).read_text())
    return {one["subject"]: one for one in stored["figures"]}


@contextmanager
def judges() -> Iterator[Callable[[Path], list[Figures]]]:
    """Spark for one run or many: what is given judges a folder, and writes all that is made of its history."""
    from pipeline.judging import judge_lines, local_session
    from study.report import page

    with local_session("zkconsumer study", small=True) as spark:

        def judge_one(folder: Path) -> list[Figures]:
            about = about_run(folder)
            judgement = judge_lines(spark, folder / HISTORY, folder / "parquet")
            counts = {name: finding.counts for name, finding in judgement.findings.items()}
            evidence = {name: finding.evidence for name, finding in judgement.findings.items()}
            subjects = {name: (title, protocol) for name, (title, protocol) in about["subjects"].items()}
            rows = figures(subjects, counts, judgement.tables)
            stored = {**about, "figures": [one.as_dict() for one in rows], "evidence": evidence}
            (folder / FIGURES).write_text(json.dumps(stored, indent=1))
            text = page(about["title"], about["about"], rows, judgement.tables, evidence)
            (folder / REPORT).write_text(text, encoding="utf-8")
            return rows

        yield judge_one


def judge(folder: Path) -> list[Figures]:
    """One run."""
    about_run(folder)  # before Spark starts
    with judges() as judge_one:
        return judge_one(folder)
