"""The page, opened in a real browser: its figures are read from the document, and a picture is taken."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from study.figures import Figures, figures
from study.report import SECTIONS, page
from study.words import by_happening, happened, headline, means
from tests.study.browser import Browser, Tab

HOSTILE = "<script>document.title='taken'</script>"


def tables() -> dict[str, list[dict[str, Any]]]:
    def both(**row: Any) -> list[dict[str, Any]]:
        return [{"subject": subject, **row} for subject in ("ours", "java")]

    window = {"partitions_stopped": 2, "partitions_moved": 1, "writes": 7, "packets": 50, "watches": 9}
    return {
        "events": [
            *both(event="start", member="", time_ms=1000, detail=""),
            *both(event="kill", member=HOSTILE, time_ms=2000, detail=""),
        ],
        "pauses": [
            *both(pause_ms=400, from_ms=100, until_ms=500, topic="t", partition=0),
            *both(pause_ms=100, from_ms=2900, until_ms=3000, topic="t", partition=0),
            *both(pause_ms=1300, from_ms=2700, until_ms=4000, topic=HOSTILE, partition=1),
        ],
        "waits": both(wait_ms=1450, topic="t", partition=0, offset=7, produced_ms=2600, member="m"),
        "rebalances": both(number=1, from_ms=2000, until_ms=2500, duration_ms=500, **window),
        "lag": [*both(time_ms=1250, lag=3), *both(time_ms=2250, lag=1234)],
        "commits": both(store="kafka", commits=5, commits_per_second=1.0),
        "sizes": both(produced=10_000, delivered=10_002),
        "owned": both(member=HOSTILE, topic="t", partition=0, from_ms=900, until_ms=None),
        "paused": [],
        "stalls": both(from_ms=500, until_ms=900, stall_ms=400),  # before the start
        "zookeeper": [],
    }


def rows(kind: str = "kill") -> list[Figures]:
    found = {"duplicated": {"ours": 2}}
    checks = ("lost", "duplicated", "reordered", "delivered_by_non_owner", "commits_going_back")
    subjects = {"ours": ("Ours", "old"), "java": ("Java", "new")}
    happened = [row | {"event": kind} if row["event"] == "kill" else row for row in tables()["events"]]
    return figures(subjects, {check: found.get(check, {}) for check in checks}, tables() | {"events": happened})


def test_figures_count_from_the_start_of_the_timeline() -> None:
    ours, java = rows()

    assert (ours.pauses, ours.median_pause_ms, ours.longest_pause_ms, ours.most_lag) == (2, 700, 1300, 1234)
    assert ours.longest_wait_ms == 1450
    assert ours.verdicts == {
        "lost": True, "duplicated": False, "reordered": True, "delivered_by_non_owner": True,
        "commits_going_back": True,
    }  # fmt: skip
    assert all(java.verdicts.values())


def test_words_say_what_the_figures_say() -> None:
    ours, java = rows()

    assert "None was lost. 2 deliveries were repetitions." in happened(ours)
    assert "Each was delivered once, but for 2 while the group formed." in happened(java)
    assert headline([ours, java]) == (
        "No consumer lost a record. Ours delivered some again."
        " The longest silence of a partition that changed hands was 1.3 s."
    )
    assert "No consumer lost a record in this scenario." in means([ours, java])


def test_what_it_means_tells_crashes_from_planned_changes() -> None:
    """The only thing that happened is a kill, 1 s after the start."""
    said = " ".join(means(rows()))

    assert (
        "a member dies or stands still, the longest silence of a partition that changed hands was 1.3 s under" in said
    )
    assert "1.3 s under the old protocol and 1.3 s under the new one" in said
    assert "session.timeout.ms 10 s and from Kafka 3.0 on 45 s" in said
    assert "come and go in order" not in said
    [(text, (ours, java))] = by_happening(rows())
    assert text == f"{HOSTILE} is killed"
    assert ours is not None and (ours.at_s, ours.pauses, ours.longest_pause_ms) == (1.0, 2, 1300)
    assert java == ours


def test_what_it_means_tells_who_hears_of_new_partitions_when() -> None:
    assert "by default 5 minutes" in " ".join(means(rows("add partitions")))
    assert "by default 5 minutes" not in " ".join(means(rows()))


def test_a_machine_that_had_no_time_is_named_but_not_a_zookeeper_that_was_sent_away() -> None:
    events, checks = (
        tables()["events"],
        ("lost", "duplicated", "reordered", "delivered_by_non_owner", "commits_going_back"),
    )

    def java(*more: dict[str, Any]) -> Figures:
        stall = {"subject": "java", "from_ms": 2100, "until_ms": 3800, "stall_ms": 1700}
        found = tables() | {"stalls": [stall], "events": [*events, *more]}
        return figures({"java": ("Java", "new")}, {check: {} for check in checks}, found)[0]

    assert java().longest_stall_ms == 1700
    assert "stood still for 1.7 s" in happened(java())
    assert means([java()])[0].startswith("While Java ran, this machine, or ZooKeeper on it, stood still for 1.7 s")
    away = {"subject": "java", "event": "restart zookeeper", "member": "", "time_ms": 2050, "detail": "for 1 s"}
    assert java(away).longest_stall_ms == 0
    assert "stood still" not in " ".join([happened(rows()[0]), *means(rows())])


def test_who_did_something_is_said_shortly() -> None:
    """One, all, all but one."""
    none, some = ([replace(rows()[0], title=title, duplicated=found) for title in "ABCD"] for found in (0, 1))

    assert "D delivered some again." in headline([*none[:3], some[3]])
    assert "All consumers delivered some again." in headline(some)
    assert "All but A delivered some again." in headline([none[0], *some[1:]])


def test_a_browser_shows_the_figures_and_runs_nothing_hostile(browser: Browser, tmp_path: Path) -> None:
    """Without a network: the browser resolves no name."""
    evidence = {"duplicated": [{"subject": "ours", "topic": HOSTILE, "offset": 7, "time_ms": 2500}]}
    report = tmp_path / "report.html"
    report.write_text(page(HOSTILE, "about", rows(), tables(), evidence), encoding="utf-8")

    document = browser.document(report)
    wide, narrow = (browser.picture(report, width=width, height=4000) for width in (1200, 500))

    shown = dict(re.findall(r'data-figure="([^"]+)">([^<]*)<', document))
    assert (shown["ours duplicated"], shown["java duplicated"], shown["ours most_lag"]) == ("2", "0", "1,234")
    assert shown["ours longest_pause_ms"] == "1.3 s"
    assert document.count('class="plotly-graph-div js-plotly-plot"') == 6  # drawn, not only described
    assert '<td class="text">1.50</td>' in document or "<td>1.50</td>" in document  # of evidence, from the start
    assert "<title>&lt;script&gt;" in document
    assert HOSTILE not in re.sub(r"<head>.*?</head>", "", document, flags=re.DOTALL)
    for picture in (wide, narrow):
        assert picture[27, 108, 168] > 1_000, "the first colour of charts"
    assert browser.printed(report).startswith(b"%PDF-")


EVIDENCE = {
    "lost": [{"subject": "ours", "topic": "t", "offset": 1, "time_ms": 1500}],
    "duplicated": [{"subject": "ours", "topic": "t", "offset": 7, "time_ms": 2500}],
}
FOCUSED = """(() => {
  const one = document.activeElement, style = getComputedStyle(one), box = one.getBoundingClientRect();
  window.been = (window.been || []).concat([one]);
  return {tag: one.tagName, text: one.getAttribute('aria-label') || one.textContent.trim(), id: one.id,
    outlined: style.outlineStyle == 'solid' && parseFloat(style.outlineWidth) >= 2,
    seen: box.width > 0 && box.height > 0 && box.bottom > 0 && box.top < innerHeight && box.left >= 0}
})()"""


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Tab]:
    """The page of rows(), with evidence, in a browser."""
    report = tmp_path / "report.html"
    report.write_text(page("title", "about", rows(), tables(), EVIDENCE), encoding="utf-8")
    with browser.opened(report) as tab:
        yield tab


def test_everything_is_reached_by_the_keyboard_in_the_order_of_the_page(opened: Tab) -> None:
    """Tab by Tab: one sees where one is, and gets to every link, table, chart and fold."""
    stops: list[dict[str, Any]] = []
    while True:
        opened.press("Tab")
        stop = opened.value(FOCUSED)
        if stop["tag"] == "BODY" or (stops and stop == stops[0]):
            break
        stops.append(stop)
        assert len(stops) < 200

    assert [stop for stop in stops if not (stop["outlined"] and stop["seen"])] == []
    assert stops[0]["text"] == "Skip to the text"
    assert opened.value(
        "been.slice(1, -1).every((one, at) => been[at].compareDocumentPosition(one) & Node.DOCUMENT_POSITION_FOLLOWING)"
    )
    unreached = opened.value(
        "[...document.querySelectorAll('a, summary, .wide')].filter(one => !been.includes(one) && !one.closest("
        "'details:not([open]) > :not(summary)')).map(one => one.outerHTML.slice(0, 80))"
    )
    assert unreached == []
    assert len([stop for stop in stops if stop["text"].startswith("Chart: ")]) == 6
    folds = [stop["text"] for stop in stops if stop["tag"] == "SUMMARY"]
    assert folds[-2:] == [
        "Lost: 0 found, here the first 1 of them",
        "Delivered again: 2 found, here the first 1 of them",
    ]


@pytest.mark.parametrize("key", ["Enter", "Space"])
def test_evidence_is_unfolded_by_the_keyboard(opened: Tab, key: str) -> None:
    opened.value("document.querySelector('#evidence').scrollIntoView()")
    opened.value("[...document.querySelectorAll('summary')].at(-1).focus()")
    last = "[...document.querySelectorAll('details')].at(-1)"
    assert opened.value(f"{last}.open || {last}.querySelector('table').checkVisibility()") is False

    opened.press(key)

    assert opened.value(f"{last}.open && {last}.querySelector('table').checkVisibility()")
    opened.press("Tab")
    assert opened.value("document.activeElement.getAttribute('aria-label')") == "Delivered again", "then its table"
    opened.press("Tab", shift=True)
    opened.press(key)
    assert opened.value(f"{last}.open") is False


def test_the_first_link_skips_to_the_text(opened: Tab) -> None:
    opened.press("Tab")
    opened.press("Enter")
    opened.press("Tab")

    assert opened.value("document.activeElement.closest('section').getAttribute('aria-labelledby')") == "glance"


def test_paper_shows_what_the_screen_folds_up(opened: Tab) -> None:
    opened.value("addEventListener('beforeprint', () => window.unfolded = document.querySelectorAll('[open]').length)")
    folds = opened.value("document.querySelectorAll('details').length")
    assert opened.value("document.querySelectorAll('[open]').length") == 0

    printed = opened.print()

    assert printed.startswith(b"%PDF-")
    assert opened.value("window.unfolded") == folds > 4
    assert opened.value("document.querySelectorAll('[open]').length") == 0, "and the screen is as it was"


def test_a_screen_reader_is_told_what_the_page_shows(opened: Tab) -> None:
    """From the browser's own accessibility tree."""
    opened.value("document.querySelectorAll('details').forEach(one => one.open = true)")

    told = opened.read_aloud()

    headings = [(name, int(level)) for role, name, level in told if role == "heading"]
    assert [name for name, level in headings if level == 1] == ["title"]
    assert [name for name, level in headings if level == 2] == list(SECTIONS.values())
    assert all(level - before <= 1 for (_, before), (_, level) in pairwise(headings)), "no level is left out"
    named: dict[str, list[str]] = {}
    for role, name, _ in told:
        named.setdefault(role, []).append(name)
    assert all(named["table"]) and "All figures, from the start of the timeline" in named["table"]
    assert len(named["image"]) == 6 and all(name.startswith("Chart: ") for name in named["image"])
    assert {"banner", "navigation", "main", "contentinfo"} <= named.keys()
    assert {"Ours", "Java"} <= set(named["columnheader"]) and {"Ours", "Java"} <= set(named["rowheader"])
    assert {"✓ none", "↻ 2"} <= set(named["cell"])
    assert not {"SvgRoot", "graphics-symbol"} & named.keys(), "no single strokes of charts"


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page("title", "about", rows(), tables(), {})

    outside = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"([^\"]*)\"", text)
    assert [one for one in outside if not one.startswith("data:")] == []
