"""Looking for an engine, and saying in one line that there is none."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from zkconsumer.testing.containers import ContainerBackend
from zkconsumer.testing.engine import find_engine
from zkconsumer.testing.errors import EngineNotFound
from zkconsumer.testing.programs import program


def test_no_engine_is_told_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    address = "unix:///nowhere/nobody.sock"
    monkeypatch.setenv("DOCKER_HOST", address)
    backend = ContainerBackend(program("zookeeper", "3.9"))

    with pytest.raises(EngineNotFound) as caught:
        backend.open()

    assert str(caught.value).startswith(f"no container engine answers at {address} (No such file or directory): ")
    assert "\n" not in str(caught.value)
    backend.close()


def test_the_command_ends_with_that_line_and_exit_code_1(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")

    run = subprocess.run(
        [sys.executable, "-m", "zkconsumer.testing.containers", "images"], capture_output=True, text=True, check=False
    )

    assert run.returncode == 1
    assert run.stdout == ""
    assert run.stderr.startswith("no container engine answers at ") and run.stderr.count("\n") == 1


def test_an_engine_of_another_machine_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2375")

    with pytest.raises(EngineNotFound, match=r"tcp://192\.0\.2\.1:2375 is on another machine"):
        find_engine()


def test_the_context_of_the_docker_command_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its files are as `docker context create` writes them: a folder named by the SHA-256 of "mine"."""
    digest = hashlib.sha256(b"mine").hexdigest()
    meta = tmp_path / "contexts" / "meta" / digest / "meta.json"
    meta.parent.mkdir(parents=True)
    endpoint = {"Host": f"unix://{tmp_path}/of-context.sock", "SkipTLSVerify": False}
    meta.write_text(json.dumps({"Name": "mine", "Metadata": {}, "Endpoints": {"docker": endpoint}}))
    (tmp_path / "config.json").write_text('{"currentContext": "mine"}')
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))

    with pytest.raises(EngineNotFound, match=r"of-context\.sock"):
        find_engine()
