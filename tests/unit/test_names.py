"""docs/names.md and docs/errors.md speak of things that exist."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

from zkconsumer import errors

DOCS = Path(__file__).parents[2] / "docs"
NAMES = re.findall(r"^\| .* \| `([\w.]+)` \|$", (DOCS / "names.md").read_text(encoding="utf-8"), re.MULTILINE)
ERROR_ROWS = re.findall(r"^\| `(\w+)` \| (.*?) \|", (DOCS / "errors.md").read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize("name", NAMES)
def test_every_name_of_the_table_exists(name: str) -> None:
    assert pkgutil.resolve_name(name) is not None


def test_table_of_names_is_read() -> None:
    assert "zkconsumer.connector.ZookeeperConsumerConnector" in NAMES
    assert len(NAMES) == len(set(NAMES)) > 50


@pytest.mark.parametrize(("name", "bases"), ERROR_ROWS)
def test_every_error_of_the_table_is_what_it_says(name: str, bases: str) -> None:
    error = getattr(errors, name)

    assert issubclass(error, errors.KafkaException)
    ancestors = {ancestor.__name__ for ancestor in error.__mro__}
    assert set(re.findall(r"`(\w+)`", bases)) <= ancestors


def test_every_error_of_our_own_is_in_the_table() -> None:
    own = {name for name in errors.__all__ if getattr(errors, name).__module__ == "zkconsumer.errors"}

    assert own <= {name for name, _ in ERROR_ROWS}
