"""A server in a container can be treated like one that is a process, and leaves nothing behind."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
from kazoo.exceptions import NoNodeError

from tests.containers.clients import kazoo_at
from zkconsumer.testing.backends import Layout
from zkconsumer.testing.containers import ContainerBackend
from zkconsumer.testing.engine import OWNER_LABEL, ContainerNetwork, remove_all
from zkconsumer.testing.errors import PortTaken, ServerError, ServerStartError
from zkconsumer.testing.programs import program
from zkconsumer.testing.transactions import Operation, read_logs
from zkconsumer.testing.waiting import eventually

ZOOKEEPER = program("zookeeper", "3.9")

# Opens and starts a server, tells under which label, and waits to be killed.
OWNER = """
import sys
from tests.containers.test_container_backend import ZOOKEEPER, settings_for
from zkconsumer.testing.containers import ContainerBackend
from zkconsumer.testing.engine import shared_network

backend = ContainerBackend(ZOOKEEPER)
backend.start(settings_for(backend.open()))
print(shared_network.name, shared_network.scratch, flush=True)
sys.stdin.read()
"""


def settings_for(layout: Layout) -> dict[str, str]:
    """The least a ZooKeeper needs."""
    return {
        "dataDir": layout.data_directory,
        "clientPort": str(layout.port),
        "clientPortAddress": layout.bind_address,
        "tickTime": "500",
        "admin.enableServer": "false",
        "4lw.commands.whitelist": "*",
        "preAllocSize": "64",
    }


@pytest.fixture
def backend(images: docker.DockerClient) -> Iterator[ContainerBackend]:
    """A ZooKeeper of this test's own, not started."""
    new = ContainerBackend(ZOOKEEPER)
    yield new
    new.close()


@pytest.fixture(scope="module")
def running(images: docker.DockerClient) -> Iterator[ContainerBackend]:
    """A ZooKeeper for the tests that leave it running."""
    shared = ContainerBackend(ZOOKEEPER)
    try:
        shared.start(settings_for(shared.open()))
        yield shared
    finally:
        shared.close()


def start(backend: ContainerBackend) -> None:
    backend.start(settings_for(backend.open()))


def connect(address: str) -> socket.socket:
    host, _, port = address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=20.0)


def owned(engine: docker.DockerClient, owner: str) -> list[str]:
    """Names of all that has this owner's label."""
    label = f"{OWNER_LABEL}={owner}"
    containers = engine.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    networks = engine.networks.list(filters={"label": label})
    return [*(str(container.name) for container in containers), *(str(network.name) for network in networks)]


def test_clients_of_this_machine_reach_the_server(running: ContainerBackend) -> None:
    with kazoo_at(running.address) as client:
        client.create("/reached", b"value")

        assert client.get("/reached")[0] == b"value"
    assert running.address.startswith("127.0.0.1:")


def test_ephemerals_go_with_their_session(running: ContainerBackend) -> None:
    with kazoo_at(running.address) as witness:
        with kazoo_at(running.address) as client:
            client.create("/ephemeral", ephemeral=True)
            assert witness.exists("/ephemeral").ephemeralOwner == client.client_id[0]

        with pytest.raises(NoNodeError):
            witness.get("/ephemeral")


def test_a_paused_server_answers_when_it_is_resumed(running: ContainerBackend) -> None:
    with kazoo_at(running.address):
        pass  # it is up
    running.pause()
    try:
        with connect(running.address) as connection:
            connection.sendall(b"ruok")
            connection.settimeout(1.0)
            with pytest.raises(TimeoutError):
                connection.recv(4)
            assert running.running

            running.resume()

            connection.settimeout(20.0)
            assert connection.recv(4) == b"imok"
    finally:
        running.resume()


def test_transactions_are_read_from_a_copy_of_its_files(running: ContainerBackend) -> None:
    with kazoo_at(running.address) as client:
        client.create("/logged", b"value")

        with running.data_files() as directory:
            created = [one for one in read_logs(directory / "version-2") if one.operation is Operation.CREATE]

        assert (created[-1].path, created[-1].data) == ("/logged", b"value")
        assert created[-1].session == client.client_id[0]
    assert not directory.exists()


def test_it_cannot_be_started_twice(running: ContainerBackend) -> None:
    with pytest.raises(ServerStartError, match="already running"):
        start(running)


@pytest.mark.parametrize("paused", [False, True], ids=["running", "paused"])
@pytest.mark.parametrize("end", ["stop", "kill"])
def test_data_and_address_survive_its_end(backend: ContainerBackend, end: str, paused: bool) -> None:
    start(backend)
    address = backend.address
    with kazoo_at(address) as client:
        client.create("/kept", b"value")
    if paused:
        backend.pause()

    getattr(backend, end)()

    assert not backend.running
    with pytest.raises(ConnectionRefusedError):
        connect(address)
    start(backend)
    assert backend.address == address
    with kazoo_at(address) as client:
        assert client.get("/kept")[0] == b"value"


def test_one_that_does_not_run_cannot_be_paused(backend: ContainerBackend) -> None:
    backend.open()

    with pytest.raises(ServerError, match="cannot be paused, it does not run"):
        backend.pause()
    backend.resume()
    backend.stop()
    backend.kill()


def test_new_settings_count_from_the_next_start(backend: ContainerBackend) -> None:
    settings = settings_for(backend.open())
    backend.start(settings)
    with kazoo_at(backend.address) as client:
        assert b"tickTime=500" in client.command(b"conf").encode()
    backend.stop()

    backend.start({**settings, "tickTime": "700"})

    with kazoo_at(backend.address) as client:
        assert b"tickTime=700" in client.command(b"conf").encode()


def test_a_server_that_gives_up_tells_why(backend: ContainerBackend) -> None:
    backend.start({**settings_for(backend.open()), "tickTime": "soon"})

    eventually(lambda: not backend.running, "the server ends", timeout_s=60.0)

    assert 'NumberFormatException: For input string: "soon"' in backend.log_tail()


def test_a_port_can_be_asked_for(images: docker.DockerClient) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        number = taken.getsockname()[1]
        backend = ContainerBackend(ZOOKEEPER, port=number)
        with pytest.raises(PortTaken, match=f"port {number} on 127.0.0.1 is in use"):
            backend.open()

    try:
        start(backend)

        with kazoo_at(f"127.0.0.1:{number}") as client:
            assert client.connected
    finally:
        backend.close()


def test_a_port_taken_after_it_was_reserved_is_told(backend: ContainerBackend) -> None:
    layout = backend.open()
    with socket.create_server(("127.0.0.1", layout.port)), pytest.raises(PortTaken, match=f"port {layout.port} on"):
        backend.start(settings_for(layout))


def test_extra_ports_are_not_the_port_for_clients(images: docker.DockerClient) -> None:
    backend = ContainerBackend(ZOOKEEPER, port=2889, extra_ports=2)
    try:
        layout = backend.open()

        assert len({layout.port, *layout.extra_ports}) == 3
    finally:
        backend.close()


def test_closing_the_last_server_removes_the_network(images: docker.DockerClient) -> None:
    network = ContainerNetwork()
    first, second = (ContainerBackend(ZOOKEEPER, network=network) for _ in range(2))
    first.open()
    second.open()
    owner, scratch = network.name, network.scratch
    assert sorted(owned(images, owner)) == sorted([first.name, second.name, owner])

    first.close()
    assert sorted(owned(images, owner)) == sorted([second.name, owner])
    second.close()
    second.close()

    assert owned(images, owner) == []
    assert not scratch.exists()


def test_a_closed_one_says_so(backend: ContainerBackend) -> None:
    settings = settings_for(backend.open())
    backend.close()

    with pytest.raises(ServerStartError, match="not started, or closed already"):
        backend.start(settings)
    with pytest.raises(ServerStartError, match="has no address before it is started"):
        _ = backend.address
    assert not backend.running
    assert backend.log_tail() == ""


def test_a_container_removed_by_somebody_else_is_told_in_one_line(
    images: docker.DockerClient, backend: ContainerBackend
) -> None:
    settings = settings_for(backend.open())
    images.containers.get(backend.name).remove(force=True)

    with pytest.raises(ServerError, match="No such container") as caught:
        backend.start(settings)

    assert "\n" not in str(caught.value)


def test_nothing_is_left_of_an_owner_that_was_killed(images: docker.DockerClient) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        owner, scratch = process.stdout.readline().split()
        assert len(owned(images, owner)) == 2

        process.send_signal(signal.SIGKILL)

        eventually(lambda: not owned(images, owner), "its container and network are removed", timeout_s=60.0)
        eventually(lambda: not Path(scratch).exists(), "its directory is removed", timeout_s=60.0)


def test_what_was_left_can_be_removed_by_its_owner_label(images: docker.DockerClient) -> None:
    network = ContainerNetwork()
    backend = ContainerBackend(ZOOKEEPER, network=network)
    start(backend)

    remove_all(images, network.name)

    assert owned(images, network.name) == []
    backend.close()
