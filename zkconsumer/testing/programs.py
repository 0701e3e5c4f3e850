"""What is run: for each server and release its jars, main class, options for the Java machine, and log set-up."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from zkconsumer.testing.errors import UnknownVersion
from zkconsumer.testing.jars import jars_of
from zkconsumer.testing.java import pyspark_jars

ZOOKEEPER_VERSION = "3.9"
KAFKA_VERSIONS = ("0.8.2.2", "1.1.1", "3.9.1")

# Small, and quick to start: a test server lives for seconds.
QUICK_START = ("-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "-XX:-UsePerfData")
# A broker that is to be measured needs the second compiler.
FULL_SPEED = ("-XX:+UseSerialGC", "-Xshare:auto", "-XX:-UsePerfData")

_ZOOKEEPER_JARS = (
    "zookeeper-3", "zookeeper-jute-", "netty-", "slf4j-api-", "log4j-api-", "log4j-core-", "log4j-slf4j2-impl-",
    "snappy-java-", "metrics-core-", "commons-io-", "commons-cli-", "audience-annotations-",
)  # fmt: skip

# One file for each of the two logging libraries in use; a class path with both folders in it serves either.
LOG_FILES = {
    "log4j.properties": """\
log4j.rootLogger=INFO, stdout
log4j.appender.stdout=org.apache.log4j.ConsoleAppender
log4j.appender.stdout.layout=org.apache.log4j.PatternLayout
log4j.appender.stdout.layout.ConversionPattern=[%d] %p %m (%c)%n
""",
    "log4j2.properties": """\
status = error
appender.stdout.type = Console
appender.stdout.name = stdout
appender.stdout.layout.type = PatternLayout
appender.stdout.layout.pattern = [%d] %p %m (%c)%n
rootLogger.level = info
rootLogger.appenderRef.stdout.ref = stdout
""",
}


class Program(NamedTuple):
    """A server of one release, ready to be started with the path of its settings file as only argument."""

    kind: str
    version: str
    main_class: str
    settings_file: str
    heap_mb: int

    @property
    def image_name(self) -> str:
        """As zkconsumer.testing.images names it."""
        return f"{self.kind}:{self.version}"

    def jars(self) -> list[Path]:
        """Its class path, fetched if need be."""
        if self.kind == "zookeeper":
            return pyspark_jars(*_ZOOKEEPER_JARS)
        return jars_of(f"kafka-{self.version}")

    def java_options(self, *, full_speed: bool = False) -> list[str]:
        """Options that are good for a server beside others on a small machine."""
        return [f"-Xmx{self.heap_mb}m", *(FULL_SPEED if full_speed else QUICK_START)]


_PROGRAMS = {
    "zookeeper:3.9": Program("zookeeper", "3.9", "org.apache.zookeeper.server.quorum.QuorumPeerMain", "zoo.cfg", 256),
    "kafka:0.8.2.2": Program("kafka", "0.8.2.2", "kafka.Kafka", "server.properties", 192),
    "kafka:1.1.1": Program("kafka", "1.1.1", "kafka.Kafka", "server.properties", 256),
    "kafka:3.9.1": Program("kafka", "3.9.1", "kafka.Kafka", "server.properties", 384),
}


def program(kind: str, version: str) -> Program:
    """The program of this name and release; UnknownVersion if nobody here knows it."""
    try:
        return _PROGRAMS[f"{kind}:{version}"]
    except KeyError:
        known = ", ".join(found.version for found in _PROGRAMS.values() if found.kind == kind)
        raise UnknownVersion(f"{kind} {version!r} is not a release this package can run: known are {known}") from None
