"""Old consumers against new ones: the same workload and the same faults on real servers, judged by the same rules.

Every run is a folder: history.jsonl (what happened), parquet/ (the same as tables), figures.json, report.html.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from zkconsumer.testing.errors import ServerError

EXAMPLES = """\
  zkconsumer study list
  zkconsumer study run crash --subjects ours,scala-0.8,confluent
  zkconsumer study run my-own.toml --subjects ours,java --out runs/mine
  zkconsumer study report runs/mine
  zkconsumer study compare runs/crash-1 runs/crash-2"""

JUDGE_ESTIMATE_S = 40.0
SHOWN = {
    "title": "consumer", "lost": "lost", "duplicated": "again", "reordered": "order",
    "delivered_by_non_owner": "non-owner",
    "rebalances": "rebal.", "rebalance_ms": "ms", "partitions_stopped": "stopped", "partitions_moved": "moved",
    "median_pause_ms": "pause ms", "longest_pause_ms": "longest", "zookeeper_packets": "ZK packets", "most_lag": "lag",
}  # fmt: skip


class StudyError(ServerError):
    """Something a user asked for that is not there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="run|list|report|compare", required=True)
    run_parser = actions.add_parser("run", help="play a scenario to subjects, judge it, write the report")
    run_parser.add_argument("scenario", help="a shipped one by name, or a file ending in .toml")
    run_parser.add_argument("--subjects", default="ours,scala-0.8,confluent", help="with commas (default: %(default)s)")
    run_parser.add_argument("--out", metavar="DIRECTORY", help="default: study-runs/SCENARIO-TIME")
    run_parser.add_argument("--json", action="store_true", help="the figures as JSON on standard output")
    actions.add_parser("list", help="the scenarios and subjects there are").add_argument("--json", action="store_true")
    report_parser = actions.add_parser("report", help="judge a run again and write its report")
    report_parser.add_argument("run", metavar="RUN")
    report_parser.add_argument("--json", action="store_true")
    compare_parser = actions.add_parser("compare", help="two runs: verdicts that differ, figures beside each other")
    compare_parser.add_argument("first", metavar="RUN")
    compare_parser.add_argument("second", metavar="RUN")
    compare_parser.add_argument("--json", action="store_true")


def run(arguments: argparse.Namespace) -> int:
    """0 done; 1: a record was lost, or (compare) verdicts differ."""
    actions: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "run": _run, "list": _list, "report": _report, "compare": _compare,
    }  # fmt: skip
    return actions[arguments.action](arguments)


def study(scenario_name: str, subject_names: str, out: str | None, console: Console) -> tuple[list[Any], Path]:
    """Play, write down, judge, report. The figures and the folder."""
    from study.runner import estimate_s, play
    from study.scenarios import load
    from study.subjects.table import subjects_named

    scenario, subjects = load(scenario_name), subjects_named(subject_names)
    folder = Path(out or Path("study-runs") / f"{scenario.name}-{time.strftime('%Y%m%d-%H%M%S')}")
    if (folder / "history.jsonl").exists():
        raise StudyError(f"{folder} holds a run already: give another --out")
    folder.mkdir(parents=True, exist_ok=True)
    console.print(f"{scenario.title}: {scenario.about}", markup=False)
    each_s = estimate_s(scenario)
    total_s = each_s * len(subjects) + JUDGE_ESTIMATE_S
    console.print(f"{len(subjects)} subjects one after the other, about {total_s:.0f} s", style="dim")
    with _steps(console) as steps:
        left_s = total_s
        for number, subject in enumerate(subjects):
            began_s = time.monotonic()

            def tell(text: str, title: str = subject.title) -> None:
                steps.step(f"{title}: {text}", left_s - (time.monotonic() - began_s))  # noqa: B023

            lines = play(scenario, subject, tell)
            with (folder / "history.jsonl").open("a") as file:
                file.writelines(json.dumps(line) + "\n" for line in lines)
            each_s = time.monotonic() - began_s  # measured beats estimated
            left_s = each_s * (len(subjects) - number - 1) + JUDGE_ESTIMATE_S
        about = {
            "scenario": scenario.name, "title": scenario.title, "about": scenario.about,
            "subjects": {subject.name: [subject.title, subject.protocol] for subject in subjects},
        }  # fmt: skip
        (folder / "run.json").write_text(json.dumps(about, indent=1))
        steps.step("Spark judges the history", JUDGE_ESTIMATE_S)
        return judge_folder(folder), folder


def judge_folder(folder: Path) -> list[Any]:
    """Judge a run's history on Spark; write parquet/, figures.json and report.html."""
    from pipeline.judging import judge_lines, local_session
    from study.figures import figures
    from study.report import page

    about = _about(folder)
    with local_session("zkconsumer study", small=True) as spark:
        judgement = judge_lines(spark, folder / "history.jsonl", folder / "parquet")
    counts = {name: finding.counts for name, finding in judgement.findings.items()}
    evidence = {name: finding.evidence for name, finding in judgement.findings.items()}
    subjects = {name: (title, protocol) for name, (title, protocol) in about["subjects"].items()}
    rows = figures(subjects, counts, judgement.tables)
    stored = {**about, "figures": [one.as_dict() for one in rows], "evidence": evidence}
    (folder / "figures.json").write_text(json.dumps(stored, indent=1))
    text = page(about["title"], about["about"], rows, judgement.tables, evidence)
    (folder / "report.html").write_text(text, encoding="utf-8")
    return rows


def show(console: Console, rows: Sequence[Any], folder: Path) -> None:
    """The table, the words, the path."""
    from study.words import happened, means

    table = Table(title="old against new", title_justify="left", pad_edge=False)
    for field, text in SHOWN.items():
        table.add_column(text, justify="left" if field == "title" else "right", overflow="fold")
    for one in rows:
        table.add_row(*(str(getattr(one, field)) for field in SHOWN))
    console.print(table)
    for one in rows:
        console.print(happened(one), markup=False)
    console.print("\nfor a migration", style="italic")
    for line in means(rows):
        console.print(f"* {line}", markup=False)
    console.print(f"\nreport: {(folder / 'report.html').resolve()}", markup=False, soft_wrap=True)


def _run(arguments: argparse.Namespace) -> int:
    console = Console(highlight=False, stderr=arguments.json)
    rows, folder = study(arguments.scenario, arguments.subjects, arguments.out, console)
    return _finish(arguments, console, rows, folder)


def _report(arguments: argparse.Namespace) -> int:
    folder = Path(arguments.run)
    _about(folder)
    return _finish(arguments, Console(highlight=False), judge_folder(folder), folder)


def _finish(arguments: argparse.Namespace, console: Console, rows: Sequence[Any], folder: Path) -> int:
    if arguments.json:
        json.dump([one.as_dict() for one in rows], sys.stdout, indent=1)
        print()
    else:
        show(console, rows, folder)
    return 1 if any(one.lost for one in rows) else 0


def _list(arguments: argparse.Namespace) -> int:
    from study.scenarios import shipped
    from study.subjects.table import SUBJECTS

    if arguments.json:
        scenarios = [{"name": one.name, "title": one.title, "about": one.about} for one in shipped()]
        json.dump({"scenarios": scenarios, "subjects": {one.name: one.title for one in SUBJECTS.values()}}, sys.stdout)
        print()
        return 0
    console = Console(highlight=False)
    for title, found in (
        ("scenario", {one.name: one.about for one in shipped()}),
        ("subject", {one.name: one.title for one in SUBJECTS.values()}),
    ):
        table = Table(pad_edge=False)
        table.add_column(title, no_wrap=True)
        table.add_column("")
        for name, text in found.items():
            table.add_row(name, text)
        console.print(table)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    first, second = (_figures_of(Path(path)) for path in (arguments.first, arguments.second))
    both = [name for name in first if name in second]
    if not both:
        raise StudyError(f"{arguments.first} and {arguments.second} have no subject in common")
    differing = {
        name: [check for check, fine in first[name]["verdicts"].items() if second[name]["verdicts"][check] != fine]
        for name in both
    }
    if arguments.json:
        json.dump({"differing": differing, "first": first, "second": second}, sys.stdout, indent=1)
        print()
    else:
        table = Table(title="first run / second run", title_justify="left", pad_edge=False)
        for field, text in SHOWN.items():
            table.add_column(text, justify="left" if field == "title" else "right")
        for name in both:
            table.add_row(name, *(f"{first[name][field]} / {second[name][field]}" for field in list(SHOWN)[1:]))
        console = Console(highlight=False)
        console.print(table)
        for name, checks in differing.items():
            console.print(
                f"{name}: " + (f"verdicts differ: {', '.join(checks)}" if checks else "same verdicts"), markup=False
            )
    return 1 if any(differing.values()) else 0


def _about(folder: Path) -> dict[str, Any]:
    if not (folder / "run.json").is_file():
        raise StudyError(f"{folder} is no run of `zkconsumer study run`: it has no run.json")
    about: dict[str, Any] = json.loads((folder / "run.json").read_text())
    return about


def _figures_of(folder: Path) -> dict[str, dict[str, Any]]:
    _about(folder)
    stored = json.loads((folder / "figures.json").read_text())
    return {one["subject"]: one for one in stored["figures"]}


class _Steps:
    """One line a step; on a terminal also a bar with the time that is left."""

    def __init__(self, console: Console, progress: Progress) -> None:
        self._console, self._progress = console, progress
        self._task = progress.add_task("", total=None)
        self._began_s = time.monotonic()

    def step(self, text: str, left_s: float) -> None:
        passed_s = time.monotonic() - self._began_s
        left = f"about {max(left_s, 1):.0f} s left"
        self._console.print(f"  {passed_s:5.1f} s  {text}", markup=False)
        self._progress.update(
            self._task, description=f"{text} ({left})", completed=passed_s, total=passed_s + max(left_s, 1)
        )


class _steps(AbstractContextManager["_Steps"]):
    def __init__(self, console: Console) -> None:
        columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
        self._console, self._progress = console, Progress(*columns, console=console, transient=True)

    def __enter__(self) -> _Steps:
        self._progress.start()
        return _Steps(self._console, self._progress)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()
