"""Which of two stored offsets counts."""

from __future__ import annotations

import pytest

from zkconsumer.rewinds import note_of, start_of


@pytest.mark.parametrize(
    ("in_kafka", "note", "in_zookeeper", "start"),
    [
        pytest.param(10, note_of(8), 10, 10, id="both alike"),
        pytest.param(10, note_of(8), 3, 3, id="set back by hand"),
        pytest.param(10, note_of(10), 3, 3, id="set back after a commit that changed nothing"),
        pytest.param(10, note_of(8), 25, 25, id="set forward, or stored by a member that has only ZooKeeper"),
        pytest.param(10, note_of(8), 8, 10, id="killed between Kafka and ZooKeeper"),
        pytest.param(10, note_of(-1), -1, 10, id="killed before ZooKeeper had any"),
        pytest.param(10, note_of(8), -1, 10, id="node deleted"),
        pytest.param(10, "", 3, 10, id="stored by a real member"),
        pytest.param(10, "somebody's note", 3, 10, id="stored with the note of an application"),
        pytest.param(10, "zookeeper=", 3, 10, id="a note that says nothing"),
        pytest.param(10, "zookeeper=--", 3, 10, id="a note that is no number"),
        pytest.param(-1, "", 3, 3, id="nothing in Kafka"),
        pytest.param(-1, "", -1, -1, id="nothing at all"),
    ],
)
def test_an_offset_set_back_in_zookeeper_alone_counts(in_kafka: int, note: str, in_zookeeper: int, start: int) -> None:
    assert start_of(in_kafka, note, in_zookeeper) == start
