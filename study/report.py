"""The page: one HTML file that needs nothing else. Words first, then charts, each with its table beside it.

Names of topics, members and groups may be hostile: everything goes through escape(), and into charts as JSON data that
plotly shows as text.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from study.figures import CHECKS, Figures, Row, start_ms
from study.words import happened, means

COLOURS = ("#1b6ca8", "#c8553d", "#2a9d4b", "#8e5aa8", "#b8860b", "#3a9c9c", "#7a5230", "#d06ba5")
COLUMNS = {
    "title": "consumer",
    "lost": "lost",
    "duplicated": "delivered again",
    "reordered": "out of order",
    "delivered_by_non_owner": "by a non-owner",
    "commits_going_back": "commits back",
    "rebalances": "rebalances",
    "rebalance_ms": "rebalancing, ms",
    "partitions_stopped": "partitions stopped",
    "partitions_moved": "partitions moved",
    "median_pause_ms": "median pause, ms",
    "longest_pause_ms": "longest pause, ms",
    "most_lag": "most lag",
    "zookeeper_writes": "ZooKeeper writes",
    "zookeeper_packets": "ZooKeeper packets",
    "most_watches": "watches",
    "commits": "commits",
    "commit_store": "kept in",
}
_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 76rem; margin: 0 auto; padding: 1rem;
  color: #1a1a1a; background: #fff }
h1 { line-height: 1.2 } table { border-collapse: collapse; margin: 1rem 0; font-size: .9rem }
th, td { border: 1px solid #bbb; padding: .25rem .5rem; text-align: right } th { background: #f0f0f0 }
th[scope=row], td.text { text-align: left } .wide { overflow-x: auto } td.bad { background: #fbe3df; font-weight: bold }
a:focus, summary:focus, .wide:focus { outline: 3px solid #1b6ca8 }
.skip { position: absolute; left: -999px } .skip:focus { left: 1rem }
figure { margin: 1rem 0 }
@media print { .skip { display: none } figure, table { break-inside: avoid } body { max-width: none } }
"""


def page(
    title: str,
    about: str,
    rows: Sequence[Figures],
    tables: Mapping[str, Sequence[Row]],
    evidence: Mapping[str, Sequence[Row]],
) -> str:
    """The whole document."""
    body = [
        f"<h1>{escape(title)}</h1><p>{escape(about)}</p>",
        '<h2 id="happened">What happened</h2>',
        *(f"<p>{escape(happened(one))}</p>" for one in rows),
        '<h2 id="means">What it means for a migration</h2><ul>',
        *(f"<li>{escape(line)}</li>" for line in means(rows)),
        "</ul>",
        '<h2 id="figures">The figures</h2>',
        _figures_table(rows),
        '<h2 id="evidence">Evidence</h2>',
        *_evidence(evidence),
        '<h2 id="owners">Who owned which partition, when</h2>',
        *_timelines(rows, tables),
        '<h2 id="pauses">Pauses and repetitions</h2>',
        _chart(
            _bars(rows, {"median pause, ms": "median_pause_ms", "longest pause, ms": "longest_pause_ms"}),
            "Pauses by consumer",
        ),
        _chart(_bars(rows, {"delivered again": "duplicated"}), "Repetitions by consumer"),
        '<h2 id="lag">Lag over time</h2>',
        _chart(_lag(rows, tables), "Records produced and not yet delivered, by seconds from the start"),
        _details("Lag as a table", _lag_table(rows, tables)),
        '<h2 id="herd">The herd: what ZooKeeper did for each rebalance</h2>',
        _chart(
            _bars(rows, {"packets": "zookeeper_packets", "writes": "zookeeper_writes", "watches": "most_watches"}),
            "ZooKeeper's load",
        ),
        _details("Each rebalance as a table", _rebalance_table(rows, tables)),
    ]
    links = {"happened": "What happened", "means": "For a migration", "figures": "Figures", "evidence": "Evidence",
             "owners": "Owners", "pauses": "Pauses", "lag": "Lag", "herd": "Herd"}  # fmt: skip
    contents = " · ".join(f'<a href="#{anchor}">{text}</a>' for anchor, text in links.items())
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width"><link rel="icon" href="data:,"><style>{_STYLE}</style>'
        f"<script>{get_plotlyjs()}</script></head><body>"
        f'<a class="skip" href="#main">Skip to the text</a><nav aria-label="Contents">{contents}</nav>'
        f'<main id="main">{"".join(body)}</main></body></html>\n'
    )


def _figures_table(rows: Sequence[Figures]) -> str:
    cells = []
    for one in rows:
        line = [f'<th scope="row">{escape(one.title)}</th>']
        for field in list(COLUMNS)[1:]:
            value = getattr(one, field)
            style = ' class="bad"' if field in CHECKS and value else ""
            text = f"{value:,}" if isinstance(value, int) else escape(value)
            line.append(f'<td{style} data-figure="{escape(one.subject)} {field}">{text}</td>')
        cells.append(f"<tr>{''.join(line)}</tr>")
    head = "".join(f'<th scope="col">{text}</th>' for text in COLUMNS.values())
    return (
        '<div class="wide" tabindex="0" role="region" aria-label="The figures"><table id="figures-table">'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(cells)}</tbody></table></div>"
    )


def _evidence(evidence: Mapping[str, Sequence[Row]]) -> Iterable[str]:
    found = {name: rows for name, rows in evidence.items() if rows}
    if not found:
        yield "<p>No check found anything.</p>"
    for name, rows in found.items():
        yield _details(
            f"{name.replace('_', ' ')}: the first {len(rows)} cases",
            _table(list(rows[0]), [list(row.values()) for row in rows]),
        )


def _timelines(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]]) -> Iterable[str]:
    for one in rows:
        yield _chart(_timeline(one, tables), f"Owners over time: {one.title}")
        start = start_ms(tables, one.subject)
        owned = [row for row in tables["owned"] if row["subject"] == one.subject]
        cells = [
            [
                f"{row['topic']}/{row['partition']}",
                row["member"],
                _since(row["from_ms"], start),
                _since(row["until_ms"], start),
            ]
            for row in sorted(owned, key=lambda row: (row["topic"], row["partition"], row["from_ms"]))
        ]
        yield _details(
            f"The same as a table: {one.title}", _table(["partition", "owner", "from, s", "until, s"], cells)
        )


def _timeline(one: Figures, tables: Mapping[str, Sequence[Row]]) -> go.Figure:
    start = start_ms(tables, one.subject)
    owned = [row for row in tables["owned"] if row["subject"] == one.subject]
    end = max((row["time_ms"] for row in tables["events"] if row["subject"] == one.subject), default=start)
    figure = go.Figure()
    for number, member in enumerate(sorted({row["member"] for row in owned})):
        mine = [row for row in owned if row["member"] == member]
        figure.add_bar(
            orientation="h",
            name=_plain(member),
            y=[_plain(f"{row['topic']}/{row['partition']}") for row in mine],
            base=[(row["from_ms"] - start) / 1000 for row in mine],
            x=[((end if row["until_ms"] is None else row["until_ms"]) - row["from_ms"]) / 1000 for row in mine],
            marker_color=COLOURS[number % len(COLOURS)],
        )
    for row in tables["events"]:
        if row["subject"] == one.subject and row["event"] not in ("start", "end"):
            figure.add_vline(
                x=(row["time_ms"] - start) / 1000,
                line_dash="dot",
                annotation_text=_plain(f"{row['event']} {row['member'] or ''}"),
            )
    figure.update_layout(barmode="overlay", xaxis_title="seconds from the start", height=340, title=_plain(one.title))
    return figure


def _bars(rows: Sequence[Figures], fields: Mapping[str, str]) -> go.Figure:
    figure = go.Figure()
    for number, (name, field) in enumerate(fields.items()):
        figure.add_bar(
            name=name,
            x=[_plain(one.title) for one in rows],
            y=[getattr(one, field) for one in rows],
            marker_color=COLOURS[number],
        )
    figure.update_layout(barmode="group", height=340, showlegend=True)
    return figure


def _lag(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]]) -> go.Figure:
    figure = go.Figure()
    for number, one in enumerate(rows):
        start = start_ms(tables, one.subject)
        points = sorted((row["time_ms"] - start, row["lag"]) for row in tables["lag"] if row["subject"] == one.subject)
        figure.add_scatter(
            x=[at / 1000 for at, _ in points],
            y=[lag for _, lag in points],
            name=_plain(one.title),
            line_color=COLOURS[number % len(COLOURS)],
        )
    figure.update_layout(xaxis_title="seconds from the start", yaxis_title="records", height=340, showlegend=True)
    return figure


def _lag_table(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]]) -> str:
    """By whole seconds."""
    lag: dict[int, dict[str, int]] = {}
    for row in tables["lag"]:
        second = (row["time_ms"] - start_ms(tables, row["subject"])) // 1000
        if second >= 0:
            by_subject = lag.setdefault(second, {})
            by_subject[row["subject"]] = max(by_subject.get(row["subject"], 0), row["lag"])
    cells = [[second, *(lag[second].get(one.subject, "") for one in rows)] for second in sorted(lag)]
    return _table(["second", *(one.title for one in rows)], cells)


def _rebalance_table(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]]) -> str:
    title = {one.subject: one.title for one in rows}
    columns = ("duration_ms", "partitions_stopped", "partitions_moved", "writes", "packets", "watches")
    cells = [
        [
            title.get(row["subject"], row["subject"]),
            _since(row["from_ms"], start_ms(tables, row["subject"])),
            *(row[column] for column in columns),
        ]
        for row in tables["rebalances"]
    ]
    return _table(["consumer", "at, s", "duration, ms", "stopped", "moved", "writes", "packets", "watches"], cells)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    head = "".join(f'<th scope="col">{escape(str(column))}</th>' for column in columns)
    lines = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    region = '<div class="wide" tabindex="0" role="region" aria-label="table">'
    return f"{region}<table><thead><tr>{head}</tr></thead><tbody>{lines}</tbody></table></div>"


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _chart(figure: go.Figure, caption: str) -> str:
    drawn = figure.to_html(full_html=False, include_plotlyjs=False, config={"displaylogo": False, "responsive": True})
    label = escape(caption)
    return f'<figure role="group" aria-label="{label}"><figcaption>{escape(caption)}</figcaption>{drawn}</figure>'


def _plain(text: str) -> str:
    """plotly understands some HTML in its texts: let it see none."""
    return escape(text)


def _since(time_ms: int | None, start: int) -> str:
    return "end" if time_ms is None else f"{(time_ms - start) / 1000:.2f}"
