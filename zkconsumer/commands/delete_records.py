"""Delete the records of partitions below given offsets (0.11 and later: kafka-delete-records.sh).

The file: {"partitions": [{"topic": "orders", "partition": 0, "offset": 10}], "version": 1}; -1 means all there is.
Stored offsets below the new beginning are out of range afterwards: `zkconsumer doctor` finds them.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from fetcher.admin import BrokerConnections
from fetcher.errors import class_name_for
from fetcher.structs import TopicAndPartition
from zkconsumer.commands.common import FAILED
from zkconsumer.commands.options import add_server_options, bootstrap_servers
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.groups.cluster import BrokerCluster

EXAMPLES = """\
  zkconsumer delete-records --bootstrap-server 127.0.0.1:9092 --offset-json-file delete.json"""

TIMEOUT_MS = 30_000
_IN_THE_ORIGINALS_WORDS = {
    1: "OffsetOutOfRangeException: The requested offset is not within the range of offsets maintained by the server.",
    44: "PolicyViolationException: Request parameters do not satisfy the configured policy.",
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_server_options(parser)
    parser.add_argument("--offset-json-file", metavar="FILE", required=True)
    parser.add_argument("--json", action="store_true", help="where partitions begin now, as a JSON array")


def run(arguments: argparse.Namespace) -> int:
    """1 if a partition's records were not deleted."""
    offsets = parse_offsets(Path(arguments.offset_json_file).read_text(encoding="utf-8", errors="replace"))
    bootstrap = bootstrap_servers(arguments)
    if bootstrap is None:
        raise IllegalArgumentException("where are the brokers? Give --bootstrap-server HOST:PORT, or --config FILE")
    if not arguments.json:
        print("Executing records delete operation")
    lines, rows = [], []
    with BrokerConnections(timeout_s=TIMEOUT_MS / 1000 + 5) as connections:
        leaders = BrokerCluster(connections, bootstrap).leaders_of(list(offsets))
        for where, offset in offsets.items():
            low_watermark, error = None, "there is no such partition, or it has no leader"
            if where in leaders:
                asked = [(where.topic, [(where.partition, offset)])]
                answer = connections.ask(leaders[where], "DeleteRecords", 0, topics=asked, timeout_ms=TIMEOUT_MS)
                [found] = answer.topics[0].partitions
                error = _text(found.error_code) if found.error_code else ""
                low_watermark = None if error else found.low_watermark
            rows.append({**where._asdict(), "low_watermark": low_watermark, "error": error or None})
            told = f"error: {error}" if error else f"low_watermark: {low_watermark}"
            lines.append(f"partition: {where.topic}-{where.partition}\t{told}")
    if arguments.json:
        print(json.dumps(rows, indent=2))
    else:
        print("Records delete operation completed:")
        print("\n".join(lines))
    return FAILED if any(row["error"] for row in rows) else 0


def _text(code: int) -> str:
    known = _IN_THE_ORIGINALS_WORDS.get(code)
    return f"org.apache.kafka.common.errors.{known}" if known else class_name_for(code)


def parse_offsets(text: str) -> dict[TopicAndPartition, int]:
    """In the original's words what is wrong with it."""
    try:
        content = json.loads(text)
    except json.JSONDecodeError as error:
        at = f"line {error.lineno}, column {error.colno}: {error.msg}"
        raise IllegalArgumentException(f"The input string is not a valid JSON ({at})") from None
    except (ValueError, RecursionError) as error:
        raise IllegalArgumentException(f"The input string is not a valid JSON ({error})") from None
    if not isinstance(content, dict) or content.get("version", 1) != 1:
        version = content.get("version") if isinstance(content, dict) else None
        raise IllegalArgumentException(f"Not supported version field value {version}")
    if not isinstance(content.get("partitions"), list):
        raise IllegalArgumentException("Missing partitions field")
    offsets: dict[TopicAndPartition, int] = {}
    for entry in content["partitions"]:
        fields = entry if isinstance(entry, dict) else {}
        topic, partition, offset = fields.get("topic"), fields.get("partition"), fields.get("offset")
        if not isinstance(topic, str) or not isinstance(partition, int) or not isinstance(offset, int) or offset < -1:
            raise IllegalArgumentException(f"{entry!r} should have a topic, a partition and an offset (-1: all)")
        where = TopicAndPartition(topic, partition)
        if where in offsets:
            raise IllegalArgumentException(f"Offset json file contains duplicate topic partitions: {topic}-{partition}")
        offsets[where] = offset
    return offsets
