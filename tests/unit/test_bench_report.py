"""Ratios, promises and growth of the benches, on figures small enough to check by hand."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from rich.console import Console

from tests.bench.pictures import write_pictures
from tests.bench.report import Growth, Measured, Report, Wanted


def report_of(*measured: Measured) -> Report:
    report = Report(console=Console(file=io.StringIO(), width=160))
    report.add(*measured)
    return report


def text_of(report: Report) -> str:
    file = report.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


FAST = Measured("b", "c", "fast", "M/s", [4.0, 9.0, 6.0], beside={"CPU s": [1.0, 2.0, 4.0]})
SLOW = Measured("b", "c", "slow", "M/s", [2.0, 3.0, 6.0], beside={"CPU s": [3.0, 8.0, 4.0]})
QUICK = Measured("b", "t", "quick", "s", [1.0, 2.0], more_is_better=False)
LATE = Measured("b", "t", "late", "s", [4.0, 6.0], more_is_better=False)


def test_ratios_are_formed_round_by_round() -> None:
    assert report_of(FAST, SLOW).ratios_for(Wanted("b", "c", "fast", "slow", 2)) == [2.0, 3.0, 1.0]


def test_where_less_is_better_the_ratio_is_turned_round() -> None:
    assert report_of(QUICK, LATE).ratios_for(Wanted("b", "t", "quick", "late", 2)) == [4.0, 3.0]


def test_of_a_quantity_beside_less_is_better() -> None:
    assert report_of(FAST, SLOW).ratios_for(Wanted("b", "c", "fast", "slow", 3, "CPU s")) == [3.0, 4.0, 1.0]


@pytest.mark.parametrize(("at_least", "kept"), [(2.0, True), (2.1, False)], ids=["as promised", "a little less"])
def test_a_promise_is_kept_by_the_median(at_least: float, kept: bool) -> None:
    report = report_of(FAST, SLOW)
    report.want(Wanted("b", "c", "fast", "slow", at_least))

    assert report.show_wanted() is kept

    assert ("NOT KEPT" in text_of(report)) is not kept


def test_one_promise_broken_is_enough() -> None:
    report = report_of(FAST, SLOW)
    report.want(Wanted("b", "c", "fast", "slow", 9), Wanted("b", "c", "fast", "slow", 1))

    assert not report.show_wanted()


def test_a_promise_over_a_subject_nobody_measured_is_an_error() -> None:
    report = report_of(FAST)
    report.want(Wanted("b", "c", "fast", "absent", 1))

    with pytest.raises(LookupError, match="nothing was measured for b, c, absent"):
        report.show_wanted()


def test_subjects_measured_in_unequal_numbers_of_rounds_are_an_error() -> None:
    other = Measured("b", "c", "other", "M/s", [1.0])

    with pytest.raises(ValueError, match="argument 2 is shorter"):
        report_of(FAST, other).ratios_for(Wanted("b", "c", "fast", "other", 1))


@pytest.mark.parametrize(
    ("costs", "slope"),
    [([5.0, 5.0, 5.0], 0.0), ([3.0, 30.0, 300.0], 1.0), ([1.0, 100.0, 10000.0], 2.0)],
    ids=["constant", "linear", "quadratic"],
)
def test_slope_of_logarithms(costs: list[float], slope: float) -> None:
    growth = Growth(
        "b", "c", "ours", "partitions", "s", [(size, [cost]) for size, cost in zip((1, 10, 100), costs, strict=True)]
    )

    assert growth.slope == pytest.approx(slope)


@pytest.mark.parametrize(("at_most", "kept"), [(1.1, False), (None, True)], ids=["promised", "not promised"])
def test_quadratic_growth_breaks_only_a_promise(at_most: float | None, kept: bool) -> None:
    report = report_of()
    report.grow(Growth("b", "c", "ours", "members", "s", [(1, [1.0]), (2, [4.0])], at_most))

    assert report.show_wanted() is kept


def test_table_names_what_it_compares_with() -> None:
    report = report_of(FAST, SLOW)

    report.show_case("b", "c", "slow")

    lines = text_of(report).splitlines()
    assert "against slow" in text_of(report)
    assert next(line for line in lines if "fast" in line).replace("│", " ").split() == [
        "fast",
        "6",
        "4–9",
        "2",
        "1–3",
        "2",
    ]


def test_json_and_pictures_hold_what_was_found(tmp_path: Path) -> None:
    report = report_of(FAST, SLOW)
    report.want(Wanted("b", "c", "fast", "slow", 2))
    report.grow(Growth("b", "grows", "ours", "members", "s", [(1, [1.0]), (2, [2.0])]))
    report.show_case("b", "c", "slow")

    report.write_json(tmp_path / "bench.json")
    write_pictures(report, tmp_path / "bench.html")

    found = json.loads((tmp_path / "bench.json").read_text())
    assert [one["subject"] for one in found["measured"]] == ["fast", "slow"]
    assert found["wanted"][0]["found"] == 2.0
    assert found["growths"][0]["slope"] == pytest.approx(1.0)
    page = (tmp_path / "bench.html").read_text()
    assert "b: c, against slow, 3 rounds" in page
    assert "ours, slope 1.00" in page


def test_of_subjects_left_out_nothing_is_promised() -> None:
    report = Report(subjects=["fa*"])
    report.add(FAST)

    report.want(Wanted("b", "c", "fast", "slow", 9))

    assert report.wanted == []


def test_a_promise_over_what_was_forgotten_is_an_error() -> None:
    report = report_of(FAST)
    report.want(Wanted("b", "c", "fast", "slow", 9))

    with pytest.raises(LookupError, match="b, c, slow"):
        report.show_wanted()


def test_the_first_subject_stays_since_ratios_are_formed_against_it() -> None:
    report = Report(subjects=["ours*", "raw"])

    assert report.taken(["Scala", "Java", "ours, Arrow", "raw"]) == ["Scala", "ours, Arrow", "raw"]


@pytest.mark.parametrize(
    ("quick", "wanted", "rounds"), [(False, None, 5), (True, None, 1), (True, 3, 3), (False, 2, 2)]
)
def test_rounds(quick: bool, wanted: int | None, rounds: int) -> None:
    assert Report(quick=quick, rounds=wanted).rounds(5) == rounds
