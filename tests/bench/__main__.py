"""`make bench`: what things cost on this machine, as ratios against peers in the same run. Best on a quiet machine.

    python -m tests.bench                         everything, most of an hour
    python -m tests.bench settle throughput       two benches
    python -m tests.bench throughput --case '100 B*' --subject 'ours*' --rounds 2
    python -m tests.bench --resume                what an earlier run has not measured, or not to its end
    python -m tests.bench --merge ONE TWO         no measuring: results of several runs as one report

Each sample is written to DIRECTORY/bench.json as it comes (default: bench-results); at the end, after an error and
after Ctrl-C too, tables are printed, bench.html is drawn beside it, and bench.md has the tables for a page. Exit code
1: a promise was not kept, or something was not measured; 130 and 143: interrupted.
"""

from __future__ import annotations

import argparse
import compileall
import importlib
import json
import signal
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape

from tests.bench import results
from tests.bench.children import Children
from tests.bench.markdown import NoPlace, markdown, put_into, write_markdown
from tests.bench.pictures import write_page
from tests.bench.promises import Promise, Status, Verdict, verdicts
from tests.bench.report import is_named, one_line, wide_console
from tests.bench.results import NoResults, Planned, Results
from tests.bench.schedule import expected_s, rough
from tests.bench.tables import lacking_lines, promise_table, runs_table

ROOT = Path(__file__).parents[2]
COMPILED = ("fetcher", "zkconsumer", "pipeline", "tests/bench")
OUTPUT = Path("bench-results")
IN_DIRECTORY = Path()  # stands for the file there
HUNG_AFTER = 4  # times what was expected, and
HUNG_AFTER_S = 600.0


@dataclass(frozen=True)
class Bench:
    """A module with `cases(quick=…)`, `promises()` and `run(report)` (see report.py), and what it measures."""

    module: str
    what: str


BENCHES: Mapping[str, Bench] = {
    "throughput": Bench("tests.bench.throughput", "records a second, CPU, memory: ours, the real ones, other clients"),
    "settle": Bench("tests.bench.settle", "seconds until a group has settled, ours and the real consumer"),
    "growth": Bench("tests.bench.growth", "what a record and a rebalance cost as partitions, streams and members grow"),
    "spark": Bench("tests.bench.spark", "rows a second into Spark, and their age, against Spark's own Kafka connector"),
    "jobs": Bench("tests.bench.jobs", "seconds of the jobs over histories on Spark and on DuckDB, by number of rows"),
    "tools": Bench("tests.bench.tools", "seconds of each tool around a group of 10,000 partitions, and the real ones"),
    "plan": Bench("tests.bench.plan", "seconds of `zkconsumer plan` for a large group, by strategy"),
    "startup": Bench("tests.bench.startup", "seconds from start() of a server to its first answer"),
}  # fmt: skip
"""What carries most promises first: whoever interrupts has that."""


@dataclass
class _Catalogue:
    """What the modules say; one that cannot be imported takes nothing from the others."""

    cases: list[Planned] = field(default_factory=list)
    promises: list[Promise] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, benches: Mapping[str, Bench], *, quick: bool) -> _Catalogue:
        found = cls()
        for name, bench in benches.items():
            try:
                module: Any = importlib.import_module(bench.module)
            except Exception as error:
                found.failures[name] = one_line(error)
                continue
            found.cases += [Planned(name, case, seconds) for case, seconds in module.cases(quick=quick).items()]
            found.promises += module.promises()
        return found


def main(arguments: Sequence[str] | None = None, benches: Mapping[str, Bench] = BENCHES) -> int:
    parser = _parser(benches)
    given = parser.parse_args(arguments)
    console = wide_console()
    if unknown := set(given.names) - set(benches):
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(benches)}")
    file = given.output / "bench.json"
    try:
        if given.merge:
            found = results.merged(results.read(path) for path in given.merge)
        else:
            earlier = results.read(file if given.resume == IN_DIRECTORY else given.resume) if given.resume else None
            found = earlier or Results()
    except NoResults as error:
        parser.error(str(error))
    quick = given.quick if not found.runs else found.quick
    catalogue = _Catalogue.of(benches, quick=quick)
    found.failures |= catalogue.failures
    interrupted = None
    if not given.merge:
        chosen = _chosen(catalogue, found, given)
        if not chosen:
            if not found.runs and not catalogue.failures:
                parser.error(_no_case(catalogue, given))
            console.print("nothing is left to be measured")
        else:
            run = results.new_run(
                list(sys.argv[1:] if arguments is None else arguments), quick=quick, subjects=given.subject
            )
            found.runs.append(run)
            _put_aside(file, found)
            found, interrupted = _measure(console, benches, found, chosen, file, given)
    code = _finish(console, catalogue, found, file, interrupted)
    if given.page is not None:
        try:
            put_into(given.page, markdown(found, verdicts(catalogue.promises, found)))
        except NoPlace as error:
            console.print(escape(str(error)), style="red")
            return code or 1
    return code


def _parser(benches: Mapping[str, Bench]) -> argparse.ArgumentParser:
    first, _, rest = (__doc__ or "").partition("\n")
    names = "\n".join(f"  {name:<11} {bench.what}" for name, bench in benches.items())
    parser = argparse.ArgumentParser(
        prog="python -m tests.bench",
        description=first,
        epilog=f"benches:\n{names}\n{rest}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("names", nargs="*", metavar="NAME", help="only these benches")
    add("--quick", action="store_true", help="small and few: two minutes in all, and no promises")
    add("--case", action="append", default=[], help="only this case, or e.g. '100 B*'; repeatable")
    add("--subject", action="append", default=[], help="throughput: only this one, or e.g. 'ours*'; repeatable")
    add("--rounds", type=_positive, help="how often each is measured (default: 1 to 5, by case)")
    resume = "keep the whole cases of FILE (default: DIRECTORY/bench.json), measure the others"
    add("--resume", nargs="?", type=Path, const=IN_DIRECTORY, metavar="FILE", help=resume)
    merge = "measure nothing: one report of all these; of one file, its report once more"
    add("--merge", nargs="+", type=Path, metavar="FILE", help=merge)
    page = "put the tables into this page too, between its marks: docs/bench.md has them"
    add("--page", type=Path, metavar="FILE", help=page)
    add("--output", type=Path, default=OUTPUT, metavar="DIRECTORY", help="(default: bench-results)")
    return parser


def _positive(text: str) -> int:
    number = int(text) if text.isdecimal() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is not a positive number")
    return number


def _chosen(catalogue: _Catalogue, found: Results, given: argparse.Namespace) -> list[Planned]:
    """What is to be measured now. Resuming: what is lacking of what was planned then, or is named now."""
    named = [
        one for one in catalogue.cases if one.bench in (given.names or [one.bench]) and is_named(one.case, given.case)
    ]
    if found.runs and not given.names and not given.case:
        planned = {one.key for one in found.planned}
        named = [one for one in named if one.key in planned]
    whole = {one.key for one in found.cases if one.is_whole}
    return [one for one in named if one.key not in whole]


def _no_case(catalogue: _Catalogue, given: argparse.Namespace) -> str:
    there = [one.case for one in catalogue.cases if one.bench in (given.names or [one.bench])]
    return f"no case is called {', '.join(given.case)}; there are {'; '.join(there)}"


def _put_aside(file: Path, found: Results) -> None:
    """Earlier results that are not gone on with keep their figures under another name."""
    try:
        earlier = results.read(file)
    except NoResults:
        return
    if earlier.runs and earlier.runs[0].id not in {run.id for run in found.runs}:
        file.replace(file.with_name(f"bench-{earlier.run.id}.json"))


def _measure(
    console: Console,
    benches: Mapping[str, Bench],
    found: Results,
    chosen: Sequence[Planned],
    file: Path,
    given: argparse.Namespace,
) -> tuple[Results, int | None]:
    """What was found, and the signal that ended it."""
    keys = {one.key for one in chosen}
    found.planned = [one for one in found.planned if one.key not in keys] + list(chosen)
    names = list(dict.fromkeys(one.bench for one in chosen))
    found.failures = {bench: text for bench, text in found.failures.items() if bench not in names}
    found.write(file)
    console.print(f"{len(chosen)} cases of {', '.join(names)}: about {rough(expected_s(chosen))} on two quiet cores")
    for one in names:
        cases = [planned for planned in chosen if planned.bench == one]
        console.print(
            f"  {one}: {len(cases)} cases, {rough(expected_s(cases))}: {escape(benches[one].what)}", style="dim"
        )
    console.print("Before each line below: the time gone, and what is left as far as one can tell.", style="dim")
    _compile()
    with Children() as children:
        for number, name in enumerate(names, 1):
            cases = [planned for planned in chosen if planned.bench == name]
            console.print(f"\n{name} ({number} of {len(names)}): {escape(benches[name].what)}", style="bold")
            told = {
                "bench": name,
                "cases": [one.case for one in cases],
                "subjects": given.subject,
                "rounds": given.rounds,
            }
            command = [sys.executable, "-m", "tests.bench.part", benches[name].module, str(file)]
            timeout_s = HUNG_AFTER * expected_s(cases) + HUNG_AFTER_S
            why = children.run(command, json.dumps(told), timeout_s)
            found = results.read(file)
            if children.received is not None:
                break
            if why:
                found.failures.setdefault(name, why)
                found.write(file)
                console.print(f"{name}: {escape(found.failures[name])}; going on with the next", style="red")
        received = children.received
    ended = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    found.run.ended = ended if received is None else f"{signal.Signals(received).name}, {ended}"
    return found, received


def _compile() -> None:
    """As pip does with what it installs, and did with all others here: else each of our processes would do it again."""
    for name in COMPILED:
        compileall.compile_dir(ROOT / name, quiet=2)


def _finish(console: Console, catalogue: _Catalogue, found: Results, file: Path, interrupted: int | None) -> int:
    """Tables and page of all there is; the exit code."""
    found.write(file)
    judged = verdicts(catalogue.promises, found)
    page = write_page(found, judged, file.with_name("bench.html"))
    write_markdown(found, judged, file.with_name("bench.md"))
    if interrupted is not None:
        console.print(
            f"\nended by {signal.Signals(interrupted).name}: this is what was measured until then", style="bold"
        )
    if judged:
        console.print(promise_table(judged))
    if len(found.runs) > 1:
        console.print(runs_table(found))
    if lacking := lacking_lines(found):
        console.print("not whole:", style="bold yellow")
        for line in lacking:
            console.print(f"  {escape(line)}")
        output = "" if file.parent == OUTPUT else f" --output {file.parent}"
        console.print(escape(f'make bench BENCH_ARGS="--resume{output}" measures these'), style="dim")
    for bench, text in found.failures.items():
        console.print(f"{bench} failed: {escape(text)}", style="red")
    console.print(f"{_summary(judged)}samples: {file}, pictures: {page}")
    if interrupted is not None:
        return 128 + interrupted
    is_good = not lacking and not found.failures and all(one.status is Status.KEPT for one in judged)
    return 0 if is_good else 1


def _summary(judged: Sequence[Verdict]) -> str:
    counts = [(status, sum(one.status is status for one in judged)) for status in Status]
    said = ", ".join(f"{count} {status.value}" for status, count in counts if count)
    return f"promises: {said}; " if said else ""


if __name__ == "__main__":
    sys.exit(main())
