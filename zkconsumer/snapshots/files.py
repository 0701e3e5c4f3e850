"""A snapshot as a value and as a file: JSON lines that people can read, search and compare.

    {"format": "zkconsumer-snapshot", "version": 1, "began": "2026-11-18T19:20:00Z", "from": "zk1:2181/kafka", …}
    {"path": "/consumers/g/offsets/orders/0", "data": "20", "version": 3}
    {"path": "/consumers/g/ids/g_c1", "data": "{\\"version\\":1,…", "version": 0, "session": "0x1000a5e2c0d0001"}
    {"kafka_group": "h", "topic": "orders", "partition": 0, "offset": 20, "metadata": ""}
    {"end": true, "nodes": 2, "kafka_offsets": 1, "ended": "2026-11-18T19:20:01Z"}

The first line says what it is; a reader refuses a version it does not know. A line a node follows, parents first.
`data` is its text, `base64` stands instead where the bytes are no UTF-8, and neither where there are none. `session`
makes it ephemeral. Then a line each offset that a group keeps in Kafka. The last line tells a whole file from one that
was cut short. All may be packed with gzip.
"""

from __future__ import annotations

import base64
import binascii
import gzip
import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import IO, Any

from fetcher.structs import OffsetAndMetadata, TopicAndPartition
from zkconsumer.errors import IllegalArgumentException

FORMAT, VERSION = "zkconsumer-snapshot", 1
_GZIP = b"\x1f\x8b"
KafkaOffsets = dict[TopicAndPartition, OffsetAndMetadata]


@dataclass(frozen=True, slots=True)
class Node:
    """A node as it was read. session 0: persistent."""

    path: str
    data: bytes
    version: int = 0
    session: int = 0


@dataclass(frozen=True)
class Snapshot:
    """All nodes that were read, by path, parents before their children."""

    source: str
    began: str
    ended: str
    nodes: dict[str, Node]
    groups: tuple[str, ...] = field(default=())  # chosen ones; none: all
    in_kafka: dict[str, KafkaOffsets] = field(default_factory=dict)  # by group

    def below(self, path: str) -> Iterator[tuple[list[str], Node]]:
        """All nodes below a path, with the names that lead to them from there; parents first."""
        start = len(path) + 1
        for child in self._children.get(path, ()):
            if child in self.nodes:
                yield child[start:].split("/"), self.nodes[child]
            for names, node in self.below(child):
                yield [child[start:], *names], node

    def names_below(self, path: str) -> list[str]:
        """Of the children."""
        return [child.rpartition("/")[2] for child in self._children.get(path, ())]

    @cached_property
    def _children(self) -> dict[str, dict[str, None]]:
        """By path, also where the parent itself was not read."""
        found: dict[str, dict[str, None]] = {}
        for path in self.nodes:
            while path and path not in found.get(parent := path.rpartition("/")[0], ()):
                found.setdefault(parent, {})[path] = None
                path = parent
        return found


def write_snapshot(file: Path, snapshot: Snapshot, *, compressed: bool) -> None:
    """Whole or not at all: written beside it, then renamed."""
    part = file.with_name(f".{file.name}.{os.getpid()}.part")
    try:
        with part.open("xb") as raw:
            with _packed(raw, file.name) if compressed else raw as output:
                for line in _lines(snapshot):
                    output.write(json.dumps(line, ensure_ascii=False).encode() + b"\n")
            if not raw.closed:
                raw.flush()
        with part.open("rb") as raw:
            os.fsync(raw.fileno())
        part.replace(file)
    except OSError as error:
        # Without the name nobody knows which disk is full.
        raise OSError(error.errno, error.strerror, str(file)) from error
    finally:
        part.unlink(missing_ok=True)


def read_snapshot(file: Path) -> Snapshot:
    """IllegalArgumentException names the line that cannot be read."""
    number = 0
    nodes: dict[str, Node] = {}
    in_kafka: dict[str, KafkaOffsets] = {}
    header: dict[str, Any] = {}
    end: dict[str, Any] | None = None
    try:
        with file.open("rb") as raw, _unpacked(raw) as lines:
            for number, line in enumerate(lines, 1):
                content = json.loads(line)
                if not isinstance(content, dict) or end is not None:
                    raise ValueError("nothing may stand behind the end" if end else "no JSON object")
                if number == 1:
                    header = _checked_header(content)
                elif content.get("end") is True:
                    end = content
                elif "kafka_group" in content:
                    _add_kafka_offset(in_kafka, content)
                else:
                    node = _node(content)
                    if node.path in nodes:
                        raise ValueError(f"{node.path} is there twice")
                    nodes[node.path] = node
    except (ValueError, KeyError, TypeError, EOFError, gzip.BadGzipFile, RecursionError) as error:
        raise IllegalArgumentException(f"{file}, line {max(number, 1)}: {_reason(error)}") from None
    offsets = sum(map(len, in_kafka.values()))
    if end is None or (end.get("nodes"), end.get("kafka_offsets", 0)) != (len(nodes), offsets):
        raise IllegalArgumentException(f"{file} ends in the middle, after {len(nodes)} nodes: it was cut short")
    return Snapshot(
        str(header.get("from", "")), str(header.get("began", "")), str(end.get("ended", "")),
        dict(sorted(nodes.items(), key=lambda item: item[0].split("/"))), tuple(map(str, header.get("groups") or ())),
        in_kafka,
    )  # fmt: skip


def _lines(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    header = {"format": FORMAT, "version": VERSION, "from": snapshot.source, "began": snapshot.began}
    yield header | ({"groups": list(snapshot.groups)} if snapshot.groups else {})
    for node in snapshot.nodes.values():
        yield {"path": node.path} | as_json(node.data) | {"version": node.version} | _session(node)
    for group, offsets in snapshot.in_kafka.items():
        for where, one in sorted(offsets.items()):
            yield {"kafka_group": group, **where._asdict(), "offset": one.offset, "metadata": one.metadata}
    count = sum(map(len, snapshot.in_kafka.values()))
    told = {"kafka_offsets": count} if count else {}
    yield {"end": True, "nodes": len(snapshot.nodes), **told, "ended": snapshot.ended}


def as_json(data: bytes) -> dict[str, str]:
    """`data`, `base64` of what is no UTF-8, or neither where there is none."""
    if not data:
        return {}
    try:
        return {"data": data.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def _session(node: Node) -> dict[str, str]:
    return {"session": f"0x{node.session & 0xFFFF_FFFF_FFFF_FFFF:x}"} if node.session else {}


def _node(content: dict[str, Any]) -> Node:
    path = content["path"]
    if not isinstance(path, str) or not path.startswith("/") or {"", ".", ".."} & set(path[1:].split("/")):
        raise ValueError(f"{path!r} is no path")
    if "base64" in content:
        data = base64.b64decode(content["base64"], validate=True)
    else:
        data = content.get("data", "").encode()
    return Node(path, data, int(content.get("version", 0)), int(content.get("session", "0x0"), 16))


def _add_kafka_offset(found: dict[str, KafkaOffsets], content: dict[str, Any]) -> None:
    group, topic, partition, offset = (content[key] for key in ("kafka_group", "topic", "partition", "offset"))
    texts, numbers = (group, topic, content.get("metadata", "")), (partition, offset)
    if not all(isinstance(one, str) for one in texts) or not all(isinstance(one, int) and one >= 0 for one in numbers):
        raise ValueError("no offset in Kafka: it needs a group, a topic, a partition and an offset")
    offsets, where = found.setdefault(group, {}), TopicAndPartition(topic, partition)
    if where in offsets:
        raise ValueError(f"the offset of {where} of {group} is there twice")
    offsets[where] = OffsetAndMetadata(offset, content.get("metadata", ""))


def _checked_header(content: dict[str, Any]) -> dict[str, Any]:
    if content.get("format") != FORMAT:
        raise ValueError("this is no snapshot of zkconsumer")
    if content.get("version") != VERSION:
        raise ValueError(f"version {content.get('version')} of the format is not known here, only {VERSION}")
    return content


def _reason(error: Exception) -> str:
    if isinstance(error, gzip.BadGzipFile | EOFError):
        return "the packed file is damaged, or was cut short"
    if isinstance(error, json.JSONDecodeError | UnicodeDecodeError):
        return "no JSON; this is no snapshot of zkconsumer, or it is damaged"
    if isinstance(error, binascii.Error):
        return "its base64 cannot be read"
    return f"there is no {error}" if isinstance(error, KeyError) else str(error)


def _packed(raw: IO[bytes], name: str) -> gzip.GzipFile:
    return gzip.GzipFile(filename=name.removesuffix(".gz"), mode="wb", fileobj=raw, mtime=0)


@contextmanager
def _unpacked(raw: IO[bytes]) -> Iterator[Iterable[bytes]]:
    start = raw.read(2)
    raw.seek(0)
    if start != _GZIP:
        yield raw
        return
    with gzip.GzipFile(fileobj=raw) as unpacked:
        yield unpacked
