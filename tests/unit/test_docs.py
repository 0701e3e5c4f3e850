"""The pages under docs/ say what the code and the tests say: links, tests, switches, differences and log lines."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

import fetcher.events
import zkconsumer.events
from fetcher.fetch_statistics import FetchStatistics
from fetcher.structs import Broker, TopicAndPartition
from zkconsumer.emulation import PROFILES, Emulation, emulation
from zkconsumer.metrics import ConsumerMetrics

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
TEST = re.compile(r"`(tests/[\w/]+\.py)::(\w+)`")
UNLIKE = re.compile(r"Unlike (?:0\.8\.2\.2|0\.9)\b[:,]?\s*(.*)")


def text_of(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def section(page: str, title: str) -> str:
    """What stands under a heading, up to the next of the same level."""
    _, heading, rest = text_of(page).partition(f"\n## {title}\n")
    assert heading, f"{page} has no section {title!r}"
    return rest.partition("\n## ")[0]


def rows(text: str) -> list[list[str]]:
    """The cells of all table rows but the heads."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines]
    return [
        row for row, after in zip(cells, [*cells[1:], []], strict=True) if not _is_rule(row) and not _is_rule(after)
    ]


def _is_rule(row: list[str]) -> bool:
    return bool(row) and all(set(cell) <= set("-:") for cell in row)


def prose(page: Path) -> str:
    """Without the code in it."""
    return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)


# --- links ---


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_every_relative_link_leads_somewhere(page: Path) -> None:
    targets = [target.partition("#")[0] for target in LINK.findall(prose(page)) if "://" not in target]

    assert [target for target in targets if target and not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_every_link_into_a_page_leads_to_a_heading(page: Path) -> None:
    targets = [target.partition("#") for target in LINK.findall(prose(page)) if "#" in target and "://" not in target]

    assert [
        target for target in targets if target[2] not in anchors(page.parent / target[0] if target[0] else page)
    ] == []


def anchors(page: Path) -> set[str]:
    """The names under which GitHub makes headings known."""
    titles = re.findall(r"^#+ (.*)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_every_page_is_linked_from_the_index() -> None:
    linked = {(DOCS / target.partition("#")[0]).resolve() for target in LINK.findall(text_of("index.md"))}

    assert {page for page in PAGES if page.name != "index.md"} <= linked


# --- tests named on pages ---


@cache
def names_of_tests_in(file: str) -> frozenset[str]:
    path = ROOT / file
    if not path.exists():
        return frozenset()
    return frozenset(re.findall(r"^def (test_\w+)\(", path.read_text(encoding="utf-8"), re.MULTILINE))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_test_named_on_a_page_exists(page: Path) -> None:
    named = TEST.findall(page.read_text(encoding="utf-8"))

    assert [f"{file}::{name}" for file, name in named if name not in names_of_tests_in(file)] == []


# --- compatibility.md ---


def test_every_quirk_has_one_row_and_a_test() -> None:
    found = rows(section("compatibility.md", "Quirks"))

    assert [row[0] for row in found] == [f"Q{number}" for number in range(1, 37)]
    assert [row[0] for row in found if not TEST.search(row[5])] == []


def shown(value: object) -> str:
    """As the page writes it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, frozenset):
        return ", ".join(f"`{name}`" for name in sorted(value))
    return f"`{value}`"


def test_table_of_profiles_is_that_of_the_code() -> None:
    text = section("compatibility.md", "Profiles")
    head = next(line for line in text.splitlines() if line.startswith("| switch"))
    expected = [
        [f"`{field.name}`", *(shown(getattr(emulation(name), field.name)) for name in PROFILES)]
        for field in dataclasses.fields(Emulation)
    ]

    assert head == f"| switch | {' | '.join(PROFILES)} |"
    assert rows(text) == expected


def test_switches_of_quirks_have_the_values_of_the_code() -> None:
    found = re.findall(r"switch `(\w+)`: ([^|]*) \|", section("compatibility.md", "Quirks"))

    assert len(found) >= 10
    for name, values in found:
        assert values == ", ".join(shown(getattr(emulation(profile), name)) for profile in PROFILES), name


def test_every_switch_is_that_of_a_quirk_or_explained() -> None:
    explained = set(re.findall(r"switch `(\w+)`: ", section("compatibility.md", "Quirks")))
    explained |= set(re.findall(r"^\* `(\w+)`", section("compatibility.md", "Profiles"), re.MULTILINE))

    assert explained == {field.name for field in dataclasses.fields(Emulation)}


def differences_in_the_code() -> Iterator[tuple[str, str]]:
    """File and text of each comment that says where the code leaves a release."""
    for package in ("fetcher", "zkconsumer"):
        for path in sorted((ROOT / package).rglob("*.py")):
            for line in path.read_text(encoding="utf-8").splitlines():
                comment = UNLIKE.search(line)
                if comment is not None:
                    yield path.relative_to(ROOT).as_posix(), comment[1].strip(' "')


def test_every_difference_marked_in_the_code_is_listed_once() -> None:
    """By file and the first words of the comment, on both sides."""
    listed = Counter(
        (row[0].strip("`"), row[1].removesuffix(" …"))
        for row in rows(section("compatibility.md", "Marked in the code"))
    )
    unlisted = []
    for file, comment in differences_in_the_code():
        entry = next((key for key in listed if key[0] == file and comment.startswith(key[1]) and listed[key]), None)
        if entry is None:
            unlisted.append(f"{file}: {comment}")
        else:
            listed[entry] -= 1

    assert unlisted == []
    assert [entry for entry, left in listed.items() if left] == []


# --- how-it-works.md, logging.md ---


def test_files_of_the_way_of_a_message_exist() -> None:
    named = re.findall(r"`((?:zkconsumer|fetcher)/[\w/]+(?:\.py|/))`", text_of("how-it-works.md"))

    assert len(named) > 20
    assert [name for name in named if not (ROOT / name).exists()] == []


@cache
def texts_in_the_code() -> frozenset[str]:
    """All constant texts of the consumer, with what is filled in left open."""
    texts = set()
    for package in ("fetcher", "zkconsumer"):
        for path in (ROOT / package).rglob("*.py"):
            for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    texts.add(re.sub(r"%(?:\.0f|[sd])", "<>", node.value))
    return frozenset(texts)


LOG_LINES = [line for row in rows(section("logging.md", "Logs")) for line in re.findall(r"`([^`]+)`", row[1])]


@pytest.mark.parametrize("line", LOG_LINES)
def test_every_log_line_of_the_page_is_one_of_the_code(line: str) -> None:
    wanted = re.sub(r"<[^>]*>", "<>", line)

    assert [text for text in texts_in_the_code() if wanted in text]


def test_every_event_is_on_the_page_and_no_other() -> None:
    listed = [name for row in rows(section("logging.md", "Events")) for name in re.findall(r"`(\w+)`", row[0])]
    defined = {
        name
        for module in (zkconsumer.events, fetcher.events)
        for name, value in vars(module).items()
        if isinstance(value, type) and issubclass(value, fetcher.events.Event) and value is not fetcher.events.Event
    }

    assert sorted(listed) == sorted(defined)


def test_every_metric_is_on_the_page_and_no_other() -> None:
    listed = [row[0].strip("`") for row in rows(section("logging.md", "Metrics"))]
    metrics = ConsumerMetrics("client", "group")
    broker = Broker(0, "host", 9092)
    metrics.watch_fetchers(_Fetchers(broker))
    metrics.watch_queue("topic", 0, lambda: 0)
    metrics.fetched(broker, seconds=1.0, size_bytes=1)

    assert sorted(listed) == sorted({name.split(",clientId=")[0] for name in metrics.as_dict()})


class _Fetchers:
    """One broker that fetched one partition."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    def lag_of(self) -> Mapping[TopicAndPartition, int]:
        return {TopicAndPartition("topic", 0): 0}

    def max_lag(self) -> int:
        return 0

    def statistics(self) -> Mapping[Broker, FetchStatistics]:
        return {self._broker: FetchStatistics()}

    def statistics_by_fetcher(self) -> Mapping[tuple[Broker, int], FetchStatistics]:
        return {(self._broker, 0): FetchStatistics()}


# --- programs on pages ---


def programs(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: page.name)
def test_programs_on_pages_are_python(page: Path) -> None:
    for program in programs(page):
        compile(program, page.name, "exec")


@pytest.mark.parametrize(("page", "first"), [("compatibility.md", 0), ("logging.md", 1)])
def test_programs_that_need_no_server_run(page: str, first: int) -> None:
    """The first of logging.md would set up logging for all tests."""
    names: dict[str, object] = {}

    for program in programs(DOCS / page)[first:]:
        exec(compile(program, page, "exec"), names)
