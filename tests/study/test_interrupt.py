"""Ctrl-C in the middle of a study: no process, no file, no half of a run is left."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
from pathlib import Path

from zkconsumer.testing.waiting import eventually

SCENARIO = """
title = "Long enough to be interrupted"
duration_s = 60
[workload]
topics = { orders = 2 }
rate = 50
[group]
members = 2
[[event]]
at = 1
do = "leave"
members = ["m2"]
"""


def processes_with(mark: str) -> list[str]:
    """Command lines of living processes that inherited this from the study."""
    found = []
    for process in Path("/proc").iterdir():
        if process.name.isdigit():
            try:
                environment = (process / "environ").read_bytes()
                command = (process / "cmdline").read_bytes()
            except OSError:
                continue  # it has just ended
            if mark.encode() in environment and command:
                found.append(command.replace(b"\0", b" ").decode(errors="replace"))
    return found


def test_ctrl_c_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "long.toml").write_text(SCENARIO)
    (tmp_path / "tmp").mkdir()
    mark = f"STUDY_{secrets.token_hex(8)}"
    environment = {**os.environ, mark: "1", "TMPDIR": str(tmp_path / "tmp")}
    output = tmp_path / "output"
    with output.open("wb") as file:
        # env: a run in the background is deaf to Ctrl-C, and would hand that on.
        command = ["env", "--default-signal=INT", sys.executable, "-m", "zkconsumer", "study", "run", "long.toml"]
        study = subprocess.Popen(
            [*command, "--subjects", "confluent"],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": os.getcwd()},
            stdout=file,
            stderr=subprocess.STDOUT,
        )
        try:
            eventually(lambda: "leave m2" in output.read_text(), output.read_text, timeout_s=90)
            assert len(processes_with(mark)) >= 4  # the study, ZooKeeper, Kafka, a member

            study.send_signal(signal.SIGINT)

            assert study.wait(60) == 130
        finally:
            study.kill()
            study.wait()
    eventually(lambda: not processes_with(mark), lambda: f"left: {processes_with(mark)}", timeout_s=20)
    assert not (tmp_path / "study-runs").exists()
    assert list((tmp_path / "tmp").iterdir()) == []
    assert "Traceback" not in output.read_text()
