"""Write offsets from a file of export-zk-offsets into ZooKeeper (0.8: ImportZkOffsets).

Stop the group first: running consumers do not see the change before their next rebalance, and overwrite it. As in the
original, reading stops at the first empty line. `zkconsumer offsets set` does the same with a dry run and checks.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from zkconsumer.commands.common import TOOL_TIMEOUT_MS, check_required, fail_with_usage, nothing_given, remember_usage
from zkconsumer.commands.options import fill_in_servers
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  zkconsumer import-zk-offsets --zkconnect 127.0.0.1:2181 --input-file offsets.txt"""

NOTHING_GIVEN = "Import offsets to zookeeper from files."  # the original's words


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remember_usage(parser)
    parser.add_argument(
        "--zkconnect", "--zookeeper", metavar="HOST:PORT[/CHROOT]", dest="zkconnect", help="default: localhost:2181"
    )
    parser.add_argument("--input-file", metavar="FILE", help="required")
    parser.add_argument("--json", action="store_true", help="what was written, as a JSON array")


def run(arguments: argparse.Namespace) -> int:
    if nothing_given(arguments):
        return fail_with_usage(arguments, NOTHING_GIVEN)
    missing = check_required(arguments, "input-file")
    if missing:
        return fail_with_usage(arguments, missing)
    fill_in_servers(arguments, zookeeper="zkconnect", default="localhost:2181")
    offsets = read_offsets(arguments.input_file)
    with ZooKeeper(
        arguments.zkconnect, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS
    ) as zookeeper:
        zookeeper.update_many({path: value.encode() for path, value in offsets.items()})
    if arguments.json:
        print(json.dumps([{"path": path, "value": value} for path, value in offsets.items()], indent=2))
    return 0


def read_offsets(file: str) -> dict[str, str]:
    """Paths and values up to the first empty line; of a path given twice the last counts."""
    found = {}
    # Unlike 0.8.2.2: the whole file is looked at before anything is written.
    for number, line in enumerate(Path(file).read_text(encoding="utf-8", errors="replace").splitlines(), 1):
        if not line:
            break
        path, *values = line.split(":")
        if not values or not path.startswith("/"):
            raise IllegalArgumentException(
                f"{file}, line {number}: {line[:60]!r} is no offset; "
                "it should be /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET"
            )
        found[path] = values[0]
    return found
