"""What shells would offer, asked of their functions; tests/tools has the shells themselves, with a key pressed."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.shells import needed_shell
from zkconsumer.__main__ import COMMANDS, main
from zkconsumer.commands.completion import all_levels

BASH = r"""
source "$1"; shift
COMP_WORDS=("$@") COMP_CWORD=$(($# - 1))
_zkconsumer
printf '%s\n' "${COMPREPLY[@]}"
"""
FISH = """
source $argv[1]
complete -C (string join ' ' -- $argv[2..]) | string split -f1 \\t; true
"""

LINES = {
    ("zkconsumer", "gro"): {"groups"},
    ("zkconsumer", "groups", ""): {"list", "describe", "delete"},
    ("zkconsumer", "groups", "describe", "--sta"): {"--state"},
    ("zkconsumer", "offsets", "migrate", "--from", ""): {"zookeeper", "kafka"},
    ("zkconsumer", "verify-rebalance", "--zoo"): {"--zookeeper", "--zookeeper.connect"},
    ("zkconsumer", "doctor", "--group", "groups", "--partition.assignment.strategy", "r"): {"range", "roundrobin"},
    ("zkconsumer", "snapshot", "load", "saved"): {"saved.gz"},
    ("zkconsumer", "delete-records", "--offset-json-file", "sav"): {"saved.gz"},
}


@pytest.fixture
def script(request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Path:
    """What our command prints for a shell."""
    assert main(["completion", request.param]) == 0
    file = tmp_path / "completion"
    file.write_text(capsys.readouterr().out)
    (tmp_path / "saved.gz").touch()
    return file


def asked(*command: str, directory: Path) -> set[str]:
    ended = subprocess.run(command, capture_output=True, text=True, check=True, cwd=directory)
    assert ended.stderr == ""
    return set(ended.stdout.split())


@pytest.mark.parametrize("script", ["bash"], indirect=True)
@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_bash_completes(script: Path, words: tuple[str, ...]) -> None:
    found = asked("bash", "-c", BASH, "bash", str(script), *words, directory=script.parent)

    assert found - {"--help"} == LINES[words]


@pytest.mark.parametrize("script", ["fish"], indirect=True)
@pytest.mark.parametrize("words", LINES, ids=" ".join)
def test_fish_completes(script: Path, words: tuple[str, ...]) -> None:
    needed_shell("fish")
    assert asked("fish", "-c", FISH, str(script), *words, directory=script.parent) == LINES[words]


def test_every_command_and_every_action_is_known() -> None:
    levels = dict(all_levels())

    assert set(COMMANDS) <= levels[""].words.keys()
    assert {"/groups/describe", "/offsets/roll-back", "/snapshot/load"} <= levels.keys()
