"""The page, opened in a real browser: its figures are read from the document, and a picture is taken."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from study.figures import Figures, figures
from study.report import page
from study.words import by_happening, happened, headline, means
from tests.study.browser import Browser

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
        "rebalances": both(number=1, from_ms=2000, until_ms=2500, duration_ms=500, **window),
        "lag": [*both(time_ms=1250, lag=3), *both(time_ms=2250, lag=1234)],
        "commits": both(store="kafka", commits=5, commits_per_second=1.0),
        "sizes": both(produced=10_000, delivered=10_002),
        "owned": both(member=HOSTILE, topic="t", partition=0, from_ms=900, until_ms=None),
        "paused": [],
        "zookeeper": [],
    }


def rows() -> list[Figures]:
    found = {"duplicated": {"ours": 2}}
    checks = ("lost", "duplicated", "reordered", "delivered_by_non_owner", "commits_going_back")
    subjects = {"ours": ("Ours", "old"), "java": ("Java", "new")}
    return figures(subjects, {check: found.get(check, {}) for check in checks}, tables())


def test_figures_count_from_the_start_of_the_timeline() -> None:
    ours, java = rows()

    assert (ours.pauses, ours.median_pause_ms, ours.longest_pause_ms, ours.most_lag) == (2, 700, 1300, 1234)
    assert ours.verdicts == {
        "lost": True, "duplicated": False, "reordered": True, "delivered_by_non_owner": True,
        "commits_going_back": True,
    }  # fmt: skip
    assert all(java.verdicts.values())


def test_words_say_what_the_figures_say() -> None:
    ours, java = rows()

    assert "None was lost. 2 deliveries were repetitions." in happened(ours)
    assert "Each was delivered once." in happened(java)
    assert headline([ours, java]) == (
        "No consumer lost a record. Ours delivered some again."
        " The longest silence of a partition that changed hands was 1.3 s."
    )
    assert "No consumer lost a record in this scenario." in means([ours, java])


def test_what_it_means_tells_crashes_from_planned_changes() -> None:
    """The only thing that happened is a kill, 1 s after the start."""
    said = " ".join(means(rows()))

    assert "a member dies or stands still, readers were silent for up to 1.3 s under the old protocol and 1.3 s" in said
    assert "session.timeout.ms 10 s and from Kafka 3.0 on 45 s" in said
    assert "come and go in order" not in said
    [(text, (ours, java))] = by_happening(rows())
    assert text == f"{HOSTILE} is killed"
    assert ours is not None and (ours.at_s, ours.pauses, ours.longest_pause_ms) == (1.0, 2, 1300)
    assert java == ours


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


def test_the_page_can_be_read_without_seeing_it() -> None:
    text = page("title", "about", rows(), tables(), {})

    assert '<html lang="en">' in text and '<main id="main"' in text and 'href="#main"' in text
    assert len(re.findall(r"<h1>", text)) == 1
    images = re.findall(r'<div role="img" aria-label="([^"]+)">', text)
    assert len(images) == len(re.findall("<figure>", text)) == 6 and all(images)
    scrolling = re.findall(r'<div class="wide"([^>]*)>', text)
    assert scrolling and all('tabindex="0"' in one and "aria-label=" in one for one in scrolling)
    assert text.count("<table") == text.count("<table id") + text.count("<caption>")
    links = re.findall(r'<a href="#(\w+)">', text)
    assert links and all(f'id="{link}"' in text for link in links)


def test_nothing_is_loaded_from_elsewhere() -> None:
    text = page("title", "about", rows(), tables(), {})

    outside = re.findall(r"<(?:script|img|link|iframe)[^>]*(?:src|href)=\"([^\"]*)\"", text)
    assert [one for one in outside if not one.startswith("data:")] == []
