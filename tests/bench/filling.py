"""Topics as producers of the time wrote them: batches of 16 KB, values that shrink to about half, as log lines do.

The size of batches matters more than one would think. Brokers note at most one position in their index for a produce
request; in message formats 0 and 1 they then look for the wanted offset message by message. With requests of 1 MB that
takes them longer than everything else, and all consumers look alike.
"""

from __future__ import annotations

import random
from typing import Any

BATCH_BYTES = 16 * 1024  # batch.size of the Java producer
AT_ONCE = 5000
TIMEOUT_S = 300


def fill(
    bootstrap_servers: str, topic: str, records: int, partitions: int, value_size: int, *, codec: str | None = None
) -> None:
    """`records` in all, in turn to all partitions; waits for all to be acknowledged."""
    from confluent_kafka import Producer

    failures: list[str] = []

    def acknowledged(error: Any, message: Any) -> None:
        if error is not None:
            failures.append(str(error))

    producer = Producer(
        {
            "bootstrap.servers": bootstrap_servers,
            "compression.type": codec or "none",
            "batch.size": max(BATCH_BYTES, 2 * value_size),
            "linger.ms": 20,
            "on_delivery": acknowledged,
            "delivery.report.only.error": True,
        }
    )
    half = value_size // 2
    chance, filling = random.Random(1).randbytes(1 << 20), bytes(value_size - half)
    places = len(chance) - half
    for first in range(0, records, AT_ONCE * partitions):
        for partition in range(partitions):
            numbers = range(first + partition, min(first + AT_ONCE * partitions, records), partitions)
            batch = [{"value": chance[at : at + half] + filling} for at in (number * 61 % places for number in numbers)]
            while batch and not failures:
                producer.produce_batch(topic, batch, partition=partition)
                batch = [{"value": message["value"]} for message in batch if "_error" in message]
                producer.poll(0.05 if batch else 0)
    left = producer.flush(TIMEOUT_S)
    if left or failures:
        raise RuntimeError(f"{topic}: {left} records were not acknowledged; {failures[:1]}")
