"""Archives of loaded classes: an aid, never a condition."""

from __future__ import annotations

from pathlib import Path

import pytest

from zkconsumer.testing import class_data
from zkconsumer.testing.programs import program
from zkconsumer.testing.zookeeper import ZooKeeperServer

ZOOKEEPER = program("zookeeper", "3.9")


@pytest.fixture(autouse=True)
def empty_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZKCONSUMER_CACHE", str(tmp_path))


def test_a_server_without_an_archive_starts() -> None:
    assert class_data.options_for(ZOOKEEPER.jars()) == []

    with ZooKeeperServer() as server:
        assert server.mode == "standalone"


def test_an_archive_that_is_none_is_ignored() -> None:
    archive = class_data.archive_of(ZOOKEEPER.jars())
    archive.parent.mkdir()
    archive.write_bytes(b"no archive at all")

    with ZooKeeperServer() as server:
        assert server.mode == "standalone"


def test_a_server_stopped_in_training_leaves_an_archive_that_the_next_one_uses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive = class_data.archive_of(ZOOKEEPER.jars())
    archive.parent.mkdir()
    monkeypatch.setenv(class_data.TRAINING, str(archive))

    with ZooKeeperServer() as server:
        server.stop()
    monkeypatch.delenv(class_data.TRAINING)

    assert class_data.options_for(ZOOKEEPER.jars())[0] == f"-XX:SharedArchiveFile={archive}"
    with ZooKeeperServer() as server:
        assert server.mode == "standalone"
