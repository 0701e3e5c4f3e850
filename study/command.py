"""Old consumers against new ones: the same workload and the same faults on real servers, judged by the same rules.

Every run is a folder: history.jsonl (what happened), parquet/ (the same as tables), figures.json, report.html.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from study.output import folder_for, print_json, steps

EXAMPLES = """\
  zkconsumer study list
  zkconsumer study run crash --subjects ours,scala-0.8,confluent
  zkconsumer study run my-own.toml --subjects ours,java --out runs/mine
  zkconsumer study report runs/mine
  zkconsumer study compare study-runs/crash-1 study-runs/crash-2
  zkconsumer study spread crash --subjects ours,scala-0.8 --runs 10
  zkconsumer study verdicts study-runs/*"""

EXIT_CODES = """\
exit codes: 0 done; 1 a record was lost, verdicts differ (compare), or verdicts or pauses do (spread);
            2 wrong usage; 130 Ctrl-C"""

SUBJECTS = "ours,scala-0.8,confluent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(dest="action", metavar="run|list|report|compare|spread|verdicts", required=True)
    run_parser = _action(
        actions, "run", "play a scenario to subjects, judge it, write the report",
        "zkconsumer study run crash", "zkconsumer study run my-own.toml --subjects ours,java --out runs/mine",
    )  # fmt: skip
    _what(run_parser, SUBJECTS)
    list_parser = _action(actions, "list", "the scenarios and subjects there are", "zkconsumer study list --json")
    report_parser = _action(
        actions, "report", "judge a run again and write its report", "zkconsumer study report study-runs/crash-1"
    )
    report_parser.add_argument("run", metavar="RUN", help="the folder of a run")
    compare_parser = _action(
        actions, "compare", "two runs: verdicts that differ, figures beside each other",
        "zkconsumer study compare study-runs/crash-1 study-runs/crash-2",
    )  # fmt: skip
    compare_parser.add_argument("first", metavar="RUN", help="the folder of a run")
    compare_parser.add_argument("second", metavar="RUN", help="that of another")
    spread_parser = _action(
        actions, "spread", "play a scenario several times: are verdicts the same, how far are pauses apart",
        "zkconsumer study spread crash --subjects ours,scala-0.8 --runs 10",
        "zkconsumer study spread crash --out study-runs/mine      goes on if it was cut off",
    )  # fmt: skip
    _what(spread_parser, "ours,scala-0.8")
    spread_parser.add_argument("--runs", type=_count, default=10, metavar="N", help="default: %(default)s")
    verdicts_parser = _action(
        actions, "verdicts", "many runs: what was found, scenario by consumer",
        "zkconsumer study verdicts study-runs/*", "zkconsumer study verdicts study-runs/* --markdown",
    )  # fmt: skip
    verdicts_parser.add_argument("runs", metavar="RUN", nargs="+", help="the folder of a run")
    verdicts_parser.add_argument("--markdown", action="store_true", help="for documents")
    for one in (run_parser, list_parser, report_parser, compare_parser, spread_parser, verdicts_parser):
        one.add_argument("--json", action="store_true", help="on standard output, for programs")


def _action(actions: Any, name: str, summary: str, *examples: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = actions.add_parser(
        name, help=summary, description=summary, formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="\n".join(["examples:", *(f"  {example}" for example in examples), "", EXIT_CODES]),
    )  # fmt: skip
    return parser


def _what(parser: argparse.ArgumentParser, subjects: str) -> None:
    parser.add_argument("scenario", help="a shipped one by name (see `study list`), or a file ending in .toml")
    parser.add_argument("--subjects", default=subjects, help="with commas (default: %(default)s)")
    parser.add_argument("--out", metavar="DIRECTORY", help="default: study-runs/SCENARIO-TIME")


def _count(text: str) -> int:
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text}: a number from 1 up is needed")
    return int(text)


def run(arguments: argparse.Namespace) -> int:
    """0 done; 1: a record was lost, or what should be the same is not."""
    actions: Mapping[str, Callable[[argparse.Namespace], int]] = {
        "run": _run, "list": _list, "report": _report, "compare": _compare, "spread": _spread,
        "verdicts": _verdicts,
    }  # fmt: skip
    return actions[arguments.action](arguments)


def study(scenario_name: str, subject_names: str, out: str | None, console: Console) -> tuple[list[Any], Path]:
    """Play, write down, judge. The figures and the folder."""
    from study.runs import JUDGE_ESTIMATE_S, StudyError, is_recorded, judge, record, recording_s
    from study.scenarios import load
    from study.subjects.table import subjects_named

    scenario, subjects = load(scenario_name), subjects_named(subject_names)
    folder = folder_for(out, scenario.name)
    if is_recorded(folder):
        raise StudyError(f"{folder} holds a run already: give another --out")
    console.print(f"{scenario.title}: {scenario.about}", markup=False)
    total_s = recording_s(scenario, subjects) + JUDGE_ESTIMATE_S
    console.print(f"{len(subjects)} subjects one after the other, about {total_s:.0f} s", style="dim")
    with steps(console) as step:
        record(scenario, subjects, folder, lambda text, left_s: step(text, left_s + JUDGE_ESTIMATE_S))
        step("Spark judges the history (pipeline.jobs)", JUDGE_ESTIMATE_S)
        return judge(folder), folder


def _run(arguments: argparse.Namespace) -> int:
    console = Console(highlight=False, stderr=arguments.json)
    rows, folder = study(arguments.scenario, arguments.subjects, arguments.out, console)
    return _finish(arguments, console, rows, folder)


def _report(arguments: argparse.Namespace) -> int:
    from study.runs import judge

    folder = Path(arguments.run)
    return _finish(arguments, Console(highlight=False), judge(folder), folder)


def _finish(arguments: argparse.Namespace, console: Console, rows: Sequence[Any], folder: Path) -> int:
    from study.tables import show

    if arguments.json:
        print_json([one.as_dict() for one in rows])
    else:
        show(console, rows, folder)
    return 1 if any(one.lost for one in rows) else 0


def _list(arguments: argparse.Namespace) -> int:
    from study.scenarios import shipped
    from study.subjects.table import SUBJECTS as KNOWN

    if arguments.json:
        scenarios = [{"name": one.name, "title": one.title, "about": one.about} for one in shipped()]
        print_json({"scenarios": scenarios, "subjects": {one.name: one.title for one in KNOWN.values()}})
        return 0
    console = Console(highlight=False)
    for title, found in (
        ("scenario", {one.name: one.about for one in shipped()}),
        ("subject", {one.name: one.title for one in KNOWN.values()}),
    ):
        table = Table(pad_edge=False)
        table.add_column(title, no_wrap=True)
        table.add_column("")
        for name, text in found.items():
            table.add_row(name, text)
        console.print(table)
    return 0


def _compare(arguments: argparse.Namespace) -> int:
    from study.runs import StudyError, figures_of
    from study.tables import show_comparison

    first, second = (figures_of(Path(path)) for path in (arguments.first, arguments.second))
    both = [name for name in first if name in second]
    if not both:
        raise StudyError(f"{arguments.first} and {arguments.second} have no subject in common")
    differing = {
        name: [check for check, fine in first[name]["verdicts"].items() if second[name]["verdicts"][check] != fine]
        for name in both
    }
    if arguments.json:
        print_json({"differing": differing, "first": first, "second": second})
    else:
        show_comparison(Console(highlight=False), first, second, differing)
    return 1 if any(differing.values()) else 0


def _spread(arguments: argparse.Namespace) -> int:
    from study.spread_command import run as run_spread

    return run_spread(arguments)


def _verdicts(arguments: argparse.Namespace) -> int:
    from study.runs import about_run, figures_of
    from study.tables import show_verdicts
    from study.verdicts import as_markdown, verdicts_of

    runs = [verdicts_of(about_run(Path(one))["scenario"], figures_of(Path(one))) for one in arguments.runs]
    if arguments.json:
        print_json([one._asdict() for one in runs])
    elif arguments.markdown:
        print(as_markdown(runs))
    else:
        show_verdicts(Console(highlight=False), runs)
    return 1 if any("lost" in found for one in runs for found in one.found.values()) else 0
