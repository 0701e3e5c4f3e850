"""Results as one HTML page that needs nothing else: promises, bars of ratios with their spread, lines of what grows."""

from __future__ import annotations

import html
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.bench.promises import Status, Verdict, note_of, short, spread
from tests.bench.results import CaseFound, Measured, Results, there
from tests.bench.tables import lacking_lines

OURS, THEIRS = "#1f6fb4", "#9aa5b1"
COLOURS = (OURS, "#d1731b", "#3f8f4f", "#8a5fb0", "#6b7480")
ROW_HEIGHT, FRAME_HEIGHT, LINES_HEIGHT = 26, 90, 400
PAIR = 2  # cases of so many subjects share a picture

STYLE = """
body { font: 16px/1.5 sans-serif; max-width: 66rem; margin: 2rem auto; padding: 0 1rem; color: #1c2733 }
h2 { margin-top: 3rem; border-bottom: 1px solid #d5dbe1 } h3 { margin: 2rem 0 0 }
nav a { margin-right: 1.2em }
table { border-collapse: collapse; font-size: .9rem; margin: .5rem 0 }
th, td { text-align: left; padding: .2rem .8rem .2rem 0; border-bottom: 1px solid #e6eaee; vertical-align: top }
td.n, th.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
.kept { color: #1c6b32 } .missed { color: #a3141e; font-weight: bold } .not { color: #7a5200 }
.note { background: #fff5df; border-left: .3rem solid #c88a1a; padding: .5rem 1rem }
summary { cursor: pointer; font-size: .9rem }
@media print { details { display: none } .js-plotly-plot, table { break-inside: avoid } }
"""
CLASSES = {Status.KEPT: "kept", Status.MISSED: "missed", Status.NOT_MEASURED: "not"}


def write_page(results: Results, judged: Sequence[Verdict], path: Path) -> Path:
    """Where it was written."""
    benches = list(dict.fromkeys(case.bench for case in results.cases))
    links = "".join(f'<a href="#{bench}">{bench}</a>' for bench in benches)
    parts = [
        '<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">',
        f"<title>What things cost</title><style>{STYLE}</style>",
        f"<h1>What things cost</h1>{_introduction(results)}<nav>{links}</nav>",
        _not_whole(results),
        _promises(judged),
        _runs(results),
    ]
    drawing = _Drawing()
    for bench in benches:
        parts.append(f'<h2 id="{bench}">{bench}</h2>')
        parts += _section([case for case in results.cases if case.bench == bench and case.measured], results, drawing)
    path.write_text("\n".join(parts) + "</html>\n")
    return path


def _introduction(results: Results) -> str:
    machine = results.run.machine if results.runs else {}
    words = f"{machine.get('cores')} cores, {machine.get('memory_gib')} GiB, Python {machine.get('python')}"
    sizes = " Quick sizes: too small for figures to mean much." if results.quick else ""
    return (
        f"<p>Measured with <code>make bench</code> on {_text(words)}.{sizes} Medians, with least and most. "
        "All subjects of a case were measured in turn, round by round, on the same servers, and ratios are formed "
        "round by round: <b>×</b> over 1 is better than the one compared with, whatever is measured.</p>"
    )


def _not_whole(results: Results) -> str:
    lines = [*lacking_lines(results), *(f"{bench} failed: {text}" for bench, text in results.failures.items())]
    if not lines:
        return ""
    items = "".join(f"<li>{_text(line)}</li>" for line in lines)
    return f'<div class="note"><b>This report is not whole.</b> Missing, or measured in part:<ul>{items}</ul></div>'


def _promises(judged: Sequence[Verdict]) -> str:
    if not judged:
        return ""
    counts = [(status, sum(one.status is status for one in judged)) for status in Status]
    said = ", ".join(f"{count} {status.value}" for status, count in counts if count)
    rows = [
        f"<tr><td>{one.bench}<td>{_text(one.case)}<td>{_text(one.what)}<td class=n>{_text(one.promised)}"
        f"<td class=n>{_text(one.found)}<td class=n>{_text(one.spread)}"
        f'<td class="{CLASSES[one.status]}">{one.status.value}<td>{_text(one.note)}'
        for one in judged
    ]
    head = "<tr><th>bench<th>case<th>what<th class=n>promised<th class=n>found<th class=n>least–most<th><th>"
    return f"<h2>Promised, and found</h2><p>{said}.</p><table>{head}{''.join(rows)}</table>"


def _runs(results: Results) -> str:
    head = "<tr><th>run<th>began<th class=n>cases<th>commit<th class=n>load at its start<th>ended<th>with"
    rows = []
    for number, run in enumerate(results.runs, 1):
        cases, load = sum(case.run == run.id for case in results.cases), run.machine.get("load", 0)
        rows.append(
            f"<tr><td>{number}<td>{run.began}<td class=n>{cases}<td>{_text(str(run.machine.get('commit')))}"
            f"<td class=n>{load:.1f}<td>{_text(run.ended or '–')}<td><code>{_text(' '.join(run.arguments))}</code>"
        )
    return f"<h2>Runs</h2><table>{head}{''.join(rows)}</table>"


class _Drawing:
    """Figures as HTML; the library goes with the first."""

    def __init__(self) -> None:
        self._is_first = True

    def html(self, figure: Any) -> str:
        import plotly.io

        config = {"displayModeBar": False, "responsive": True}
        drawn = plotly.io.to_html(figure, full_html=False, include_plotlyjs=self._is_first, config=config)
        self._is_first = False
        return str(drawn)


def _section(cases: Sequence[CaseFound], results: Results, drawing: _Drawing) -> Iterator[str]:
    """Pairs in one picture, other cases in one each, in which every figure is also a table."""
    pairs = [case for case in cases if case.against and len(case.subjects) == PAIR and case.sizes == [None]]
    if pairs:
        yield f"<h3>against {_text(' and '.join(dict.fromkeys(case.against for case in pairs)))}</h3>"
        yield drawing.html(_pairs(pairs))
        yield "".join(_table(case, results) for case in pairs)
    for case in cases:
        if case in pairs:
            continue
        yield f"<h3>{_text(case.case)}</h3>"
        if any(there(one.samples) for one in case.measured):
            yield drawing.html(_lines(case) if case.sizes != [None] else _bars(case))
        yield _table(case, results)


def _pairs(cases: Sequence[CaseFound]) -> Any:
    rows = []
    for case in cases:
        subject = next(name for name in case.subjects if name != case.against)
        ours, theirs, ratios = case.find(subject), case.find(case.against), case.ratios(subject, case.against)
        if ours is not None and theirs is not None and ratios:
            said = f"{statistics.median(ratios):.2f}×: {short(ours.median)} to {short(theirs.median)} {ours.unit}"
            rows.append((case.case, ratios, said, OURS))
    return _horizontal(rows, "times as good", is_ratio=True)


def _bars(case: CaseFound) -> Any:
    rows = []
    for one in case.measured:
        values = case.ratios(one.subject, case.against) if case.against else there(one.samples)
        if values:
            middle = f"{statistics.median(values):.2f}×: " if case.against else ""
            colour = OURS if one.subject.startswith("ours") or not case.against else THEIRS
            rows.append((one.subject, values, f"{middle}{short(one.median)} {one.unit}{_beside(one)}", colour))
    unit = case.measured[0].unit
    return _horizontal(rows, f"times as good as {case.against}" if case.against else unit, is_ratio=bool(case.against))


def _beside(one: Measured) -> str:
    """A few words more on a bar."""
    medians = {name: statistics.median(there(samples)) for name, samples in one.beside.items() if there(samples)}
    return "".join(f", {short(median)} {name}" for name, median in medians.items())


def _horizontal(rows: Sequence[tuple[str, Sequence[float], str, str]], axis: str, *, is_ratio: bool) -> Any:
    """Bars of (name, values, what is written beside, colour): the median, with a line from least to most."""
    import plotly.graph_objects

    figure = plotly.graph_objects.Figure()
    figure.add_bar(
        x=[statistics.median(values) for _, values, _, _ in rows],
        y=[name for name, _, _, _ in rows],
        orientation="h",
        marker_color=[colour for _, _, _, colour in rows],
        error_x=_spread([values for _, values, _, _ in rows]) | {"color": "#1c2733", "thickness": 1, "width": 4},
        hoverinfo="skip",
    )
    # Beside the spread, not under it.
    figure.add_scatter(
        x=[max(values) for _, values, _, _ in rows],
        y=[name for name, _, _, _ in rows],
        text=[f"  {said}" for _, _, said, _ in rows],
        mode="text",
        textposition="middle right",
        cliponaxis=False,
        hoverinfo="skip",
    )
    most = max((max(values) for _, values, _, _ in rows), default=1.0)
    figure.update_layout(
        height=FRAME_HEIGHT + ROW_HEIGHT * len(rows),
        margin={"l": 10, "r": 10, "t": 10, "b": 50},
        template="plotly_white",
        showlegend=False,
        bargap=0.35,
    )
    figure.update_xaxes(title=axis, range=[0, most * 1.6], fixedrange=True)
    figure.update_yaxes(autorange="reversed", automargin=True, fixedrange=True)
    if is_ratio:
        figure.add_vline(x=1, line_dash="dot", line_color="#1c2733")
    return figure


def _lines(case: CaseFound) -> Any:
    """On both axes logarithms, so that a slope is an angle; the dotted line is linear growth from ours' first point."""
    import plotly.graph_objects

    figure = plotly.graph_objects.Figure()
    ours_first = sorted(case.subjects, key=lambda name: not name.startswith("ours"))
    sizes = [size for size in case.sizes if size is not None]
    for colour, subject in zip(COLOURS, ours_first, strict=False):
        points, slope = case.points(subject), case.slope(subject)
        if not points:
            continue
        figure.add_scatter(
            x=[size for size, _ in points],
            y=[statistics.median(samples) for _, samples in points],
            mode="lines+markers",
            line_color=colour,
            name=subject if slope is None else f"{subject}, slope {slope:.2f}",
            error_y=_spread([samples for _, samples in points]),
        )
    if first := case.points(ours_first[0]):
        size, cost = first[0][0], statistics.median(first[0][1])
        ends = [size, max(sizes)]
        figure.add_scatter(
            x=ends, y=[cost * end / size for end in ends], mode="lines", name="linear, slope 1",
            line={"dash": "dot", "color": "#6b7480", "width": 1},
        )  # fmt: skip
    figure.update_layout(
        template="plotly_white", height=LINES_HEIGHT, showlegend=True, margin={"l": 10, "r": 10, "t": 10, "b": 50}
    )
    texts = [f"{size:,.0f}" for size in sizes]
    figure.update_xaxes(type="log", title=case.grows_by, tickvals=sizes, ticktext=texts, fixedrange=True)
    figure.update_yaxes(type="log", title=case.measured[0].unit, automargin=True, fixedrange=True, dtick="D2")
    return figure


def _table(case: CaseFound, results: Results) -> str:
    """For those who do not look at pictures, and with what was measured beside."""
    by_size = case.sizes != [None]
    beside = list(dict.fromkeys(name for one in case.measured for name in one.beside))
    columns = [*([case.grows_by] if by_size else []), case.measured[0].unit, "least–most"]
    columns += [*([f"× {case.against}", "least–most"] if case.against else []), *beside]
    head = "".join(f"<th class=n>{_text(column)}" for column in columns)
    rows = ""
    for one in case.measured:
        cells = "".join(f"<td class=n>{_text(cell)}" for cell in _cells(case, one, by_size, beside))
        rows += f"<tr><td>{_text(one.subject)}{cells}"
    notes = [f"{_rounds(case.whole_rounds)}", note_of(case, results), case.failure and f"failed: {case.failure}"]
    said = _text("; ".join(note for note in notes if note))
    summary = f"<summary>{_text(case.case)}: figures ({said})</summary>"
    return f"<details>{summary}<table><tr><th>subject{head}{rows}</table></details>"


def _cells(case: CaseFound, one: Measured, by_size: bool, beside: Sequence[str]) -> list[str]:
    cells = [f"{one.size:,.0f}" if one.size is not None else ""] if by_size else []
    samples = there(one.samples)
    if not samples:
        return [*cells, one.failure]
    cells += [short(statistics.median(samples)), spread(samples)]
    if case.against:
        ratios = case.ratios(one.subject, case.against, size=one.size)
        cells += [short(statistics.median(ratios)), spread(ratios)] if ratios else ["", ""]
    for name in beside:
        values = there(one.beside.get(name, []))
        cells.append(short(statistics.median(values)) if values else "")
    return cells


def _rounds(number: int) -> str:
    return "one round" if number == 1 else f"{number} rounds"


def _spread(groups: Sequence[Sequence[float]]) -> dict[str, Any]:
    """From the median to the most and to the least, as plotly wants it."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(group) - statistics.median(group) for group in groups],
        "arrayminus": [statistics.median(group) - min(group) for group in groups],
    }


def _text(text: str) -> str:
    return html.escape(text)
