"""Finding Java: one clear line when there is none, or none that will do."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest

from zkconsumer.testing import java
from zkconsumer.testing.errors import JarError, JavaNotFound, ServerError, UnknownVersion
from zkconsumer.testing.java import find_java, java_version, pyspark_jars
from zkconsumer.testing.programs import program
from zkconsumer.testing.zookeeper import ZooKeeperServer


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    for function in (find_java, java_version):
        function.cache_clear()
    yield
    for function in (find_java, java_version):
        function.cache_clear()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A JAVA_HOME without anything in it."""
    (tmp_path / "bin").mkdir()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    return tmp_path


def install_java(home: Path, says: str) -> Path:
    """A `java` that only tells its version, as real ones do on standard error."""
    file = home / "bin" / "java"
    file.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    file.chmod(0o755)
    return file


def one_line(error: ServerError) -> str:
    text = str(error)
    assert "\n" not in text
    return text


def test_java_home_is_asked_first(home: Path) -> None:
    expected = install_java(home, 'openjdk version "21.0.2" 2024-01-16')

    assert find_java() == expected
    assert java_version(expected) == 21


def test_the_release_file_is_believed_without_running_java(home: Path) -> None:
    file = install_java(home, "must not be asked")
    (home / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="17.0.15"\n')

    assert java_version(file) == 17


def test_no_java_on_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))

    with pytest.raises(JavaNotFound) as caught:
        find_java()

    assert one_line(caught.value).startswith("Java 17 or newer is needed and no java on PATH: install one")


def test_a_java_home_without_java(home: Path) -> None:
    with pytest.raises(JavaNotFound) as caught:
        find_java()

    assert f"JAVA_HOME={home} has no bin/java: install one" in one_line(caught.value)


@pytest.mark.parametrize(
    ("says", "version"),
    [('openjdk version "1.8.0_392"', 8), ('openjdk version "11.0.21" 2023-10-17', 11), ('java version "16" 2021', 16)],
    ids=["8", "11", "16"],
)
def test_a_java_that_is_too_old(home: Path, says: str, version: int) -> None:
    file = install_java(home, says)

    with pytest.raises(JavaNotFound) as caught:
        find_java()

    assert f"Java 17 or newer is needed, {file} is Java {version}: install one" in one_line(caught.value)


def test_a_java_that_does_not_tell_its_version(home: Path) -> None:
    install_java(home, "segmentation fault")

    with pytest.raises(JavaNotFound) as caught:
        find_java()

    assert "does not tell its version ('segmentation fault')" in one_line(caught.value)


def test_a_server_without_java_says_so_and_leaves_nothing(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    temporary = home / "temporary"
    temporary.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(temporary))

    with pytest.raises(JavaNotFound):
        ZooKeeperServer().start()

    assert list(temporary.iterdir()) == []


def test_without_pyspark_there_is_no_zookeeper(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)

    with pytest.raises(JarError) as caught:
        pyspark_jars("zookeeper-3")

    assert one_line(caught.value).endswith("is not installed: pip install 'zkconsumer[testing]'")


def test_a_pyspark_without_the_jar(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(JarError) as caught:
        pyspark_jars("no-such-")

    assert "no no-such-*.jar in" in one_line(caught.value)


@pytest.mark.parametrize(
    ("kind", "known"), [("zookeeper", "3.9"), ("kafka", "0.8.2.2, 1.1.1, 3.9.1")], ids=["zookeeper", "kafka"]
)
def test_a_release_nobody_knows(kind: str, known: str) -> None:
    with pytest.raises(UnknownVersion) as caught:
        program(kind, "4.0.0")

    assert one_line(caught.value) == f"{kind} '4.0.0' is not a release this package can run: known are {known}"


def test_the_install_hint_names_a_package_that_is_new_enough() -> None:
    assert f"openjdk-{java.OLDEST_JAVA}-" in java.INSTALL_HINT
