"""docs/conformance.md: every statement the consumer is measured by, and the tests that prove it.

A test names what it proves at the beginning of its docstring, `A1, A8: …`. Tests are read, not imported, so no server
is needed. With the results of a run (pytest --junit-xml) only tests that passed count: after a run of everything in
which all passed the page comes out the same as without.

    python -m tests.conformance.list [--results junit.xml …] [--check]
"""

from __future__ import annotations

import argparse
import ast
import re
import sys
import tomllib
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "conformance.md"
STATEMENTS = Path(__file__).with_name("statements.toml")
MUTATION_RESULTS = Path(__file__).with_name("mutation-results.md")


class Status(StrEnum):
    """How a statement is proven, the strongest first."""

    REAL = "against the real one"
    SERVERS = "on real servers"
    SPEC = "from the spec"
    OPEN = "open"


STATUS_OF_FOLDER = {
    "conformance": Status.REAL,
    "tools": Status.REAL,  # those that name a statement stand next to the original
    "broker": Status.SERVERS,
    "zookeeper": Status.SERVERS,
    "containers": Status.SERVERS,
    "plugin": Status.SERVERS,
    "study": Status.SERVERS,
    "unit": Status.SPEC,
}

# These show what the real consumer and the real tools do, and nothing of ours: no proof, but the oracle was seen.
ORACLE_FILES = frozenset({"tests/conformance/test_scala_consumer.py", "tests/conformance/test_real_tools.py"})

SCRIPTED = frozenset({"ScriptedBroker", "ScriptedCluster"})  # brokers that do what no real one does on demand

# Said on the page as long as they are open; those without an entry are open and nobody has said why.
OPEN_BECAUSE: dict[str, str] = {}

# A statement with two halves, and the one that says its second half: proven in part only while that one is open.
SECOND_HALF = {"A6": "O3"}

# Tests of a part of a statement: listed, but the status is that of the tests of the whole.
A_PART_ONLY = {
    ("E6", "tests/conformance/test_footprint.py"),  # znodes without a broker; not the line, nor what the first one does
    ("M1", "tests/conformance/test_assignors.py"),  # the assignors' lines, the only ones without the prefix
}

_IDS = re.compile(r"(?P<ids>[A-Q]\d+(?:, [A-Q]\d+)*)(?P<remark> \([^)]*\))?(?::|$)")


class Statement(NamedTuple):
    id: str
    section: str
    level: str
    text: str


@dataclass(frozen=True, slots=True)
class NamedTest:
    """A test and the statements its docstring names."""

    file: str
    name: str
    ids: tuple[str, ...]
    status: Status
    is_of_the_real_one: bool

    def __str__(self) -> str:
        return f"{self.file}::{self.name}"


@dataclass(frozen=True, slots=True)
class Row:
    """A statement with the tests that count, the strongest first."""

    statement: Statement
    proofs: list[NamedTest]
    parts: list[NamedTest]
    oracle: list[NamedTest]

    @property
    def status(self) -> Status:
        return self.proofs[0].status if self.proofs else Status.OPEN


def read_sections() -> dict[str, str]:
    """Letter -> title."""
    return {letter: table["title"] for letter, table in _tables().items()}


def read_statements() -> dict[str, Statement]:
    """By id, in the order of the file."""
    return {
        key: Statement(key, letter, entry["level"], entry["text"])
        for letter, table in _tables().items()
        for key, entry in table.items()
        if key != "title"
    }


def read_tests(root: Path = ROOT) -> list[NamedTest]:
    """All tests that name statements, in the order of files and lines."""
    return [test for path in sorted((root / "tests").rglob("test_*.py")) for test in _tests_in(path, root)]


def passed(results: Iterable[Path]) -> set[str]:
    """`file::name` of the tests that passed in these runs: in some of their cases, and failed in none."""
    good: set[str] = set()
    bad: set[str] = set()
    for path in results:
        for case in ElementTree.parse(path).iter("testcase"):
            test = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name', '').partition('[')[0]}"
            outcomes = {child.tag for child in case}
            if outcomes & {"failure", "error"}:
                bad.add(test)
            elif "skipped" not in outcomes:
                good.add(test)
    return good - bad


def rows_of(statements: Iterable[Statement], tests: Collection[NamedTest]) -> list[Row]:
    """Each statement with its tests."""
    strongest_first = sorted(tests, key=lambda test: list(Status).index(test.status))
    return [_row(statement, [test for test in strongest_first if statement.id in test.ids]) for statement in statements]


def _row(statement: Statement, tests: Iterable[NamedTest]) -> Row:
    row = Row(statement, [], [], [])
    for test in tests:
        if test.is_of_the_real_one:
            row.oracle.append(test)
        elif (statement.id, test.file) in A_PART_ONLY:
            row.parts.append(test)
        else:
            row.proofs.append(test)
    return row


def page(rows: Sequence[Row], mutation_results: str) -> str:
    """The whole page."""
    parts = [_INTRODUCTION, _counts(rows), _EXPLANATION, _counts_of_sections(rows)]
    parts += [_section(letter, title, rows) for letter, title in read_sections().items()]
    return "\n".join([*parts, mutation_results])


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    tests = read_tests()
    if options.results:
        good = passed(options.results)
        tests = [test for test in tests if str(test) in good]
    text = page(rows_of(read_statements().values(), tests), MUTATION_RESULTS.read_text(encoding="utf-8"))
    if options.check:
        is_same = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        print(f"{PAGE.relative_to(ROOT)} is " + ("up to date" if is_same else "another: make conformance-list"))
        return 0 if is_same else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


# --- reading ---


def _tables() -> dict[str, dict[str, Any]]:
    return tomllib.loads(STATEMENTS.read_text(encoding="utf-8"))


def _tests_in(path: Path, root: Path) -> Iterator[NamedTest]:
    file = path.relative_to(root).as_posix()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if not isinstance(node, ast.FunctionDef) or not node.name.startswith("test_"):
            continue
        found = _IDS.match((ast.get_docstring(node) or "").partition("\n")[0])
        if found is not None:
            ids = tuple(one for one in found["ids"].split(", ") if not one.startswith("Q"))  # Q: quirks, another list
            of_the_real_one = file in ORACLE_FILES or "on the real consumer" in (found["remark"] or "")
            yield NamedTest(file, node.name, ids, _status(file, node), of_the_real_one)


def _status(file: str, test: ast.FunctionDef) -> Status:
    kinds = [ast.unparse(argument.annotation) for argument in test.args.args if argument.annotation is not None]
    if any(kind in SCRIPTED for kind in kinds):
        return Status.SPEC
    return STATUS_OF_FOLDER[file.split("/")[1]]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.list", description="Write docs/conformance.md.")
    parser.add_argument(
        "--results", type=Path, nargs="+", default=[], help="JUnit files of a run: count only what passed in it"
    )
    parser.add_argument("--check", action="store_true", help="write nothing; exit code 1 if the page is another")
    return parser


# --- the page ---

_INTRODUCTION = """\
# Conformance

What is known of the behaviour of 0.8's consumer, as 200 statements, and which test proves each of them for ours. Made
by `make conformance-list` from `tests/conformance/statements.toml` and the docstrings of the tests; not to be edited.
"""

_EXPLANATION = """
* **against the real one**: in a group with the real Scala consumer, beside it in the same scenario, or case by case
  with its own classes.
* **on real servers**: ours alone, on real ZooKeeper and, where it takes one, a real broker.
* **from the spec**: on values, recorded from the real classes or taken from the description of 0.8.2.2; or against a
  scripted broker, for what no real one does on demand.
* **open**: no test.

The status is that of the strongest test. A statement may have several sides, such as a znode and a log line: the tests
listed prove them together. Two kinds of tests are listed and do not count:

* **a part**: shows one side only, against something stronger than the tests of the whole.
* **oracle**: shows the real consumer or tool doing it (**oracle seen**), and nothing of ours.

Levels: **K** must hold, since other members or tools see it; **C** should hold with `emulate="0.8.2"`; **F** is the
mended behaviour that this project prefers. Q numbers are those of the [quirks](compatibility.md#quirks), § numbers
those of the description the statements were taken from.

A test counts because its docstring names the statement. Given the results of runs (`PYTEST_ARGS=--junit-xml=junit.xml`
makes them), `make conformance-list RESULTS=junit.xml` counts only tests that passed in one and failed in none; after a
run of everything the page has to come out the same. That tests fail when the behaviour is broken is tried by
[mutation](#mutation).
"""


def _counts(rows: Sequence[Row]) -> str:
    levels = sorted({_level(row) for row in rows}, key="KCF–".index)
    count = Counter((row.status, _level(row)) for row in rows)
    lines = [f"| status | {' | '.join(levels)} | all |", f"|---|{'---:|' * (len(levels) + 1)}"]
    for status in Status:
        numbers = [count[status, level] for level in levels]
        lines.append(f"| {status} | {' | '.join(map(str, numbers))} | {sum(numbers)} |")
    totals = [sum(count[status, level] for status in Status) for level in levels]
    return "\n".join([*lines, f"| all | {' | '.join(map(str, totals))} | {sum(totals)} |"])


def _counts_of_sections(rows: Sequence[Row]) -> str:
    count = Counter((row.statement.section, row.status) for row in rows)
    lines = [f"| section | {' | '.join(Status)} |", f"|---|{'---:|' * len(Status)}"]
    for letter, title in read_sections().items():
        lines.append(f"| {letter}. {title} | {' | '.join(str(count[letter, status]) for status in Status)} |")
    return "\n".join(lines) + "\n"


def _level(row: Row) -> str:
    """Without its quirk; `C/F` (each in its mode) counts as C."""
    return row.statement.level[0]


def _section(letter: str, title: str, rows: Sequence[Row]) -> str:
    is_open = {row.statement.id for row in rows if row.status is Status.OPEN}
    lines = [f"## {letter}. {title}", "", "| id | statement | level | status | tests |", "|---|---|---|---|---|"]
    lines += [_line(row, is_open) for row in rows if row.statement.section == letter]
    return "\n".join(lines) + "\n"


def _line(row: Row, is_open: Collection[str]) -> str:
    statement = row.statement
    status = f"**{row.status}**" if row.status is Status.OPEN else str(row.status)
    if SECOND_HALF.get(statement.id) in is_open:
        status += f", in part: see {SECOND_HALF[statement.id]}"
    if row.oracle:
        status += ", oracle seen"
    tests = [f"`{test}`" for test in row.proofs]
    tests += [f"a part: `{test}`" for test in row.parts] + [f"oracle: `{test}`" for test in row.oracle]
    if row.status is Status.OPEN and statement.id in OPEN_BECAUSE:
        tests.insert(0, OPEN_BECAUSE[statement.id])
    cells = [statement.id, statement.text.replace("|", "\\|"), statement.level, status, "<br>".join(tests)]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    sys.exit(main())
