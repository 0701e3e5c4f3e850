"""The tables of a report in Markdown, for pages that show a run: promises first, then every case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.bench.promises import Status, Verdict
from tests.bench.results import Results
from tests.bench.tables import case_columns, case_rows, lacking_lines, slopes_line


def write_markdown(results: Results, judged: Sequence[Verdict], path: Path) -> Path:
    lines: list[str] = []
    for run in results.runs:
        machine = ", ".join(f"{name} {value}" for name, value in run.machine.items())
        lines += [f"{run.began}, {machine}:", "", "```", " ".join(["python -m tests.bench", *run.arguments]), "```", ""]
    if judged:
        rows = [[one.bench, one.case, one.what, one.promised, one.found, one.spread, _status(one)] for one in judged]
        columns = ["bench", "case", "what", "promised", "found", "least–most", ""]
        lines += [*_table(columns, rows, figures_from=3), ""]
    for found in results.cases:
        if not found.measured:
            continue
        rounds = f"{found.rounds} rounds" if found.rounds > 1 else "one round"
        against = f", × against {found.against}" if found.against else ""
        lines += [f"{found.bench}: {found.case} ({rounds}{against}):", ""]
        lines += _table(case_columns(found), case_rows(found), figures_from=1)
        lines += ["", f"{slopes_line(found)}", ""] if found.sizes != [None] else [""]
    if lacking := lacking_lines(results):
        lines += ["Not whole:", "", *(f"* {_cell(line)}" for line in lacking), ""]
    path.write_text("\n".join(lines))
    return path


def _status(one: Verdict) -> str:
    return one.status.value if one.status is Status.KEPT else f"**{one.status.value}**"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, figures_from: int) -> list[str]:
    rules = ["---" if number < figures_from else "---:" for number in range(len(columns))]
    return [_line(columns), _line(rules), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
