"""Print offsets, log sizes, lags and owners of a group (0.8: ConsumerOffsetChecker).

Options, output and exit codes are the original's, byte for byte. Unlike it, all partitions are asked for at once.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import TextIO

from fetcher.admin import BrokerConnections
from fetcher.errors import KafkaException, class_name_for
from fetcher.structs import Broker, TopicAndPartition
from fetcher.wire.group_offsets import StoredOffset
from zkconsumer.commands.common import (
    FAILED,
    TOOL_TIMEOUT_MS,
    check_required,
    fail_with_usage,
    log_to_stderr,
    nothing_given,
    remember_usage,
)
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.errors import UnreadableZnode
from zkconsumer.groups.cluster import LATEST, ZooKeeperCluster, all_partitions
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.zookeeper_group import ZooKeeperGroup, read_group
from zkconsumer.paths import GroupPaths, GroupTopicPaths
from zkconsumer.znodes import decode_offset
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer offset-checker --zookeeper 127.0.0.1:2181 --group group1
  zkconsumer offset-checker --zookeeper 127.0.0.1:2181/kafka --group group1 --topic orders,refunds --broker-info"""

ROW = "{:<15} {:<30} {:<3} {:<15} {:<15} {:<15} {}"
NO_OFFSET = StoredOffset(-1, "", 0)


class Exiting(Exception):
    """The original ends here, with this text and exit code 0."""


NOTHING_GIVEN = "Check the offset of your consumers."  # the original's words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    parser.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="required")
    parser.add_argument("--group", help="required")
    parser.add_argument("--topic", help="topics with commas between (default: all that have owners)")
    parser.add_argument("--broker-info", action="store_true", help="also print the brokers asked")
    parser.add_argument("--socket.timeout.ms", metavar="MS", type=int, default=6000, dest="socket_timeout_ms")
    parser.add_argument("--retry.backoff.ms", metavar="MS", type=int, default=3000, help="accepted; not needed")
    parser.add_argument("--json", action="store_true", help="rows as a JSON array")


def run(arguments: argparse.Namespace) -> int:
    """0, also when the group does not exist: as in 0.8.2.2. With --json, which it did not have, 1 then."""
    if nothing_given(arguments):
        return fail_with_usage(arguments, NOTHING_GIVEN)
    fill_in_servers(arguments, zookeeper="zookeeper")
    missing = check_required(arguments, "group", "zookeeper")
    if missing:
        return fail_with_usage(arguments, missing)
    log_to_stderr()
    with (
        ZooKeeper(
            arguments.zookeeper, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS
        ) as zookeeper,
        BrokerConnections(timeout_s=arguments.socket_timeout_ms / 1000) as connections,
    ):
        try:
            _check(zookeeper, connections, arguments)
        except Exiting as end:
            # To whoever reads JSON that is no result.
            print(f"Exiting due to: {end}.", file=sys.stderr if arguments.json else sys.stdout)
            return FAILED if arguments.json else 0
    return 0


def _check(zookeeper: ZooKeeper, connections: BrokerConnections, arguments: argparse.Namespace) -> None:
    group, cluster = read_group(zookeeper, arguments.group), ZooKeeperCluster(zookeeper)
    if arguments.topic is not None:
        topics = arguments.topic.split(",")
    elif zookeeper.exists(GroupPaths(group.name).owners):
        topics = group.owner_topics
    else:
        raise _no_node(GroupPaths(group.name).owners)
    partitions_of = cluster.partitions_of(topics)
    partitions = all_partitions(partitions_of)
    brokers = cluster.brokers()
    stored = KafkaGroups(connections, brokers).stored(group.name, partitions)
    offsets = _offsets(group, stored, sys.stderr if arguments.json else sys.stdout)
    leader_ids = cluster.leader_ids(partitions)
    by_id = {broker.id: broker for broker in brokers}
    leaders = {where: by_id[one] for where, one in leader_ids.items() if one is not None and one in by_id}
    ends = connections.log_offsets(leaders, LATEST)
    owners = group.owner_texts()
    if arguments.json:
        rows = [_as_json(where, offsets.get(where), ends.get(where), owners.get(where)) for where in partitions]
        print(json.dumps(rows, indent=2))
        return
    print(ROW.format("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"))
    for topic in sorted(topics):
        for partition in partitions_of[topic]:
            where = TopicAndPartition(topic, partition)
            if leader_ids[where] is None:
                print(f"No broker for partition {topic} - {partition}")
            elif where not in leaders:
                print(f"Could not parse broker info due to Broker id {leader_ids[where]} does not exist")
            else:
                print(_row(group.name, where, offsets.get(where), ends[where], owners.get(where, "none")))
    if arguments.broker_info:
        _print_brokers(list(leaders.values()))


def _as_json(
    where: TopicAndPartition, offset: int | None, end: int | KafkaException | None, owner: str | None
) -> dict[str, object]:
    """null for what is not known."""
    known, size = offset if offset != -1 else None, end if isinstance(end, int) else None
    lag = None if known is None or size is None else size - known
    row = {"topic": where.topic, "partition": where.partition, "offset": known}
    return {**row, "log_size": size, "lag": lag, "owner": owner}


def _offsets(
    group: ZooKeeperGroup, stored: Mapping[TopicAndPartition, StoredOffset], output: TextIO
) -> dict[TopicAndPartition, int]:
    """Kafka's, or ZooKeeper's where Kafka has none."""
    offsets = {}
    for where, answer in stored.items():
        if answer.error_code in (0, 3) and answer.offset == NO_OFFSET.offset and not answer.metadata:
            offsets[where] = _from_zookeeper(group, where)
        elif answer.error_code == 0:
            offsets[where] = answer.offset
        else:
            print(f"Could not fetch offset for {where} due to {class_name_for(answer.error_code)}.",
                  file=output)  # fmt: skip
    return offsets


def _from_zookeeper(group: ZooKeeperGroup, where: TopicAndPartition) -> int:
    node = group.offsets.get(where)
    if node is not None:
        try:
            return decode_offset(node.data)
        except UnreadableZnode:
            raise Exiting(f'For input string: "{node.data.decode(errors="replace")}"') from None
    if where.topic in group.offset_topics:
        return -1
    raise _no_node(GroupTopicPaths(group.name, where.topic).offset(where.partition))


def _row(group: str, where: TopicAndPartition, offset: int | None, end: int | KafkaException, owner: str) -> str:
    if isinstance(end, KafkaException):
        raise Exiting(str(end))
    lag = "unknown" if offset is None or offset == -1 else end - offset
    return ROW.format(group, where.topic, where.partition, "unknown" if offset is None else offset, end, lag, owner)


def _print_brokers(leaders: Sequence[Broker]) -> None:
    print("BROKER INFO")
    for broker in dict.fromkeys(leaders):
        print(f"{broker.id} -> {broker.address}")


def _no_node(path: str) -> Exiting:
    return Exiting(f"org.apache.zookeeper.KeeperException$NoNodeException: KeeperErrorCode = NoNode for {path}")
