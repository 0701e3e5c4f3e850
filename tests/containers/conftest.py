"""A container engine and the images, for the whole run."""

from __future__ import annotations

from collections.abc import Iterator

import docker
import pytest

from zkconsumer.testing.containers import make_images
from zkconsumer.testing.engine import find_engine
from zkconsumer.testing.errors import EngineNotFound

IMAGES = ("zookeeper:3.9", "kafka:0.8.2.2", "kafka:1.1.1")


@pytest.fixture(scope="session")
def engine(request: pytest.FixtureRequest) -> Iterator[docker.DockerClient]:
    """The engine of this machine. Without one tests are skipped, or fail under --strict-servers."""
    try:
        client = find_engine()
    except EngineNotFound as error:
        if request.config.getoption("--strict-servers", default=False):
            raise
        pytest.skip(str(error))
    yield client
    client.close()


@pytest.fixture(scope="session")
def images(engine: docker.DockerClient) -> docker.DockerClient:
    """The engine, with our images in it; all are made in one go, which takes half a minute."""
    make_images(engine, IMAGES, progress=lambda text: None)
    return engine
