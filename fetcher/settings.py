"""What fetching has to know of a ConsumerConfig (0.8: ConsumerConfig itself).

Rule: values are checked where they come from, in ConsumerConfig; times are in milliseconds, as in the properties.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

RequestVersions = Literal["newest", "0.8.2", "0.9", "1.1"]


@dataclass(frozen=True, slots=True)
class FetcherSettings:
    """The settings of one consumer's fetchers, with 0.8's defaults."""

    client_id: str
    socket_timeout_ms: int = 30_000
    socket_receive_buffer_bytes: int = 64 * 1024
    fetch_message_max_bytes: int = 1024 * 1024
    fetch_max_bytes: int = 50 * 1024 * 1024  # of a whole response, for request versions that have it (3 and later)
    fetch_min_bytes: int = 1
    fetch_wait_max_ms: int = 100
    num_consumer_fetchers: int = 1
    refresh_leader_backoff_ms: int = 200
    auto_offset_reset: str = "largest"
    # "newest": what the broker stores, so that it need not convert; the others: what that release sends.
    request_versions: RequestVersions = "newest"
    wait_after_fetch_error: bool = False  # as 0.9 and later (KAFKA-1461)
    only_topics_in_zookeeper: bool = False  # ask for no topic that was deleted, or auto-creation brings it back
    # From fetch version 3 on, brokers send a message larger than fetch.message.max.bytes all the same (KIP-74).
    # False: such a message is reported as too large, as every 0.8.2.2 consumer would.
    deliver_oversized_messages: bool = False

    @property
    def socket_timeout_s(self) -> float:
        """Of connecting and of reading."""
        return self.socket_timeout_ms / 1000

    @property
    def refresh_leader_backoff_s(self) -> float:
        """Between two looks for leaders."""
        return self.refresh_leader_backoff_ms / 1000


__all__ = ["FetcherSettings", "RequestVersions"]
