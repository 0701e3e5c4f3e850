"""`make bench`: what things cost on this machine, as ratios against peers in the same run. Best on a quiet machine.

    python -m tests.bench [NAME ...] [--quick] [--case NAME] [--subject NAME] [--rounds N] [--output DIRECTORY]

Without names, every bench runs. Samples go to DIRECTORY/bench.json, pictures to bench.html beside it
(default: bench-results). Exit code 1: a promise was not kept.
"""

from __future__ import annotations

import argparse
import importlib
import signal
import sys
from pathlib import Path

from tests.bench.pictures import write_pictures
from tests.bench.report import Report

BENCHES: dict[str, str] = {
    "plan": "seconds of `zkconsumer plan` for a large group, by strategy",
    "tools": "seconds of each tool around a group at 10,000 partitions, ours and the real ones",
    "startup": "seconds from start() of a server to its first answer",
    "growth": "what a record and a rebalance cost as partitions, streams and members grow",
    "settle": "seconds until a group has settled, ours and the real consumer",
    "spark": "rows a second into Spark, and their age: ours against Spark's own Kafka connector",
    "jobs": "seconds of the jobs over histories on Spark and on DuckDB, and how they grow with the rows",
    "throughput": "records a second, CPU and memory: ours, the real consumers, other clients",
}
"""Name of a module of this package with `run(report)`, and what it measures."""


def _positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{number} is not a positive number")
    return number


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.bench", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=", ".join(BENCHES))
    parser.add_argument("--quick", action="store_true", help="small and few: two minutes in all")
    parser.add_argument(
        "--case", action="append", default=[], help="only the case of this name, or e.g. '100 B*'; repeatable"
    )
    parser.add_argument(
        "--subject", action="append", default=[], help="throughput: only this subject, or e.g. 'ours*'; repeatable"
    )
    parser.add_argument("--rounds", type=_positive, help="how often each is measured (default: 3 or 5, by case)")
    parser.add_argument("--output", type=Path, default=Path("bench-results"), help="directory (default: bench-results)")
    arguments = parser.parse_args()
    if unknown := set(arguments.names) - set(BENCHES):
        parser.error(f"no bench is called {', '.join(sorted(unknown))}; there are {', '.join(BENCHES)}")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that servers and files are cleared away
    report = Report(quick=arguments.quick, only=arguments.case, subjects=arguments.subject, rounds=arguments.rounds)
    try:
        for name in arguments.names or BENCHES:
            report.progress(f"{name}: {BENCHES[name]}")
            importlib.import_module(f"tests.bench.{name}").run(report)
    except KeyboardInterrupt:
        report.console.print("interrupted: nothing was written")
        return 130
    arguments.output.mkdir(parents=True, exist_ok=True)
    report.write_json(arguments.output / "bench.json")
    kept = report.show_wanted()
    write_pictures(report, arguments.output / "bench.html")
    report.console.print(f"samples: {arguments.output / 'bench.json'}, pictures: {arguments.output / 'bench.html'}")
    return 0 if kept else 1


if __name__ == "__main__":
    sys.exit(main())
