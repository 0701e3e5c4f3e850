"""Print what is in ZooKeeper as a tree: nodes, their data, and whose the ephemeral ones are."""

from __future__ import annotations

import argparse
from collections.abc import Iterable

from rich.console import Console
from rich.text import Text
from rich.tree import Tree

from zkconsumer.commands.options import add_server_options, needed_zookeeper_connect
from zkconsumer.zookeeper import Znode, ZooKeeper

EXAMPLES = """\
  zkconsumer tree --zookeeper 127.0.0.1:2181/kafka          consumers and brokers below that chroot
  zkconsumer tree --zookeeper 127.0.0.1:2181 / --depth 3    everything, three levels deep
  zkconsumer tree --zookeeper 127.0.0.1:2181 /consumers/group1"""

TIMEOUT_MS = 6000
SHOWN = 100
DEFAULT_PATHS = ("/consumers", "/brokers")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("paths", metavar="PATH", nargs="*", help="where to begin (default: /consumers and /brokers)")
    add_server_options(parser, bootstrap=False)
    parser.add_argument("--depth", metavar="N", type=int, default=20, help="how many levels (default: all)")


def run(arguments: argparse.Namespace) -> int:
    """0 if every path given exists, else 1."""
    console = Console(highlight=False)
    missing = 0
    connect = needed_zookeeper_connect(arguments)
    with ZooKeeper(connect, session_timeout_ms=TIMEOUT_MS, connection_timeout_ms=TIMEOUT_MS) as zookeeper:
        for path in arguments.paths or DEFAULT_PATHS:
            tree = read_tree(zookeeper, path.rstrip("/") or "/", arguments.depth)
            if tree is not None:
                console.print(tree)
            elif arguments.paths:
                missing += 1
                Console(stderr=True, highlight=False).print(f"there is no {path}", markup=False)
    return 1 if missing else 0


def read_tree(zookeeper: ZooKeeper, path: str, depth: int) -> Tree | None:
    """The tree below a path, level by level, each level read in one go; None if there is no such path."""
    node = zookeeper.read_with_stat(path)
    if node is None:
        return None
    root = Tree(_label(path, node))
    level = {path: root}
    for _ in range(depth):
        children = zookeeper.children_many(level)
        below = {
            f"{parent.rstrip('/')}/{name}": (level[parent], name)
            for parent, names in children.items()
            for name in _sorted(names or ())
        }
        nodes = zookeeper.read_many_with_stat(below)
        level = {}
        for child, (branch, name) in below.items():
            found = nodes[child]
            if found is not None:  # else it went away since its parent was read
                level[child] = branch.add(_label(name, found))
        if not level:
            break
    return root


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
