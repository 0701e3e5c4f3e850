"""What executors on a cluster need of us, in one file for spark-submit.

    python -m pipeline.packing zkconsumer.zip          # for --py-files: our code alone, not the compiled part
    python -m pipeline.packing environment.tar.gz      # for --archives: also what it needs, compiled parts included

A zip is enough where the workers' Python has the packages that zkconsumer needs, and pyarrow. Python cannot load
compiled parts from a zip, so records are read by the pure reader there; from an archive the compiled one is used.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import importlib.util
import re
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

OUR_PACKAGES = ("fetcher", "zkconsumer", "pipeline")
BESIDE = ("pyarrow",)  # what Spark's workers need and Spark does not bring
NOT_NEEDED = {"__pycache__", "tests", "include", "java_sources"}
NOT_NEEDED_SUFFIXES = {".pyc", ".pyx", ".pxd", ".c", ".h", ".a"}


def pack_code(target: Path) -> int:
    """How many files of ours went into a zip for --py-files."""
    files = [(path, name) for path, name in _our_files() if path.suffix != ".so"]
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for path, name in files:
            archive.write(path, name)
    return len(files)


def pack_environment(target: Path) -> list[str]:
    """The distributions that went into a tar.gz for --archives, our code among it."""
    names = _distributions("zkconsumer", *BESIDE)
    with tarfile.open(target, "w:gz", compresslevel=1) as archive:
        for path, name in _our_files():
            archive.add(path, name)
        for distribution in names - {"zkconsumer"}:
            for path, name in _files_of(distribution):
                archive.add(path, name)
    return sorted(names)


def _our_files() -> Iterator[tuple[Path, str]]:
    """From wherever they are installed, in development also from the tree."""
    for package in OUR_PACKAGES:
        found = importlib.util.find_spec(package)
        assert found is not None and found.submodule_search_locations is not None
        root = Path(next(iter(found.submodule_search_locations)))
        for path in sorted(root.rglob("*")):
            name = path.relative_to(root.parent)
            if path.is_file() and _is_needed(name):
                yield path, str(name)


def _files_of(distribution: str) -> Iterator[tuple[Path, str]]:
    for file in importlib.metadata.files(distribution) or ():
        path = Path(str(file.locate()))
        if not file.is_absolute() and ".." not in file.parts and _is_needed(Path(file)) and path.is_file():
            yield path, str(file)


def _is_needed(name: Path) -> bool:
    return name.suffix not in NOT_NEEDED_SUFFIXES and NOT_NEEDED.isdisjoint(name.parts)


def _distributions(*wanted: str) -> set[str]:
    """These and what they require, without extras, as far as it is installed."""
    found: set[str] = set()
    open_ones = list(wanted)
    while open_ones:
        name = open_ones.pop()
        try:
            required = importlib.metadata.requires(name) or []
        except importlib.metadata.PackageNotFoundError:
            continue  # for another system or another Python
        if name not in found:
            found.add(name)
            open_ones += [_name_of(line) for line in required if "extra ==" not in line]
    return found


def _name_of(requirement: str) -> str:
    match = re.match(r"[A-Za-z0-9._-]+", requirement)
    assert match is not None
    return match.group()


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m pipeline.packing",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("target", type=Path, metavar="FILE", help="to be made; ends in .zip or .tar.gz")
    target: Path = parser.parse_args().target
    if not target.parent.is_dir():
        parser.error(f"there is no directory {target.parent}")
    if target.suffix == ".zip":
        files = pack_code(target)
        print(f"{target}: {files} files; spark-submit --py-files {target} …")
    elif target.name.endswith(".tar.gz"):
        names = pack_environment(target)
        print(f"{target}: {target.stat().st_size / 1e6:.0f} MB, {', '.join(names)}")
        print(f"spark-submit --archives {target}#environment --conf spark.executorEnv.PYTHONPATH=./environment …")
    else:
        parser.error(f"{target} should end in .zip (for --py-files) or .tar.gz (for --archives)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
