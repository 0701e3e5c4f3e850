"""Write the offsets that groups keep in ZooKeeper to a file, a line `path:value` each (0.8: ExportZkOffsets)."""

from __future__ import annotations

import argparse
import sys

from zkconsumer.commands.common import FAILED, TOOL_TIMEOUT_MS, check_required, fail_with_usage, remember_usage
from zkconsumer.commands.options import add_config_option, fill_in_servers
from zkconsumer.groups.zookeeper_group import list_groups, read_groups
from zkconsumer.paths import GroupPaths, GroupTopicPaths
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer export-zk-offsets --zkconnect 127.0.0.1:2181 --output-file offsets.txt
  zkconsumer export-zk-offsets --zkconnect 127.0.0.1:2181 --group group1 --group group2 --output-file offsets.txt"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    parser.add_argument("--zkconnect", "--zookeeper", metavar="HOST:PORT[/CHROOT]", dest="zkconnect", help="required")
    parser.add_argument("--output-file", metavar="FILE", help="required")
    parser.add_argument("--group", action="append", help="repeatable (default: all groups)")
    add_config_option(parser)


def run(arguments: argparse.Namespace) -> int:
    """1 if a group has no offsets in ZooKeeper; what came before it is in the file, as with the original."""
    fill_in_servers(arguments, zookeeper="zkconnect")
    missing = check_required(arguments, "zkconnect", "output-file")
    if missing:
        return fail_with_usage(arguments, missing)
    with (
        open(arguments.output_file, "w", encoding="utf-8", newline="\n") as output,
        ZooKeeper(
            arguments.zkconnect, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS
        ) as zookeeper,
    ):
        groups = arguments.group or list_groups(zookeeper)
        for name, group in read_groups(zookeeper, groups, ["offsets"]).items():
            # Unlike 0.8.2.2: one of all groups that keeps its offsets in Kafka does not end the export of the rest.
            if not group.has_offsets and arguments.group:
                path = GroupPaths(name).offsets
                print(f"zkconsumer export-zk-offsets: {path} does not exist: group {name} has no offsets in ZooKeeper",
                      file=sys.stderr)  # fmt: skip
                return FAILED
            for where, node in group.offsets.items():
                path = GroupTopicPaths(name, where.topic).offset(where.partition)
                output.write(f"{path}:{node.data.decode(errors='replace')}\n")
    return 0
