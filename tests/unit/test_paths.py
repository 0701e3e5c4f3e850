"""Paths as the real consumer uses them."""

from __future__ import annotations

import pytest

from zkconsumer import paths
from zkconsumer.paths import GroupPaths, GroupTopicPaths

GROUP = GroupPaths("g1")
TOPIC = GroupTopicPaths("g1", "tx")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (paths.CONSUMERS, "/consumers"),
        (paths.BROKER_IDS, "/brokers/ids"),
        (paths.BROKER_TOPICS, "/brokers/topics"),
        (paths.broker(0), "/brokers/ids/0"),
        (paths.topic("tx"), "/brokers/topics/tx"),
        (paths.topic_deletion("tx"), "/admin/delete_topics/tx"),
        (paths.topic_partition_state("tx", 3), "/brokers/topics/tx/partitions/3/state"),
        (GROUP.directory, "/consumers/g1"),
        (GROUP.ids, "/consumers/g1/ids"),
        (GROUP.owners, "/consumers/g1/owners"),
        (GROUP.offsets, "/consumers/g1/offsets"),
        (GROUP.id("g1_c1"), "/consumers/g1/ids/g1_c1"),
        (TOPIC.owners, "/consumers/g1/owners/tx"),
        (TOPIC.offsets, "/consumers/g1/offsets/tx"),
        (TOPIC.owner(10), "/consumers/g1/owners/tx/10"),
        (TOPIC.offset(10), "/consumers/g1/offsets/tx/10"),
    ],
)
def test_path_is_that_of_the_real_consumer(path: str, expected: str) -> None:
    """A1: the directory is owners, the leaf a bare partition number."""
    assert path == expected


def test_group_gives_the_paths_of_its_topics() -> None:
    assert GROUP.topic("tx") == TOPIC
