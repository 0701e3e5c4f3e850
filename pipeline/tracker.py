"""The driver's side of receivers: starts them as Spark jobs, starts them again, stops them (Spark: ReceiverTracker).

A query's planner (received.py) and its receivers (receiver.py) connect to the tracker and stay connected; whoever dies
or is killed is noticed at once, since its connection ends. Receivers begin when a planner connects, and leave the group
when that connection ends: so they live as long as the query, however it ends.

States of a stream: idle -> (a planner connects) -> receiving -> (its connection ends) -> idle. One planner at a time.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import json
import logging
import os
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Iterable, Iterator
from multiprocessing.connection import Client, Connection, Listener, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

from pyspark import InheritableThread, SparkContext

from pipeline.errors import PipelineError
from pipeline.options import SourceOptions
from pipeline.receiver import MARKER, ReceiverSettings, StreamSettings, receive
from pipeline.segments import PARTIAL
from pipeline.source import cluster_view, connected, partitions_of

log = logging.getLogger(__name__)

ATTEMPTS = 4  # of a receiver that fails at once, before the query fails
LIVED_LONG_ENOUGH_S = 60.0
RESTART_AFTER_S = 2.0  # spark.streaming.receiverRestartDelay
BEGUN_AFTER_S = 60.0
LEAVE_TIMEOUT_S = 20.0
SILENCE_S = 60.0  # receivers tell of themselves each second


class _Place(NamedTuple):
    """Where the driver is reached, and where it listens for that."""

    host: str
    bind: str

    @classmethod
    def of(cls, context: SparkContext) -> _Place:
        if (context.master or "").startswith("local"):
            return cls("127.0.0.1", "127.0.0.1")
        conf = context.getConf()
        host = str(conf.get("spark.driver.host", "127.0.0.1"))
        return cls(host, str(conf.get("spark.driver.bindAddress", host)))


class Tracker:
    """One for each address under which executors reach this process; listens until close()."""

    _of_process: ClassVar[dict[_Place, Tracker]] = {}
    _making = threading.Lock()

    def __init__(self, place: _Place) -> None:
        self.secret = secrets.token_bytes(32)
        self._host = place.host
        try:
            self._listener = Listener((place.bind, 0))
        except OSError as error:
            raise PipelineError(
                f"receivers are to reach this driver at {place.host}, and it cannot listen at {place.bind}:"
                f" {error.strerror}; set spark.driver.host, or spark.driver.bindAddress"
            ) from None
        self._lock = threading.Lock()
        self._streams: dict[str, tuple[SparkContext, StreamSettings]] = {}
        self._runs: dict[str, _Run] = {}  # by stream
        self._closing = False
        self._thread = threading.Thread(target=self._accept, name="receiver-tracker", daemon=True)
        self._thread.start()

    @classmethod
    def of_process(cls, context: SparkContext) -> Tracker:
        """The one for this session: one that came after another may be reached under another address."""
        place = _Place.of(context)
        with cls._making:
            if not cls._of_process:
                atexit.unregister(cls.close_if_any)
                atexit.register(cls.close_if_any)
            if place not in cls._of_process:
                cls._of_process[place] = cls(place)
            return cls._of_process[place]

    @classmethod
    def close_if_any(cls) -> None:
        """Stop what runs, and listen no more."""
        with cls._making:
            trackers = list(cls._of_process.values())
            cls._of_process.clear()
        for tracker in trackers:
            tracker.close()

    @property
    def address(self) -> tuple[str, int]:
        """Where others reach it."""
        return self._host, int(self._listener.address[1])

    def add(self, context: SparkContext, settings: StreamSettings) -> str:
        """A stream that a planner may ask for."""
        name = secrets.token_hex(8)
        with self._lock:
            self._streams[name] = context, settings
        return name

    def close(self) -> None:
        with self._lock:
            self._closing = True
            runs = list(self._runs.values())
        for run in runs:
            run.stop()
        with contextlib.suppress(OSError, EOFError):
            Client(self._listener.address).close()  # accept() has no other waker
        self._thread.join()
        self._listener.close()

    # --- connections, a thread each ---

    def _accept(self) -> None:
        while True:
            try:
                connection = self._listener.accept()
            except OSError:
                continue  # of one that went away at once
            if self._closing:
                connection.close()
                return
            threading.Thread(target=self._serve, args=(connection,), name="receiver-tracker-link", daemon=True).start()

    def _serve(self, connection: Connection[Any, Any]) -> None:
        with connection, contextlib.suppress(OSError, EOFError):
            try:
                deliver_challenge(connection, self.secret)
                answer_challenge(connection, self.secret)
            except Exception:
                return  # not one of ours
            hello = json.loads(connection.recv_bytes())
            if hello["role"] == "planner":
                self._serve_planner(connection, hello["stream"])
            else:
                with self._lock:
                    run = next((run for run in self._runs.values() if run.name == hello["run"]), None)
                if run is not None:
                    run.serve_receiver(connection, hello["number"])

    def _serve_planner(self, connection: Connection[Any, Any], stream: str) -> None:
        try:
            run = self._begin(stream)
        except PipelineError as error:
            connection.send_bytes(json.dumps({"refused": str(error)}).encode())
            return
        try:
            answer = {"directory": str(run.directory), "write_ahead": run.settings.write_ahead, "tasks": run.tasks}
            connection.send_bytes(json.dumps(answer).encode())
            while True:
                connection.recv_bytes()
                connection.send_bytes(json.dumps(run.status()).encode())
        finally:
            run.stop()
            with self._lock:
                del self._runs[stream]

    def _begin(self, stream: str) -> _Run:
        with self._lock:
            if stream not in self._streams or self._closing:
                raise PipelineError("the driver does not know this stream (any more): call create_stream() again")
            if stream in self._runs:
                raise PipelineError(
                    "this stream feeds a query already: call create_stream() once for each query, or write from one"
                    " foreachBatch"
                )
            context, settings = self._streams[stream]
            run = self._runs[stream] = _Run(context, settings, self.address, self.secret)
        try:
            run.start()
        except BaseException:
            run.stop()
            with self._lock:
                del self._runs[stream]
            raise
        return run


class _Run:
    """The receivers of one query, from its start to its end."""

    def __init__(
        self, context: SparkContext, settings: StreamSettings, tracker: tuple[str, int], secret: bytes
    ) -> None:
        self.name = secrets.token_hex(8)
        self.settings = settings
        self.tasks = max(1, context.defaultParallelism - settings.receivers)
        self.directory = Path(settings.directory or tempfile.gettempdir())
        self._context = context
        self._tracker = tracker
        self._secret = secret
        self._files = contextlib.ExitStack()
        self._stopping = threading.Event()
        self._stopped = threading.Lock()
        self._lock = threading.Lock()
        self._links: dict[int, Connection[Any, Any]] = {}
        self._told: dict[Connection[Any, Any], dict[str, Any]] = {}  # what each said last
        self._began_s = time.monotonic()
        self._warned = False
        self._restarts = 0
        self._doubled_at_most = 0  # of receivers that have ended
        self._last_failure: str | None = None
        self._fatal: str | None = None
        self._jobs = [
            InheritableThread(target=self._keep_running, args=(number,), name=f"receiver-job-{number}", daemon=True)
            for number in range(settings.receivers)
        ]

    def start(self) -> None:
        config = self.settings.config
        with connected(config) as zookeeper:  # what a receiver would find out late, or never
            partitions_of(cluster_view(zookeeper, config), SourceOptions(config, self.settings.streams_of, None))
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            self._prepare()
        except OSError as error:
            raise PipelineError(f"directory {self.directory} cannot be used: {error.strerror}") from None
        for job in self._jobs:
            job.start()

    def _prepare(self) -> None:
        if self.settings.write_ahead:
            self._files.enter_context(_taken(self.directory))
            for left in self.directory.glob(f"*{PARTIAL}"):  # of receivers that were killed
                left.unlink(missing_ok=True)
        else:
            self.directory = Path(tempfile.mkdtemp(prefix="zkconsumer-received-", dir=self.directory))
            self._files.callback(shutil.rmtree, self.directory, ignore_errors=True)
        (self.directory / MARKER).write_text(self.name)

    def stop(self) -> None:
        """All have left the group when this returns, and what is of no more use is removed. Idempotent."""
        with self._stopped:
            self._stopping.set()
            with self._lock:
                links = list(self._links.values())
            for link in links:
                with contextlib.suppress(OSError):
                    link.send_bytes(b"stop")
            deadline_s = time.monotonic() + LEAVE_TIMEOUT_S
            for job in self._jobs:
                if job.ident is not None:
                    job.join(max(0.0, deadline_s - time.monotonic()))
            if any(job.is_alive() for job in self._jobs):
                log.warning("receivers have not ended within %.0f s: their jobs are cancelled", LEAVE_TIMEOUT_S)
                with contextlib.suppress(Exception):
                    self._context.cancelJobGroup(self._group)
            self._files.close()

    def status(self) -> dict[str, Any]:
        self._warn_if_some_have_not_begun()
        with self._lock:
            return {
                "fatal": self._fatal,
                "receivers": [self._told[link] for _, link in sorted(self._links.items()) if link in self._told],
                "restarts": self._restarts,
                "doubled_at_most": self._doubled_at_most + sum(one["doubled_at_most"] for one in self._told.values()),
                "last_failure": self._last_failure,
            }

    def _warn_if_some_have_not_begun(self) -> None:
        """Spark itself says nothing to whoever waits for a core."""
        if self._warned or time.monotonic() - self._began_s < BEGUN_AFTER_S:
            return
        with self._lock:
            missing = sorted({*range(self.settings.receivers)} - {*self._links})
        if missing and self._restarts == 0:
            log.warning(
                "receivers %s have not begun in %.0f s: each takes a core; are there enough, and can executors reach"
                " this driver at %s:%d?", ", ".join(map(str, missing)), BEGUN_AFTER_S, *self._tracker
            )  # fmt: skip
        self._warned = True

    def serve_receiver(self, connection: Connection[Any, Any], number: int) -> None:
        """Until its connection ends. Of two that say they are the same, the later one is right."""
        with self._lock:
            before, self._links[number] = self._links.get(number), connection
            stopping = self._stopping.is_set()
        if before is not None:
            with contextlib.suppress(OSError):
                before.send_bytes(b"stop")
        try:
            if stopping:
                connection.send_bytes(b"stop")
            while connection.poll(SILENCE_S):
                status = json.loads(connection.recv_bytes())
                with self._lock:
                    self._told[connection] = status
        finally:
            with self._lock:
                last = self._told.pop(connection, None)
                if last is not None:
                    self._doubled_at_most += last["doubled_at_most"] + last["not_committed"]
                if self._links.get(number) is connection:
                    del self._links[number]

    # --- a thread for each receiver ---

    @property
    def _group(self) -> str:
        return f"zkconsumer-receivers-{self.name}"

    def _keep_running(self, number: int) -> None:
        failures = 0
        while not self._stopping.is_set():
            began_s = time.monotonic()
            failure = self._run_once(number)
            if self._stopping.is_set():
                return
            lived_s = time.monotonic() - began_s
            failures = 1 if lived_s >= LIVED_LONG_ENOUGH_S else failures + 1
            log.warning("a receiver has ended and is started again: %s", failure)
            with self._lock:
                self._restarts += 1
                self._last_failure = failure
                if failures >= ATTEMPTS:
                    self._fatal = f"{failure} (and so {ATTEMPTS} times)"
                    return
            self._stopping.wait(RESTART_AFTER_S)

    def _run_once(self, number: int) -> str:
        """Why it ended."""
        settings = ReceiverSettings(self.settings, str(self.directory), self.name, self._tracker, self._secret)

        def task(_: Iterable[int]) -> Iterator[str | None]:
            return receive(settings, number)

        try:
            of_group = self.settings.config.group_id
            self._context.setJobGroup(self._group, f"receiver {number} of group {of_group}", interruptOnCancel=True)
            [failure] = self._context.parallelize([number], 1).mapPartitions(task).collect()
            return failure or f"receiver {number} was told to leave"
        except Exception as error:  # Spark's: the task's process was killed, an executor is gone
            return f"receiver {number}: {_last_words(error)}"


@contextlib.contextmanager
def _taken(directory: Path) -> Iterator[None]:
    """A directory for segments that outlive the query; one query at a time."""
    descriptor = os.open(directory / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise PipelineError(f"directory {directory} is in use by another query") from None
        yield
    finally:
        os.close(descriptor)


def _last_words(error: Exception) -> str:
    """Of all that Spark says about a failed job, the one line that tells what was wrong."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error: " in line or "Exception: " in line]
    return told[-1] if told else (lines[0] if lines else type(error).__name__)


__all__ = ["Tracker"]
