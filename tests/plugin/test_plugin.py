"""The pytest plugin, in a project that is not ours: each example of docs/testing.md is run as it stands there."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from zkconsumer.testing.jars import cache_directory

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"
EXAMPLES = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(), flags=re.DOTALL | re.MULTILINE)
TESTS = [text for text in EXAMPLES if "def test_" in text]
OPTIONS = ("-p", "no:cacheprovider", "--strict-servers", "-q")
CACHE = cache_directory()  # before pytester gives us another home


@pytest.fixture(autouse=True)
def _jars_are_not_fetched_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A user's later runs need no network; in pytester's empty home they would."""
    monkeypatch.setenv("ZKCONSUMER_CACHE", str(CACHE))


def run_elsewhere(pytester: pytest.Pytester, source: str, *options: str) -> pytest.RunResult:
    """In a process of its own, as the user's would be; an empty ini file keeps our settings out."""
    pytester.makeini("[pytest]\n")
    pytester.makepyfile(test_users=source)
    return pytester.runpytest_subprocess(*OPTIONS, *options, timeout=180)


@pytest.mark.parametrize("source", TESTS, ids=[re.findall(r"def (test_\w+)", text)[0] for text in TESTS])
def test_an_example_of_the_page_passes_in_a_users_project(pytester: pytest.Pytester, source: str) -> None:
    result = run_elsewhere(pytester, source)

    result.assert_outcomes(passed=source.count("def test_"))


def test_the_page_shows_how_to_do_without_pytest(pytester: pytest.Pytester) -> None:
    (source,) = [text for text in EXAMPLES if text.startswith("from zkconsumer.testing import")]
    script = pytester.makepyfile(without_pytest=source)

    result = pytester.run(sys.executable, script, timeout=180)

    assert result.ret == 0, result.stderr.str()


def test_a_run_without_fixtures_imports_none_of_it(pytester: pytest.Pytester) -> None:
    result = run_elsewhere(
        pytester,
        """
        import sys

        def test_nothing_is_loaded():
            assert "zkconsumer.testing.plugin" in sys.modules
            heavy = {"kazoo", "docker", "kafka", "pyspark", "zkconsumer.testing.link", "zkconsumer.testing.process"}
            assert not heavy & set(sys.modules)
        """,
    )

    result.assert_outcomes(passed=1)


def test_each_test_gets_a_chroot_of_its_own_and_a_server_that_runs(pytester: pytest.Pytester) -> None:
    result = run_elsewhere(
        pytester,
        """
        def test_one_leaves_a_node_and_a_dead_server(zookeeper):
            with zookeeper.client() as client:
                client.create("/here")
            zookeeper.server.kill()

        def test_two_sees_neither(zookeeper):
            with zookeeper.client() as client:
                assert client.get_children("/") == []
            zookeeper.server.pause()

        def test_three_finds_only_its_own_chroot(zookeeper):
            with zookeeper.server.client() as client:
                assert sorted(client.get_children("/")) == sorted(["zookeeper", zookeeper.chroot.strip("/")])
        """,
    )

    result.assert_outcomes(passed=3)


def test_an_external_server_is_used_where_it_is(pytester: pytest.Pytester, zookeeper_server: object) -> None:
    from zkconsumer.testing.zookeeper import ZooKeeperServer

    assert isinstance(zookeeper_server, ZooKeeperServer)
    address = zookeeper_server.connect_string

    result = run_elsewhere(
        pytester,
        f"""
        import pytest
        from zkconsumer.testing import NotSupported

        def test_it_is_that_server(zookeeper):
            assert zookeeper.address == "{address}"
            with zookeeper.client() as client:
                client.create("/here")
            with pytest.raises(NotSupported, match="external"):
                zookeeper.server.kill()
        """,
        "--zk-backend=external",
        f"--zk-address={address}",
    )

    result.assert_outcomes(passed=1)


def test_external_without_an_address_is_refused_in_one_line(pytester: pytest.Pytester) -> None:
    result = run_elsewhere(pytester, "def test_nothing(): pass", "--zk-backend=external")

    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["ERROR: --zk-backend=external needs --zk-address=HOST:PORT"])


@pytest.mark.parametrize(("strict", "outcome"), [(True, "errors"), (False, "skipped")], ids=["strict", "not strict"])
def test_without_java_a_test_is_skipped_or_under_strict_servers_fails(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, strict: bool, outcome: str
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(pytester.path))
    pytester.makeini("[pytest]\n")
    pytester.makepyfile("def test_it(zookeeper): pass")

    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-rs", *(["--strict-servers"] if strict else []))

    result.assert_outcomes(**{outcome: 1})
    result.stdout.fnmatch_lines(["*Java 17 or newer is needed*has no bin/java*"])
