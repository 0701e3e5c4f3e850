"""The page, opened in a real browser: its figures are read from the document, and a picture is taken."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from study.figures import Figures, figures
from study.report import page
from study.words import happened, means

HOSTILE = "<script>document.title='taken'</script>"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run", "--virtual-time-budget=10000",
]  # fmt: skip


def tables() -> dict[str, list[dict[str, Any]]]:
    def both(**row: Any) -> list[dict[str, Any]]:
        return [{"subject": subject, **row} for subject in ("ours", "java")]

    window = {"partitions_stopped": 2, "partitions_moved": 1, "writes": 7, "packets": 50, "watches": 9}
    return {
        "events": [*both(event="start", member="", time_ms=1000), *both(event="kill", member=HOSTILE, time_ms=2000)],
        "pauses": [
            *both(pause_ms=400, until_ms=500),
            *both(pause_ms=100, until_ms=3000),
            *both(pause_ms=1300, until_ms=4000),
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
    assert "No subject lost a record in this scenario." in means([ours, java])


@pytest.fixture
def browser(request: pytest.FixtureRequest) -> str:
    found = shutil.which("chromium")
    if found is None:
        if request.config.getoption("--strict-servers"):
            pytest.fail("no chromium: `make test-study` installs it, see .ci/with-chromium")
        pytest.skip("no chromium: `make test-study` installs it, see .ci/with-chromium")
    return found


def test_a_browser_shows_the_figures_and_runs_nothing_hostile(browser: str, tmp_path: Path) -> None:
    evidence = {"duplicated": [{"subject": "ours", "topic": HOSTILE, "offset": 7}]}
    (tmp_path / "report.html").write_text(page(HOSTILE, "about", rows(), tables(), evidence), encoding="utf-8")
    address = (tmp_path / "report.html").as_uri()

    def open_page(*options: str) -> str:
        command = [browser, *FLAGS, f"--user-data-dir={tmp_path / 'profile'}", *options, address]
        return subprocess.run(command, capture_output=True, text=True, timeout=120, check=True).stdout

    document = open_page("--dump-dom")
    open_page(f"--screenshot={tmp_path / 'page.png'}", "--window-size=1200,4000")

    shown = dict(re.findall(r'data-figure="([^"]+)">([^<]*)<', document))
    assert (shown["ours duplicated"], shown["java duplicated"], shown["ours most_lag"]) == ("2", "0", "1,234")
    assert document.count("js-plotly-plot") >= 6  # drawn, not only described
    assert "<title>&lt;script&gt;" in document
    assert HOSTILE not in re.sub(r"<head>.*?</head>", "", document, flags=re.DOTALL)
    assert (tmp_path / "page.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "page.png").stat().st_size > 50_000
