"""Texts that 0.8.2.2's own classes gave for the same values."""

from __future__ import annotations

from fetcher.structs import Broker, TopicAndPartition


def test_a_partition_looks_as_in_log_lines() -> None:
    assert str(TopicAndPartition("t", 3)) == "[t,3]"


def test_a_broker_looks_as_in_log_lines() -> None:
    broker = Broker(0, "127.0.0.1", 39090)

    assert str(broker) == "id:0,host:127.0.0.1,port:39090"
    assert broker.address == "127.0.0.1:39090"


def test_a_broker_that_came_back_elsewhere_is_another_one() -> None:
    assert Broker(0, "127.0.0.1", 39090) != Broker(0, "127.0.0.1", 39091)
