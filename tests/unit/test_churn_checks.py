"""What judges the churn test (tests/broker/churn.py), on histories of a few lines: it finds what is wrong."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tests.broker.churn import Member, Ownership, deliveries_by_others, ownerships, records_missing
from tests.broker.member_process import Delivery, Note
from zkconsumer.testing.transactions import Operation, Transaction

OWNER = "/consumers/g/owners/t/0"


def transaction(time_ms: int, operation: Operation, *, session: int = 1, cxid: int = 7, **fields: Any) -> Transaction:
    return Transaction(time_ms, session, cxid, time_ms, operation, **fields)


CLAIM = transaction(10, Operation.CREATE, path=OWNER, data=b"g_c1-0")
EXPIRY = transaction(20, Operation.CLOSE_SESSION, cxid=0, removed=(OWNER,))


@pytest.mark.parametrize(
    ("log", "expected"),
    [
        ([CLAIM], [Ownership("g_c1-0", 0, 10, math.inf)]),
        ([CLAIM, transaction(20, Operation.DELETE, path=OWNER)], [Ownership("g_c1-0", 0, 10, 20)]),
        ([CLAIM, transaction(20, Operation.CLOSE_SESSION, removed=(OWNER,))], [Ownership("g_c1-0", 0, 10, 20)]),
        ([CLAIM, transaction(20, Operation.CLOSE_SESSION, session=2)], [Ownership("g_c1-0", 0, 10, math.inf)]),
        ([CLAIM, EXPIRY], [Ownership("g_c1-0", 0, 10, math.inf)]),
        (
            [CLAIM, EXPIRY, transaction(30, Operation.CREATE, session=2, path="/consumers/g/ids/g_c1", data=b"{}")],
            [Ownership("g_c1-0", 0, 10, 30)],
        ),
        (
            [
                transaction(5, Operation.CREATE, path="/consumers/other/owners/t/0", data=b"x-0"),
                transaction(6, Operation.CREATE, path="/consumers/g/owners/t2/0", data=b"x-0"),
            ],
            [],
        ),
    ],
    ids=["held", "released", "left", "another-left", "lost", "lost-and-back", "of-others"],
)
def test_ownership_lasts_from_claim_to_release(log: list[Transaction], expected: list[Ownership]) -> None:
    assert ownerships(log, "/consumers/g", "t") == expected


@pytest.mark.parametrize(
    ("time_ms", "thread_id", "partition", "is_wrong"),
    [
        (10, "g_c1-0", 0, False),
        (20, "g_c1-0", 0, False),
        (9, "g_c1-0", 0, True),
        (21, "g_c1-0", 0, True),
        (15, "g_c2-0", 0, True),
        (15, "g_c1-0", 1, True),
    ],
    ids=["when-claimed", "when-released", "before", "after", "another-thread", "another-partition"],
)
def test_a_delivery_outside_of_ownership_is_found(time_ms: int, thread_id: str, partition: int, is_wrong: bool) -> None:
    delivery = Delivery(thread_id, partition, 0, 5, time_ms)

    found = list(deliveries_by_others([delivery], [Ownership("g_c1-0", 0, 10, 20)]))

    assert found == ([delivery] if is_wrong else [])


@pytest.mark.parametrize(
    ("noted", "expected"),
    [([0, 1, 2], set()), ([0, 2, 2], {(0, 1)}), ([0, 1], {(0, 2)}), ([1, 2], {(0, 0)})],
    ids=["none", "in-the-middle", "last", "first"],
)
def test_a_record_that_nobody_noted_is_missing(noted: list[int], expected: set[tuple[int, int]]) -> None:
    member = Member("127.0.0.1:1", "g", "c1", "t")
    member.notes = [[Note(0, offset, offset) for offset in noted]]

    assert records_missing([member], {0: 3}) == expected
