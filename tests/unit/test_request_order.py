"""The order of what is asked for, against that of runs of the real consumers of 0.8.2.2 and 1.1.1 (tests/vectors)."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from fetcher.request_order import (
    order_in_a_map,
    order_in_pools,
    order_of_additions_in_1_1,
    order_of_commit,
    order_of_fetch,
    order_of_fetch_in_1_1,
    order_of_metadata,
    order_of_resets,
    order_to_offset_manager,
)
from fetcher.scala_order import immutable_map_order, mutable_map_order
from fetcher.structs import TopicAndPartition

Vectors = dict[str, list[list[list[object]]]]

FOLDER = Path(__file__).parents[1] / "vectors"
VECTORS: Vectors = json.loads((FOLDER / "request-order.json").read_text())
VECTORS_1_1: Vectors = json.loads((FOLDER / "request-order-1.1.json").read_text())
Order = Callable[[Sequence[Sequence[object]]], list[TopicAndPartition]]


def places(rows: Sequence[Sequence[object]]) -> list[TopicAndPartition]:
    return [TopicAndPartition(str(topic), int(str(partition))) for topic, partition in rows]


def as_assigned(row: Sequence[Sequence[object]]) -> list[TopicAndPartition]:
    """Topic by topic as a member's map of them has them: what shares a place in a table keeps the order of arrival."""
    real = places(row)
    topics = mutable_map_order(immutable_map_order({where.topic for where in places(VECTORS["claim"][0])}))
    return sorted(real, key=lambda where: (topics.index(where.topic), where.partition))


def of_registry(row: Sequence[Sequence[object]]) -> list[TopicAndPartition]:
    return order_in_pools(order_in_a_map(as_assigned(row)))


@pytest.mark.parametrize(
    ("kind", "order"),
    [
        ("claim", lambda row: order_in_a_map(as_assigned(row))),
        ("release", of_registry),
        ("offsets", lambda row: order_of_resets(as_assigned(row))),
        ("fetch", lambda row: order_of_fetch(as_assigned(row))),
    ],
    ids=["claims", "releases", "resets", "fetches"],
)
def test_partitions_come_in_the_order_of_the_real_consumer(kind: str, order: Order) -> None:
    assert VECTORS[kind]
    for row in VECTORS[kind]:
        assert order(row) == places(row)


def test_offsets_are_stored_in_the_order_of_the_real_consumer() -> None:
    assert VECTORS["commit again"]
    for row in VECTORS["commit again"]:
        assert order_of_commit(of_registry(row)) == places(row)


def test_topics_come_in_the_order_of_the_real_consumer() -> None:
    assert VECTORS["metadata"]
    for row in VECTORS["metadata"]:
        real = [str(topic) for [topic] in row]

        assert order_of_metadata(sorted(real)) == real


def test_fetches_of_1_1_begin_in_the_order_of_the_real_consumer() -> None:
    assert VECTORS_1_1["fetch"]
    for row in VECTORS_1_1["fetch"]:
        assert order_of_fetch_in_1_1([], order_of_additions_in_1_1(as_assigned(row))) == places(row)


def test_offsets_are_asked_for_in_the_order_of_the_real_consumer_of_1_1() -> None:
    assert VECTORS_1_1["offsets"]
    for row in VECTORS_1_1["offsets"]:
        assert order_of_additions_in_1_1(as_assigned(row)) == places(row)


def test_a_fetcher_of_1_1_keeps_topics_together_when_it_is_given_more() -> None:
    row = places(VECTORS_1_1["fetch"][0])
    added = [TopicAndPartition("clicks", 100), TopicAndPartition("new", 0)]

    together = order_of_fetch_in_1_1(row, added)

    assert sorted(together) == sorted([*row, *added])
    topics = [where.topic for where in together]
    assert topics == sorted(topics, key=topics.index)


@pytest.mark.parametrize("vectors", [VECTORS, VECTORS_1_1], ids=["0.8.2.2", "1.1.1"])
def test_the_offset_manager_is_asked_in_the_order_of_the_real_consumer(vectors: Vectors) -> None:
    assert vectors["offset fetch"]
    for row in vectors["offset fetch"]:
        assert order_to_offset_manager(order_in_a_map(as_assigned(row))) == places(row)
    assert vectors["offset commit"]
    for row in vectors["offset commit"]:
        assert order_to_offset_manager(order_of_commit(of_registry(row))) == places(row)
