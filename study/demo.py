"""One scenario, three consumers side by side: ours and the real Scala one with the old protocol, and a new consumer.

Each gets real servers of its own, the same records and the same events: a member joins, one leaves, one crashes. Then
the Spark pipeline (pipeline.jobs) judges what happened, and a table, a few sentences and a page show the difference
between the protocols.
"""

from __future__ import annotations

import argparse

from rich.console import Console

from study.command import study
from study.tables import show

EXAMPLES = """\
  zkconsumer demo                                     ours, Scala 0.8.2.2, confluent-kafka
  zkconsumer demo --subjects ours,java-cooperative    other consumers
  zkconsumer demo --scenario rolling-restart          another scenario"""

SUBJECTS = "ours,scala-0.8,confluent"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--scenario", default="side-by-side", help="see `zkconsumer study list` (default: %(default)s)")
    parser.add_argument("--subjects", default=SUBJECTS, help="with commas (default: %(default)s)")
    parser.add_argument("--out", metavar="DIRECTORY", help="where the run is kept (default: study-runs/…)")


def run(arguments: argparse.Namespace) -> int:
    """0 if no record was lost, 1 if one was."""
    console = Console(highlight=False)
    paragraphs = (" ".join(each.split()) for each in (__doc__ or "").split("\n\n"))
    console.print("\n\n".join(paragraphs) + "\n", style="dim", markup=False)
    rows, folder = study(arguments.scenario, arguments.subjects, arguments.out, console)
    show(console, rows, folder)
    return 1 if any(one.lost for one in rows) else 0
