"""docs/conformance.md says what the tests say, and the mutants still fit the code they break."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import mutation
from tests.conformance import list as conformance
from tests.conformance.list import NamedTest, Statement, Status, passed, rows_of
from tests.mutation import MUTANTS, Mutant

MUST_BE_PROVEN = "ABCDEFGHIJKLM"  # N: tools, O: mixed groups, P: the new consumer; the page says what of them is open

# A statement of level K or C in these sections that no test proves, with the reason, such as "needs two machines".
EXCEPTIONS: dict[str, str] = {}


def test_there_are_200_statements_and_122_must_hold() -> None:
    """The numbers at the end of the list they were taken from."""
    statements = conformance.read_statements().values()

    assert len(statements) == 200
    assert sum(statement.level.startswith("K") for statement in statements) == 122


def test_the_page_is_what_the_tests_say() -> None:
    assert conformance.main(["--check"]) == 0, "run: make conformance-list"


def test_every_statement_named_by_a_test_exists() -> None:
    known = conformance.read_statements()

    unknown = {f"{test}: {one}" for test in conformance.read_tests() for one in test.ids if one not in known}

    assert unknown == set()


def test_what_must_hold_is_proven() -> None:
    rows = rows_of(conformance.read_statements().values(), conformance.read_tests())
    is_open = {
        row.statement.id
        for row in rows
        if row.status is Status.OPEN and row.statement.section in MUST_BE_PROVEN and row.statement.level[0] in "KC"
    }

    assert is_open == set(EXCEPTIONS)


def test_remarks_are_about_statements_that_exist() -> None:
    known = set(conformance.read_statements())

    assert set(conformance.OPEN_BECAUSE) <= known
    assert {*conformance.SECOND_HALF, *conformance.SECOND_HALF.values()} <= known


def test_tests_of_a_part_are_still_there() -> None:
    named = {(one, test.file) for test in conformance.read_tests() for one in test.ids}

    assert named >= conformance.A_PART_ONLY


# --- how tests are counted ---


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """One test of each kind."""
    kinds = {
        "conformance/test_mixed.py": 'def test_beside_the_real_one():\n    """A1, A2: so."""\n'
        'def test_theirs():\n    """A1 (on the real consumer): so."""\n',
        "conformance/test_scala_consumer.py": 'def test_of_theirs():\n    """A3: so."""\n',
        "broker/test_any.py": 'def test_on_a_broker(kafka: KafkaCluster):\n    """A2, Q7: so.\n\n    A4: not this."""\n'
        'def test_scripted(scripted: ScriptedCluster):\n    """A4: so."""\n',
        "unit/test_any.py": 'def test_on_values():\n    """A2"""\n'
        'def test_without():\n    """A2 is not named: no list."""\n'
        'def helper():\n    """A5: no test."""\n',
    }
    for name, source in kinds.items():
        path = tmp_path / "tests" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(source, encoding="utf-8")
    return tmp_path


def test_tests_count_by_where_they_are_and_what_they_run_against(tree: Path) -> None:
    found = {test.name: (test.ids, test.status, test.is_of_the_real_one) for test in conformance.read_tests(tree)}

    assert found == {
        "test_beside_the_real_one": (("A1", "A2"), Status.REAL, False),
        "test_theirs": (("A1",), Status.REAL, True),
        "test_of_theirs": (("A3",), Status.REAL, True),
        "test_on_a_broker": (("A2",), Status.SERVERS, False),
        "test_scripted": (("A4",), Status.SPEC, False),
        "test_on_values": (("A2",), Status.SPEC, False),
    }


def test_a_statement_has_the_status_of_its_strongest_test_and_the_oracle_proves_nothing(tree: Path) -> None:
    statements = [Statement(f"A{number}", "A", "K", "") for number in range(1, 6)]

    rows = rows_of(statements, conformance.read_tests(tree))

    assert [row.status for row in rows] == [Status.REAL, Status.REAL, Status.OPEN, Status.SPEC, Status.OPEN]
    assert [test.name for test in rows[1].proofs] == ["test_beside_the_real_one", "test_on_a_broker", "test_on_values"]
    assert [test.name for test in rows[2].oracle] == ["test_of_theirs"]


def test_of_a_run_only_tests_count_that_passed_and_failed_in_no_case(tmp_path: Path) -> None:
    results = tmp_path / "junit.xml"
    results.write_text(
        "<testsuites><testsuite>"
        '<testcase classname="tests.unit.test_a" name="test_good[1]"/>'
        '<testcase classname="tests.unit.test_a" name="test_good[2]"><skipped/></testcase>'
        '<testcase classname="tests.unit.test_a" name="test_bad[1]"/>'
        '<testcase classname="tests.unit.test_a" name="test_bad[2]"><failure/></testcase>'
        '<testcase classname="tests.unit.test_a" name="test_error"><error/></testcase>'
        '<testcase classname="tests.unit.test_a" name="test_skipped"><skipped/></testcase>'
        "</testsuite></testsuites>",
        encoding="utf-8",
    )

    assert passed([results]) == {str(NamedTest("tests/unit/test_a.py", "test_good", (), Status.SPEC, False))}


# --- mutants ---


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_a_mutant_breaks_one_place_of_the_code(mutant: Mutant) -> None:
    source = (mutation.ROOT / mutant.file).read_text(encoding="utf-8")

    assert source.count(mutant.text) == 1
    compile(source.replace(mutant.text, mutant.replacement), mutant.file, "exec")


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_tests_of_a_mutant_exist(mutant: Mutant) -> None:
    for test in mutant.tests:
        file, _, name = test.partition("::")
        assert re.search(rf"^def {name or 'test_'}", (mutation.ROOT / file).read_text(encoding="utf-8"), re.MULTILINE)


def test_the_results_kept_are_of_these_mutants_and_all_were_caught() -> None:
    """Made by `make mutation`."""
    assert mutation.RESULTS.read_text(encoding="utf-8") == mutation.as_page({one.name: "caught" for one in MUTANTS})
