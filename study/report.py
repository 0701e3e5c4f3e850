"""The page: one HTML file that needs nothing else. Words first, then charts, each with its table beside it.

Names of topics, members and groups may be hostile: everything goes through escape(), and into charts as JSON data that
plotly shows as text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

import plotly.graph_objects as go
from plotly.offline import get_plotlyjs

from study import charts
from study.figures import CHECKS, Figures, Row, start_ms
from study.page_style import SCRIPT, STYLE
from study.words import by_happening, duration, happened, headline, means

LABELS = {  # of each figure: its name, and what it means
    "produced": ("records produced", ""),
    "lost": ("lost", "produced, and delivered to nobody"),
    "duplicated": ("delivered again", "each delivery of a record after its first"),
    "reordered": ("out of order", "first delivered after a later record of its partition"),
    "delivered_by_non_owner": ("by a non-owner", "delivered by a member that did not own the partition then"),
    "commits_going_back": ("commits going back", "an offset stored below one stored before"),
    "rebalances": ("rebalances", ""),
    "rebalance_ms": ("time in rebalances", "some partition had no owner"),
    "partitions_stopped": ("partitions stopped", "lost their owner in a rebalance, all together"),
    "partitions_moved": ("partitions moved", "got another owner"),
    "median_pause_ms": ("median pause", "last record of the old reader to first of the new"),
    "longest_pause_ms": ("longest pause", ""),
    "longest_wait_ms": ("longest wait", "of a record, from the broker's acknowledgement to its delivery"),
    "most_lag": ("most lag", "records produced and not yet delivered"),
    "zookeeper_writes": ("ZooKeeper writes", "around rebalances"),
    "zookeeper_packets": ("ZooKeeper packets", "around rebalances"),
    "most_watches": ("ZooKeeper watches", "set at one time"),
    "commits": ("commits", "offsets stored for a partition"),
    "commit_store": ("kept in", ""),
}
FINDINGS = {
    "lost": "Lost", "duplicated": "Delivered again", "reordered": "Out of order",
    "delivered_by_non_owner": "Delivered by a non-owner", "commits_going_back": "Commits going back",
}  # fmt: skip
SECTIONS = {
    "glance": "At a glance", "happened": "What happened", "means": "What it means for a migration",
    "figures": "The figures", "pauses": "Pauses and repetitions", "owners": "Who owned which partition, when",
    "lag": "Lag", "herd": "The herd", "evidence": "Evidence",
}  # fmt: skip
GRAVE = {"lost", "delivered_by_non_owner", "commits_going_back"}
"""What a check found, if it is no repetition: those are to be expected of both protocols."""


def page(
    title: str,
    about: str,
    rows: Sequence[Figures],
    tables: Mapping[str, Sequence[Row]],
    evidence: Mapping[str, Sequence[Row]],
) -> str:
    """The whole document."""
    until_s = math.ceil(charts.end_s(rows, tables))
    body = {
        "glance": [_glance_table(rows)],
        "happened": [_cards(rows)],
        "means": ["<ul>", *(f"<li>{escape(line)}</li>" for line in means(rows)), "</ul>"],
        "figures": [_figures_table(rows)],
        "pauses": [*_pauses(rows)],
        "owners": [
            '<p class="note">A bar is the time a member owned a partition. A black line is the time in which nothing'
            " of it was delivered while it changed hands. All charts have the same axis."
            f"{escape(_who_came_back(tables))}</p>",
            *_timelines(rows, tables, until_s),
        ],
        "lag": [
            _chart(charts.lag(rows, tables, until_s), "Records produced and not yet delivered, over time"),
            _details("Lag as a table", _lag_table(rows, tables)),
        ],
        "herd": [
            '<p class="note">What ZooKeeper did from 1 s before each rebalance to 1 s after it, all together.</p>',
            _chart(
                charts.counts(
                    rows, {"packets": "zookeeper_packets", "writes": "zookeeper_writes", "watches": "most_watches"}
                ),
                "ZooKeeper's load",
            ),
            _details("Each rebalance as a table", _rebalance_table(rows, tables)),
        ],
        "evidence": [*_evidence(rows, tables, evidence)],
    }
    sections = (
        f'<section aria-labelledby="{anchor}"><h2 id="{anchor}">{SECTIONS[anchor]}</h2>{"".join(parts)}</section>'
        for anchor, parts in body.items()
    )
    contents = "".join(f'<a href="#{anchor}">{text}</a>' for anchor, text in SECTIONS.items())
    return (
        f'<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>'
        f'<meta name="viewport" content="width=device-width, initial-scale=1"><link rel="icon" href="data:,">'
        f"<style>{STYLE}</style><script>{get_plotlyjs()}</script></head><body>"
        f'<a class="skip" href="#main">Skip to the text</a>'
        f'<header><h1>{escape(title)}</h1><p class="note">{escape(about)}</p>'
        f'<p class="lead">{escape(headline(rows))}</p></header><nav aria-label="Contents">{contents}</nav>'
        f'<main id="main" tabindex="-1">{"".join(sections)}</main><footer>{_FOOTER}</footer><script>{SCRIPT}</script>'
        "</body></html>\n"
    )


_FOOTER = (
    "<p>Every consumer had real servers of its own, the same records and the same events. Everything was written down"
    " first and judged afterwards, by the same rules for all; times are of one clock. The words' definitions are in the"
    " study's documentation.</p>"
)


def _glance_table(rows: Sequence[Figures]) -> str:
    """What to know before all else; one line a consumer."""
    longest = max((one.longest_pause_ms for one in rows), default=0) or 1
    checks = [check for check in CHECKS if check in ("lost", "duplicated") or any(getattr(one, check) for one in rows)]
    lines = []
    for number, one in enumerate(rows):
        part = round(100 * one.longest_pause_ms / longest)
        length = f'<span class="length" aria-hidden="true"><i style="width:{part}%"></i></span>'
        lines.append(
            f'<tr><th scope="row">{_named(number, one)}</th>{"".join(_verdict(one, check) for check in checks)}'
            f'<td>{length}<span class="beside">{duration(one.longest_pause_ms)}</span></td>'
            f"<td>{duration(one.longest_wait_ms)}</td>"
            f"<td>{one.partitions_stopped:,} to move {one.partitions_moved:,}</td>"
            f"<td>{one.zookeeper_packets:,}</td></tr>"
        )
    found = [LABELS[check][0] for check in checks]
    heads = ["consumer", *found, "longest pause", "longest wait", "partitions stopped", "ZooKeeper packets"]
    head = "".join(f'<th scope="col">{text}</th>' for text in heads)
    caption = "Each consumer's run in a line. Solid colours: old protocol; hatched: new protocol."
    return _wide(
        f'<table id="glance-table"><caption>{caption}</caption><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>",
        caption,
    )


def _verdict(one: Figures, check: str) -> str:
    """A sign, a word and a colour say the same."""
    found = getattr(one, check)
    if not found:
        return '<td class="good">✓ none</td>'
    return f'<td class="bad">✗ {found:,}</td>' if check in GRAVE else f'<td class="warn">↻ {found:,}</td>'


def _cards(rows: Sequence[Figures]) -> str:
    cards = (
        f'<div class="card {one.protocol}" style="--of:{charts.colour(number)}"><h3>{_named(number, one)}</h3>'
        f"<p>{escape(happened(one).removeprefix(f'{one.title}: '))}</p></div>"
        for number, one in enumerate(rows)
    )
    return f'<div class="cards">{"".join(cards)}</div>'


def _named(number: int, one: Figures) -> str:
    """With the colour it has in charts."""
    swatch = f'<span class="swatch" style="--of:{charts.colour(number)}" aria-hidden="true"></span>'
    return f'<span class="{one.protocol}">{swatch}{escape(one.title)}</span>'


def _figures_table(rows: Sequence[Figures]) -> str:
    lines = []
    for field, (label, meaning) in LABELS.items():
        small = f"<small>{escape(meaning)}</small>" if meaning else ""
        cells = [f'<th scope="row">{escape(label)}{small}</th>']
        for one in rows:
            value = getattr(one, field)
            kind = "bad" if field in GRAVE else "warn"
            style = f' class="{kind}"' if field in CHECKS and value else ""
            text = duration(value) if field.endswith("_ms") else f"{value:,}" if isinstance(value, int) else value
            cells.append(f'<td{style} data-figure="{escape(one.subject)} {field}">{escape(text)}</td>')
        lines.append(f"<tr>{''.join(cells)}</tr>")
    head = "".join(f'<th scope="col">{_named(number, one)}</th>' for number, one in enumerate(rows))
    caption = "All figures, from the start of the timeline"
    return _wide(
        f'<table id="figures-table"><caption>{caption}</caption><thead><tr><td></td>{head}</tr></thead>'
        f"<tbody>{''.join(lines)}</tbody></table>",
        caption,
    )


def _pauses(rows: Sequence[Figures]) -> Iterable[str]:
    found = by_happening(rows)
    if found:
        caption = "The longest silence of a partition that changed hands, after each thing the scenario did"
        yield _chart(charts.pauses(rows), caption)
        cells = [
            [text, *("" if one is None else f"{duration(one.longest_pause_ms)} ({one.pauses})" for one in each)]
            for text, each in found
        ]
        yield _details(
            "The same as a table, with the number of partitions that changed their reader",
            _table(["", *(one.title for one in rows)], cells, caption),
        )
    if any(one.duplicated for one in rows):
        yield _chart(charts.counts(rows, {"delivered again": "duplicated"}), "Records delivered more than once")
    else:
        yield "<p>No record was delivered more than once.</p>"


def _who_came_back(tables: Mapping[str, Sequence[Row]]) -> str:
    """The first of them, as an example of how they are named."""
    gone = {row["member"] for row in tables["events"] if row["event"] in ("leave", "kill")}
    back = [row["member"] for row in tables["events"] if row["event"] == "join" and row["member"] in gone]
    return f" {back[0]}.2 is {back[0]} after it came back." if back else ""


def _timelines(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]], until_s: float) -> Iterable[str]:
    for one in rows:
        yield f"<h3>{escape(one.title)}</h3>"
        yield _chart(charts.timeline(one, tables, until_s), f"Owners over time: {one.title}", shown=False)
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
            f"The same as a table: {one.title}", _table(["partition", "owner", "from, s", "until, s"], cells, one.title)
        )


def _lag_table(rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]]) -> str:
    """By whole seconds."""
    lag: dict[int, dict[str, int]] = {}
    for row in tables["lag"]:
        second = (row["time_ms"] - start_ms(tables, row["subject"])) // 1000
        if second >= 0:
            by_subject = lag.setdefault(second, {})
            by_subject[row["subject"]] = max(by_subject.get(row["subject"], 0), row["lag"])
    cells = [[second, *(lag[second].get(one.subject, "") for one in rows)] for second in sorted(lag)]
    return _table(["second", *(one.title for one in rows)], cells, "Most lag in each second, records")


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
        if row["from_ms"] >= start_ms(tables, row["subject"])
    ]
    heads = ["consumer", "at, s", "duration, ms", "stopped", "moved", "writes", "packets", "watches"]
    return _table(heads, cells, "Rebalances")


def _evidence(
    rows: Sequence[Figures], tables: Mapping[str, Sequence[Row]], evidence: Mapping[str, Sequence[Row]]
) -> Iterable[str]:
    """What each check found, its times in seconds from the start of the timeline."""
    title = {one.subject: one.title for one in rows}
    clean = [name for check, name in FINDINGS.items() if not evidence.get(check)]
    if clean:
        yield f"<p>Nothing was found by: {escape(', '.join(clean).lower())}.</p>"
    for check, name in FINDINGS.items():
        found = evidence.get(check, ())
        if not found:
            continue
        columns = list(found[0])
        cells = [
            [
                title.get(value, value) if column == "subject"
                else _since(value, start_ms(tables, row["subject"])) if column.endswith("_ms") else value
                for column, value in row.items()
            ]
            for row in found
        ]  # fmt: skip
        heads = [column.removesuffix("_ms").replace("_", " ") + (", s" * column.endswith("_ms")) for column in columns]
        heads = ["consumer" if head == "subject" else head for head in heads]
        count = sum(getattr(one, check) for one in rows)
        summary = f"{name}: {count:,} found, here the first {len(found)} of them"
        yield _details(summary, _table(heads, cells, name))


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]], caption: str) -> str:
    kinds = [next((_kind(row[number]) for row in rows if row[number] != ""), "") for number in range(len(columns))]
    head = "".join(f'<th scope="col"{kind}>{escape(str(name))}</th>' for name, kind in zip(columns, kinds, strict=True))

    def cell(value: Any) -> str:
        text = "" if value is None else str(value)
        return f"<td{_kind(value)}>{escape(text)}</td>"

    lines = "".join("<tr>" + "".join(map(cell, row)) + "</tr>" for row in rows)
    text = f"<caption>{escape(caption)}</caption><thead><tr>{head}</tr></thead><tbody>{lines}</tbody>"
    return _wide(f"<table>{text}</table>", caption)


def _kind(value: Any) -> str:
    return "" if isinstance(value, int) or str(value).replace(".", "", 1).lstrip("-").isdigit() else ' class="text"'


def _wide(table: str, label: str) -> str:
    """A table that may be wider than the window: it scrolls by itself, with the keyboard too."""
    return f'<div class="wide" tabindex="0" role="region" aria-label="{escape(label)}">{table}</div>'


def _details(summary: str, content: str) -> str:
    return f"<details><summary>{escape(summary)}</summary>{content}</details>"


def _chart(figure: go.Figure, caption: str, *, shown: bool = True) -> str:
    """`shown=False`: only for who cannot see it, since a heading says the same."""
    drawn = figure.to_html(
        full_html=False, include_plotlyjs=False, config={"displayModeBar": False, "responsive": True}
    )
    label = escape(caption)
    head = f"<figcaption>{label}</figcaption>" if shown else ""
    chart = f'<div class="wide chart" role="img" tabindex="0" aria-label="Chart: {label}">'
    chart += f'<div aria-hidden="true">{drawn}</div></div>'
    return f"<figure>{head}{chart}</figure>"


def _since(time_ms: int | None, start: int) -> str:
    return "end" if time_ms is None else f"{(time_ms - start) / 1000:.2f}"
