"""pytest plugin: real servers as fixtures. Active wherever `zkconsumer[testing]` is installed; see docs/testing.md.

Rule: nothing but pytest is imported here until a fixture is used, so that runs which need no server pay nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from zkconsumer.testing.kafka import KafkaCluster
    from zkconsumer.testing.link import Link
    from zkconsumer.testing.zookeeper import ZooKeeperEnsemble, ZooKeeperServer


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("zkconsumer", "real ZooKeeper and Kafka servers (zkconsumer.testing)")
    group.addoption(
        "--zk-backend",
        choices=["process", "container", "external"],
        default="process",
        help="how servers run: as child processes (default), in containers, or already, at --zk-address",
    )
    group.addoption(
        "--zk-address",
        metavar="HOST:PORT",
        help="with --zk-backend=external: where ZooKeeper is; each test gets a chroot",
    )
    group.addoption(
        "--kafka-version", metavar="VERSION", default="1.1.1", help="release for the kafka fixture (default 1.1.1)"
    )
    group.addoption(
        "--strict-servers",
        action="store_true",
        help="a server that cannot be had fails the test instead of skipping it (for CI)",
    )


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers", "kafka(version, brokers=1): which release and how many brokers the kafka fixture gives this test"
    )
    if config.getoption("--zk-backend") == "external" and not config.getoption("--zk-address"):
        raise pytest.UsageError("--zk-backend=external needs --zk-address=HOST:PORT")


class ZooKeeperForOneTest:
    """A chroot of its own on the server of this run.

    The server may be stopped, killed or paused in a test: the next test finds it running again.
    """

    def __init__(self, server: ZooKeeperServer, connect_string: str) -> None:
        self.server = server
        self.connect_string = connect_string  # with the chroot, as in zookeeper.connect
        self.address, _, chroot = connect_string.partition("/")
        self.chroot = f"/{chroot}"

    @contextmanager
    def client(self, *, via: Link | None = None, **options: Any) -> Iterator[KazooClient]:
        """A connected kazoo client whose root is this test's chroot; stopped and closed at the end.

        `via` is a link that leads to the server; `options` are KazooClient's.
        """
        from kazoo.client import KazooClient

        address = self.address if via is None else via.address
        client = KazooClient(f"{address}{self.chroot}", **options)
        try:
            client.start()
            yield client
        finally:
            client.stop()
            client.close()

    def __repr__(self) -> str:
        return f"<ZooKeeper at {self.connect_string}>"


@contextmanager
def _servers_wanted(request: pytest.FixtureRequest) -> Iterator[None]:
    """What cannot be had on this machine (Java, jars, an engine) skips the test, or fails it under --strict-servers."""
    from zkconsumer.testing.errors import EngineNotFound, JarError, JavaNotFound

    try:
        yield
    except (JavaNotFound, JarError, EngineNotFound) as error:
        if request.config.getoption("--strict-servers"):
            raise
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def zookeeper_server(request: pytest.FixtureRequest) -> Iterator[ZooKeeperServer]:
    """The ZooKeeper of this run. Tests use `zookeeper`, which gives each its own chroot."""
    from zkconsumer.testing.zookeeper import ZooKeeperServer

    server = ZooKeeperServer(
        backend=request.config.getoption("--zk-backend"), address=request.config.getoption("--zk-address")
    )
    with _servers_wanted(request):
        server.start()
    try:
        yield server
    finally:
        server.close()


@pytest.fixture
def zookeeper(zookeeper_server: ZooKeeperServer) -> Iterator[ZooKeeperForOneTest]:
    """A fresh chroot on the ZooKeeper of this run: `.connect_string`, `.client()`, `.server` for faults."""
    _bring_back(zookeeper_server)
    chroot = ZooKeeperForOneTest(zookeeper_server, zookeeper_server.chroot())
    yield chroot
    _bring_back(zookeeper_server)
    with zookeeper_server.client() as client:
        client.delete(chroot.chroot, recursive=True)


def _bring_back(server: ZooKeeperServer) -> None:
    """Undo what the last test did to the server."""
    if not server.running:
        server.start()
    elif not server.is_external:
        server.resume()


@pytest.fixture
def zookeeper_ensemble(request: pytest.FixtureRequest) -> Iterator[ZooKeeperEnsemble]:
    """Three servers of this test's own; `.connect_string` names all."""
    from zkconsumer.testing.zookeeper import ZooKeeperEnsemble

    ensemble = ZooKeeperEnsemble(3)
    with _servers_wanted(request):
        ensemble.start()
    try:
        yield ensemble
    finally:
        ensemble.close()


@pytest.fixture(scope="session")
def _kafka_clusters(
    request: pytest.FixtureRequest, zookeeper_server: ZooKeeperServer
) -> Iterator[Callable[[str, int], KafkaCluster]]:
    """One cluster for each release and size asked for in this run, on its ZooKeeper, which outlives them."""
    from zkconsumer.testing.kafka import KafkaCluster

    clusters: dict[tuple[str, int], KafkaCluster] = {}
    with ExitStack() as stack:

        def cluster(version: str, brokers: int) -> KafkaCluster:
            if (version, brokers) not in clusters:
                backend = request.config.getoption("--zk-backend")
                new = KafkaCluster(
                    version=version,
                    brokers=brokers,
                    zookeeper=zookeeper_server,
                    # An external ZooKeeper is given, brokers are not: they run here.
                    backend="process" if backend == "external" else backend,
                )
                with _servers_wanted(request):
                    clusters[version, brokers] = stack.enter_context(new)
            return clusters[version, brokers]

        yield cluster


@pytest.fixture
def kafka(request: pytest.FixtureRequest, _kafka_clusters: Callable[[str, int], KafkaCluster]) -> KafkaCluster:
    """Brokers of this run: release by `@pytest.mark.kafka("0.8.2.2", brokers=1)` or --kafka-version.

    Topics are shared with other tests of the run: create your own. Brokers that a test stopped are started again.
    """
    marker = request.node.get_closest_marker("kafka")
    arguments = marker.args if marker is not None else ()
    options = marker.kwargs if marker is not None else {}
    version = arguments[0] if arguments else options.get("version", request.config.getoption("--kafka-version"))
    cluster = _kafka_clusters(str(version), int(options.get("brokers", 1)))
    for broker in cluster.brokers:
        if broker.running:
            broker.resume()
        else:
            broker.start()
    return cluster


@pytest.fixture
def link() -> Iterator[Callable[[str], Link]]:
    """`link("127.0.0.1:2181")` puts a relay in front of a server; clients connect to its `.address`."""
    from zkconsumer.testing.link import Link

    with ExitStack() as stack:
        yield lambda target: stack.enter_context(Link(target))


@pytest.fixture
def expire_session() -> Callable[[KazooClient], None]:
    """`expire_session(client)`: the server ends the client's session, its ephemerals are gone when this returns."""
    from zkconsumer.testing.sessions import expire_session

    return expire_session
