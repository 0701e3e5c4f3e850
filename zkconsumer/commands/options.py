"""Options that the commands about groups share: servers, from the command line, the config file, or a default."""

from __future__ import annotations

import argparse

from fetcher.admin import parse_bootstrap
from fetcher.structs import Broker
from zkconsumer.commands.common import TOOL_TIMEOUT_MS
from zkconsumer.commands.config_file import settings_for
from zkconsumer.errors import IllegalArgumentException
from zkconsumer.zookeeper import ZooKeeper


def add_server_options(parser: argparse.ArgumentParser, *, bootstrap: bool = True) -> None:
    parser.add_argument("--zookeeper", metavar="HOST:PORT[/CHROOT]", help="for groups in ZooKeeper")
    if bootstrap:
        parser.add_argument("--bootstrap-server", metavar="HOST:PORT,…", help="for groups in Kafka")


def fill_in_servers(
    arguments: argparse.Namespace, *, zookeeper: str = "", brokers: str = "", default: str | None = None
) -> None:
    """What was not given from the config file, else the default: for 0.8's tools, which have names of their own."""
    for name, key in ((zookeeper, "zookeeper.connect"), (brokers, "bootstrap.servers")):
        if name and getattr(arguments, name) is None:
            setattr(arguments, name, settings_for(arguments).get(key, default))


def zookeeper_connect(arguments: argparse.Namespace) -> str | None:
    """Where ZooKeeper is, if anybody said so."""
    given: str | None = arguments.zookeeper
    return given or settings_for(arguments).get("zookeeper.connect")


def bootstrap_servers(arguments: argparse.Namespace) -> list[Broker] | None:
    """Where brokers are, if anybody said so."""
    given = getattr(arguments, "bootstrap_server", None) or settings_for(arguments).get("bootstrap.servers")
    if given is None:
        return None
    try:
        return parse_bootstrap(given)
    except ValueError as error:
        raise IllegalArgumentException(f"--bootstrap-server {given}: {error}") from None


def open_zookeeper(arguments: argparse.Namespace) -> ZooKeeper:
    """Yet to be started, by `with`. Needs to be told where."""
    connect = needed_zookeeper_connect(arguments)
    return ZooKeeper(connect, session_timeout_ms=TOOL_TIMEOUT_MS, connection_timeout_ms=TOOL_TIMEOUT_MS)


def needed_zookeeper_connect(arguments: argparse.Namespace) -> str:
    """Where ZooKeeper is; without it the command cannot do a thing."""
    connect = zookeeper_connect(arguments)
    if connect is None:
        raise IllegalArgumentException("where is ZooKeeper? Give --zookeeper HOST:PORT[/CHROOT], or --config FILE")
    return connect
