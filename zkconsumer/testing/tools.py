"""The real command-line tools around the consumer, run as they are: what they print is what ours must print.

    result = run_tool("0.8.2.2", "kafka.tools.GetOffsetShell", "--broker-list", …)
    result.stdout, result.stderr, result.exit_code, result.log

Which release's tool is worth asking is in the functions below: each runs the one that works.
"""

from __future__ import annotations

import signal
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import NamedTuple, Self

from zkconsumer.testing.errors import ServerStartError, WaitTimeout
from zkconsumer.testing.java import class_path_of, find_java, unpack_into
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.programs import QUICK_START, program
from zkconsumer.testing.scala import log4j_properties
from zkconsumer.testing.waiting import scaled

TOOL_TIMEOUT_S = 60.0
HEAP_MB = 256


class ToolResult(NamedTuple):
    """What a tool left behind."""

    stdout: str
    stderr: str
    exit_code: int  # negative: ended by that signal
    log: str  # log4j at INFO, apart from the other two


class RealTool:
    """A tool that runs: for those that go on until they are told to stop, e.g. the console consumer.

    Its standard input is the given text and then ends.
    """

    def __init__(self, version: str, class_name: str, *arguments: str, stdin: str | None = None) -> None:
        self._program = program("kafka", version)
        self.name = f"{class_name.rpartition('.')[2]} {version}"
        self._class_name = class_name
        self._arguments = arguments
        self._stdin = stdin or ""
        self._process = GuardedProcess(f"tool-{version}")
        self._files = {name: self._process.directory / f"{name}.txt" for name in ("stdout", "stderr", "log", "stdin")}

    def start(self) -> None:
        self._process.open()
        directory = self._process.directory
        (directory / "log4j.properties").write_text(log4j_properties(str(self._files["log"]), "INFO"))
        self._files["stdin"].write_text(self._stdin)
        command = [str(find_java()), f"-Xmx{HEAP_MB}m", *QUICK_START, unpack_into(directory)]
        command += ["-cp", class_path_of([directory, *self._program.jars()]), self._class_name, *self._arguments]
        # The guard keeps the child's input open; a tool that reads to its end wants a file.
        with_input = ["/bin/sh", "-c", 'input=$1; shift; exec "$@" <"$input"', "sh", str(self._files["stdin"])]
        self._process.spawn([*with_input, *command], output=self._files["stdout"], errors=self._files["stderr"])

    @property
    def running(self) -> bool:
        return self._process.poll()

    def signal(self, number: signal.Signals) -> None:
        """SIGTERM is what ends a console consumer in order."""
        self._process.signal(number)

    def stdout(self) -> str:
        """What it has printed so far."""
        return self._text("stdout")

    def wait(self, timeout_s: float = TOOL_TIMEOUT_S) -> ToolResult:
        """Its result; WaitTimeout, with the end of what it wrote, if it does not end in time."""
        if not self._process.wait(scaled(timeout_s)):
            error = WaitTimeout(f"{self.name}: has not ended within {scaled(timeout_s):g} s")
            error.add_note(self._process.log_tail(*(self._files[name] for name in ("stdout", "stderr", "log"))))
            raise error
        if self._process.exit_code is None:
            raise ServerStartError(f"{self.name}: was never started, or its guard process was killed from outside")
        return ToolResult(self._text("stdout"), self._text("stderr"), self._process.exit_code, self._text("log"))

    def close(self) -> None:
        """Kill it if it runs, remove its files. Idempotent."""
        self._process.close()

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def _text(self, name: str) -> str:
        try:
            return self._files[name].read_text(errors="replace")
        except FileNotFoundError:
            return ""


def run_tool(
    version: str, class_name: str, *arguments: str, stdin: str | None = None, timeout_s: float = TOOL_TIMEOUT_S
) -> ToolResult:
    """Run a tool to its end."""
    with RealTool(version, class_name, *arguments, stdin=stdin) as tool:
        return tool.wait(timeout_s)


def verify_consumer_rebalance(zookeeper_connect: str, group: str, *, version: str = "1.1.1") -> ToolResult:
    """Whether every partition has a live owner. 0.8.2.2's always says no (KAFKA-3952)."""
    arguments = ("--zookeeper.connect", zookeeper_connect, "--group", group)
    return run_tool(version, "kafka.tools.VerifyConsumerRebalance", *arguments)


def consumer_group_command(*arguments: str, timeout_s: float = TOOL_TIMEOUT_S) -> ToolResult:
    """kafka-consumer-groups of 1.1.1; describe needs a broker of 0.9 or later."""
    return run_tool("1.1.1", "kafka.admin.ConsumerGroupCommand", *arguments, timeout_s=timeout_s)


def consumer_offset_checker(
    zookeeper_connect: str, group: str, topics: Iterable[str] = (), *, broker_info: bool = False
) -> ToolResult:
    """Offsets, log sizes, lags and owners. Waits for ever, here until the time-out, for a group's offset manager."""
    arguments = ["--zookeeper", zookeeper_connect, "--group", group]
    chosen = ",".join(topics)
    arguments += ["--topic", chosen] if chosen else []
    arguments += ["--broker-info"] if broker_info else []
    return run_tool("0.8.2.2", "kafka.tools.ConsumerOffsetChecker", *arguments)


def export_zk_offsets(zookeeper_connect: str, output_file: Path, groups: Iterable[str] = ()) -> ToolResult:
    """Write `path:value` lines. It leaves its session open: ZooKeeper forgets it 30 s after the process has ended."""
    arguments = ["--zkconnect", zookeeper_connect, "--output-file", str(output_file)]
    for group in groups:
        arguments += ["--group", group]
    return run_tool("0.8.2.2", "kafka.tools.ExportZkOffsets", *arguments)


def import_zk_offsets(zookeeper_connect: str, input_file: Path) -> ToolResult:
    """Write the offsets of such lines, up to the first empty one."""
    arguments = ("--zkconnect", zookeeper_connect, "--input-file", str(input_file))
    return run_tool("0.8.2.2", "kafka.tools.ImportZkOffsets", *arguments)


def update_offsets_in_zk(which: str, consumer_properties: Path, topic: str) -> ToolResult:
    """Set a group's offsets to the `earliest` or `latest` of each partition."""
    return run_tool("0.8.2.2", "kafka.tools.UpdateOffsetsInZK", which, str(consumer_properties), topic)
