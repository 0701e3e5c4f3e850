"""What a member of Spark's stores when partitions leave it, and what it counts as perhaps coming twice."""

from __future__ import annotations

import pytest

from fetcher.structs import TopicAndPartition
from pipeline.members import Holding, Ledger, Member
from pipeline.options import SourceOptions
from pipeline.ranges import AtRisk, OffsetRange

WHERE = TopicAndPartition("orders", 0)


def ledger_of(*, stored: int, position: int | None, planned: OffsetRange | None, in_checkpoint: bool) -> Ledger:
    ledger = Ledger()
    began_at = 0 if position is None else max(stored, 0)
    ledger.holdings[WHERE] = Holding(WHERE, "thread", stored, position, began_at, committed=stored)
    ledger.planned = {} if planned is None else {WHERE: planned}
    ledger.in_checkpoint = in_checkpoint
    return ledger


def left_by(ledger: Ledger, handover: str) -> int | None:
    """The position that a member would store now."""
    given = {"zookeeper.connect": "localhost", "group.id": "g", "topics": "orders", "handover": handover}
    member = Member(SourceOptions.of(given), 0, ledger)
    with ledger.changed:
        return member._positions_to_leave({WHERE}).get(WHERE)


BATCH = OffsetRange(WHERE, 60, 100)


@pytest.mark.parametrize(
    ("handover", "in_checkpoint", "stored", "position", "left", "doubled", "kept"),
    [
        ("checkpoint", True, 60, 100, 100, 0, 40),
        ("checkpoint", False, 60, 100, None, 40, 0),
        ("group", True, 60, 100, None, 40, 0),
        ("group", True, 20, 100, 60, 40, 0),  # what is done and not stored yet is stored now
        ("checkpoint", False, 20, 100, 60, 40, 0),
        ("checkpoint", True, 60, None, 100, 0, 40),  # a batch of a former run, its partition not looked at yet
        ("checkpoint", True, 120, None, None, 0, 40),  # which others have passed
    ],
)
def test_a_batch_under_way_is_handed_over_or_counted(
    handover: str, in_checkpoint: bool, stored: int, position: int | None, left: int | None, doubled: int, kept: int
) -> None:
    ledger = ledger_of(stored=stored, position=position, planned=BATCH, in_checkpoint=in_checkpoint)

    assert left_by(ledger, handover) == left
    assert (ledger.doubled_at_most, ledger.kept_by_checkpoint) == (doubled, kept)


@pytest.mark.parametrize(("stored", "left"), [(60, 100), (100, None)])
def test_what_is_done_is_stored_if_it_is_not_yet(stored: int, left: int | None) -> None:
    ledger = ledger_of(stored=stored, position=100, planned=None, in_checkpoint=False)

    assert left_by(ledger, "checkpoint") == left
    assert ledger.doubled_at_most == ledger.kept_by_checkpoint == 0


def test_with_a_session_goes_all_that_is_not_stored_done_or_not() -> None:
    assert ledger_of(stored=20, position=100, planned=BATCH, in_checkpoint=True).not_stored(WHERE) == 80
    assert ledger_of(stored=100, position=100, planned=None, in_checkpoint=True).not_stored(WHERE) == 0
    assert ledger_of(stored=-1, position=100, planned=None, in_checkpoint=True).not_stored(WHERE) == 100
    assert ledger_of(stored=60, position=None, planned=BATCH, in_checkpoint=True).not_stored(WHERE) == 40


def test_what_comes_back_untouched_was_not_doubled() -> None:
    ledger = Ledger()
    ledger.let_go(WHERE, AtRisk(stored=60, offsets=40))
    ledger.is_back(WHERE, 60)
    assert ledger.doubled_at_most == 0

    ledger.let_go(WHERE, AtRisk(stored=60, offsets=40))
    ledger.is_back(WHERE, 61)
    assert ledger.doubled_at_most == 40
