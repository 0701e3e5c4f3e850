"""Real brokers of 0.8.2.2, 1.1.1 and 3.9.1 on a real ZooKeeper, to be stopped, killed, paused and moved about in tests.

    with KafkaCluster(version="0.8.2.2", brokers=2) as kafka:
        kafka.create_topic("pages", partitions=4, replication_factor=2)
        kafka.produce("pages", [b"first", (b"key", b"second")])
        kafka.brokers[0].kill()

Brokers are small (see kafka_releases), and differ from Kafka's defaults where a test is better off: topics are not made
by asking for them (auto.create.topics.enable=false) but can be deleted, leaders stay where they are, the offsets topic
has 4 partitions instead of 50, groups form without delay. `settings` overrides any of it, under Kafka's own names.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import TYPE_CHECKING, NamedTuple, Self

from zkconsumer.testing import kafka_requests
from zkconsumer.testing.backends import BACKENDS, Backend, ExternalBackend, ProcessBackend
from zkconsumer.testing.errors import NotSupported, ServerError, ServerStartError, WaitTimeout
from zkconsumer.testing.kafka_releases import FORMAT_VERSIONS, Place, broker_settings, release
from zkconsumer.testing.kafka_requests import BrokerError
from zkconsumer.testing.link import Link
from zkconsumer.testing.producing import Order, ProduceError, Record, Stored, order, produce, produce_many
from zkconsumer.testing.programs import KAFKA_VERSIONS, program
from zkconsumer.testing.topics import RunningBroker, TopicError, Topics
from zkconsumer.testing.waiting import eventually, scaled

if TYPE_CHECKING:
    from kazoo.client import KazooClient

    from zkconsumer.testing.zookeeper import BackendName, ZooKeeperServer

START_TIMEOUT_S = 60.0
# A broker that was killed is gone for the others after this. Shorter ones end by themselves on a busy machine.
SESSION_TIMEOUT_S = 4.0
MOST_BROKERS = 3


class ZooKeeperAddress(NamedTuple):
    """One place in ZooKeeper, with its chroot, as seen from here and from the brokers (in a container that differs)."""

    for_us: str
    for_brokers: str


class KafkaBroker:
    """One broker.

    States: new -> (open) -> stopped <-> running <-> paused; any -> (close) -> closed. Address and data stay until
    close(). One that was paused for longer than its session (zookeeper.session.timeout.ms, 4 s) is dead to the others,
    and registers anew when it is resumed.
    """

    def __init__(
        self,
        zookeeper: ZooKeeperServer | ZooKeeperAddress | str,
        *,
        version: str = "1.1.1",
        broker_id: int = 0,
        backend: BackendName = "process",
        address: str | None = None,
        port: int = 0,
        advertised_address: str | None = None,
        settings: Mapping[str, str] | None = None,
        full_speed: bool = False,
        heap_mb: int | None = None,
    ) -> None:
        """`zookeeper` may end in a chroot, which is made if need be. `address` is where an external broker is.

        `advertised_address`, "host:port", is what clients and other brokers are told instead of the broker's own: that
        of a Link which leads to what open() returns. `heap_mb` is for brokers with thousands of partitions.
        """
        self.id = broker_id
        self.version = version
        self.release = release(version, settings)
        self._zookeeper = zookeeper
        self._advertised_address = advertised_address
        self._backend = _backend(version, backend, address, port, full_speed=full_speed, heap_mb=heap_mb)

    @property
    def address(self) -> str:
        """Where it listens, "host:port"."""
        return self._backend.address

    @property
    def advertised_address(self) -> str:
        """Where it tells others to find it: its address, or that of a link."""
        return self._advertised_address or self.address

    @property
    def running(self) -> bool:
        """Whether its process exists (paused counts)."""
        return self._backend.running

    def open(self) -> str:
        """Reserve its address, which it returns, without starting it. start() does this if it was not done before."""
        self._backend.open()
        return self.address

    def start(self) -> None:
        """Returns when it is registered in ZooKeeper and answers. Does nothing if it runs."""
        self.spawn()
        self.await_ready()

    def spawn(self) -> None:
        """The first half of start(), so that several can start at once."""
        layout = self._backend.open()
        if self._backend.running and not isinstance(self._backend, ExternalBackend):
            return
        zookeeper = _address_of(self._zookeeper)
        host, _, port = self.advertised_address.rpartition(":")
        place = Place(
            self.id, layout.data_directory, zookeeper.for_brokers, layout.bind_address, layout.port, host, int(port)
        )
        _make_chroot(zookeeper.for_us)
        with _client(zookeeper.for_us) as client:
            if not isinstance(self._backend, ExternalBackend):
                self._await_end_of_last_session(client)
        self._backend.start(broker_settings(self.release, place, int(scaled(SESSION_TIMEOUT_S) * 1000)))

    def await_ready(self) -> None:
        """The second half of start(). ServerStartError, with the end of its log, if it ends or stays silent."""
        with _client(_address_of(self._zookeeper).for_us) as client:
            try:
                eventually(lambda: self._is_ready(client), f"{self!r} registered and answering", START_TIMEOUT_S)
            except WaitTimeout as error:
                raise ServerStartError(str(error), self._backend.log_tail()) from error

    def stop(self) -> None:
        """In order: hands its partitions to others, if there are any, and deregisters."""
        self._backend.stop()

    def restart(self) -> None:
        """stop() and start()."""
        self.stop()
        self.start()

    def kill(self) -> None:
        """Without warning. Others learn of it when its session ends, some seconds later."""
        self._backend.kill()

    def pause(self) -> None:
        """Let it stand still: connections stay open, nothing answers."""
        self._backend.pause()

    def resume(self) -> None:
        """Let it go on. Does nothing if it was not paused."""
        self._backend.resume()

    def close(self) -> None:
        """End it if it runs, remove its data. Idempotent."""
        self._backend.close()

    def log_tail(self) -> str:
        """The end of its log."""
        return self._backend.log_tail()

    @contextmanager
    def log_segments(self, topic: str, partition: int) -> Iterator[list[bytes]]:
        """What it has stored of a partition: its segment files, oldest first."""
        with self._backend.data_files() as directory:
            yield [path.read_bytes() for path in sorted((directory / f"{topic}-{partition}").glob("*.log"))]

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<Kafka {self.version}, broker {self.id}>"

    def _await_end_of_last_session(self, client: KazooClient) -> None:
        """After a kill the old registration stays for a while, and newer releases do not start beside it."""
        try:
            eventually(
                lambda: not client.exists(f"/brokers/ids/{self.id}"),
                f"{self!r}: another broker {self.id} is registered under the same chroot",
                4 * SESSION_TIMEOUT_S,
            )
        except WaitTimeout as error:
            raise ServerStartError(f"{error}; take another broker_id or chroot") from error

    def _is_ready(self, client: KazooClient) -> bool:
        if not self.running:
            raise ServerStartError(f"{self!r} ended while it started", self._backend.log_tail())
        if not client.exists(f"/brokers/ids/{self.id}") or not client.exists("/controller"):
            return False
        try:
            known = kafka_requests.metadata(self.address).brokers
        except BrokerError:
            return False
        # 0.8.2.2 is told of living brokers along with the first topic, and knows of none before, not even itself.
        return self.id in known or (self.release.is_0_8 and not client.get_children("/brokers/topics"))


class KafkaCluster:
    """One to three brokers of one release, ids from 0, in a fresh chroot. A method returns when its work is done."""

    def __init__(
        self,
        *,
        version: str = "1.1.1",
        brokers: int = 1,
        zookeeper: ZooKeeperServer | str | None = None,
        backend: BackendName = "process",
        settings: Mapping[str, str] | None = None,
        full_speed: bool = False,
        heap_mb: int | None = None,
        linked: bool = False,
    ) -> None:
        """Without a `zookeeper` it starts and owns one.

        `linked` puts a Link in front of each broker (`links`, by broker id), which clients are told to go through, and
        the brokers among themselves.
        """
        if not 1 <= brokers <= MOST_BROKERS:
            raise ValueError(f"brokers={brokers}: a test cluster has 1 to {MOST_BROKERS}")
        if backend == "external":
            raise NotSupported(
                "a cluster cannot be external: KafkaBroker(zookeeper, backend='external', address=…) can"
            )
        if backend == "container" and brokers > 1:
            raise NotSupported(
                "brokers in containers do not reach each other at 127.0.0.1: brokers=1, or backend='process'"
            )
        copies = {"offsets.topic.replication.factor": str(brokers)}
        if version != "0.8.2.2":
            copies["transaction.state.log.replication.factor"] = str(brokers)
        self.version = version
        self.release = release(version, settings)
        self.brokers: list[KafkaBroker] = []
        self.links: dict[int, Link] = {}
        self._settings = {**copies, **(settings or {})}
        self._number_of_brokers = brokers
        self._backend = backend
        self._full_speed = full_speed
        self._heap_mb = heap_mb
        self._linked = linked
        self._given_zookeeper = zookeeper
        self._zookeeper: ZooKeeperAddress | None = None
        self._closing = ExitStack()

    def start(self) -> None:
        """Returns when all brokers run and know each other."""
        if self.brokers:
            raise ServerError(f"{self!r}: was started before; its brokers can be started one by one")
        try:
            self._zookeeper = self._closing.enter_context(_fresh_chroot(self._given_zookeeper, self._backend))
            for broker_id in range(self._number_of_brokers):
                self.brokers.append(self._new_broker(broker_id, self._zookeeper))
            for broker in self.brokers:
                broker.spawn()
            for broker in self.brokers:
                broker.await_ready()
            self._await_acquaintance()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """End all, remove all. Idempotent."""
        self._closing.close()
        self._zookeeper = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def zookeeper_connect(self) -> str:
        """zookeeper.connect, with the chroot."""
        if self._zookeeper is None:
            raise ServerError(f"{self!r}: is not started, or closed already")
        return self._zookeeper.for_us

    @property
    def bootstrap_servers(self) -> str:
        """bootstrap.servers, metadata.broker.list: all brokers, with commas."""
        return ",".join(broker.advertised_address for broker in self.brokers)

    def broker(self, broker_id: int) -> KafkaBroker:
        """The broker of this id, such as leader_of() gives."""
        return self.brokers[broker_id]

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
        message_format: int | None = None,
    ) -> None:
        """Returns when every partition has a leader that answers. TopicError if it exists, or brokers are too few.

        `assignment` gives each partition's brokers, preferred leader first; else partition 0 starts at the first
        broker, 1 at the second, and so on. `message_format` is short for the message.format.version that means it.
        """
        config = dict(config or {})
        if message_format is not None:
            self.release.check_format(message_format)
            if message_format != self.release.newest_format:
                config["message.format.version"] = FORMAT_VERSIONS[message_format]
        with self._topics() as topics:
            topics.create(
                name, partitions=partitions, replication_factor=replication_factor, assignment=assignment, config=config
            )

    def add_partitions(self, name: str, total: int) -> None:
        """Let the topic have `total` partitions, which has to be more than now."""
        with self._topics() as topics:
            topics.add_partitions(name, total)

    def delete_topic(self, name: str) -> None:
        """All brokers that hold it have to run."""
        with self._topics() as topics:
            topics.delete(name)

    def topics(self) -> list[str]:
        """All names, those that brokers made for themselves (__consumer_offsets) included, sorted."""
        with self._topics() as topics:
            return topics.names()

    def alter_topic_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """Override these, or with None: go back to the broker's default."""
        with self._topics() as topics:
            topics.alter_config(name, changes)

    def leader_of(self, topic: str, partition: int) -> int:
        """The broker that leads; -1 if none does."""
        with self._topics() as topics:
            return topics.leader_of(topic, partition)

    def replicas_of(self, topic: str, partition: int) -> list[int]:
        """The brokers that hold it, preferred leader first."""
        with self._topics() as topics:
            return topics.replicas_of(topic, partition)

    def in_sync_replicas_of(self, topic: str, partition: int) -> list[int]:
        """Those of them that are as far as the leader."""
        with self._topics() as topics:
            return topics.in_sync_replicas_of(topic, partition)

    def move_leader(self, topic: str, partition: int, to: int) -> None:
        """Let this broker lead; it need not have held the partition before."""
        with self._topics() as topics:
            topics.move_leader(topic, partition, to=to)

    def await_leader(self, topic: str, partition: int, *, other_than: int | None = None) -> int:
        """Wait until a broker leads (another than this one) and all running ones agree; which one it is."""
        with self._topics() as topics:
            return topics.await_leader(topic, partition, other_than=other_than)

    def end_offsets(self, topic: str) -> dict[int, int]:
        """For each partition the offset that the next record will have."""
        with self._topics() as topics:
            return topics.end_offsets(topic)

    def earliest_offsets(self, topic: str) -> dict[int, int]:
        """For each partition the offset of the first record still there."""
        with self._topics() as topics:
            return topics.earliest_offsets(topic)

    def delete_records(self, topic: str, *, before: Mapping[int, int] | None = None) -> None:
        """Let partitions begin at these offsets (not on 0.8.2.2), or all at their ends: older ones are out of range.

        On 0.8.2.2 it takes some seconds, and up to 35 on a broker just started: it deletes by age, on a timer.
        """
        with self._topics() as topics:
            topics.delete_records(topic, before=before)

    def produce(
        self,
        topic: str,
        records: Iterable[Record],
        *,
        codec: str | None = None,
        message_format: int | None = None,
        partition: int | None = None,
        client: str | None = None,
    ) -> list[Stored]:
        """Store values, or (key, value) pairs, None for null; where each went as (partition, offset), in that order.

        `message_format` changes the topic's message.format.version if it has another. `client` is "librdkafka" or
        "java", the release's own producer (0.8.2.2's for format 0); by default Java if there is a codec, because
        librdkafka does not compress what would not shrink.
        """
        to, _ = self._order(topic, codec, message_format, client)
        return produce(to, records, partition)

    def produce_many(
        self,
        topic: str,
        count: int,
        *,
        value_size: int = 100,
        codec: str | None = None,
        message_format: int | None = None,
        partition: int | None = None,
    ) -> None:
        """Store `count` values of producing.numbered_value(), in turn in all partitions or all in one, fast."""
        to, partitions = self._order(topic, codec, message_format, "librdkafka")
        produce_many(to, count, value_size, partitions if partition is None else [partition])

    def __repr__(self) -> str:
        return f"<Kafka {self.version}, {self._number_of_brokers} brokers>"

    def _order(
        self, topic: str, codec: str | None, message_format: int | None, client: str | None
    ) -> tuple[Order, list[int]]:
        """What is to be done, and the topic's partitions. Sets the topic's format."""
        with self._topics() as topics:
            kept_in = topics.message_format(topic) if message_format is None else message_format
            to = order(self.release, self._bootstrap(), topic, kept_in, codec, client)
            topics.keep_in_format(topic, kept_in)
            return to, topics.partitions(topic)

    def _bootstrap(self) -> str:
        """Those that run: a client may take long to give up on one that does not."""
        running = [broker.advertised_address for broker in self.brokers if broker.running]
        if not running:
            raise ServerError(f"{self!r}: none of its brokers runs")
        return ",".join(running)

    def _new_broker(self, broker_id: int, zookeeper: ZooKeeperAddress) -> KafkaBroker:
        link = self._closing.enter_context(Link()) if self._linked else None
        broker = KafkaBroker(
            zookeeper,
            version=self.version,
            broker_id=broker_id,
            backend=self._backend,
            advertised_address=None if link is None else link.address,
            settings=self._settings,
            full_speed=self._full_speed,
            heap_mb=self._heap_mb,
        )
        self._closing.callback(broker.close)
        if link is not None:
            link.connect_to(broker.open())
            self.links[broker_id] = link
        return broker

    def _await_acquaintance(self) -> None:
        if self.release.is_0_8:
            return  # they learn of each other along with the first topic
        everybody = {broker.id for broker in self.brokers}
        eventually(
            lambda: all(kafka_requests.metadata(broker.address).brokers.keys() == everybody for broker in self.brokers),
            f"{self!r}: all brokers known to all",
            START_TIMEOUT_S,
        )

    @contextmanager
    def _topics(self) -> Iterator[Topics]:
        """For one operation: a client kept for longer would be threads left behind, as a test sees it."""
        with _client(self.zookeeper_connect) as client:
            yield Topics(client, self.release, lambda: self._running_brokers(client))

    def _running_brokers(self, client: KazooClient) -> list[RunningBroker]:
        registered = set(client.get_children("/brokers/ids"))
        return [
            RunningBroker(broker.id, broker.address, broker.log_tail)
            for broker in self.brokers
            if broker.running and str(broker.id) in registered
        ]


def _backend(
    version: str, backend: BackendName, address: str | None, port: int, *, full_speed: bool, heap_mb: int | None
) -> Backend:
    if (backend == "external") != (address is not None):
        raise ValueError(
            f"backend={backend!r}, address={address!r}: an address is for external brokers, and they need one"
        )
    if address is not None:
        return ExternalBackend(address)
    broker = program("kafka", version)
    if heap_mb is not None:
        broker = broker._replace(heap_mb=heap_mb)
    if backend == "process":
        return ProcessBackend(broker, port=port, full_speed=full_speed)
    if backend == "container":
        from zkconsumer.testing.containers import ContainerBackend

        return ContainerBackend(broker, port=port, full_speed=full_speed)
    raise ValueError(f"backend {backend!r}: is not known; there are {', '.join(BACKENDS)}")


def _address_of(zookeeper: ZooKeeperServer | ZooKeeperAddress | str) -> ZooKeeperAddress:
    if isinstance(zookeeper, ZooKeeperAddress):
        return zookeeper
    if isinstance(zookeeper, str):
        return ZooKeeperAddress(zookeeper, zookeeper)
    return ZooKeeperAddress(zookeeper.connect_string, zookeeper.peer_connect_string)


@contextmanager
def _fresh_chroot(given: ZooKeeperServer | str | None, backend: BackendName) -> Iterator[ZooKeeperAddress]:
    """A chroot nobody else has; removed at the end unless its server goes away with it."""
    chroot = f"kafka-{secrets.token_hex(4)}"
    if given is None:
        from zkconsumer.testing.zookeeper import ZooKeeperServer

        with ZooKeeperServer(backend=backend) as server:
            yield _below(_address_of(server), chroot)
        return
    above = _address_of(given)
    try:
        yield _below(above, chroot)
    finally:
        _remove(above.for_us, chroot)


def _below(above: ZooKeeperAddress, chroot: str) -> ZooKeeperAddress:
    return ZooKeeperAddress(f"{above.for_us.rstrip('/')}/{chroot}", f"{above.for_brokers.rstrip('/')}/{chroot}")


def _make_chroot(connect_string: str) -> None:
    servers, _, chroot = connect_string.partition("/")
    if chroot:
        with _client(servers) as client:
            client.ensure_path(f"/{chroot}")


def _remove(connect_string: str, chroot: str) -> None:
    from kazoo.exceptions import KazooException
    from kazoo.handlers.threading import KazooTimeoutError

    try:
        with _client(connect_string) as client:
            client.delete(f"/{chroot}", recursive=True)
    except (KazooException, KazooTimeoutError):
        pass  # a test that ended this ZooKeeper has removed it already


@contextmanager
def _client(connect_string: str) -> Iterator[KazooClient]:
    from kazoo.client import KazooClient

    client = KazooClient(connect_string)
    try:
        client.start(timeout=scaled(10.0))
        yield client
    finally:
        client.stop()
        client.close()


__all__ = [
    "KAFKA_VERSIONS",
    "KafkaBroker",
    "KafkaCluster",
    "ProduceError",
    "Record",
    "Stored",
    "TopicError",
    "ZooKeeperAddress",
]
