"""Say whether every partition of a group's topics has a live owner (0.8: VerifyConsumerRebalance).

By the rules that were meant: 0.8.2.2's own says failed of every group (KAFKA-3952). Reasons go to standard error.
"""

from __future__ import annotations

import argparse
import json
import logging

from zkconsumer.commands.common import (
    TOOL_TIMEOUT_MS,
    check_required,
    fail_with_usage,
    log_to_stderr,
    nothing_given,
    remember_usage,
)
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.groups.cluster import ZooKeeperCluster
from zkconsumer.groups.subscriptions import threads_by_topic
from zkconsumer.groups.verifying import rebalance_errors
from zkconsumer.groups.zookeeper_group import read_group
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer verify-rebalance --zookeeper.connect 127.0.0.1:2181 --group group1
  zkconsumer verify-rebalance --zookeeper.connect 127.0.0.1:2181 --group group1 --exit-code || echo unbalanced"""

log = logging.getLogger(__name__)

SUCCESSFUL, FAILED = "Rebalance operation successful !", "Rebalance operation failed !"

NOTHING_GIVEN = "Validate that all partitions have a consumer for a given consumer group."  # the original's words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    parser.add_argument(
        "--zookeeper.connect", "--zookeeper", metavar="HOST:PORT[/CHROOT]", dest="zookeeper",
        help="default: localhost:2181",
    )  # fmt: skip
    parser.add_argument("--group", help="required")
    parser.add_argument("--exit-code", action="store_true", help="1 if it failed; the original's is 0 either way")
    parser.add_argument("--json", action="store_true", help="the verdict and its reasons as JSON")


def run(arguments: argparse.Namespace) -> int:
    """0 either way, as the original; 1 with --exit-code and a group that is not balanced."""
    if nothing_given(arguments):
        return fail_with_usage(arguments, NOTHING_GIVEN)
    missing = check_required(arguments, "group")
    if missing:
        return fail_with_usage(arguments, missing)
    fill_in_servers(arguments, zookeeper="zookeeper", default="localhost:2181")
    log_to_stderr()
    with ZooKeeper(
        arguments.zookeeper, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS
    ) as zookeeper:
        group = read_group(zookeeper, arguments.group, ("ids", "owners"))
        threads_of = threads_by_topic(zookeeper, group)
        partitions_of = ZooKeeperCluster(zookeeper).partitions_of(threads_of)
    errors = list(rebalance_errors(group.name, threads_of, partitions_of, group.owner_texts()))
    if arguments.json:
        print(json.dumps({"group": group.name, "balanced": not errors, "errors": errors}, indent=2))
    else:
        for error in errors:
            log.error("%s", error)
        print(FAILED if errors else SUCCESSFUL)
    return 1 if errors and arguments.exit_code else 0
