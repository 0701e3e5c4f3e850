"""What a group coordinator decides: the partition a group lives in, the strategy vote, and which commits it stores.

Pure (Java and Scala: GroupCoordinator, GroupMetadata).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from fetcher.java import java_abs, java_hash

STORED = 0
UNKNOWN_MEMBER_ID, ILLEGAL_GENERATION, REBALANCE_IN_PROGRESS, COORDINATOR_NOT_AVAILABLE = 25, 22, 27, 15


class GroupState(StrEnum):
    """CompletingRebalance is AwaitingSync before 1.1. UNKNOWN: the coordinator never heard of the group."""

    UNKNOWN = "unknown"
    DEAD = "Dead"
    EMPTY = "Empty"
    PREPARING = "PreparingRebalance"
    COMPLETING = "CompletingRebalance"
    STABLE = "Stable"


def coordinator_partition(group: str, partitions: int = 50) -> int:
    """The partition of __consumer_offsets whose leader coordinates the group; a hash of -2³¹ counts as 0."""
    return java_abs(java_hash(group)) % partitions


def chosen_strategy(preferences: Sequence[Sequence[str]]) -> str | None:
    """Each member votes for its first strategy that all members support; most votes win. None: no common one.

    The members' order is that of the votes: among equals the real one takes whatever its map gives first, here it is
    the first voted for.
    """
    if not preferences:
        return None
    common = set(preferences[0]).intersection(*preferences[1:])
    votes = Counter(next(name for name in each if name in common) for each in preferences if common)
    return max(votes, key=lambda name: votes[name]) if votes else None


def commit_code(
    state: GroupState, *, generation: int, current_generation: int, member_id: str, members: Sequence[str], release: str
) -> int:
    """The error code of an offset commit, by release (0.10.2 to 2.2 as in 1.1.1, else as in 3.9.1); 0 is stored."""
    since_2_3 = _version(release) >= (2, 3)
    if state is GroupState.UNKNOWN and generation >= 0:
        return ILLEGAL_GENERATION
    if state is GroupState.DEAD:
        return COORDINATOR_NOT_AVAILABLE if since_2_3 else UNKNOWN_MEMBER_ID
    if state in (GroupState.UNKNOWN, GroupState.EMPTY) and generation < 0:
        return STORED
    if state is GroupState.COMPLETING and not since_2_3:
        return REBALANCE_IN_PROGRESS
    if member_id not in members:
        return UNKNOWN_MEMBER_ID
    if generation != current_generation:
        return ILLEGAL_GENERATION
    return REBALANCE_IN_PROGRESS if state is GroupState.COMPLETING else STORED


def _version(release: str) -> tuple[int, ...]:
    return tuple(int(number) for number in release.split("."))
