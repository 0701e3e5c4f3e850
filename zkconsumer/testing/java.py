"""Finding Java, and the jars that come inside pyspark.

Standard library only: `python3 -m zkconsumer.testing.java` is the first step of `make setup`, before any package is
installed.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from zkconsumer.testing.errors import JarError, JavaNotFound

OLDEST_JAVA = 17
INSTALL_HINT = "install one (for example Debian's openjdk-17-jre-headless), or let JAVA_HOME name it"


@functools.cache
def find_java() -> Path:
    """The `java` to use: JAVA_HOME's, else the one on PATH; JavaNotFound if there is none or it is too old."""
    home = os.environ.get("JAVA_HOME")
    found = shutil.which("java", path=os.path.join(home, "bin")) if home else shutil.which("java")
    if found is None:
        where = f"JAVA_HOME={home} has no bin/java" if home else "no java on PATH"
        raise JavaNotFound(f"Java {OLDEST_JAVA} or newer is needed and {where}: {INSTALL_HINT}")
    version = java_version(Path(found))
    if version < OLDEST_JAVA:
        raise JavaNotFound(f"Java {OLDEST_JAVA} or newer is needed, {found} is Java {version}: {INSTALL_HINT}")
    return Path(found)


@functools.cache
def java_version(java: Path) -> int:
    """The feature release, e.g. 17; 8 for what calls itself 1.8."""
    # The release file answers in no time; asking java itself takes as long as a fifth of a server's start.
    release = java.resolve().parent.parent / "release"
    try:
        text = release.read_text()
    except OSError:
        run = subprocess.run([java, "-version"], capture_output=True, text=True, check=False)
        text = run.stderr + run.stdout
    match = re.search(r'(?:JAVA_VERSION="|version ")(?:1\.)?(\d+)', text)
    if match is None:
        raise JavaNotFound(f"{java} does not tell its version ({text.strip()[:80]!r}): {INSTALL_HINT}")
    return int(match[1])


def pyspark_jars(*prefixes: str) -> list[Path]:
    """The jars inside pyspark whose names start with the given prefixes, in that order."""
    # find_spec looks without importing: pyspark itself is of no use here and slow to load.
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise JarError("pyspark, whose jars hold ZooKeeper, is not installed: pip install 'zkconsumer[testing]'")
    folder = Path(spec.origin).parent / "jars"
    jars: list[Path] = []
    for prefix in prefixes:
        found = sorted(folder.glob(f"{prefix}*.jar"))
        if not found:
            raise JarError(f"no {prefix}*.jar in {folder}: this pyspark is not the 4.x that was expected")
        jars.extend(found)
    return jars


def class_path_of(jars: Sequence[Path]) -> str:
    """Jars as java's -cp wants them."""
    return os.pathsep.join(str(jar) for jar in jars)


def unpack_into(directory: Path) -> str:
    """An option for java: snappy and lz4 unpack machine code there, which stays behind if the process is killed."""
    return f"-Djava.io.tmpdir={directory}"


if __name__ == "__main__":
    try:
        print(f"Java {java_version(find_java())}: {find_java()}")
    except JavaNotFound as error:
        sys.exit(str(error))
