"""Spark's checkpoint of a query, looked at when the driver cannot be asked any more.

A Python source is not told where the checkpoint is, so option checkpointLocation names it once more. The process of the
members finds out there whether a batch that it planned was written down before the driver died, and notes in it which
part of that batch it handed over to the group, so that the next run need not guess. Spark does not look at the note.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from fetcher.structs import TopicAndPartition
from pipeline.errors import UnknownOption
from pipeline.ranges import OffsetRange, StreamOffset

log = logging.getLogger(__name__)

NOTE = "zkconsumer-handed-over.json"


def directory_of(location: str) -> Path:
    """UnknownOption for what is no directory of a machine, as hdfs: or s3:."""
    found = urlsplit(location)
    if found.scheme == "file" and found.netloc in ("", "localhost"):
        return Path(unquote(found.path))
    if found.scheme:
        raise UnknownOption(
            f"option checkpointLocation={location} should be a directory that the driver sees: leave it out where the"
            " checkpoint is elsewhere"
        )
    return Path(location)


class Checkpoint:
    """One that need not be there yet."""

    def __init__(self, location: str) -> None:
        self._directory = directory_of(location)

    def holds(self, end: StreamOffset) -> bool:
        """Whether the batch that was written down last, if any, is the one that ends here."""
        try:
            numbers = [int(name) for name in os.listdir(self._directory / "offsets") if name.isdigit()]
            lines = (self._directory / "offsets" / str(max(numbers))).read_text().splitlines() if numbers else []
        except OSError as error:
            log.warning("the checkpoint could not be looked at: %s", error)
            return False
        return any(_parsed(line) == end.to_json() for line in lines)

    def note_handed_over(self, ranges: Collection[OffsetRange]) -> None:
        """Of the batch under way."""
        text = json.dumps([[*found.where, found.start, found.until] for found in sorted(ranges)])
        whole, partial = self._directory / NOTE, self._directory / f".{NOTE}.tmp"
        try:
            with partial.open("w") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(whole)
        except OSError as error:
            log.warning("what was handed over could not be noted: %s", error)

    def handed_over(self) -> set[tuple[TopicAndPartition, int, int]]:
        """Partition, start and end of each range."""
        try:
            noted = json.loads((self._directory / NOTE).read_text())
        except OSError:
            return set()
        return {(TopicAndPartition(topic, partition), start, until) for topic, partition, start, until in noted}


def _parsed(line: str) -> Any:
    try:
        return json.loads(line)
    except ValueError:  # the version in the first line
        return None
