"""One ZooKeeper for all tests of this directory; a test may do to it what it likes, the next one finds it running."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest
from kazoo.client import KazooClient

from tests.zookeeper.clients import Connect, connect_within
from zkconsumer.testing.zookeeper import ZooKeeperServer

if TYPE_CHECKING:
    from zkconsumer.zookeeper import ZooKeeper


@pytest.fixture(scope="session")
def shared_server() -> Iterator[ZooKeeperServer]:
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def server(shared_server: ZooKeeperServer) -> Iterator[ZooKeeperServer]:
    """The server of this run; ended, paused or not, it runs again for the next test."""
    yield shared_server
    if shared_server.running:
        shared_server.resume()
    else:
        shared_server.start()


@pytest.fixture
def private_server() -> Iterator[ZooKeeperServer]:
    """For a test that ends its server for good."""
    with ZooKeeperServer() as server:
        yield server


@pytest.fixture
def connect() -> Iterator[Connect]:
    """`connect(address, **options)`: a kazoo client, and the list of states it goes through from then on."""
    with ExitStack() as stack:
        yield partial(connect_within, stack)


@pytest.fixture
def address(server: ZooKeeperServer) -> str:
    """A fresh chroot: "host:port/chroot"."""
    return server.chroot()


@pytest.fixture
def session(address: str) -> Iterator[ZooKeeper]:
    """A session of ours in the chroot."""
    from tests.zookeeper.sessions import connected

    with connected(address) as session:
        yield session


@pytest.fixture
def client(address: str) -> Iterator[KazooClient]:
    """A client that is not ours, in the same chroot."""
    from tests.zookeeper.sessions import observer

    with observer(address) as client:
        yield client
