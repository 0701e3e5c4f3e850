"""Jars of the real servers: resolved by coordinates, checked against a lock file, kept in a cache per user.

The lock file (jars.lock beside this module) names every jar of a set with its SHA-256. What is not in the cache is
fetched from Maven's central repository by the Ivy inside pyspark; what is there is used without network.

    ZKCONSUMER_CACHE          where to keep jars (default: $XDG_CACHE_HOME/zkconsumer or ~/.cache/zkconsumer)
    ZKCONSUMER_IVY_SETTINGS   an ivysettings.xml of your own, e.g. for a mirror

`python -m zkconsumer.testing.jars fetch [SET …]` fills the cache; `… lock SET` resolves a set anew for the lock file.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import functools
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple
from xml.sax.saxutils import quoteattr

from zkconsumer.testing.errors import JarError, ServerError
from zkconsumer.testing.java import find_java, pyspark_jars

LOCK_FILE = Path(__file__).with_name("jars.lock")
ATTEMPTS = 2
# Maven types under which jars are published; Ivy leaves out what is not named.
JAR_TYPES = ("jar", "bundle", "eclipse-plugin")

Progress = Callable[[str, int, int], None]
"""Called with the set's name, the jars present and the jars wanted."""


class LockedJar(NamedTuple):
    """A jar as the lock file names it."""

    organisation: str
    artifact: str
    revision: str
    sha256: str

    @property
    def file_name(self) -> str:
        return f"{self.artifact}-{self.revision}.jar"


class JarSet(NamedTuple):
    """Jars that belong together: all that one release needs."""

    name: str
    roots: tuple[str, ...]
    jars: tuple[LockedJar, ...]


def cache_directory() -> Path:
    """Where jars and what is made from them are kept."""
    chosen = os.environ.get("ZKCONSUMER_CACHE")
    if chosen:
        return Path(chosen).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser().absolute() / "zkconsumer"


@functools.cache
def jar_sets() -> dict[str, JarSet]:
    """What the lock file holds."""
    sets = {}
    for name, entry in tomllib.loads(LOCK_FILE.read_text()).items():
        jars = []
        for line in entry["jars"]:
            coordinates, sha256 = line.split()
            organisation, artifact, revision = coordinates.split(":")
            jars.append(LockedJar(organisation, artifact, revision, sha256.removeprefix("sha256:")))
        sets[name] = JarSet(name, tuple(entry["roots"]), tuple(jars))
    return sets


def jars_of(name: str, progress: Progress | None = None) -> list[Path]:
    """The jars of a set, fetched if the cache lacks them; JarError if one is not what the lock file says."""
    return _verified_jars(cache_directory(), name, progress or show_on_stderr)


@functools.cache
def _verified_jars(cache: Path, name: str, progress: Progress) -> list[Path]:
    """Once per process and set: reading the jars to check them takes a tenth of a second."""
    wanted = jar_sets()[name]
    folder = cache / name
    paths = [folder / jar.file_name for jar in wanted.jars]
    if not all(path.exists() for path in paths):
        _fetch(wanted, cache, progress)
    for jar, path in zip(wanted.jars, paths, strict=True):
        _check(path, jar)
    return paths


def show_on_stderr(name: str, present: int, wanted: int) -> None:
    """Progress for people: one line that grows on a terminal, a few lines elsewhere."""
    # sys.__stderr__, since pytest captures sys.stderr and a silent half minute looks like a hang.
    stream = sys.__stderr__
    if stream is None:
        return
    text = f"fetching {name}: {present} of {wanted} jars"
    if stream.isatty():
        print(f"\r\033[K{text}", end="\n" if present == wanted else "", file=stream, flush=True)
    elif present in (0, wanted):
        print(text, file=stream, flush=True)


def _check(path: Path, jar: LockedJar) -> None:
    with path.open("rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if found != jar.sha256:
        raise JarError(
            f"{path}: SHA-256 {found[:12]}… is not the lock file's {jar.sha256[:12]}…; "
            "delete the file to have it fetched again, and find out who changed it"
        )


def _fetch(wanted: JarSet, cache: Path, progress: Progress) -> None:
    """Bring a set into the cache; whole or not at all, by one process at a time."""
    partial = cache / f"{wanted.name}.partial"
    folder = cache / wanted.name
    try:
        cache.mkdir(parents=True, exist_ok=True)
        with exclusive(cache / f"{wanted.name}.fetching"):
            if all((folder / jar.file_name).exists() for jar in wanted.jars):
                return  # another process was faster
            shutil.rmtree(partial, ignore_errors=True)  # of a process that was killed
            partial.mkdir()
            try:
                _run_ivy(wanted, partial, progress)
                for jar in wanted.jars:
                    _check(partial / "jars" / jar.file_name, jar)
                shutil.rmtree(folder, ignore_errors=True)
                (partial / "jars").rename(folder)
            finally:
                shutil.rmtree(partial, ignore_errors=True)
    except OSError as error:
        raise JarError(
            f"{wanted.name}: cannot fill the jar cache {cache}: {error.strerror}; is the disk full?"
        ) from error


@contextlib.contextmanager
def exclusive(path: Path) -> Iterator[None]:
    """Held by one process; the kernel releases it if that one dies."""
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _run_ivy(wanted: JarSet, folder: Path, progress: Progress) -> None:
    """Fetch just the locked jars: what depends on what was settled when the lock file was made."""
    _write_ivy_file(folder / "ivy.xml", [jar[:3] for jar in wanted.jars], transitive=False)
    pattern = f"{folder}/jars/[artifact]-[revision].[ext]"
    total = len(wanted.jars)
    for attempt in range(1, ATTEMPTS + 1):
        progress(wanted.name, 0, total)
        output: list[str] = []
        with _ivy("-ivy", str(folder / "ivy.xml"), "-retrieve", pattern, cache=folder / "ivy") as lines:
            present = 0
            for line in lines:
                output.append(line.rstrip())
                if "[SUCCESSFUL ]" in line:
                    present += 1
                    progress(wanted.name, min(present, total), total)
        missing = [jar.file_name for jar in wanted.jars if not (folder / "jars" / jar.file_name).exists()]
        if not missing:
            progress(wanted.name, total, total)
            return
        if attempt == ATTEMPTS:
            error = JarError(
                f"{wanted.name}: {len(missing)} of {total} jars could not be fetched (first: {missing[0]}); "
                "check the network, or let ZKCONSUMER_IVY_SETTINGS name the settings of a mirror"
            )
            error.add_note("\n".join(output[-30:]))
            raise error


def _write_ivy_file(path: Path, modules: Iterable[Sequence[str]], *, transitive: bool) -> None:
    lines = [
        f"<dependency org={quoteattr(organisation)} name={quoteattr(artifact)} rev={quoteattr(revision)}"
        f' transitive="{str(transitive).lower()}" conf="default->default"/>'
        for organisation, artifact, revision in modules
    ]
    path.write_text(
        '<ivy-module version="2.0"><info organisation="zkconsumer" module="jars"/>'
        '<configurations><conf name="default"/></configurations>'
        f"<dependencies>{''.join(lines)}</dependencies></ivy-module>"
    )


@contextlib.contextmanager
def _ivy(*arguments: str, cache: Path) -> Iterator[Iterator[str]]:
    """Run Ivy and give its output line by line."""
    (ivy,) = pyspark_jars("ivy-")
    settings = os.environ.get("ZKCONSUMER_IVY_SETTINGS")
    command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-jar", str(ivy), "-cache", str(cache)]
    command += ["-settings", settings] if settings else []
    command += [*arguments, "-confs", "default", "-types", *JAR_TYPES]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    assert process.stdout is not None
    try:
        yield process.stdout
    finally:
        if process.poll() is None and sys.exc_info()[0] is not None:
            process.kill()
        process.stdout.close()
        process.wait()


def fetch_all(names: Sequence[str], progress: Progress | None = None) -> None:
    """Bring several sets at once, two at a time: half of the time is spent waiting for answers."""
    with ThreadPoolExecutor(2) as pool:
        for result in [pool.submit(jars_of, name, progress) for name in names]:
            result.result()


def resolve_for_lock(roots: Sequence[str], scratch: Path) -> list[str]:
    """Resolve coordinates with all they depend on; lines for the lock file."""
    _write_ivy_file(scratch / "ivy.xml", [tuple(root.split(":")) for root in roots], transitive=True)
    pattern = f"{scratch}/jars/[organisation]/[artifact]/[revision].[ext]"
    with _ivy("-ivy", str(scratch / "ivy.xml"), "-retrieve", pattern, cache=scratch / "ivy") as lines:
        for line in lines:
            if re.search("SUCCESSFUL|FAILED|UNRESOLVED", line):
                print(line.rstrip(), file=sys.stderr)
    found = []
    for path in sorted((scratch / "jars").glob("*/*/*.jar")):
        coordinates = f"{path.parent.parent.name}:{path.parent.name}:{path.stem}"
        found.append(f"{coordinates} sha256:{hashlib.sha256(path.read_bytes()).hexdigest()}")
    return found


def main() -> None:
    """`fetch` and `lock`, for make setup and for those who add a release."""
    parser = argparse.ArgumentParser(prog="python -m zkconsumer.testing.jars", description="Jars of the real servers.")
    commands = parser.add_subparsers(dest="command", required=True)
    fetch = commands.add_parser("fetch", help="fill the cache")
    fetch.add_argument("sets", nargs="*", help="default: all")
    lock = commands.add_parser("lock", help="resolve a set anew and print its part of the lock file")
    lock.add_argument("set")
    lock.add_argument("roots", nargs="+", help="organisation:artifact:revision")
    arguments = parser.parse_args()
    if arguments.command == "fetch":
        unknown = set(arguments.sets) - set(jar_sets())
        if unknown:
            parser.error(f"no such set: {', '.join(sorted(unknown))}; there are {', '.join(jar_sets())}")
        fetch_all(arguments.sets or list(jar_sets()))
        return
    import tempfile

    with tempfile.TemporaryDirectory() as scratch:
        lines = resolve_for_lock(arguments.roots, Path(scratch))
    roots = ", ".join(f'"{root}"' for root in arguments.roots)
    print(f'["{arguments.set}"]\nroots = [{roots}]\njars = [')
    print("\n".join(f'  "{line}",' for line in lines))
    print("]\n")


if __name__ == "__main__":
    try:
        main()
    except ServerError as error:
        sys.exit(str(error))
