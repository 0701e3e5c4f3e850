"""A report as one HTML file that needs nothing else: bars of ratios with their spread, and what grows with size.

Right of 1 is better than the subject compared with; the line over a bar goes from the least to the most of the rounds.
"""

from __future__ import annotations

import html
import statistics
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.report import Growth, Report, ratios_of

OURS, THEIRS = "#1f77b4", "#b0b7bf"
ROW_HEIGHT, FRAME_HEIGHT = 26, 130


def write_pictures(report: Report, path: Path) -> None:
    """Does nothing where there is nothing to draw."""
    import plotly.io

    figures = [*_bars(report), *_growths(report)]
    if not figures:
        return
    parts = [
        plotly.io.to_html(figure, full_html=False, include_plotlyjs=number == 0)
        for number, figure in enumerate(figures)
    ]
    style = "body{font-family:sans-serif;max-width:70em;margin:auto}"
    head = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>bench</title><style>{style}</style>'
    path.write_text(f"{head}<h1>What things cost</h1><p>{html.escape((__doc__ or '').strip())}</p>{''.join(parts)}")


def _bars(report: Report) -> Iterator[object]:
    import plotly.graph_objects

    for (bench, case), against in report.references.items():
        rows = [one for one in report.measured if (one.bench, one.case) == (bench, case)]
        reference = report.find(bench, case, against)
        ratios = [ratios_of(one, reference) for one in rows]
        middles = [statistics.median(found) for found in ratios]
        speeds = [f"{statistics.median(one.samples):.3g} {one.unit}" for one in rows]
        bar = plotly.graph_objects.Bar(
            x=middles,
            y=[one.subject for one in rows],
            orientation="h",
            marker_color=[OURS if one.subject.startswith("ours") else THEIRS for one in rows],
            text=[f"{middle:.2f}×, {speed}" for middle, speed in zip(middles, speeds, strict=True)],
            error_x=_spread(ratios),
        )
        figure = plotly.graph_objects.Figure(bar)
        figure.update_layout(
            title=f"{bench}: {case}, against {against}, {len(reference.samples)} rounds",
            height=FRAME_HEIGHT + ROW_HEIGHT * len(rows),
            margin={"l": 220},
            template="plotly_white",
        )
        figure.update_yaxes(autorange="reversed")
        figure.add_vline(x=1, line_dash="dot")
        yield figure


def _growths(report: Report) -> Iterator[object]:
    import plotly.graph_objects

    cases: dict[tuple[str, str], list[Growth]] = {}
    for growth in report.growths:
        cases.setdefault((growth.bench, growth.case), []).append(growth)
    for (bench, case), growths in cases.items():
        figure = plotly.graph_objects.Figure()
        for growth in growths:
            figure.add_scatter(
                x=[size for size, _ in growth.points],
                y=[statistics.median(samples) for _, samples in growth.points],
                mode="lines+markers",
                name=f"{growth.subject}, slope {growth.slope:.2f}",
                error_y=_spread([samples for _, samples in growth.points]),
            )
        figure.update_layout(title=f"{bench}: {case}", template="plotly_white", height=420, showlegend=True)
        figure.update_xaxes(type="log", title=growths[0].size)
        figure.update_yaxes(type="log", title=growths[0].unit)
        yield figure


def _spread(groups: Sequence[Sequence[float]]) -> dict[str, object]:
    """From the median to the most and to the least, as plotly wants it."""
    return {
        "type": "data",
        "symmetric": False,
        "array": [max(group) - statistics.median(group) for group in groups],
        "arrayminus": [statistics.median(group) - min(group) for group in groups],
    }
