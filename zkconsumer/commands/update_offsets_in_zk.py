"""Set a group's offsets in ZooKeeper to the beginning or the end of a topic (0.8: UpdateOffsetsInZK)."""

from __future__ import annotations

import argparse
import json

from fetcher.admin import BrokerConnections
from fetcher.errors import KafkaException
from fetcher.structs import TopicAndPartition
from zkconsumer.commands.common import FAILED, read_properties, tool_zookeeper
from zkconsumer.config import ConsumerConfig
from zkconsumer.groups.cluster import EARLIEST, LATEST, ZooKeeperCluster, all_partitions, log_ends
from zkconsumer.paths import GroupTopicPaths
from zkconsumer.znodes import encode_offset
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer update-offsets-in-zk earliest consumer.properties orders
  zkconsumer update-offsets-in-zk latest consumer.properties orders"""

USAGE = "USAGE: kafka.tools.UpdateOffsetsInZK$ [earliest | latest] consumer.properties topic"
WHEN = {"earliest": EARLIEST, "latest": LATEST}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("given", metavar="earliest|latest FILE TOPIC", nargs="*",
                        help="FILE has group.id and zookeeper.connect")  # fmt: skip
    parser.add_argument("--json", action="store_true", help="what was written, as a JSON array")


def run(arguments: argparse.Namespace) -> int:
    if len(arguments.given) < 3 or arguments.given[0] not in WHEN:
        print(USAGE)
        return FAILED
    which, file, topic = arguments.given[:3]
    config = ConsumerConfig.from_properties(read_properties(file))
    with tool_zookeeper(config) as zookeeper, BrokerConnections() as connections:
        found = _ends(zookeeper, connections, topic, WHEN[which])
        if not arguments.json:
            for where, offset in found.items():
                print(f"updating partition {where.partition} with new offset: {offset}")
        zookeeper.update_many(
            {
                GroupTopicPaths(config.group_id, topic).offset(where.partition): encode_offset(offset)
                for where, offset in found.items()
            }
        )
    if arguments.json:
        rows = [{"group": config.group_id, **where._asdict(), "offset": offset} for where, offset in found.items()]
        print(json.dumps(rows, indent=2))
    else:
        print(f"updated the offset for {len(found)} partitions")
    return 0


def _ends(zookeeper: ZooKeeper, connections: BrokerConnections, topic: str, when: int) -> dict[TopicAndPartition, int]:
    cluster = ZooKeeperCluster(zookeeper)
    partitions = all_partitions(cluster.partitions_of([topic]))
    found: dict[TopicAndPartition, int] = {}
    for where, offset in log_ends(connections, cluster, partitions, when).items():
        if isinstance(offset, KafkaException):
            # Unlike 0.8.2.2: before any offset was written, not after those of the partitions before.
            raise KafkaException("Broker None is unavailable. Cannot issue getOffsetsBefore request") from offset
        found[where] = offset
    return found
