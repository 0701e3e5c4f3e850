"""Real ZooKeeper and Kafka servers for tests, with faults on demand; see docs/testing.md.

Public names are loaded when they are first used: the pytest plugin is imported in every run where this is installed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from zkconsumer.testing.errors import (
        EngineNotFound,
        JarError,
        JavaNotFound,
        NotSupported,
        PortTaken,
        ServerError,
        ServerStartError,
        UnknownVersion,
        WaitTimeout,
    )
    from zkconsumer.testing.kafka import KafkaBroker, KafkaCluster
    from zkconsumer.testing.link import Direction, Link
    from zkconsumer.testing.scala import ScalaConsumer
    from zkconsumer.testing.sessions import expire_session, lose_session, losing_session
    from zkconsumer.testing.transactions import Operation, Transaction
    from zkconsumer.testing.waiting import eventually
    from zkconsumer.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer

_HOME_OF = {
    "Direction": "link",
    "EngineNotFound": "errors",
    "JarError": "errors",
    "JavaNotFound": "errors",
    "KafkaBroker": "kafka",
    "KafkaCluster": "kafka",
    "Link": "link",
    "NotSupported": "errors",
    "Operation": "transactions",
    "PortTaken": "errors",
    "ScalaConsumer": "scala",
    "ServerError": "errors",
    "ServerStartError": "errors",
    "Transaction": "transactions",
    "UnknownVersion": "errors",
    "WaitTimeout": "errors",
    "ZooKeeperEnsemble": "zookeeper",
    "ZooKeeperServer": "zookeeper",
    "eventually": "waiting",
    "expire_session": "sessions",
    "lose_session": "sessions",
    "losing_session": "sessions",
}

__all__ = [
    "Direction",
    "EngineNotFound",
    "JarError",
    "JavaNotFound",
    "KafkaBroker",
    "KafkaCluster",
    "Link",
    "NotSupported",
    "Operation",
    "PortTaken",
    "ScalaConsumer",
    "ServerError",
    "ServerStartError",
    "Transaction",
    "UnknownVersion",
    "WaitTimeout",
    "ZooKeeperEnsemble",
    "ZooKeeperServer",
    "eventually",
    "expire_session",
    "lose_session",
    "losing_session",
]


def __getattr__(name: str) -> Any:
    home = _HOME_OF.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{home}"), name)
