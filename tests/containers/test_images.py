"""Images are made once from what they hold, and only where they can be made."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from pathlib import Path

import docker
import pytest

from zkconsumer.testing.errors import NotSupported, UnknownVersion
from zkconsumer.testing.images import build_images
from zkconsumer.testing.programs import program

IMAGES = ("zookeeper:3.9", "kafka:0.8.2.2", "kafka:1.1.1")


class BuildBegan(Exception):
    """Raised by these tests in place of half a minute of work."""


def jars_of_image(name: str) -> Sequence[Path]:
    kind, version = name.split(":")
    return program(kind, version).jars()


def build(
    engine: docker.DockerClient,
    which: Collection[str] = IMAGES,
    class_path_of: Callable[[str], Sequence[Path]] = jars_of_image,
) -> list[str]:
    """What is told of the images; BuildBegan as soon as one would have to be made."""
    told: list[str] = []

    def progress(text: str) -> None:
        told.append(text)
        if text.startswith("linking"):
            raise BuildBegan

    def compile_java(source: Path, class_path: Sequence[Path], directory: Path) -> None:
        raise BuildBegan

    build_images(engine, which=which, class_path_of=class_path_of, compile_java=compile_java, progress=progress)
    return told


def test_images_that_are_there_are_not_made_again(images: docker.DockerClient) -> None:
    before = [images.images.get(f"zkconsumer/{name}").id for name in IMAGES]

    told = build(images)

    assert told == [f"zkconsumer/{name} is up to date" for name in IMAGES]
    assert [images.images.get(f"zkconsumer/{name}").id for name in IMAGES] == before


def test_another_jar_makes_another_image(images: docker.DockerClient, tmp_path: Path) -> None:
    jar = tmp_path / "extra.jar"
    jar.write_bytes(b"anything")

    with pytest.raises(BuildBegan):
        build(images, ["zookeeper:3.9"], class_path_of=lambda name: [*jars_of_image(name), jar])


def test_an_image_that_lost_its_tag_gets_it_back(images: docker.DockerClient) -> None:
    tag = "zkconsumer/zookeeper:3.9"
    image = images.images.get(tag)
    image.tag("zkconsumer/zookeeper", "kept-by-a-test")
    try:
        images.images.remove(tag, noprune=True)

        build(images, ["zookeeper:3.9"])

        assert images.images.get(tag).id == image.id
    finally:
        image.tag("zkconsumer/zookeeper", "3.9")
        images.images.remove("zkconsumer/zookeeper:kept-by-a-test", noprune=True)


def test_all_images_share_their_java(images: docker.DockerClient) -> None:
    runtimes = {images.images.get(f"zkconsumer/{name}").attrs["RootFS"]["Layers"][0] for name in IMAGES}

    assert len(runtimes) == 1


def test_servers_do_not_run_as_root(images: docker.DockerClient) -> None:
    users = {images.images.get(f"zkconsumer/{name}").attrs["Config"]["User"] for name in IMAGES}

    assert users == {"1000:1000"}


def test_without_jlink_one_line_says_what_to_install(
    engine: docker.DockerClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)

    with pytest.raises(NotSupported, match=r"no jlink found.*: install one") as caught:
        build(engine)

    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["mysql:8", "kafka:7.7.7", "kafka"])
def test_unknown_images_are_refused(engine: docker.DockerClient, name: str) -> None:
    with pytest.raises(UnknownVersion):
        build(engine, [name], class_path_of=lambda name: program(*f"{name}:".split(":")[:2]).jars())
