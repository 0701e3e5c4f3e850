"""The tables of a report in Markdown, for pages that show a run: promises first, then every case."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.bench.promises import Status, Verdict, short
from tests.bench.results import Results
from tests.bench.tables import case_columns, case_rows, lacking_lines, slopes_line

BEGIN, END = "<!-- a run: begin -->", "<!-- a run: end -->"
"""In a page; what stands between them is replaced by the tables."""


class NoPlace(Exception):
    """A page that has no marks, or cannot be read."""


def write_markdown(results: Results, judged: Sequence[Verdict], path: Path) -> Path:
    path.write_text(markdown(results, judged))
    return path


def put_into(page: Path, text: str) -> None:
    """Replace the run that a page shows."""
    try:
        before, _, rest = page.read_text().partition(f"{BEGIN}\n")
    except OSError as error:
        raise NoPlace(f"{page}: {error.strerror}") from None
    _, _, after = rest.partition(END)
    if not after:
        raise NoPlace(f"{page}: there is no {BEGIN} with an {END} behind it")
    page.write_text(f"{before}{BEGIN}\n\n{text}\n{END}{after}")


def markdown(results: Results, judged: Sequence[Verdict]) -> str:
    lines: list[str] = []
    for run in results.runs:
        lines += [f"{run.began[:10]}, {_machine(run.machine)}:", ""]
        lines += ["```", f"python -m tests.bench {shlex.join(run.arguments)}".rstrip(), "```", ""]
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
    return "\n".join(lines)


def _machine(found: Mapping[str, Any]) -> str:
    known = {name: found[name] for name in ("cores", "memory_gib", "load", "python", "commit") if name in found}
    said = {name: short(value) if isinstance(value, float) else value for name, value in known.items()}
    return ", ".join(f"{name.replace('_gib', ' (GiB)')} {value}" for name, value in said.items())


def _status(one: Verdict) -> str:
    return one.status.value if one.status is Status.KEPT else f"**{one.status.value}**"


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, figures_from: int) -> list[str]:
    rules = ["---" if number < figures_from else "---:" for number in range(len(columns))]
    return [_line(columns), _line(rules), *(_line(row) for row in rows)]


def _line(cells: Sequence[str]) -> str:
    return f"| {' | '.join(map(_cell, cells))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
