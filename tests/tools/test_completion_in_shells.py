"""TAB pressed in real bash, zsh and fish: commands, options, their values, files, and names that servers know."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from tests.shells import Shell, interactive, needed_shell
from tests.tools.conftest import Run


@pytest.fixture(params=["bash", "zsh", "fish"])
def shell(request: pytest.FixtureRequest, run: Run, tmp_path: Path) -> Iterator[Shell]:
    needed_shell(request.param)
    script = tmp_path / "completion"
    script.write_text(run("completion", request.param).stdout)
    (tmp_path / "saved.gz").touch()
    with interactive(request.param, script) as shell:
        yield shell


def test_a_shell_completes_what_was_begun(shell: Shell) -> None:
    """What only one word fits is written out; else all that fit are shown."""
    completed = {
        line: shell.completed(f"zkconsumer {line}").removeprefix("zkconsumer ")
        for line in ("gro", "groups desc", "groups describe --sta", "offsets migrate --from k", "snapshot load sav",
                     "delete-records --offset-json-file sav", "sandbox --back", "study rep")
    }  # fmt: skip

    assert completed == {
        "gro": "groups", "groups desc": "groups describe", "groups describe --sta": "groups describe --state",
        "offsets migrate --from k": "offsets migrate --from kafka", "snapshot load sav": "snapshot load saved.gz",
        "delete-records --offset-json-file sav": "delete-records --offset-json-file saved.gz",
        "sandbox --back": "sandbox --backend", "study rep": "study report",
    }  # fmt: skip
    shell.offers("zkconsumer groups ", "list", "describe", "delete")
    shell.offers("zkconsumer offsets migrate --to ", "zookeeper", "kafka")


def test_a_shell_completes_names_that_zookeeper_knows(
    shell: Shell, empty: KazooClient, connect: str, tmp_path: Path
) -> None:
    """Groups and topics of the server on the line, or in the file on the line."""
    for path in ("/consumers/billing", "/consumers/shipping", "/brokers/topics/orders"):
        empty.ensure_path(path)
    (tmp_path / "servers").write_text(f"zookeeper.connect={connect}\n")
    where = f"--zookeeper {connect}"

    for line, name in {
        f"groups describe {where} --group bil": "ling", f"offset-checker {where} --group billing --topic o": "rders",
        "doctor --config servers --group sh": "ipping",
        f"offsets copy {where} --group billing --to-group s": "hipping",
    }.items():  # fmt: skip
        assert shell.completed(f"zkconsumer {line}") == f"zkconsumer {line}{name}"
    shell.offers(f"zkconsumer groups describe {where} --group ", "billing", "shipping")


def test_servers_that_are_away_are_nothing_to_complete(shell: Shell) -> None:
    """The line stays, without a word about it."""
    line = "zkconsumer groups describe --zookeeper 127.0.0.1:1 --group bil"

    assert shell.completed(line) == line
