"""What the commands that consume have in common: usage errors, standard output, signals, a group's znodes.

Texts and exit codes are those of 0.8's tools, on which scripts rely.
"""

from __future__ import annotations

import argparse
import logging
import os
import queue
import select
import shutil
import signal
import stat
import sys
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Self

from fetcher.threads import ShutdownableThread
from zkconsumer.commands.config_file import PREFIX, read_settings
from zkconsumer.config import ConsumerConfig
from zkconsumer.errors import ZooKeeperError
from zkconsumer.paths import GroupPaths
from zkconsumer.zookeeper import ZooKeeper

log = logging.getLogger(__name__)

FAILED = 1
TOOL_TIMEOUT_MS = 30_000  # 0.8's tools: session and connection
EXIT_TIMEOUT_MS = 6_000  # whoever pressed Ctrl-C does not wait for half a minute
NO_STDOUT = "Unable to write to standard out, closing consumer."

_BUFFERED_BYTES = 64 * 1024
_LOOK_EVERY_S = 0.2  # how soon a write to somebody who does not read notices that the command was told to stop
_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


# --- arguments ---


def nothing_given(arguments: argparse.Namespace) -> bool:
    """Whether there was not a single option. Needs remember_usage()."""
    return bool(arguments == arguments.usage_parser.parse_args([]))


def check_required(arguments: argparse.Namespace, *options: str) -> str | None:
    """0.8's line about the first of these options that was not given."""
    for option in options:
        if getattr(arguments, option.replace("-", "_").replace(".", "_")) is None:
            return f'Missing required argument "[{option}]"'
    return None


def fail_with_usage(arguments: argparse.Namespace, message: str) -> int:
    """Say what is wrong and how the command is used; exit code 1. Needs remember_usage()."""
    print(message, file=sys.stderr)
    arguments.usage_parser.print_help(sys.stderr)
    return FAILED


def remember_usage(parser: argparse.ArgumentParser) -> None:
    """Let run() show it: 0.8's tools check what is required only after all options were read."""
    parser.set_defaults(usage_parser=parser)


def read_properties(path: str | None) -> dict[str, str]:
    """The consumer's settings in a file of --consumer.config; none without a file."""
    settings = read_settings(path) if path is not None else {}
    return {key: value for key, value in settings.items() if not key.startswith(PREFIX)}


def log_to_stderr() -> None:
    """Warnings and errors only, as the scripts of 0.8 have it (tools-log4j.properties); more with ZKCONSUMER_DEBUG."""
    level = logging.INFO if os.environ.get("ZKCONSUMER_DEBUG") else logging.WARNING
    logging.basicConfig(level=level, format="[%(asctime)s] %(levelname)s %(message)s (%(name)s)")


# --- the group in ZooKeeper ---


def tool_zookeeper(config: ConsumerConfig, *, timeout_ms: int = TOOL_TIMEOUT_MS) -> ZooKeeper:
    """A connection with the timeouts of 0.8's tools."""
    return ZooKeeper(
        config.zookeeper_connect,
        session_timeout_ms=timeout_ms,
        connection_timeout_ms=timeout_ms,
        options=config.zookeeper_options,
    )


def remove_group(config: ConsumerConfig, *, timeout_ms: int = TOOL_TIMEOUT_MS) -> None:
    """Delete all the group has in ZooKeeper (0.8: maybeDeletePath), which fails with a warning at most."""
    directory = GroupPaths(config.group_id).directory
    try:
        with tool_zookeeper(config, timeout_ms=timeout_ms) as zookeeper:
            delete_subtree(zookeeper, directory)
    except ZooKeeperError as error:
        log.warning("%s could not be removed: %s", directory, error)


def delete_subtree(zookeeper: ZooKeeper, path: str) -> None:
    """Delete a node and all below it, a level at a time. Missing nodes are fine; a node that got a new child is not."""
    levels = [[path]]
    while levels[-1]:
        children = zookeeper.children_many(levels[-1])
        levels.append([f"{parent}/{name}" for parent, names in children.items() for name in names or ()])
    for level in reversed(levels):
        zookeeper.delete_many(level)


# --- standard output ---


def terminal_width() -> int | None:
    """None if standard output is no terminal: nothing is cut there."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


class Output:
    """Standard output for bytes as they are. Writing never raises: `failed` says that nobody reads any more.

    `on_failure` is called once, by whoever wrote. A reader that does not read is waited for, until `give_up` says so.
    """

    def __init__(
        self, *, on_failure: Callable[[], None] = lambda: None, give_up: Callable[[], bool] = lambda: False
    ) -> None:
        self.failed = False
        self._on_failure = on_failure
        self._give_up = give_up
        # Without standard output its number may by now be that of a connection: never write to that.
        self._descriptor = sys.stdout.fileno() if sys.stdout is not None else None
        self._buffer = bytearray()
        self._lock = threading.Lock()

    def write(self, data: bytes) -> int:
        """Keep it until flush(), or until it is much."""
        with self._lock:
            self._buffer += data
            is_full = len(self._buffer) >= _BUFFERED_BYTES
        if is_full:
            self.flush()
        return len(data)

    def write_line(self, text: str) -> None:
        """A whole line, at once."""
        self.write(text.encode(errors="replace") + b"\n")
        self.flush()

    def flush(self) -> None:
        """Let the reader have everything. Called by: any thread."""
        with self._lock:
            data, self._buffer = self._buffer, bytearray()
            if not data or self.failed:
                return
            try:
                self._write_all(memoryview(data))
            except OSError:
                self.failed = True
        if self.failed:
            self._on_failure()

    def _write_all(self, data: memoryview) -> None:
        if self._descriptor is None:
            raise BrokenPipeError
        # What a pipe is ready for it takes without blocking, up to this size.
        is_file = stat.S_ISREG(os.fstat(self._descriptor).st_mode)
        at_once = _BUFFERED_BYTES if is_file else select.PIPE_BUF
        while data:
            while not select.select([], [self._descriptor], [], _LOOK_EVERY_S)[1]:
                if self._give_up():
                    raise BrokenPipeError
            data = data[os.write(self._descriptor, data[:at_once]) :]


# --- signals ---


class StopSignals(ShutdownableThread):
    """Ctrl-C, SIGTERM and a closed terminal as an orderly end: `with` takes them over.

    The first one sets `requested` and calls `on_stop`, in a thread of its own: whatever the main thread is doing is not
    torn apart, and on_stop has to end it. What was ignored when the command began (nohup, `&` in a script) stays so.
    """

    def __init__(self, on_stop: Callable[[], None]) -> None:
        super().__init__("stop-signals")
        self.requested = False
        self.exit_code = 0  # as a shell shows it: 130 for Ctrl-C, 143 for SIGTERM
        self._on_stop = on_stop
        # Unlike an event or another queue it may be put into by a handler that interrupts just that.
        self._requests: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._handlers_before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None] = {}

    def request(self) -> None:
        """Stop as if a signal had come. Called by: any thread."""
        if not self.requested:
            self.requested = True
            self._requests.put(True)

    def do_work(self) -> None:
        if self._requests.get():
            self._on_stop()

    def wake(self) -> None:
        self._requests.put(False)

    def __enter__(self) -> Self:
        self.start()
        for number in _SIGNALS:
            if signal.getsignal(number) != signal.SIG_IGN:
                self._handlers_before[number] = signal.signal(number, self._handle)
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._handlers_before.items():
            signal.signal(number, handler)
        self.shutdown()

    def _handle(self, number: int, _frame: FrameType | None) -> None:
        if not self.requested:
            self.exit_code = 128 + number
        self.request()
