"""What a coordinator decides, against the tables of the spec."""

from __future__ import annotations

import pytest

from study.coordination import GroupState, chosen_strategy, commit_code, coordinator_partition


@pytest.mark.parametrize(
    ("group", "partition"),
    [
        ("g1", 42),
        ("group1", 40),
        ("test-consumer-group", 31),
        ("groupIdMonitor", 8),
        ("my-group", 12),
        ("console-consumer-1234", 9),
        ("polygenelubricants", 0),
        ("", 0),
    ],
)
def test_a_group_lives_in_the_partition_of_its_hash(group: str, partition: int) -> None:
    """P6"""
    assert coordinator_partition(group) == partition


@pytest.mark.parametrize(
    ("preferences", "chosen"),
    [
        ([["range"]], "range"),
        ([["range", "roundrobin"], ["roundrobin", "range"], ["roundrobin", "range"]], "roundrobin"),
        # Two want sticky first, but the third does not know it: only common strategies are candidates.
        ([["sticky", "range"], ["sticky", "range"], ["range"]], "range"),
        ([["sticky"], ["range"]], None),
        ([], None),
    ],
)
def test_members_vote_for_a_strategy_all_of_them_have(preferences: list[list[str]], chosen: str | None) -> None:
    """P7"""
    assert chosen_strategy(preferences) == chosen


ROWS = [
    # state, generation, member id, code in 1.1.1, code in 3.9.1; the group has the member "m" and generation 5
    ("unknown", -1, "", 0, 0),
    ("unknown", -1, "stranger", 0, 0),
    ("unknown", 0, "", 22, 22),
    ("unknown", 0, "stranger", 22, 22),
    ("Dead", -1, "", 25, 15),
    ("Dead", 5, "m", 25, 15),
    ("Empty", -1, "stranger", 0, 0),
    ("Empty", -7, "", 0, 0),  # any negative one, whatever seed 001 says
    ("Empty", 0, "", 25, 25),
    ("Empty", 0, "stranger", 25, 25),
    ("CompletingRebalance", 5, "m", 27, 27),
    ("CompletingRebalance", 5, "stranger", 27, 25),
    ("CompletingRebalance", 4, "m", 27, 22),
    ("CompletingRebalance", -1, "", 27, 25),
    ("CompletingRebalance", -1, "m", 27, 22),
    ("PreparingRebalance", 5, "stranger", 25, 25),
    ("PreparingRebalance", -1, "", 25, 25),
    ("PreparingRebalance", -1, "m", 22, 22),
    ("PreparingRebalance", 4, "m", 22, 22),
    ("PreparingRebalance", 5, "m", 0, 0),
    ("Stable", -1, "", 25, 25),
    ("Stable", 5, "stranger", 25, 25),
    ("Stable", 4, "m", 22, 22),
    ("Stable", -1, "m", 22, 22),
    ("Stable", 5, "m", 0, 0),
]


@pytest.mark.parametrize(("state", "generation", "member_id", "in_1_1", "in_3_9"), ROWS)
def test_commits_are_stored_or_refused_by_the_table(
    state: str, generation: int, member_id: str, in_1_1: int, in_3_9: int
) -> None:
    """P5"""
    members = [] if state in ("unknown", "Dead", "Empty") else ["m"]
    codes = [
        commit_code(
            GroupState(state),
            generation=generation,
            current_generation=5,
            member_id=member_id,
            members=members,
            release=release,
        )
        for release in ("1.1.1", "3.9.1")
    ]

    assert codes == [in_1_1, in_3_9]
