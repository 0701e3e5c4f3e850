""".ci/with-docker-engine: an engine for one command, of which nothing stays."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import docker
import pytest

from zkconsumer.testing.waiting import eventually

SCRIPT = Path(__file__).parents[2] / ".ci" / "with-docker-engine"
NOBODY = 65534


@pytest.fixture
def home_of_engines() -> Iterator[Path]:
    """Where the script makes its directories in this test. Not tmp_path: its name may be too long for sockets."""
    with TemporaryDirectory(prefix="engines-") as home:
        yield Path(home)


@pytest.fixture
def no_engine(home_of_engines: Path) -> Iterator[dict[str, str]]:
    """An environment in which the script has to start one; all it leaves is found and fails the test."""
    if os.geteuid() != 0:
        pytest.skip("only root can start an engine")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    environment["TMPDIR"] = str(home_of_engines)
    if subprocess.run(["docker", "version"], env=environment, capture_output=True, check=False).returncode == 0:
        pytest.skip("an engine answers on this machine, so the script starts none")
    mounts = Path("/proc/self/mounts").read_text()
    yield environment
    eventually(lambda: not processes_of(home_of_engines), lambda: str(processes_of(home_of_engines)), timeout_s=20.0)
    assert Path("/proc/self/mounts").read_text() == mounts


def processes_of(home: Path) -> list[str]:
    """Command lines that name the directory: dockerd, containerd and shims all do."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = file.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(home) in command:
            found.append(command)
    return found


def control_groups(name: str) -> list[Path]:
    return [path for path in Path("/sys/fs/cgroup").rglob(name) if path.is_dir()]


def test_with_an_engine_the_command_simply_runs(engine: docker.DockerClient) -> None:
    run = subprocess.run(
        [SCRIPT, "sh", "-c", "cat; exit 7"], input="given", capture_output=True, text=True, check=False
    )

    assert (run.returncode, run.stdout, run.stderr) == (7, "given", "")


def test_without_a_command_it_tells_its_usage() -> None:
    run = subprocess.run([SCRIPT], capture_output=True, text=True, check=False)

    assert run.returncode == 1
    assert run.stderr == "with-docker-engine: usage: with-docker-engine COMMAND [ARGUMENT...]\n"


def test_who_is_not_root_is_told_in_one_line(no_engine: dict[str, str]) -> None:
    with SCRIPT.open() as script:  # read here: that user may not be able to
        run = subprocess.run(
            ["bash", "-s", "--", "true"],
            stdin=script,
            env=no_engine,
            user=NOBODY,
            group=NOBODY,
            extra_groups=[],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
        )

    assert run.returncode == 1
    assert run.stderr.startswith("with-docker-engine: no Docker engine answers: ") and run.stderr.count("\n") == 1


def test_an_engine_is_started_and_goes_with_the_command(no_engine: dict[str, str], home_of_engines: Path) -> None:
    command = 'docker info --format "{{.DockerRootDir}}"; docker network create left-by-the-command; exit 7'

    run = subprocess.run([SCRIPT, "sh", "-c", command], env=no_engine, capture_output=True, text=True, check=False)

    root = Path(run.stdout.splitlines()[0])
    assert root.is_relative_to(home_of_engines)
    assert run.returncode == 7
    assert list(home_of_engines.iterdir()) == []
    assert control_groups(root.parent.name) == []


@pytest.mark.parametrize(
    ("number", "status"),
    [(signal.SIGTERM, 143), (signal.SIGINT, 130), (signal.SIGHUP, 129)],
    ids=["TERM", "INT", "HUP"],
)
def test_a_signal_reaches_the_command_and_ends_the_engine(
    no_engine: dict[str, str], home_of_engines: Path, number: signal.Signals, status: int
) -> None:
    with subprocess.Popen(
        [SCRIPT, "sh", "-c", "echo up; exec sleep 1000"],
        env=no_engine,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"

        process.send_signal(number)

        assert process.wait(60.0) == status
    assert list(home_of_engines.iterdir()) == []


def test_no_process_outlives_a_script_that_is_killed(no_engine: dict[str, str], home_of_engines: Path) -> None:
    with subprocess.Popen(
        [SCRIPT, "sh", "-c", "echo up; exec sleep 1000"], env=no_engine, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None and process.stdout.readline() == "up\n"
        (directory,) = home_of_engines.iterdir()
        assert processes_of(directory)

        process.kill()

        assert process.stdout.read() == ""  # the command has ended too
    eventually(lambda: not processes_of(directory), lambda: str(processes_of(directory)), timeout_s=20.0)
    for group in sorted(control_groups(directory.name), reverse=True):
        group.rmdir()
    shutil.rmtree(directory)
