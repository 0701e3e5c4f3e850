"""Results as tables in a terminal: each case, what was promised, what is lacking."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from tests.bench.promises import Status, Verdict, note_of, short, spread
from tests.bench.results import CaseFound, Measured, Planned, Results, there

STYLES = {Status.KEPT: "green", Status.MISSED: "bold red", Status.NOT_MEASURED: "yellow"}


def case_table(found: CaseFound, results: Results) -> RenderableType:
    """Medians, least and most, and each subject's ratio to the one compared with; over 1 is better than it."""
    note = note_of(found, results)
    compared = f"; × is against {found.against}" if found.against else ""
    rounds = f"medians of {found.rounds}, least–most" if found.rounds > 1 else "one round"
    title = f"\n{found.bench}: {found.case} ({rounds}{compared})" + (f" [{note}]" if note else "")
    table = Table()
    for number, column in enumerate(case_columns(found)):
        table.add_column(column, justify="right" if number else "left", no_wrap=True)
    for row in case_rows(found):
        table.add_row(*map(escape, row))
    lines: list[RenderableType] = [Text(title), table]
    if found.sizes != [None]:
        lines.append(Text(slopes_line(found)))
    lines += [Text(f"{one.subject} failed: {one.failure}", style="red") for one in found.measured if one.failure]
    return Group(*lines)


def case_columns(found: CaseFound) -> list[str]:
    """Titles; a column without one is the spread of the one before."""
    units = " / ".join(dict.fromkeys(one.unit for one in found.measured))
    size = [found.grows_by] if found.sizes != [None] else []
    return ["subject", *size, units, "", *(("×", "") if found.against else ()), *_beside(found)]


def case_rows(found: CaseFound) -> list[list[str]]:
    """As many cells each as there are columns."""
    width = len(case_columns(found))
    rows = [_row(found, one) for one in found.measured]
    return [row + [""] * (width - len(row)) for row in rows]


def slopes_line(found: CaseFound) -> str:
    slopes = [(subject, found.slope(subject)) for subject in found.subjects]
    said = [f"{subject} {slope:.2f}" for subject, slope in slopes if slope is not None]
    return f"slopes (0 constant, 1 linear): {', '.join(said)}"


def _beside(found: CaseFound) -> list[str]:
    return list(dict.fromkeys(name for one in found.measured for name in one.beside))


def _row(found: CaseFound, one: Measured) -> list[str]:
    size = [short(one.size) if one.size is not None else ""] if found.sizes != [None] else []
    samples = there(one.samples)
    if not samples:
        return [one.subject, *size, "failed"]
    cells = [short(statistics.median(samples)), spread(samples)]
    if found.against:
        ratios = found.ratios(one.subject, found.against, size=one.size)
        cells += [short(statistics.median(ratios)), spread(ratios)] if ratios else ["", ""]
    for name in _beside(found):
        values = there(one.beside.get(name, []))
        cells.append(short(statistics.median(values)) if values else "")
    return [one.subject, *size, *cells]


def promise_table(verdicts: Sequence[Verdict]) -> Table:
    table = Table(title="promised, and found (medians; least–most)", title_justify="left")
    for column in ("bench", "case", "what", "promised", "found", "", ""):
        table.add_column(column)
    for one in verdicts:
        figure = f"{one.found} ({one.spread})" if one.spread else one.found
        status = Text(one.status.value, style=STYLES[one.status])
        table.add_row(one.bench, escape(one.case), escape(one.what), one.promised, figure, status, escape(one.note))
    return table


def runs_table(results: Results) -> Table:
    table = Table(title="runs these figures are of; ratios are formed within one", title_justify="left")
    for column in ("run", "began", "cases", "commit", "load", "ended", "with"):
        table.add_column(column)
    for number, run in enumerate(results.runs, 1):
        cases = sum(case.run == run.id for case in results.cases)
        machine = run.machine
        load, commit = f"{machine.get('load', 0):.1f}", str(machine.get("commit", ""))
        table.add_row(
            str(number), run.began, str(cases), commit, load, run.ended or "–", escape(" ".join(run.arguments))
        )
    return table


def lacking_lines(results: Results) -> list[str]:
    """What is planned and not whole, a line each."""
    return [f"{one.bench}: {one.case}: {_why(one, results)}" for one in results.lacking()]


def _why(planned: Planned, results: Results) -> str:
    found = results.find(planned.bench, planned.case)
    if found is None:
        return results.failures.get(planned.bench, "not measured")
    failed = [f"{one.subject}: {one.failure}" for one in found.measured if one.failure]
    if found.failure or failed:
        return "; ".join(filter(None, [found.failure, *failed]))
    return f"{found.whole_rounds} of {found.rounds} rounds"
