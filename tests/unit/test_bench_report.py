"""Ratios, promises and growth of the benches, on figures small enough to check by hand."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console, RenderableType

from tests.bench import __main__ as command
from tests.bench import results
from tests.bench.markdown import BEGIN, END, NoPlace, put_into, write_markdown
from tests.bench.pictures import write_page
from tests.bench.promises import AtLeast, AtMost, Promise, Slope, Status, Verdict, verdicts
from tests.bench.report import Report
from tests.bench.results import CaseFound, Measured, NoResults, Planned, Results, Run
from tests.bench.schedule import Schedule
from tests.bench.tables import case_table, lacking_lines, promise_table

FAST = Measured("fast", "M/s", [4.0, 9.0, 6.0], beside={"CPU s": [1.0, 2.0, 4.0]})
SLOW = Measured("slow", "M/s", [2.0, 3.0, 6.0], beside={"CPU s": [3.0, 8.0, 4.0]})
QUICK = Measured("quick", "s", [1.0, 2.0], more_is_better=False)
LATE = Measured("late", "s", [4.0, 6.0], more_is_better=False)


def run(name: str = "first", *, quick: bool = False, subjects: list[str] | None = None) -> Run:
    return Run(name, f"2026-11-18T0{len(name) - 5}:00:00Z", [], {"load": 0.1, "cores": 2}, quick, subjects or [])


def case(*measured: Measured, name: str = "c", of: str = "first", rounds: int = 3, whole: bool = True) -> CaseFound:
    return CaseFound("b", name, of, rounds, measured[-1].subject, is_whole=whole, measured=list(measured))


def found(*cases: CaseFound, runs: list[Run] | None = None) -> Results:
    return Results(runs or [run()], [Planned(*one.key, 10.0) for one in cases], list(cases))


def growth(costs: list[float], sizes: tuple[float, ...] = (1, 10, 100)) -> CaseFound:
    measured = [Measured("ours", "s", [cost], size=size) for size, cost in zip(sizes, costs, strict=True)]
    return CaseFound("b", "grows", "first", 1, grows_by="members", is_whole=True, measured=measured)


def judge(promise: Promise, of: Results) -> Verdict:
    [verdict] = verdicts([promise], of)
    return verdict


def text_of(shown: RenderableType) -> str:
    file = io.StringIO()
    Console(file=file, width=160).print(shown)
    return file.getvalue()


def test_ratios_are_formed_round_by_round() -> None:
    assert case(FAST, SLOW).ratios("fast", "slow") == [2.0, 3.0, 1.0]


def test_where_less_is_better_the_ratio_is_turned_round() -> None:
    assert case(QUICK, LATE).ratios("quick", "late") == [4.0, 3.0]


def test_of_a_quantity_beside_less_is_better() -> None:
    assert case(FAST, SLOW).ratios("fast", "slow", quantity="CPU s") == [3.0, 4.0, 1.0]


def test_a_round_that_one_of_both_did_not_reach_has_no_ratio() -> None:
    other = Measured("other", "M/s", [1.0, 3.0])

    assert case(FAST, other).ratios("fast", "other") == [4.0, 3.0]


@pytest.mark.parametrize(("at_least", "status"), [(2.0, Status.KEPT), (2.1, Status.MISSED)], ids=["just", "not quite"])
def test_a_promise_is_kept_by_the_median(at_least: float, status: Status) -> None:
    verdict = judge(AtLeast("b", "c", "fast", "slow", at_least), found(case(FAST, SLOW)))

    assert (verdict.status, verdict.found, verdict.spread) == (status, "2×", "1–3")


@pytest.mark.parametrize(("most", "status"), [(1.5, Status.KEPT), (1.4, Status.MISSED)], ids=["just", "not quite"])
def test_a_promise_of_seconds(most: float, status: Status) -> None:
    verdict = judge(AtMost("b", "c", "quick", most, "s"), found(case(QUICK, LATE)))

    assert (verdict.status, verdict.found) == (status, "1.5 s")


@pytest.mark.parametrize(
    ("costs", "slope", "status"),
    [
        ([5.0, 5.0, 5.0], 0.0, Status.KEPT),
        ([3.0, 30.0, 300.0], 1.0, Status.KEPT),
        ([1.0, 100.0, 10000.0], 2.0, Status.MISSED),
    ],
    ids=["constant", "linear", "quadratic"],
)
def test_slope_of_logarithms(costs: list[float], slope: float, status: Status) -> None:
    one = growth(costs)

    assert one.slope("ours") == pytest.approx(slope)
    assert judge(Slope("b", "grows", "ours", 1.1), found(one)).status is status


def test_of_one_size_no_slope_is_said() -> None:
    assert judge(Slope("b", "grows", "ours", 1.1), found(growth([1.0], (1,)))).status is Status.NOT_MEASURED


@pytest.mark.parametrize("peer", ["absent", "broken"])
def test_a_promise_over_what_was_not_measured_is_not_kept(peer: str) -> None:
    broken = Measured("broken", "M/s", [], failure="it did not start")

    assert judge(AtLeast("b", "c", "fast", peer, 1), found(case(FAST, broken))).status is Status.NOT_MEASURED


def test_a_promise_over_a_case_that_was_not_reached_is_not_measured() -> None:
    results = Results([run()], [Planned("b", "c", 1.0)])

    assert judge(AtLeast("b", "c", "fast", "slow", 1), results).status is Status.NOT_MEASURED


def test_of_cases_nobody_asked_for_nothing_is_promised() -> None:
    assert verdicts([AtLeast("b", "other", "fast", "slow", 9)], found(case(FAST, SLOW))) == []


def test_of_subjects_left_out_nothing_is_promised() -> None:
    some = found(case(FAST), runs=[run(subjects=["fa*"])])

    assert verdicts([AtLeast("b", "c", "fast", "slow", 9)], some) == []


def test_of_quick_sizes_nothing_is_promised() -> None:
    assert verdicts([AtLeast("b", "c", "fast", "slow", 9)], found(case(FAST, SLOW), runs=[run(quick=True)])) == []


def test_a_verdict_on_fewer_rounds_says_so() -> None:
    part = case(FAST, SLOW, rounds=5, whole=False)

    assert judge(AtLeast("b", "c", "fast", "slow", 1), found(part)).note == "3 of 5 rounds"


def test_table_names_what_it_compares_with() -> None:
    shown = text_of(case_table(case(FAST, SLOW), found()))

    assert "against slow" in shown
    [row] = [line for line in shown.splitlines() if "fast" in line]
    assert row.replace("│", " ").split() == ["fast", "6", "4–9", "2", "1–3", "2"]


def test_table_of_promises_says_which_were_not_kept() -> None:
    wanted = [AtLeast("b", "c", "fast", "slow", times) for times in (1, 9)]

    lines = text_of(promise_table(verdicts(wanted, found(case(FAST, SLOW))))).splitlines()

    assert [word for line in lines for word in ("kept", "MISSED") if word in line] == ["kept", "MISSED"]


def test_what_was_written_is_read_again(tmp_path: Path) -> None:
    some = found(case(FAST, SLOW), growth([1.0, 2.0, 3.0]))
    some.failures["b"] = "it ended"

    some.write(tmp_path / "a" / "bench.json")

    assert results.read(tmp_path / "a" / "bench.json") == some
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["bench.json"]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"runs": [{}], "planned": [], "cases": [], "failures": {}}'])
def test_a_file_of_something_else_is_refused_in_a_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "other.json").write_text(text)

    with pytest.raises(NoResults, match=r"other\.json: these are no results of a bench"):
        results.read(tmp_path / "other.json")


# --- several runs ---


@pytest.mark.parametrize(
    ("first", "second", "kept"),
    [
        (case(FAST, SLOW), case(QUICK, LATE, of="second", whole=False), "first"),
        (case(FAST, SLOW, whole=False), case(QUICK, LATE, of="second"), "second"),
        (case(FAST, SLOW, whole=False), case(QUICK, LATE, of="second", whole=False), "first"),
        (case(FAST, SLOW), case(FAST, SLOW, of="second"), "second"),
    ],
    ids=["a whole one", "a whole one that comes later", "more rounds", "the later of two"],
)
@pytest.mark.parametrize("turned", [False, True], ids=["in order", "the other way round"])
def test_merging_takes_each_case_from_one_run(first: CaseFound, second: CaseFound, kept: str, turned: bool) -> None:
    both = [found(first), found(second, runs=[run("second")])]

    merged = results.merged(reversed(both) if turned else both)

    assert [one.run for one in merged.cases] == [kept]
    assert [one.id for one in merged.runs] == ["first", "second"]


def test_merged_figures_say_which_run_they_are_of() -> None:
    merged = results.merged(
        [found(case(FAST, SLOW)), found(case(FAST, SLOW, name="d", of="second"), runs=[run("second")])]
    )

    notes = [one.note for one in verdicts([AtLeast("b", name, "fast", "slow", 1) for name in "cd"], merged)]

    assert notes == ["run 1", "run 2"]


def test_quick_and_full_runs_are_not_merged() -> None:
    with pytest.raises(NoResults, match="cannot stand in one report"):
        results.merged([found(case(FAST, SLOW)), found(runs=[run("second", quick=True)])])


def test_lacking_is_what_is_planned_and_not_whole() -> None:
    some = found(case(FAST, SLOW), case(FAST, SLOW, name="part", rounds=5, whole=False))
    some.planned.append(Planned("b", "absent", 1.0))

    assert lacking_lines(some) == ["b: part: 3 of 5 rounds", "b: absent: not measured"]


def test_an_earlier_run_s_case_stays_until_there_are_more_rounds(tmp_path: Path) -> None:
    some = found(case(QUICK, LATE, whole=False), runs=[run(), run("second")])
    report = Report("b", some, path=tmp_path / "bench.json", console=Console(file=io.StringIO()))
    of_it = []

    with report.case("c", rounds=3, against="late") as again:
        for _ in again.rounds():
            again.sample("quick", "s", float, "1")
            again.sample("late", "s", float, "2")
            of_it.append(results.read(tmp_path / "bench.json").cases[0].run)

    assert of_it == ["first", "first", "second"]


# --- the page ---


def test_page_holds_what_was_found(tmp_path: Path) -> None:
    some = found(case(FAST, SLOW, Measured("<third>", "M/s", [1.0, 1.0, 1.0])), growth([1.0, 2.0, 4.0]))
    some.planned.append(Planned("b", "absent", 1.0))
    judged = verdicts([AtLeast("b", "c", "fast", "slow", 9), Slope("b", "grows", "ours", 1.1)], some)

    page = write_page(some, judged, tmp_path / "bench.html").read_text()

    assert "1 kept, 1 MISSED." in page
    assert "This report is not whole." in page
    assert "b: absent: not measured" in page
    assert "ours, slope 0.30" in page
    assert "&lt;third&gt;" in page


@pytest.mark.parametrize("some", [Results([run()]), found(case(Measured("bad", "s", [], failure="it failed")))])
def test_page_of_nothing_can_be_drawn_too(tmp_path: Path, some: Results) -> None:
    assert "What things cost" in write_page(some, [], tmp_path / "bench.html").read_text()


def test_the_same_tables_for_a_page(tmp_path: Path) -> None:
    some = found(case(FAST, SLOW), growth([1, 2, 4]))
    judged = verdicts([AtLeast("b", "c", "fast", "slow", 9)], some)

    lines = write_markdown(some, judged, tmp_path / "bench.md").read_text().splitlines()

    assert "| b | c | fast against slow | ≥ 9× | 2× | 1–3 | **MISSED** |" in lines
    assert "| subject | M/s |  | × |  | CPU s |" in lines
    assert "| fast | 6 | 4–9 | 2 | 1–3 | 2 |" in lines
    assert "| ours | 10 | 2 |  |" in lines
    assert "slopes (0 constant, 1 linear): ours 0.30" in lines


def test_a_page_shows_the_latest_run(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")

    put_into(page, "new\n")
    put_into(page, "newer\n")

    assert page.read_text() == f"before\n{BEGIN}\n\nnewer\n\n{END}\nafter\n"


@pytest.mark.parametrize("text", [None, "no marks", f"only {BEGIN}\n"])
def test_a_page_without_a_place_for_a_run_stays_as_it_is(tmp_path: Path, text: str | None) -> None:
    page = tmp_path / "page.md"
    if text is not None:
        page.write_text(text)

    with pytest.raises(NoPlace, match=r"page\.md: "):
        put_into(page, "new")

    assert (page.read_text() if page.exists() else None) == text


def test_the_docs_have_a_place_for_a_run() -> None:
    page = (Path(__file__).parents[2] / "docs" / "bench.md").read_text()

    assert 0 < page.index(f"{BEGIN}\n") < page.index(f"{END}\n")


# --- what is told a bench ---


def test_the_first_subject_stays_since_ratios_are_formed_against_it() -> None:
    report = Report("b", Results([run()]), subjects=["ours*", "raw"])

    assert report.taken(["Scala", "Java", "ours, Arrow", "raw"]) == ["Scala", "ours, Arrow", "raw"]


@pytest.mark.parametrize(
    ("quick", "wanted", "rounds"), [(False, None, 5), (True, None, 1), (True, 3, 3), (False, 2, 2)]
)
def test_rounds(quick: bool, wanted: int | None, rounds: int) -> None:
    assert Report("b", Results([run(quick=quick)]), rounds=wanted).rounds(5) == rounds


def test_a_machine_half_as_fast_needs_twice_the_time() -> None:
    some = Results([Run("r", "2026-11-18T00:00:00Z", [], {})], [Planned("b", name, 100.0) for name in "abcd"])
    schedule = Schedule(some)
    assert schedule.left_s() == pytest.approx(400)

    for name in "ab":
        some.replace(CaseFound("b", name, "r", 1, seconds=200 + 30))

    assert schedule.left_s() == pytest.approx(2 * 100 * 2)


def test_what_an_earlier_run_measured_is_not_waited_for() -> None:
    some = Results([run(), run("second")], [Planned("b", name, 100.0) for name in "ab"])
    some.replace(CaseFound("b", "a", "first", 1, is_whole=True, seconds=900))

    assert Schedule(some).left_s() == pytest.approx(100)


# --- the real ones ---


@pytest.fixture(scope="module")
def catalogue() -> command._Catalogue:
    found = command._Catalogue.of(command.BENCHES, quick=False)
    assert found.failures == {}
    return found


def test_every_promise_is_over_a_case_there_is(catalogue: command._Catalogue) -> None:
    assert {(one.bench, one.case) for one in catalogue.promises} <= {one.key for one in catalogue.cases}


def test_promises_over_readers_are_over_subjects_of_that_case() -> None:
    from tests.bench import throughput

    subjects = {case.name: set(case.subjects) for case in throughput.CASES}
    for promise in throughput.promises():
        assert isinstance(promise, AtLeast)
        assert {promise.subject, promise.peer} <= subjects[promise.case]


@pytest.mark.parametrize(("quick", "minutes"), [(False, 55), (True, 2.5)], ids=["full", "quick"])
def test_the_plan_fits_into_the_time_that_is_told(quick: bool, minutes: float) -> None:
    planned = command._Catalogue.of(command.BENCHES, quick=quick).cases

    assert sum(one.expected_s for one in planned) <= minutes * 60
