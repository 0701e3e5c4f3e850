"""What fetching has done so far, in numbers (0.8: FetcherStats, FetchRequestAndResponseMetrics).

Rule: each value has one writer, the fetcher it belongs to; so anybody may read, without a lock.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(slots=True)
class FetchStatistics:
    """Sums since the consumer was made; rates are for the reader to compute."""

    requests: int = 0  # fetches sent, answered or not
    bytes: int = 0  # of whole entries handed over, compressed as they came
    responses: int = 0
    response_bytes: int = 0
    response_seconds: float = 0.0
    longest_response_seconds: float = 0.0
    largest_response_bytes: int = 0

    def answered(self, *, seconds: float, size_bytes: int) -> None:
        """Count an answer."""
        self.responses += 1
        self.response_bytes += size_bytes
        self.response_seconds += seconds
        if seconds > self.longest_response_seconds:
            self.longest_response_seconds = seconds
        if size_bytes > self.largest_response_bytes:
            self.largest_response_bytes = size_bytes


def total(parts: Iterable[FetchStatistics]) -> FetchStatistics:
    """All of them together, in a value of its own."""
    result = FetchStatistics()
    for part in parts:
        result.requests += part.requests
        result.bytes += part.bytes
        result.responses += part.responses
        result.response_bytes += part.response_bytes
        result.response_seconds += part.response_seconds
        result.longest_response_seconds = max(result.longest_response_seconds, part.longest_response_seconds)
        result.largest_response_bytes = max(result.largest_response_bytes, part.largest_response_bytes)
    return result


__all__ = ["FetchStatistics", "total"]
