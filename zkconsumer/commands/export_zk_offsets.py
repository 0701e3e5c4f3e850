"""Write the offsets that groups keep in ZooKeeper to a file, a line `path:value` each (0.8: ExportZkOffsets).

With --json they go to standard output as well, or only there without --output-file.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from zkconsumer.commands.common import (
    FAILED,
    TOOL_TIMEOUT_MS,
    check_required,
    fail_with_usage,
    nothing_given,
    remember_usage,
)
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.errors import UnreadableZnode
from zkconsumer.groups.files import check_writable, write_whole
from zkconsumer.groups.zookeeper_group import ZooKeeperGroup, list_groups, read_groups
from zkconsumer.paths import GroupPaths, GroupTopicPaths
from zkconsumer.znodes import decode_offset
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer export-zk-offsets --zkconnect 127.0.0.1:2181 --output-file offsets.txt
  zkconsumer export-zk-offsets --zkconnect 127.0.0.1:2181 --group group1 --group group2 --output-file offsets.txt
  zkconsumer export-zk-offsets --zkconnect 127.0.0.1:2181 --json | jq -r '.[].offset'"""

NOTHING_GIVEN = "Export consumer offsets to an output file."  # the original's words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    parser.add_argument("--zkconnect", "--zookeeper", metavar="HOST:PORT[/CHROOT]", dest="zkconnect", help="required")
    parser.add_argument("--output-file", metavar="FILE", help="required without --json")
    parser.add_argument("--group", action="append", help="repeatable (default: all groups)")
    parser.add_argument("--json", action="store_true", help="to standard output, as a JSON array")


def run(arguments: argparse.Namespace) -> int:
    """1 if a group has no offsets in ZooKeeper; what came before it is in the file, as with the original."""
    if nothing_given(arguments):
        return fail_with_usage(arguments, NOTHING_GIVEN)
    fill_in_servers(arguments, zookeeper="zkconnect")
    missing = check_required(arguments, "zkconnect", *([] if arguments.json else ["output-file"]))
    if missing:
        return fail_with_usage(arguments, missing)
    if arguments.output_file:
        check_writable(Path(arguments.output_file))
    with ZooKeeper(
        arguments.zkconnect, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS
    ) as zookeeper:
        groups = arguments.group or list_groups(zookeeper)
        found = read_groups(zookeeper, groups, ["offsets"])
    # Unlike 0.8.2.2: one of all groups that keeps its offsets in Kafka does not end the export of the rest.
    without = [name for name, group in found.items() if not group.has_offsets] if arguments.group else []
    written = list(found.values())[: list(found).index(without[0])] if without else list(found.values())
    if arguments.output_file and (written or not without):
        # Unlike 0.8.2.2: a file of before is replaced by a whole one, or stays.
        write_whole(Path(arguments.output_file), "".join(f"{line}\n" for one in written for line in _lines(one)))
    if without:
        path = GroupPaths(without[0]).offsets
        print(f"zkconsumer export-zk-offsets: {path} does not exist: group {without[0]} has no offsets in ZooKeeper",
              file=sys.stderr)  # fmt: skip
        return FAILED
    if arguments.json:
        print(json.dumps(list(_rows(written)), indent=2))
    return 0


def _lines(group: ZooKeeperGroup) -> Iterator[str]:
    for where, node in group.offsets.items():
        path = GroupTopicPaths(group.name, where.topic).offset(where.partition)
        yield f"{path}:{node.data.decode(errors='replace')}"


def _rows(groups: Iterable[ZooKeeperGroup]) -> Iterator[dict[str, object]]:
    """null where a node holds no number."""
    for group in groups:
        for where, node in sorted(group.offsets.items()):
            try:
                offset = decode_offset(node.data)
            except UnreadableZnode:
                offset = None
            yield {"group": group.name, "topic": where.topic, "partition": where.partition, "offset": offset}
