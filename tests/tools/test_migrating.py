"""docs/migrating.md, walked from its first command to its last with a real old group and a new one."""

from __future__ import annotations

import re
import shlex
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

import pytest

from study.new_consumer import NewConsumer
from tests.conformance.group import fresh
from tests.study.new_consumer.polling import poll_for
from tests.tools.conftest import Ran, Run
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.scala import ScalaConsumer
from zkconsumer.testing.waiting import eventually

PAGE = (Path(__file__).parents[2] / "docs" / "migrating.md").read_text(encoding="utf-8")
PARTITIONS, RECORDS = 3, 60


class Walk:
    """The commands of the page's numbered steps, for servers, a group and a directory of the test."""

    def __init__(self, run: Run, kafka: KafkaCluster, group: str, directory: Path) -> None:
        self._run = run
        self._group = group
        self._instead = {
            "zk1:2181/kafka": kafka.zookeeper_connect,
            "kafka1:9092": kafka.bootstrap_servers,
            "billing.gz": str(directory / "billing.gz"),
            "plan.svg": str(directory / "plan.svg"),
            "billing": group,
        }
        self._journal = str(directory / "journal")

    def step(self, number: int) -> Iterator[Ran]:
        """One command of a step after the other, each of which has to end well."""
        _, _, rest = PAGE.partition(f"\n## {number}. ")
        lines = "".join(re.findall(r"```sh\n(.*?)```", rest.partition("\n## ")[0], re.DOTALL)).splitlines()
        assert lines, f"the page has no commands in step {number}"
        for line in lines:
            yield self._command(line)

    def _command(self, line: str) -> Ran:
        _, *words = (self._instead.get(word, word) for word in shlex.split(line))
        journal = ["--journal-dir", self._journal] if words[0] == "offsets" else []
        ran = self._run(*words, *journal)
        assert ran.code == 0, (line, ran.stderr)
        return ran


@pytest.fixture
def topic(kafka_new: KafkaCluster) -> str:
    topic = fresh("t")
    kafka_new.create_topic(topic, partitions=PARTITIONS)
    return topic


def produce(kafka: KafkaCluster, topic: str, numbers: range) -> None:
    for partition in range(PARTITIONS):
        mine = [b"%d" % number for number in numbers if number % PARTITIONS == partition]
        kafka.produce(topic, mine, partition=partition)


def read_by_an_old_one(kafka: KafkaCluster, group: str, topic: str, count: int) -> Iterator[bytes | None]:
    """So many records by a member of ours, which then leaves, in the middle of what it has fetched."""
    config = ConsumerConfig(
        zookeeper_connect=kafka.zookeeper_connect,
        group_id=group,
        auto_offset_reset="smallest",
        consumer_timeout_ms=30000,
    )
    with ZookeeperConsumerConnector(config) as consumer:
        [stream] = consumer.create_message_streams({topic: 1})[topic]
        for record in islice(stream, count):
            yield record.message


def read_by_a_new_one(kafka: KafkaCluster, group: str, topic: str, count: int) -> list[bytes]:
    settings = {
        "bootstrap.servers": kafka.bootstrap_servers,
        "group.id": group,
        "auto.offset.reset": "none",  # who does not find stored offsets fails
        "enable.auto.commit": False,
        "key.deserializer": bytes,
        "value.deserializer": bytes,
    }
    with NewConsumer(settings) as consumer:
        consumer.subscribe([topic])
        got = poll_for(consumer, count)
        consumer.commit_sync()
        return [record.value for record in got]


def test_the_walk_loses_and_repeats_nothing(run: Run, kafka_new: KafkaCluster, topic: str, tmp_path: Path) -> None:
    """Old, new, and old again: each record once, although all of them leave work behind for the next."""
    group = fresh("billing")
    walk = Walk(run, kafka_new, group, tmp_path)
    produce(kafka_new, topic, range(RECORDS))

    reading = read_by_an_old_one(kafka_new, group, topic, RECORDS // 2)
    delivered = [next(reading)]
    described, doctor = walk.step(1)
    [*_] = walk.step(2)
    [*_] = walk.step(3)
    delivered += reading
    _, shown, moved, compared = walk.step(4)
    produce(kafka_new, topic, range(RECORDS, 2 * RECORDS))
    delivered += read_by_a_new_one(kafka_new, group, topic, 2 * RECORDS - len(delivered))
    [described_new] = walk.step(5)
    way_back = walk.step(6)
    next(way_back)
    produce(kafka_new, topic, range(2 * RECORDS, 3 * RECORDS))
    delivered += read_by_an_old_one(kafka_new, group, topic, RECORDS)
    [deleted] = way_back

    assert Counter(delivered) == Counter(b"%d" % number for number in range(3 * RECORDS))
    assert [words[:2] for words in table(described)] == [words[:2] for words in table(described_new)]
    assert "nothing is wrong" in doctor.stdout
    assert "nothing was changed" in shown.stderr and "3 offsets" in moved.stdout and compared.stdout == ""
    assert "Deleted all consumer group information" in deleted.stdout


def table(ran: Ran) -> list[list[str]]:
    """The words of its rows below the head."""
    return [line.split() for line in ran.stdout.strip().splitlines()][1:]


def test_an_old_and_a_new_member_of_one_name_both_get_everything(kafka_new: KafkaCluster, topic: str) -> None:
    """Why the page says never both at once: a real old member here."""
    group = fresh("billing")
    produce(kafka_new, topic, range(RECORDS))

    with ScalaConsumer(
        kafka_new.zookeeper_connect,
        group,
        {topic: 1},
        version="1.1.1",
        consumer_id="old",
        properties={"auto.offset.reset": "smallest"},
    ) as old:
        old.wait_until_delivered(RECORDS)
        settings = {
            "bootstrap.servers": kafka_new.bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "key.deserializer": bytes,
            "value.deserializer": bytes,
        }
        with NewConsumer(settings) as new:
            new.subscribe([topic])
            got = poll_for(new, RECORDS)
            eventually(lambda: len(new.assignment()) == PARTITIONS)

    assert len(got) == RECORDS
