"""The programs of docs/quickstart.md run as they are shown, on another address and topic."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.waiting import scaled

pytestmark = pytest.mark.kafka("0.8.2.2")

PAGE = (Path(__file__).parents[2] / "docs" / "quickstart.md").read_text(encoding="utf-8")
RECORDS, PARTITIONS = 12, 4
EVERYTHING = [[str(partition), str(offset)] for partition in range(PARTITIONS) for offset in range(3)]


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def directory(kafka: KafkaCluster, topic: str, tmp_path: Path) -> Path:
    """With the consumer.properties of the page; the topic is as the sandbox makes it there."""
    kafka.create_topic(topic, partitions=PARTITIONS)
    kafka.produce_many(topic, RECORDS)
    [properties] = blocks("properties")
    text = re.sub(r"zookeeper\.connect=.*", f"zookeeper.connect={kafka.zookeeper_connect}", properties)
    text = text.replace("group.id=sandbox", f"group.id=sandbox-{topic}")
    patient = f"zookeeper.connection.timeout.ms={int(scaled(20) * 1000)}\n"
    (tmp_path / "consumer.properties").write_text(text + patient, encoding="latin-1")
    return tmp_path


def run(program: str, directory: Path, topic: str) -> list[str]:
    code = program.replace('"orders"', f'"{topic}"').replace('"another"', f'"another-{topic}"')
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=directory, capture_output=True, text=True, timeout=scaled(60), check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_the_first_program_prints_all_records_and_the_second_time_none(directory: Path, topic: str) -> None:
    program = blocks("python")[0]

    *records, last = run(program, directory, topic)

    assert sorted(line.split()[:2] for line in records) == EVERYTHING
    assert last == "nothing new for five seconds"
    assert run(program, directory, topic) == ["nothing new for five seconds"]


def test_the_program_with_two_streams_reads_everything_once(directory: Path, topic: str) -> None:
    records = run(blocks("python")[1], directory, topic)

    assert sorted(line.split()[-3:-1] for line in records) == EVERYTHING
