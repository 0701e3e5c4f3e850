"""Compiling a few lines of Java on the spot, with a compiler that is a jar: a Java run time is enough, no JDK needed.

The sources are in java_sources/ beside this module; what they compile to is kept in the user's cache.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path

from zkconsumer.testing.errors import JarError
from zkconsumer.testing.jars import cache_directory, jars_of
from zkconsumer.testing.java import OLDEST_JAVA, class_path_of, find_java

SOURCES = Path(__file__).with_name("java_sources")
COMPILER_TIMEOUT_S = 300.0


def compile_java(source: Path, class_path: Sequence[Path], directory: Path) -> None:
    """Put the classes of a source, and of those beside it that it uses, into the directory; JarError if it is wrong."""
    command = [str(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", class_path_of(_compiler())]
    command += ["org.eclipse.jdt.internal.compiler.batch.Main", f"-{OLDEST_JAVA}", "-nowarn", "-proc:none"]
    command += ["-encoding", "UTF-8", "-sourcepath", str(source.parent), "-d", str(directory)]
    command += ["-classpath", class_path_of(class_path)] if class_path else []
    try:
        run = subprocess.run(
            [*command, str(source)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=COMPILER_TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise JarError(
            f"{source} was not compiled within {COMPILER_TIMEOUT_S:g} s: is this machine too busy?"
        ) from None
    if run.returncode != 0:
        error = JarError(f"{source} does not compile: {_first_complaint(run.stderr + run.stdout)}")
        error.add_note((run.stderr + run.stdout).rstrip())
        raise error


def compiled(source_name: str, class_path: Sequence[Path]) -> Path:
    """The folder with the classes of one of our sources, compiled if the cache lacks them."""
    if not (SOURCES / source_name).is_file():
        known = ", ".join(sorted(path.name for path in SOURCES.glob("*.java")))
        raise JarError(f"there is no Java source {source_name!r}: there are {known}")
    classes = cache_directory() / "classes"
    wanted = classes / f"{Path(source_name).stem}-{_digest(class_path)}"
    if wanted.is_dir():
        return wanted
    try:
        classes.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="compiling-", dir=classes) as scratch:
            compile_java(SOURCES / source_name, class_path, Path(scratch) / "classes")
            _move(Path(scratch) / "classes", wanted)
    except OSError as error:
        raise JarError(
            f"cannot keep compiled classes in {classes}: {error.strerror}; is the disk full, or the folder not yours?"
        ) from error
    return wanted


def _move(classes: Path, wanted: Path) -> None:
    """Whole or not at all. Of several processes that compiled the same, the first one's stays."""
    try:
        classes.rename(wanted)
    except OSError:
        if not wanted.is_dir():
            raise
        shutil.rmtree(classes)


def _digest(class_path: Sequence[Path]) -> str:
    """Changes with any source (they may use each other), with the compiler, and with the releases compiled against."""
    digest = hashlib.sha256(f"java {OLDEST_JAVA}\n".encode())
    for jar in [*_compiler(), *class_path]:
        digest.update(f"{jar.name}\n".encode())
    for path in sorted(SOURCES.glob("*.java")):
        digest.update(f"{path.name}\n".encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def _compiler() -> list[Path]:
    return jars_of("java-compiler")


def _first_complaint(output: str) -> str:
    """The compiler's first error in one line: a header with the line number, the code, a mark below it, the reason."""
    lines = output.splitlines()
    for number, line in enumerate(lines):
        if ". ERROR in " in line:
            _, _, place = line.partition("(at ")
            reason = lines[number + 3] if number + 3 < len(lines) else ""
            return f"{place.rstrip(')')}: {reason.strip()}"
    return lines[-1] if lines else "the compiler said nothing"
