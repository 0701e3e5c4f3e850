"""The report's charts, as plotly figures: values in, nothing drawn yet.

Colour is never the only sign: owners have their name in their bar, new consumers are hatched. Texts go through plain(),
since plotly understands some HTML.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go

from study.figures import Figures, Row, start_ms
from study.words import by_happening

COLOURS = ("#1b6ca8", "#c8553d", "#2a7d4b", "#8e5aa8", "#8a6508", "#2b7f7f", "#7a5230", "#b0487f", "#4a5568", "#5b7f1b")
INK, GRID, GAP = "#1a1a1a", "#dddddd", "#ffffff"
ROW_PX, SMALL_ROW_PX, MANY_ROWS = 26, 12, 24
LEGEND_PX = 20
SHOWN_PAUSE_MS = 150
"""Shorter silences are as short as the time between two records."""
_STANDOFF = {"ticks": "outside", "ticklen": 6, "tickcolor": "rgba(0,0,0,0)"}


def timeline(one: Figures, tables: Mapping[str, Sequence[Row]], until_s: float) -> go.Figure:
    """Who owned which partition; where nothing was delivered at a change of hands, a black line."""
    start = start_ms(tables, one.subject)
    mine = [row for row in tables["owned"] if row["subject"] == one.subject]
    partitions = sorted({(row["topic"], row["partition"]) for row in mine}, reverse=True)
    row_px = ROW_PX if len(partitions) <= MANY_ROWS else SMALL_ROW_PX
    figure = go.Figure()
    members = sorted({row["member"] for row in mine}, key=_natural)
    for number, member in enumerate(members):
        owned = [row for row in mine if row["member"] == member]
        ends = [until_s if row["until_ms"] is None else (row["until_ms"] - start) / 1000 for row in owned]
        begins = [(row["from_ms"] - start) / 1000 for row in owned]
        figure.add_bar(
            orientation="h",
            name=plain(member),
            y=[_where(row) for row in owned],
            base=begins,
            x=[end - begin for begin, end in zip(begins, ends, strict=True)],
            marker={"color": colour(number), "line": {"color": GAP, "width": 1}},
            text=[plain(member)] * len(owned),
            textposition="inside",
            insidetextanchor="start",
            insidetextfont_color="#ffffff",
            textangle=0,
            customdata=[[begin, end] for begin, end in zip(begins, ends, strict=True)],
            hovertemplate="%{y}: %{fullData.name}, %{customdata[0]:.2f} to %{customdata[1]:.2f} s<extra></extra>",
        )
    figure.add_scatter(**_silences(one, tables, start))
    for each in one.happened:
        figure.add_vline(x=each.at_s, line={"dash": "dot", "color": INK, "width": 1})
        figure.add_annotation(
            x=each.at_s, y=1, yref="paper", yanchor="bottom", xanchor="left", showarrow=False, textangle=-20,
            text=plain(each.text), font_size=11,
        )  # fmt: skip
    figure.update_layout(
        _layout(height=170 + row_px * len(partitions), top=70),
        barmode="overlay",
        bargap=0.15,
        uniformtext={"minsize": 9, "mode": "hide"},
        showlegend=len(members) <= len(COLOURS),
        xaxis={"title": "seconds from the start", "range": [-1, until_s], "gridcolor": GRID, "zeroline": False},
        yaxis={
            "range": [-0.5, len(partitions) - 0.5],
            "categoryorder": "array", "categoryarray": [plain(f"{topic}/{number}") for topic, number in partitions],
            "automargin": True, **_STANDOFF, "dtick": 1 if len(partitions) <= MANY_ROWS else None,
        },
    )  # fmt: skip
    return figure


def colour(number: int) -> str:
    """Of the subject or member in this place."""
    return COLOURS[number % len(COLOURS)]


def pauses(rows: Sequence[Figures]) -> go.Figure:
    """The longest silence after each thing the scenario did, all consumers beside each other."""
    found = by_happening(rows)
    figure = go.Figure()
    for number, one in enumerate(rows):
        values = [each[number].longest_pause_ms if each[number] else 0 for _, each in found]  # type: ignore[union-attr]
        figure.add_bar(**_bar(number, one), y=[plain(text) for text, _ in found], x=values)
    return _bars(figure, len(found) * len(rows), "ms")


def counts(rows: Sequence[Figures], fields: Mapping[str, str]) -> go.Figure:
    """Figures by name, all consumers beside each other."""
    figure = go.Figure()
    for number, one in enumerate(rows):
        figure.add_bar(**_bar(number, one), y=list(fields), x=[getattr(one, field) for field in fields.values()])
    return _bars(figure, len(fields) * len(rows), "")


def lag(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]], until_s: float) -> go.Figure:
    """Records produced and not yet delivered."""
    figure = go.Figure()
    for number, one in enumerate(rows):
        start = start_ms(tables, one.subject)
        points = sorted((row["time_ms"] - start, row["lag"]) for row in tables["lag"] if row["subject"] == one.subject)
        figure.add_scatter(
            x=[at / 1000 for at, _ in points],
            y=[behind for _, behind in points],
            name=plain(one.title),
            mode="lines",
            line={"color": colour(number), "dash": "dash" if one.protocol == "new" else "solid"},
        )
    shown = [row["lag"] for one in rows for row in tables["lag"] if _after_start(row, one, tables)]
    figure.update_layout(
        _layout(height=280 + LEGEND_PX * len(rows)),
        showlegend=True,
        xaxis={"title": "seconds from the start", "range": [-1, until_s], "gridcolor": GRID},
        yaxis={"title": "records", "gridcolor": GRID, "range": [0, max(shown, default=1) * 1.05 + 1]},
    )
    return figure


def plain(text: str) -> str:
    """plotly understands some HTML in its texts: let it see none."""
    return escape(text)


def end_s(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]]) -> float:
    """How long the longest of the runs was: all charts over time have the same axis."""
    ends = [
        (row["time_ms"] - start_ms(tables, one.subject)) / 1000
        for one in rows
        for row in tables["events"]
        if row["subject"] == one.subject
    ]
    return max(ends, default=0.0) + 0.2


def _silences(one: Figures, tables: Mapping[str, Sequence[Row]], start: int) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[str | None] = []
    for row in tables["pauses"]:
        if row["subject"] == one.subject and row["from_ms"] >= start and row["pause_ms"] >= SHOWN_PAUSE_MS:
            x += [(row["from_ms"] - start) / 1000, (row["until_ms"] - start) / 1000, None]
            y += [_where(row), _where(row), None]
    return {
        "x": x, "y": y, "mode": "lines", "name": "nothing delivered", "line": {"color": INK, "width": 3},
        "hoverinfo": "skip", "connectgaps": False,
    }  # fmt: skip


def _after_start(row: Row, one: Figures, tables: Mapping[str, Sequence[Row]]) -> bool:
    return row["subject"] == one.subject and int(row["time_ms"]) >= start_ms(tables, one.subject)


def _bar(number: int, one: Figures) -> dict[str, Any]:
    hatched = {"shape": "/", "size": 6, "fgcolor": "#ffffff", "fgopacity": 0.6} if one.protocol == "new" else {}
    return {
        "name": plain(one.title), "orientation": "h", "texttemplate": "%{x:,}", "textposition": "outside",
        "cliponaxis": False, "marker": {"color": colour(number), "pattern": hatched},
    }  # fmt: skip


def _bars(figure: go.Figure, bars: int, unit: str) -> go.Figure:
    figure.update_layout(
        _layout(height=120 + 22 * bars + LEGEND_PX * len(figure.data)),  # on paper each name has a line of its own
        barmode="group",
        showlegend=True,
        legend_traceorder="normal",
        xaxis={"title": unit, "gridcolor": GRID, "zeroline": False, "rangemode": "tozero"},
        yaxis={"autorange": "reversed", "automargin": True, **_STANDOFF},
    )
    return figure


def _layout(*, height: int, top: int = 10) -> dict[str, Any]:
    return {
        "height": height, "margin": {"l": 10, "r": 50, "t": top, "b": 10, "autoexpand": True},
        "plot_bgcolor": "#f7f7f7", "paper_bgcolor": "#ffffff", "font": {"color": INK, "size": 13},
        "dragmode": False, "legend": {"orientation": "h", "yref": "container", "y": 0, "yanchor": "bottom", "x": 0},
    }  # fmt: skip


def _where(row: Row) -> str:
    return plain(f"{row['topic']}/{row['partition']}")


def _natural(name: str) -> tuple[int, str]:
    """m2 before m10."""
    return (len(name), name)
