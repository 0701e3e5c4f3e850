"""Print the offsets of a topic's partitions: the last, the first, or those before a time (0.8: GetOffsetShell)."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from fetcher.admin import BrokerConnections, parse_bootstrap
from fetcher.errors import exception_for
from fetcher.structs import Broker
from fetcher.wire.list_offsets import CONSUMER
from zkconsumer.commands.common import FAILED, check_required, fail_with_usage, nothing_given, remember_usage
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.errors import IllegalArgumentException

EXAMPLES = """\
  zkconsumer get-offset-shell --broker-list 127.0.0.1:9092 --topic orders --time -1     where it ends
  zkconsumer get-offset-shell --broker-list 127.0.0.1:9092 --topic orders --time -2     where it begins
  zkconsumer get-offset-shell --broker-list 127.0.0.1:9092 --topic orders --time 1447800000000 --partitions 0,2"""

VERSION = 0  # the one that gives several offsets

NOTHING_GIVEN = "An interactive shell for getting consumer offsets."  # the original's words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    parser.add_argument(
        "--broker-list", "--bootstrap-server", metavar="HOST:PORT,…", dest="broker_list", help="required"
    )
    parser.add_argument("--topic", help="required")
    parser.add_argument("--time", metavar="MS", type=int, help="required: -1 latest, -2 earliest, or milliseconds")
    parser.add_argument("--partitions", metavar="N,…", help="default: all")
    parser.add_argument("--offsets", metavar="N", type=int, default=1, help="how many of each (default: 1)")
    parser.add_argument("--max-wait-ms", metavar="MS", type=int, default=1000, help="accepted; brokers do not wait")
    parser.add_argument("--json", action="store_true", help="as a JSON array")


def run(arguments: argparse.Namespace) -> int:
    if nothing_given(arguments):
        return fail_with_usage(arguments, NOTHING_GIVEN)
    fill_in_servers(arguments, brokers="broker_list")
    missing = check_required(arguments, "broker-list", "topic", "time")
    if missing:
        return fail_with_usage(arguments, missing)
    try:
        bootstrap = parse_bootstrap(arguments.broker_list)
    except ValueError as error:
        raise IllegalArgumentException(str(error)) from None
    try:
        wanted = [int(text) for text in arguments.partitions.split(",")] if arguments.partitions else None
    except ValueError:
        raise IllegalArgumentException(f"--partitions {arguments.partitions}: numbers with commas between") from None
    topic = arguments.topic
    with BrokerConnections() as connections:
        # Unlike 0.8.2.2: all topics are asked for, since a question for one that is not there creates it.
        known = connections.metadata(bootstrap)
        partitions = sorted(where.partition for where in known.partition_errors if where.topic == topic)
        if not partitions:
            print(f"Error: no valid topic metadata for topic: {topic},  probably the topic does not exist, run "
                  "kafka-list-topic.sh to verify", file=sys.stderr)  # fmt: skip
            return FAILED
        leaders = {where.partition: broker for where, broker in known.leaders.items() if where.topic == topic}
        rows = []
        for partition in wanted if wanted is not None else partitions:
            if partition not in partitions:
                print(f"Error: partition {partition} does not exist", file=sys.stderr)
            elif partition not in leaders:
                print(f"Error: partition {partition} does not have a leader. Skip getting offsets", file=sys.stderr)
            else:
                offsets = _offsets(connections, leaders[partition], arguments, partition)
                rows.append({"topic": topic, "partition": partition, "offsets": list(offsets)})
                if not arguments.json:
                    print(f"{topic}:{partition}:{','.join(map(str, offsets))}")
        if arguments.json:
            print(json.dumps(rows, indent=2))
    return 0


def _offsets(
    connections: BrokerConnections, broker: Broker, arguments: argparse.Namespace, partition: int
) -> Sequence[int]:
    asked = [(arguments.topic, [(partition, arguments.time, arguments.offsets)])]
    answer = connections.ask(broker, "ListOffsets", VERSION, replica_id=CONSUMER, topics=asked)
    [found] = answer.topics[0].partitions
    if found.error_code:
        raise exception_for(found.error_code)
    return list(found.old_style_offsets)
