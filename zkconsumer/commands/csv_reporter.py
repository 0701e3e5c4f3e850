"""Writes a consumer's metrics to files, one a metric (0.8: KafkaCSVMetricsReporter).

Unlike 0.8.2.2: what is in the directory stays there, and a file's name is its MBean's.
"""

from __future__ import annotations

import csv
import logging
import re
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from fetcher.threads import ShutdownableThread
from zkconsumer.metrics import ConsumerMetrics

log = logging.getLogger(__name__)

INTERVAL_S = 10.0
DEFAULT_DIRECTORY = "kafka_metrics"
_UNSUITED = re.compile(r"[^A-Za-z0-9._=,-]")


class CsvReporter(ShutdownableThread):
    """Adds a row to each metric's file every ten seconds and at the end; a row begins with the seconds since start."""

    def __init__(self, metrics: ConsumerMetrics, directory: Path) -> None:
        super().__init__("csv-reporter")
        self._metrics = metrics
        self._directory = directory
        self._started_s = time.monotonic()
        self._begun: set[Path] = set()

    def __enter__(self) -> Self:
        self._directory.mkdir(parents=True, exist_ok=True)  # what is wrong with it shows before anything is consumed
        self._started_s = time.monotonic()
        self.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.shutdown()
        self._report()

    def do_work(self) -> None:
        if not self.stopping.wait(INTERVAL_S):
            self._report()

    def _report(self) -> None:
        seconds = int(time.monotonic() - self._started_s)
        try:
            for name, attributes in self._metrics.as_dict().items():
                self._add_row(file_name_of(name), seconds, attributes)
        except OSError as error:
            # A full disk must not end the consumer.
            log.error("metrics could not be written: %s: %s", error.filename, error.strerror)

    def _add_row(self, file_name: str, seconds: int, attributes: dict[str, float | str]) -> None:
        path = self._directory / file_name
        is_new = path not in self._begun
        with path.open("w" if is_new else "a", newline="") as file:
            rows = csv.writer(file, lineterminator="\n")
            if is_new:
                rows.writerow(["# time", *attributes])
                self._begun.add(path)
            rows.writerow([seconds, *attributes.values()])


def file_name_of(metric: str) -> str:
    """An MBean's name without what a file's may not hold."""
    return _UNSUITED.sub("-", metric)[:250] + ".csv"
