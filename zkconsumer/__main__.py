"""`zkconsumer COMMAND …`: the table of commands. Each is a module with add_arguments() and run(), loaded when used."""

from __future__ import annotations

import argparse
import errno
import importlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple, Protocol, TypeVar, cast

from zkconsumer import __version__
from zkconsumer.commands.config_file import RaisingParser, add_config_option, with_file


class Command(Protocol):
    """What a command's module offers; its docstring is the description."""

    __doc__: str | None
    EXAMPLES: str

    def add_arguments(self, parser: argparse.ArgumentParser) -> None: ...

    def run(self, arguments: argparse.Namespace) -> int: ...


class Entry(NamedTuple):
    """A line of `zkconsumer --help`."""

    module: str
    summary: str


COMMANDS = {
    "console-consumer": Entry("zkconsumer.commands.console_consumer", "print the messages of topics"),
    "consumer-perf": Entry("zkconsumer.commands.consumer_perf", "measure how fast a topic can be consumed"),
    "verifiable-consumer": Entry("zkconsumer.commands.verifiable_consumer", "tell what a consumer does, as JSON lines"),
    "offset-checker": Entry("zkconsumer.commands.offset_checker", "print offsets, lags and owners of a group"),
    "verify-rebalance": Entry("zkconsumer.commands.verify_rebalance", "say whether every partition has a live owner"),
    "export-zk-offsets": Entry("zkconsumer.commands.export_zk_offsets", "write offsets in ZooKeeper to a file"),
    "import-zk-offsets": Entry("zkconsumer.commands.import_zk_offsets", "write offsets from a file into ZooKeeper"),
    "update-offsets-in-zk": Entry("zkconsumer.commands.update_offsets_in_zk", "move a group to a topic's begin or end"),
    "get-offset-shell": Entry("zkconsumer.commands.get_offset_shell", "print where partitions begin or end"),
    "doctor": Entry("zkconsumer.commands.doctor", "say what is wrong with groups in ZooKeeper"),
    "groups": Entry("zkconsumer.commands.groups", "list, describe, delete groups in ZooKeeper and in Kafka"),
    "offsets": Entry("zkconsumer.commands.offsets", "get, set, rewind, copy, compare, migrate stored offsets"),
    "delete-records": Entry("zkconsumer.commands.delete_records", "delete records below given offsets"),
    "snapshot": Entry("zkconsumer.commands.snapshot", "save what groups have in ZooKeeper, load it into a sandbox"),
    "completion": Entry("zkconsumer.commands.completion", "what lets bash, zsh or fish complete all of this"),
    "sandbox": Entry("zkconsumer.commands.sandbox", "real ZooKeeper and Kafka in the foreground, until Ctrl-C"),
    "tree": Entry("zkconsumer.commands.tree", "print what is in ZooKeeper as a tree"),
    "plan": Entry("study.plan_command", "who gets which partitions under each strategy, and what moves"),
    "record-rebalance": Entry("study.record_command", "what a group of new consumers says while it rebalances, drawn"),
    "study": Entry("study.command", "old consumers against new ones, with a report"),
    "demo": Entry("study.demo", "old and new consumers side by side on real servers"),
}

_Parser = TypeVar("_Parser", bound=argparse.ArgumentParser)
_TOLD_OTHERWISE = ("Failed connecting to Zookeeper within", "Connection dropped: socket connection error")
FAILED, USAGE, INTERRUPTED = 1, 2, 130


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Exit codes: 0 done, 1 failed, 2 wrong usage, 130 Ctrl-C."""
    try:
        try:
            return _main(list(sys.argv[1:] if argv is None else argv))
        finally:
            if sys.stdout is not None:
                sys.stdout.flush()  # here, where it can be told that nobody reads, or that the disk is full
    except KeyboardInterrupt:  # before or behind the command itself, which has ways of its own
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has gone (`| head`): end as any other tool would, without a second error at exit.
        _forget_output()
        return 128 + signal.SIGPIPE
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EFBIG, errno.EDQUOT):
            raise
        _forget_output()
        print(f"zkconsumer: standard output: {error.strerror}", file=sys.stderr)
        return FAILED


def _forget_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _main(arguments: Sequence[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help", "help"):
        print(_overview())
        return 0 if arguments else USAGE
    if arguments[0] in ("-V", "--version"):
        print(f"zkconsumer {__version__}")
        return 0
    name, *rest = arguments
    if name not in COMMANDS:
        print(f"zkconsumer: there is no command {name!r}; `zkconsumer --help` lists them", file=sys.stderr)
        return USAGE
    return _run(name, rest)


def parser_for(name: str, kind: type[_Parser] = argparse.ArgumentParser) -> _Parser:  # type: ignore[assignment]
    """Of one command, with its options. Also of use to shell completion."""
    command = _command(name)
    parser = kind(
        prog=f"zkconsumer {name}",
        description=(command.__doc__ or "").partition("\n\n")[0],
        epilog=f"examples:\n{command.EXAMPLES}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    command.add_arguments(parser)
    # argparse has no public way to look.
    actions = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not actions:
        add_config_option(parser)
    for action in actions:
        for word, below in action.choices.items():
            lines = [line for line in command.EXAMPLES.splitlines() if f"zkconsumer {name} {word}" in line]
            below.epilog = "\n".join(["examples:", *lines])
            below.formatter_class = argparse.RawDescriptionHelpFormatter
            add_config_option(below)
    return parser


def _command(name: str) -> Command:
    return cast(Command, importlib.import_module(COMMANDS[name].module))


def _run(name: str, arguments: Sequence[str]) -> int:
    _tell_of_waiting()
    try:
        words = with_file(name, arguments, parser_for(name, RaisingParser), COMMANDS)
        parsed: argparse.Namespace = parser_for(name).parse_args(words)
        with _sigterm_as_exception():
            return _command(name).run(parsed)
    except KeyboardInterrupt as error:
        for note in getattr(error, "__notes__", []):
            print(f"zkconsumer {name}: {note}", file=sys.stderr)
        return 128 + signal.SIGTERM if isinstance(error, _Terminated) else INTERRUPTED
    except Exception as error:
        if not _is_for_users(error) or os.environ.get("ZKCONSUMER_DEBUG"):
            raise
        print(f"zkconsumer {name}: {_text_of(error)}", file=sys.stderr)
        for note in getattr(error, "__notes__", []):
            print(note, file=sys.stderr)
        return FAILED


class _Terminated(KeyboardInterrupt):
    """SIGTERM: what a command has under way is cleared away, as after Ctrl-C."""


@contextmanager
def _sigterm_as_exception() -> Iterator[None]:
    """Unless somebody else handles it. Commands that consume have ways of their own, and set them up themselves."""

    def terminate(_number: int, _frame: FrameType | None) -> None:
        raise _Terminated

    is_ours = threading.current_thread() is threading.main_thread()
    if not is_ours or signal.getsignal(signal.SIGTERM) != signal.SIG_DFL:
        yield
        return
    signal.signal(signal.SIGTERM, terminate)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _tell_of_waiting() -> None:
    """One line while a server does not answer, for somebody who looks. The error at the end says the rest."""
    if not os.environ.get("ZKCONSUMER_DEBUG"):
        logging.getLogger("zkconsumer.kazoo_client").addFilter(
            lambda record: not record.getMessage().startswith(_TOLD_OTHERWISE)
        )
    waiting = logging.getLogger("zkconsumer.zookeeper.waiting")
    if sys.stderr is not None and sys.stderr.isatty() and not waiting.handlers:
        waiting.addHandler(logging.StreamHandler())
        waiting.setLevel(logging.INFO)
        waiting.propagate = False


def _is_for_users(error: Exception) -> bool:
    """Errors whose text says what to do; anything else is a bug of ours and shows its trace."""
    from fetcher.errors import KafkaException
    from zkconsumer.testing.errors import ServerError

    # Of the system's errors those about a file, which a user named; one about a connection is ours to handle.
    return isinstance(error, ServerError | KafkaException) or (
        isinstance(error, OSError) and error.filename is not None
    )


def _text_of(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    where = getattr(error, "connect", "")  # of a server that could not be reached
    return f"{error} ({where})" if where else str(error) or type(error).__name__


def _overview() -> str:
    width = max(map(len, COMMANDS))
    lines = [f"  {name:<{width}}  {entry.summary}" for name, entry in COMMANDS.items()]
    return "\n".join(
        [
            "usage: zkconsumer COMMAND [OPTIONS]",
            "",
            "Kafka 0.8's high-level consumer for Python, and real servers to try it on.",
            "",
            *lines,
            "",
            "`zkconsumer COMMAND --help` tells more, with examples. ZKCONSUMER_DEBUG=1 shows traces of errors.",
        ]
    )


if __name__ == "__main__":
    sys.exit(main())
