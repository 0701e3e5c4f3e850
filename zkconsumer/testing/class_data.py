"""Archives of loaded classes, which halve the start-up time of a server (Java's application class-data sharing).

`python -m zkconsumer.testing.class_data` makes them: each server is started once and stopped in order, and Java writes
down what it had loaded. They are kept in the user's cache, one for each set of jars and each Java. Without one a server
starts all the same, only slower; one that does not fit is ignored by Java itself.
"""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.jars import cache_directory, exclusive
from zkconsumer.testing.java import find_java
from zkconsumer.testing.programs import KAFKA_VERSIONS, ZOOKEEPER_VERSION, Program, program

if TYPE_CHECKING:
    from zkconsumer.testing.kafka import KafkaBroker
    from zkconsumer.testing.zookeeper import ZooKeeperServer

TRAINING = "ZKCONSUMER_TRAINING"
"""While this names a file, a server writes its archive there when it is stopped."""


def options_for(jars: Sequence[Path]) -> list[str]:
    """What to tell Java: use the archive there is, or write one, or nothing."""
    training = os.environ.get(TRAINING)
    if training:
        return [f"-XX:ArchiveClassesAtExit={training}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"]
    archive = archive_of(jars)
    return [f"-XX:SharedArchiveFile={archive}", "-Xlog:cds=off", "-Xlog:cds+dynamic=off"] if archive.exists() else []


def archive_of(jars: Sequence[Path]) -> Path:
    """Where the archive for this class path and this Java is, or would be."""
    digest = hashlib.sha256(str(find_java().resolve()).encode())
    for jar in jars:
        status = jar.stat()
        digest.update(f"{jar}\n{status.st_size}\n{status.st_mtime_ns}\n".encode())
    return cache_directory() / "class-data" / f"{digest.hexdigest()[:16]}.jsa"


def make_all(progress: Callable[[str], None]) -> None:
    """Make those that are missing, and remove those of jars or a Java that are no longer used."""
    from zkconsumer.testing.kafka import KafkaBroker
    from zkconsumer.testing.zookeeper import ZooKeeperServer

    zookeeper = program("zookeeper", ZOOKEEPER_VERSION)
    brokers = [program("kafka", version) for version in KAFKA_VERSIONS]
    wanted = {archive_of(server.jars()) for server in (zookeeper, *brokers)}
    with ExitStack() as stack:
        folder = cache_directory() / "class-data"
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(exclusive(folder / "making"))
        for old in set(folder.glob("*.jsa")) - wanted:
            old.unlink()
        _train(zookeeper, ZooKeeperServer, progress)
        if all(archive_of(broker.jars()).exists() for broker in brokers):
            return
        server = stack.enter_context(ZooKeeperServer())
        for broker in brokers:
            _train(broker, partial(KafkaBroker, server.chroot(), version=broker.version), progress)


def _train(server: Program, new: Callable[[], ZooKeeperServer | KafkaBroker], progress: Callable[[str], None]) -> None:
    archive = archive_of(server.jars())
    if archive.exists():
        return
    progress(f"learning to start {server.kind} {server.version} quickly")
    unfinished = archive.with_suffix(".unfinished")
    os.environ[TRAINING] = str(unfinished)
    try:
        with new() as running:
            del os.environ[TRAINING]
            running.stop()
    finally:
        os.environ.pop(TRAINING, None)
    if unfinished.exists():
        unfinished.rename(archive)


def main() -> None:
    make_all(lambda text: print(text, file=sys.stderr, flush=True))


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(str(error))
