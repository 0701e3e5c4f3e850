"""Print what is in ZooKeeper as a tree: nodes, their data, and whose the ephemeral ones are."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from zkconsumer.commands.options import add_server_options, needed_zookeeper_connect
from zkconsumer.snapshots.files import as_json
from zkconsumer.zookeeper import Znode, ZooKeeper

EXAMPLES = """\
  zkconsumer tree --zookeeper 127.0.0.1:2181/kafka          consumers and brokers below that chroot
  zkconsumer tree --zookeeper 127.0.0.1:2181 / --depth 3    everything, three levels deep
  zkconsumer tree --zookeeper 127.0.0.1:2181 /consumers/group1
  zkconsumer tree --zookeeper 127.0.0.1:2181 --json | jq -r '.[] | select(.session) | .path'"""

TIMEOUT_MS = 6000
SHOWN = 100
DEFAULT_PATHS = ("/consumers", "/brokers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="*", help="where to begin (default: /consumers and /brokers)")
    add_server_options(parser, bootstrap=False)
    parser.add_argument("--depth", metavar="N", type=int, default=20, help="how many levels (default: all)")
    parser.add_argument("--json", action="store_true", help="nodes as a JSON array; data that is no UTF-8 as base64")


def run(arguments: argparse.Namespace) -> int:
    """0 if every path given exists, else 1."""
    console = Console(highlight=False)
    missing = 0
    rows: list[dict[str, object]] = []
    connect = needed_zookeeper_connect(arguments)
    with ZooKeeper(connect, session_timeout_ms=TIMEOUT_MS, connection_timeout_ms=TIMEOUT_MS) as zookeeper:
        for path in arguments.paths or DEFAULT_PATHS:
            levels = read_levels(zookeeper, path.rstrip("/") or "/", arguments.depth)
            if levels and arguments.json:
                rows += [_row(one, node) for level in levels for one, node in level.items()]
            elif levels:
                console.print(as_tree(levels))
            elif arguments.paths:
                missing += 1
                Console(stderr=True, highlight=False).print(f"there is no {path}", markup=False)
    if arguments.json:
        print(json.dumps(rows, indent=2))
    return 1 if missing else 0


def read_levels(zookeeper: ZooKeeper, path: str, depth: int) -> list[dict[str, Znode]]:
    """What stands at and below a path, level by level, each level read in one go; nothing if there is no such path."""
    node = zookeeper.read_with_stat(path)
    levels = [{path: node}] if node is not None else []
    while levels and levels[-1] and len(levels) <= depth:
        children = zookeeper.children_many(levels[-1])
        below = [f"{parent.rstrip('/')}/{name}" for parent, names in children.items() for name in _sorted(names or ())]
        # None: it went away since its parent was read.
        levels.append({child: one for child, one in zookeeper.read_many_with_stat(below).items() if one is not None})
    return levels


def as_tree(levels: list[dict[str, Znode]]) -> Tree:
    """To look at."""
    [(path, node)] = levels[0].items()
    root = Tree(_label(path, node))
    branches = {path.rstrip("/"): root}
    for level in levels[1:]:
        for child, one in level.items():
            parent, _, name = child.rpartition("/")
            branches[child] = branches[parent].add(_label(name, one))
    return root


def _row(path: str, node: Znode) -> dict[str, object]:
    session = {"session": f"0x{node.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF:x}"} if node.ephemeral_owner else {}
    return {"path": path, **as_json(node.data), "version": node.version, **session}


def _label(name: str, node: Znode) -> Text:
    """Names and data are anybody's text: shown as they are, never as markup, without control characters."""
    label = Text(_printable(name), style="bold" if node.ephemeral_owner else "")
    if node.ephemeral_owner:
        label.append(f"  session 0x{node.ephemeral_owner & 0xFFFF_FFFF_FFFF_FFFF:x}", style="magenta")
    if node.data:
        text = _printable(node.data.decode(errors="replace"))
        label.append("  " + (text if len(text) <= SHOWN else text[:SHOWN] + "…"), style="cyan")
    return label


def _printable(text: str) -> str:
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _sorted(names: Iterable[str]) -> list[str]:
    """Numbers by their value, the rest as text behind them."""
    return sorted(names, key=lambda name: (0, int(name), "") if name.isdecimal() else (1, 0, name))
