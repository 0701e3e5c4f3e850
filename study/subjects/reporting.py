"""What a member's process tells: JSON lines, one system call each, so that they survive its death."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable

from study.subjects.member import MemberSettings


class Reporter:
    """Writes the lines, counts deliveries, does the application's work, and knows when to leave."""

    def __init__(self) -> None:
        self.settings = MemberSettings.read(sys.argv[1])
        self.leaving = threading.Event()
        signal.signal(signal.SIGTERM, lambda *_: self.leaving.set())
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is for the study, which then ends us
        self._file = os.open(self.settings.history, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self._sequence = 0
        self._lock = threading.Lock()

    def delivered(self, topic: str, partition: int, offset: int) -> None:
        """The application has this record. Returns when its work is done."""
        self.handed_over(topic, partition, offset)
        if self.settings.work_ms:
            self.leaving.wait(self.settings.work_ms / 1000)

    def handed_over(self, topic: str, partition: int, offset: int) -> None:
        """The application has this record, and does its work elsewhere."""
        with self._lock:
            self._sequence += 1
            self._write("delivered", topic, partition, offset=offset, sequence=self._sequence)

    def assigned(self, partitions: Iterable[tuple[str, int]]) -> None:
        """The group gave these to this member."""
        for topic, partition in partitions:
            self._write("assigned", topic, partition)

    def revoked(self, partitions: Iterable[tuple[str, int]]) -> None:
        """This member has given these up, or learns that it has lost them."""
        for topic, partition in partitions:
            self._write("revoked", topic, partition)

    def _write(self, kind: str, topic: str, partition: int, **more: int) -> None:
        line = {"kind": kind, "time_ms": time.time_ns() // 1_000_000, "topic": topic, "partition": partition, **more}
        os.write(self._file, json.dumps(line).encode() + b"\n")
