"""What is sent along to a cluster. Whether it is enough there is asked by tests/spark/test_cluster.py."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from pipeline import packing


def main(*arguments: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["packing", *arguments])
    return packing.main()


def test_a_zip_holds_our_code_and_nothing_that_is_compiled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "zkconsumer.zip"

    assert main(str(target), monkeypatch=monkeypatch) == 0

    names = zipfile.ZipFile(target).namelist()
    assert {"pipeline/source.py", "zkconsumer/connector.py", "fetcher/manager.py", "zkconsumer/testing/jars.lock"} <= {
        *names
    }
    assert {Path(name).suffix for name in names}.isdisjoint({".so", ".pyc", ".pyx", ".c"})
    assert f"--py-files {target}" in capsys.readouterr().out


@pytest.mark.parametrize(("name", "complaint"), [("x.tgz", "should end in .zip"), ("nowhere/x.zip", "no directory")])
def test_a_target_that_cannot_be_is_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    name: str,
    complaint: str,
) -> None:
    with pytest.raises(SystemExit) as end:
        main(str(tmp_path / name), monkeypatch=monkeypatch)

    assert end.value.code == 2
    assert complaint in capsys.readouterr().err.splitlines()[-1]
    assert list(tmp_path.iterdir()) == []


def test_requirements_of_requirements_are_packed_but_no_extras() -> None:
    names = packing._distributions("zkconsumer", *packing.BESIDE)

    assert {"zkconsumer", "kazoo", "kafka-python", "pyarrow", "rich", "pygments"} <= names
    assert names.isdisjoint({"pyspark", "pytest", "docker"})
