"""`zkconsumer study spread`: a scenario several times; subjects take turns, so that a busy moment hits all alike."""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from study.output import folder_for, print_json, steps
from study.runs import JUDGE_ESTIMATE_S, StudyError, about_run, figures_of, is_recorded, judges, record, recording_s
from study.scenarios import Scenario, load
from study.spread import as_json
from study.subjects.table import Subject, subjects_named
from study.tables import show_spread

JUDGE_AGAIN_ESTIMATE_S = 6.0
WAIT_S = 2.0
"""A run's timeline starts up to so much later, each run's by an amount of its own: else every run would meet heartbeats
and commits, which have their rhythm from a member's start, at the same point."""


def run(arguments: argparse.Namespace) -> int:
    """0 if verdicts are the same everywhere and pauses lie within each other's spread, else 1."""
    scenario, subjects = load(arguments.scenario), subjects_named(arguments.subjects)
    folder = folder_for(arguments.out, scenario.name)
    folders = [folder / f"run-{number:02}" for number in range(1, arguments.runs + 1)]
    console = Console(highlight=False, stderr=arguments.json)
    console.print(f"{scenario.title}: {scenario.about}", markup=False)
    _play_and_judge(console, scenario, subjects, folders)
    found = [figures_of(one) for one in folders]
    runs_of = {subject.name: [figures[subject.name] for figures in found] for subject in subjects}
    result: dict[str, Any] = {"scenario": scenario.name, **as_json(runs_of)}
    (folder / "spread.json").write_text(json.dumps(result, indent=1))
    if arguments.json:
        print_json(result)
    else:
        show_spread(console, runs_of)
        console.print(f"\nruns and spread.json: {folder.resolve()}", markup=False, soft_wrap=True)
    return 1 if result["unsteady_verdicts"] or result["differing_verdicts"] or result["pauses_apart"] else 0


def _play_and_judge(console: Console, scenario: Scenario, subjects: Sequence[Subject], folders: Sequence[Path]) -> None:
    """What was played before is kept: a command that was cut off goes on."""
    missing = [one for one in folders if not _was_played(one, scenario, subjects)]
    each_s = recording_s(scenario, subjects)
    judging_s = JUDGE_ESTIMATE_S + JUDGE_AGAIN_ESTIMATE_S * (len(folders) - 1)
    console.print(
        f"{len(missing)} of {len(folders)} runs to play, {len(subjects)} subjects in turn,"
        f" about {(each_s * len(missing) + judging_s) / 60:.0f} minutes"
        f" (after Ctrl-C, the same command with --out {folders[0].parent} goes on)",
        style="dim", soft_wrap=True, markup=False,
    )  # fmt: skip
    with steps(console) as step:
        for number, folder in enumerate(missing, start=1):
            began_s, later_s = time.monotonic(), each_s * (len(missing) - number) + judging_s

            def tell(text: str, left_s: float, number: int = number, later_s: float = later_s) -> None:
                step(f"run {number} of {len(missing)}: {text}", left_s + later_s)

            record(scenario, subjects, folder, tell, wait_s=random.Random(folder.name).uniform(0, WAIT_S))
            each_s = time.monotonic() - began_s
        step("Spark starts", judging_s)
        with judges() as judge:
            for number, folder in enumerate(folders):
                step(f"Spark judges {folder.name}", judging_s - JUDGE_AGAIN_ESTIMATE_S * number)
                judge(folder)


def _was_played(folder: Path, scenario: Scenario, subjects: Sequence[Subject]) -> bool:
    if not is_recorded(folder):
        return False
    about = about_run(folder)
    if (about["scenario"], list(about["subjects"])) != (scenario.name, [subject.name for subject in subjects]):
        raise StudyError(
            f"{folder} is a run of {about['scenario']} with {', '.join(about['subjects'])}: give another --out"
        )
    return True
