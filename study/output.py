"""What the study's commands have in common: where runs go, JSON for programs, progress for people."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn


def folder_for(out: str | None, scenario: str) -> Path:
    """The one asked for, or a new one."""
    return Path(out or Path("study-runs") / f"{scenario}-{time.strftime('%Y%m%d-%H%M%S')}")


def print_json(value: Any) -> None:
    json.dump(value, sys.stdout, indent=1)
    print()


@contextmanager
def steps(console: Console) -> Iterator[Callable[[str, float], None]]:
    """Gives step(what begins now, seconds left): one line each, and on a terminal a bar."""
    columns = (BarColumn(bar_width=20), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        task, began_s = progress.add_task("", total=None), time.monotonic()

        def step(text: str, left_s: float) -> None:
            passed_s, left_s = time.monotonic() - began_s, max(left_s, 1.0)
            console.print(f"  {passed_s:5.1f} s  {text}", markup=False)
            progress.update(
                task, description=f"{text} (about {left_s:.0f} s left)", completed=passed_s, total=passed_s + left_s
            )

        yield step
