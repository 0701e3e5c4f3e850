"""What an application is told while partitions move (0.9: ConsumerRebalanceListener, not in 0.8.2).

Both calls come in every attempt, in the thread that rebalances, while everything of this consumer stands still. An
exception makes the attempt fail like any other error.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

from zkconsumer.topic_count import ConsumerThreadId


@runtime_checkable
class ConsumerRebalanceListener(Protocol):
    """Give one to set_consumer_rebalance_listener() before streams are created."""

    def before_releasing_partitions(self, partition_ownership: dict[str, set[int]]) -> None:
        """Nothing is delivered any more, offsets are committed (with auto commit), the owner nodes still stand.

        The argument is what this consumer owns, by topic; empty before its first assignment.
        """

    def before_starting_fetchers(
        self, consumer_id: str, global_partition_assignment: dict[str, dict[int, ConsumerThreadId]]
    ) -> None:
        """The owner nodes are claimed, nothing is fetched yet.

        The assignment is that of all members, for the topics this consumer subscribes to.
        """
