"""docker-compose.yml brings up real servers, for this machine only, and takes all of it away again."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from uuid import uuid4

import docker
import pytest

from tests.containers.clients import fetch, kazoo_at, produce
from zkconsumer.testing.ports import ReservedPort
from zkconsumer.testing.waiting import eventually

FILE = Path(__file__).parents[2] / "docker-compose.yml"
PORTS = ("ZOOKEEPER_PORT", "KAFKA_0_8_PORT", "KAFKA_1_1_PORT")


class Project:
    """One use of the file, under a name and on ports of its own."""

    def __init__(self, command: list[str], ports: dict[str, int]) -> None:
        self.name = f"zkconsumer-test-{uuid4().hex[:8]}"
        self.ports = ports
        self._command = [*command, "--project-name", self.name, "--file", str(FILE)]

    def run(self, *arguments: str, **environment: str) -> str:
        numbers = {name: str(number) for name, number in self.ports.items()}
        run = subprocess.run(
            [*self._command, *arguments],
            env={**os.environ, **numbers, **environment},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        return run.stdout

    def left(self, engine: docker.DockerClient) -> list[object]:
        """What the engine has of it."""
        label = f"com.docker.compose.project={self.name}"
        containers = engine.containers.list(all=True, filters={"label": label})
        return [
            *containers,
            *engine.networks.list(filters={"label": label}),
            *engine.volumes.list(filters={"label": label}),
        ]

    def health(self, engine: docker.DockerClient) -> dict[str, str]:
        label = f"com.docker.compose.project={self.name}"
        return {
            container.labels["com.docker.compose.service"]: container.attrs["State"]["Health"]["Status"]
            for container in engine.containers.list(filters={"label": label})
        }


@pytest.fixture(scope="module")
def new_project(request: pytest.FixtureRequest) -> Iterator[Callable[[], Project]]:
    """`docker compose`, or Debian's docker-compose, with ports nobody else has."""
    command = _compose_command()
    if command is None:
        missing = "neither `docker compose` nor docker-compose is installed"
        if request.config.getoption("--strict-servers", default=False):
            pytest.fail(missing)
        pytest.skip(missing)
    with ExitStack() as stack:
        yield lambda: Project(command, {name: stack.enter_context(ReservedPort()).number for name in PORTS})


@pytest.fixture(scope="module")
def servers(images: docker.DockerClient, new_project: Callable[[], Project]) -> Iterator[Project]:
    """All of the file, up and healthy."""
    project = new_project()
    try:
        project.run("up", "-d")
        healthy = {"zookeeper": "healthy", "kafka-0.8": "healthy", "kafka-1.1": "healthy"}
        eventually(lambda: project.health(images) == healthy, lambda: str(project.health(images)), timeout_s=120.0)
        yield project
    finally:
        project.run("down", "-v")


def test_zookeeper_answers(servers: Project) -> None:
    with kazoo_at(f"127.0.0.1:{servers.ports['ZOOKEEPER_PORT']}") as client:
        assert {"kafka-0.8", "kafka-1.1"} <= set(client.get_children("/"))


@pytest.mark.parametrize(("port", "release"), [("KAFKA_0_8_PORT", "0.8.2.2"), ("KAFKA_1_1_PORT", "1.1.1")])
def test_a_record_is_stored_and_fetched(servers: Project, port: str, release: str) -> None:
    address = f"127.0.0.1:{servers.ports[port]}"

    offset = produce(address, release, "pages", b"value")

    assert offset == 0
    assert fetch(address, release, "pages", 1) == [b"value"]


def test_nobody_else_can_reach_them(images: docker.DockerClient, servers: Project) -> None:
    containers = images.containers.list(filters={"label": f"com.docker.compose.project={servers.name}"})

    published = [where for container in containers for ports in container.ports.values() for where in ports or ()]

    assert len(published) == 3
    assert {where["HostIp"] for where in published} == {"127.0.0.1"}


def test_down_leaves_nothing(images: docker.DockerClient, new_project: Callable[[], Project]) -> None:
    project = new_project()
    project.run("up", "-d", "zookeeper")
    assert project.left(images)

    project.run("down", "-v")

    assert project.left(images) == []


def test_an_image_can_be_replaced_with_its_check(
    images: docker.DockerClient, new_project: Callable[[], Project]
) -> None:
    project = new_project()
    other = "zkconsumer/kafka:1.1.1"
    try:
        project.run("up", "--no-start", "zookeeper", ZOOKEEPER_IMAGE=other, ZOOKEEPER_HEALTH="zkServer.sh status")

        (container,) = images.containers.list(all=True, filters={"label": f"com.docker.compose.project={project.name}"})
        assert container.attrs["Config"]["Image"] == other
        assert container.attrs["Config"]["Healthcheck"]["Test"] == ["CMD-SHELL", "zkServer.sh status"]
    finally:
        project.run("down", "-v")


def _compose_command() -> list[str] | None:
    if shutil.which("docker"):
        found = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if found.returncode == 0:
            return ["docker", "compose"]
    return ["docker-compose"] if shutil.which("docker-compose") else None
