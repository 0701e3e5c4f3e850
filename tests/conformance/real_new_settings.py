"""What the new consumer of a release of kafka-clients takes for settings nobody gave, by its own class.

`python -m tests.conformance.real_new_settings FOLDER` does it for the kafka-clients jar in a folder, as JSON. That is
how tests/vectors/new-consumer-settings/defaults-2.3.1.json was made: see the README there.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zkconsumer.testing.jars import jars_of
from zkconsumer.testing.java import class_path_of, find_java
from zkconsumer.testing.java_compiler import compile_java

SOURCE = Path(__file__).parents[1] / "vectors" / "new-consumer-settings" / "Defaults.java"
REQUIRED = "(required)"
WITHOUT_A_DEFAULT = ("bootstrap.servers", "key.deserializer", "value.deserializer")
"""Required, though to Java's class the first one is an empty list, which it then refuses."""

_STRATEGIES = {"range": "RangeAssignor"}


def as_java_prints(key: str, value: Any) -> str:
    """A default of ours; of classes the plain name."""
    if key == "partition.assignment.strategy":
        return f"[{', '.join(_STRATEGIES[name] for name in value)}]"
    if isinstance(value, bool):
        return str(value).lower()
    return {None: "null", (): "[]"}.get(value, str(value))


def real_defaults(jars: Sequence[Path]) -> dict[str, str]:
    """Each setting's default as Java prints it; REQUIRED where there is none."""
    with tempfile.TemporaryDirectory(prefix="new-settings-") as classes:
        compile_java(SOURCE, jars, Path(classes))
        command = [
            str(find_java()),
            "-XX:TieredStopAtLevel=1",
            "-cp",
            class_path_of([Path(classes), *jars]),
            "Defaults",
        ]
        done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    pairs = (line.partition("\t") for line in done.stdout.splitlines())
    return {key: value for key, _, value in pairs}


def defaults_of_release(release: str) -> dict[str, str]:
    """One whose jars are in the lock file."""
    wanted = ("kafka-clients", "slf4j-api")
    return real_defaults([jar for jar in jars_of(f"kafka-{release}") if jar.name.startswith(wanted)])


if __name__ == "__main__":
    json.dump(real_defaults(sorted(Path(sys.argv[1]).glob("*.jar"))), sys.stdout, indent=1)
    print()
