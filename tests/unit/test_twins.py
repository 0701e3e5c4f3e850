"""The compiled reader of records and its twin in Python agree in everything, on good bytes and on bad ones."""

from __future__ import annotations

import gc
import os
import random
import shutil
import subprocess
import sys
import sysconfig
import zlib
from pathlib import Path

import crc32c
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fetcher.implementation import IMPLEMENTATION, PURE_PYTHON_VARIABLE
from fetcher.message_set import ByteBufferMessageSet, Message
from tests.builders import Content, message, message_set
from tests.twins import COMPILED, PURE, mutated, random_set, trace, with_right_checksums, within_an_answer

ROOT = Path(__file__).parents[2]
VECTORS = sorted((ROOT / "tests" / "vectors" / "message-sets").glob("*.bin"))
TESTED_WITH_BOTH = [
    "test_message_set.py",
    "test_partition.py",
    "test_streams.py",
    "test_batches.py",
    "test_reading_ahead.py",
    "test_channel.py",
]

compiled = pytest.mark.skipif(COMPILED is None, reason="fetcher._records is not built: no C compiler at installation")


def test_it_is_built_where_it_can_be() -> None:
    """An extension that does not compile is left out without a word, and its tests would be skipped for good."""
    headers = Path(sysconfig.get_path("include")) / "Python.h"

    assert COMPILED is not None or shutil.which("cc") is None or not headers.exists()


def test_the_compiled_reader_is_used_where_it_is_built() -> None:
    expected = "pure" if COMPILED is None or os.environ.get(PURE_PYTHON_VARIABLE) == "1" else "compiled"

    assert expected == IMPLEMENTATION
    assert isinstance(next(iter(ByteBufferMessageSet(message(Content(0))))), Message)


@compiled
@pytest.mark.skipif(IMPLEMENTATION == "pure", reason="this is that run")
@pytest.mark.timeout(600)
def test_the_same_tests_pass_without_the_compiled_reader() -> None:
    """A run of its own, since the choice is made at import."""
    files = [str(ROOT / "tests" / "unit" / name) for name in TESTED_WITH_BOTH]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", *files]

    run = subprocess.run(
        command, env=os.environ | {PURE_PYTHON_VARIABLE: "1"}, cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert run.returncode == 0, run.stdout + run.stderr


@compiled
@pytest.mark.parametrize("file", VECTORS, ids=lambda file: file.name[:-4])
def test_both_read_alike_what_real_brokers_stored(file: Path) -> None:
    data = file.read_bytes()

    assert trace(COMPILED, data) == trace(PURE, data)
    assert trace(COMPILED, within_an_answer(data)) == trace(PURE, data)


@compiled
@settings(max_examples=150)
@given(st.integers(0, 2**32), st.sampled_from([0, 3, -10, 2**62]), st.sampled_from([1, 100, 2**30]))
def test_both_read_alike_what_is_valid(seed: int, consumed_offset: int, most_bytes: int) -> None:
    data = random_set(random.Random(seed))

    expected = trace(PURE, data, consumed_offset, most_bytes)
    assert trace(COMPILED, data, consumed_offset, most_bytes) == expected
    assert trace(COMPILED, within_an_answer(data), consumed_offset, most_bytes) == expected


@compiled
@settings(max_examples=150)
@given(st.integers(0, 2**32), st.data())
def test_both_read_alike_what_is_cut(seed: int, choose: st.DataObject) -> None:
    data = random_set(random.Random(seed))
    cut = data[: choose.draw(st.integers(0, len(data)))]

    assert trace(COMPILED, cut) == trace(COMPILED, within_an_answer(cut)) == trace(PURE, cut)


@compiled
@settings(max_examples=300)
@given(st.integers(0, 2**32), st.booleans())
def test_both_fail_alike_on_what_is_broken(seed: int, mend: bool) -> None:
    """Also behind checksums that fit."""
    chance = random.Random(seed)
    data = mutated(chance, random_set(chance))
    data = with_right_checksums(data) if mend else data

    assert trace(COMPILED, data) == trace(COMPILED, within_an_answer(data)) == trace(PURE, data)


@compiled
@pytest.mark.parametrize(
    ("before", "behind", "is_copied"),
    [(0, 0, False), (47, 0, False), (64 * 1024, 0, False), (64 * 1024 + 1, 0, True), (0, 1, True), (47, 8, True)],
)
def test_a_set_keeps_the_answer_it_is_nearly_all_of_and_copies_else(before: int, behind: int, is_copied: bool) -> None:
    """Whoever reads records slowly keeps his chunk in memory, not the chunks of others beside it."""
    data = message_set([Content(number, b"key", b"value") for number in range(10)], 0)
    answer = b"\xff" * before + data + b"\xff" * behind
    references = sys.getrefcount(answer)

    messages = COMPILED.ByteBufferMessageSet(memoryview(answer)[before : before + len(data)])
    assert (sys.getrefcount(answer) == references) == is_copied
    last = list(messages)[-1]
    del messages
    assert (sys.getrefcount(answer) == references) == is_copied  # a record keeps its bytes
    assert (last.offset, last.value) == (9, b"value")
    del last
    assert sys.getrefcount(answer) == references


@compiled
def test_records_are_no_work_for_the_garbage_collector() -> None:
    messages = COMPILED.ByteBufferMessageSet(message_set([Content(0), Content(1)], 2))
    records, _ = COMPILED.read_batch(iter(messages), "t", 0, None, None, 0, 1 << 20)

    assert [gc.is_tracked(one) for one in [*messages, *records]] == [False] * 4


@compiled
def test_a_loop_comes_to_the_compiled_next_directly_unless_a_class_has_its_own() -> None:
    class Plain(COMPILED.RecordCursor):  # type: ignore[misc]
        def next_slowly(self) -> str:
            return "slowly"

    class Own(Plain):
        def __next__(self) -> str:
            return "own"

    assert COMPILED.with_direct_next(Plain) is Plain
    assert (next(Plain()), next(COMPILED.with_direct_next(Own)())) == ("slowly", "own")
    Plain.__next__ = lambda self: "changed later"
    assert next(Plain()) == "changed later"


@compiled
@pytest.mark.parametrize("at_most", [0, 1, 2], ids=["tables", "instructions", "wide instructions"])
def test_checksums_are_those_of_the_libraries_at_every_length_and_place(at_most: int) -> None:
    data = random.Random(1).randbytes(700)

    for start in range(17):
        for end in range(start, len(data)):
            piece = data[start:end]
            assert COMPILED.crc32(piece, at_most=at_most) == zlib.crc32(piece)
            assert COMPILED.crc32c(piece, at_most=at_most) == crc32c.crc32c(piece)
