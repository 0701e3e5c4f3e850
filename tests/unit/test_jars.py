"""The jar cache: nothing is used that the lock file does not know byte by byte. No network is needed here."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from zkconsumer.testing import jars
from zkconsumer.testing.errors import JarError
from zkconsumer.testing.jars import cache_directory, jar_sets, jars_of

CONTENT = b"not really a jar"
LOCK = f"""
["small-1.0"]
roots = ["org.example:small:1.0"]
jars = [
  "org.example:small:1.0 sha256:{hashlib.sha256(CONTENT).hexdigest()}",
]
"""


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> Iterator[None]:
    def forget() -> None:
        jar_sets.cache_clear()
        jars._verified_jars.cache_clear()

    forget()
    yield
    forget()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The one jar of the set "small-1.0", in a cache of its own."""
    lock = tmp_path / "jars.lock"
    lock.write_text(LOCK)
    monkeypatch.setattr(jars, "LOCK_FILE", lock)
    monkeypatch.setenv("ZKCONSUMER_CACHE", str(tmp_path / "cache"))
    jar = tmp_path / "cache" / "small-1.0" / "small-1.0.jar"
    jar.parent.mkdir(parents=True)
    jar.write_bytes(CONTENT)
    return jar


def test_a_cached_jar_is_used(cached: Path) -> None:
    assert jars_of("small-1.0") == [cached]


def test_a_jar_with_another_checksum_is_refused_in_one_line(cached: Path) -> None:
    cached.write_bytes(b"somebody else's")

    with pytest.raises(JarError) as caught:
        jars_of("small-1.0")

    text = str(caught.value)
    assert "\n" not in text
    assert text.startswith(f"{cached}: SHA-256 ")
    assert hashlib.sha256(CONTENT).hexdigest()[:12] in text
    assert "delete the file to have it fetched again" in text


def test_a_cache_that_cannot_be_written_is_said_in_one_line(
    cached: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "file"
    in_the_way.write_text("")
    monkeypatch.setenv("ZKCONSUMER_CACHE", str(in_the_way / "cache"))

    with pytest.raises(JarError) as caught:
        jars_of("small-1.0")

    assert f"cannot fill the jar cache {in_the_way / 'cache'}" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("environment", "expected"),
    [
        ({"ZKCONSUMER_CACHE": "/a"}, "/a"),
        ({"ZKCONSUMER_CACHE": "", "XDG_CACHE_HOME": "/b"}, "/b/zkconsumer"),
        ({"ZKCONSUMER_CACHE": "", "XDG_CACHE_HOME": "", "HOME": "/c"}, "/c/.cache/zkconsumer"),
    ],
    ids=["own variable", "XDG", "home"],
)
def test_where_the_cache_is(environment: dict[str, str], expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)

    assert cache_directory() == Path(expected)


def test_the_lock_file_names_every_jar_once_with_a_whole_checksum() -> None:
    for name, wanted in jar_sets().items():
        assert wanted.roots, name
        assert len({jar.file_name for jar in wanted.jars}) == len(wanted.jars), name
        assert all(len(bytes.fromhex(jar.sha256)) == 32 for jar in wanted.jars), name
