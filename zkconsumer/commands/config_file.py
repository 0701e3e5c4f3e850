"""The properties file of --config, or of $ZKCONSUMER_CONFIG: where servers are, and options of any command.

    zookeeper.connect=zk1:2181/kafka
    zkconsumer.COMMAND.OPTION=value               e.g. zkconsumer.doctor.json=true
    zkconsumer.COMMAND.ACTION.OPTION=value        e.g. zkconsumer.groups.describe.watch=2

Options stand there as on the command line, without the dashes. What is given on the command line counts more, also
where it only excludes what the file says. Other keys are left alone, so that a consumer.properties serves.
"""

from __future__ import annotations

import argparse
import os
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

from zkconsumer.errors import InvalidConfigException
from zkconsumer.java_properties import parse_properties

VARIABLE = "ZKCONSUMER_CONFIG"
PREFIX = "zkconsumer."
_ONLY_ON_THE_LINE = {"help", "h", "config"}


class RaisingParser(argparse.ArgumentParser):
    """To look at words without a word: what is wrong with them raises argparse.ArgumentError, asking for help too."""

    def error(self, message: str) -> NoReturn:
        raise argparse.ArgumentError(None, message)

    def print_help(self, file: object = None) -> NoReturn:
        self.error("help is wanted")


def add_config_option(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", metavar="FILE", help="properties: zookeeper.connect, bootstrap.servers,"
                        f" {PREFIX}COMMAND.OPTION (or ${VARIABLE})")  # fmt: skip


def read_settings(path: str) -> dict[str, str]:
    """All keys of a properties file. InvalidConfigException if it is none."""
    try:
        return parse_properties(Path(path).read_bytes())
    except ValueError as error:
        raise InvalidConfigException(f"{path} is no properties file: {error}") from error


def settings_for(arguments: argparse.Namespace) -> dict[str, str]:
    """Of the file that was named, if any was."""
    path = arguments.config or os.environ.get(VARIABLE)
    return read_settings(path) if path else {}


def with_file(command: str, words: Sequence[str], parser: RaisingParser, commands: Collection[str]) -> list[str]:
    """The words of the command line behind those that a file says. `parser`: the command's, to be changed here."""
    _ask_for_nothing(parser)
    try:
        given = vars(parser.parse_args(words))
    except argparse.ArgumentError:
        return list(words)  # whoever parses them for good says what is wrong
    path = given.get("config") or os.environ.get(VARIABLE)
    if not path:
        return list(words)
    asked = _Asked(command, parser, words, path)
    options = asked.options({key: value for key, value in read_settings(path).items() if key.startswith(PREFIX)},
                            commands)  # fmt: skip
    found = [word for action, its in options.items() if not asked.is_settled(action, given) for word in its]
    return [*asked.action, *asked.checked(found), *words[len(asked.action) :]]


class _Asked:
    """A command line whose options are looked for in a file."""

    def __init__(self, command: str, parser: RaisingParser, words: Sequence[str], path: str) -> None:
        self._command, self._path = command, path
        self._whole: argparse.ArgumentParser = parser
        self._parser: argparse.ArgumentParser = parser
        self._actions = _actions_of(parser)
        self.action = list(words[:1]) if words and words[0] in self._actions else []
        if self.action:
            self._parser = self._actions[words[0]]

    def options(self, settings: Mapping[str, str], commands: Collection[str]) -> dict[argparse.Action, list[str]]:
        """As words, by what they set. What is said of one action counts more than what is said of all."""
        found: dict[argparse.Action, list[str]] = {}
        for key, value in sorted(settings.items(), key=lambda item: item[0].count(".")):
            command, _, name = key.removeprefix(PREFIX).partition(".")
            if command not in commands:
                self._refuse(key, f"there is no command {command!r}; `zkconsumer --help` lists them")
            if command == self._command and (option := self._option(key, name)) is not None:
                found[option] = self._words(key, option, value)
        return found

    def is_settled(self, action: argparse.Action, given: Mapping[str, object]) -> bool:
        """By the command line: given there, or excluded by what is."""
        groups = self._parser._mutually_exclusive_groups
        excluding = [other for group in groups if action in group._group_actions for other in group._group_actions]
        return any(other.dest in given for other in [action, *excluding])

    def checked(self, words: list[str]) -> list[str]:
        try:
            self._whole.parse_known_args([*self.action, *words])
        except argparse.ArgumentError as error:
            raise InvalidConfigException(f"{self._path}: {error}") from None
        return words

    def _option(self, key: str, name: str) -> argparse.Action | None:
        """None: of another action of this command."""
        action, _, rest = name.partition(".")
        if action in self._actions and rest:
            option = _options_of(self._actions[action]).get(rest)
            if option is None:
                self._refuse(key, f"`zkconsumer {self._command} {action}` has no option --{rest}")
            return option if [action] == self.action else None
        everywhere = [_options_of(one) for one in self._actions.values()] or [_options_of(self._parser)]
        if not any(name in options for options in everywhere):
            self._refuse(key, f"`zkconsumer {self._command}` has no option --{name}")
        return _options_of(self._parser).get(name)

    def _words(self, key: str, option: argparse.Action, value: str) -> list[str]:
        word = next(one for one in option.option_strings if one.startswith("--"))
        if option.nargs == 0:
            if value not in ("true", "false"):
                self._refuse(f"{key}={value}", "true or false")
            return [word] if value == "true" else []
        try:
            values = shlex.split(value) if isinstance(option, argparse._AppendAction) else [value]
            words = [f"{word}={one}" for one in values]
            self._whole.parse_known_args([*self.action, *words])
        except argparse.ArgumentError as error:
            self._refuse(f"{key}={value}", str(error).partition(": ")[2] or str(error))
        except ValueError as error:
            self._refuse(f"{key}={value}", str(error))
        return words

    def _refuse(self, what: str, why: str) -> NoReturn:
        raise InvalidConfigException(f"{self._path}: {what}: {why}")


def _ask_for_nothing(parser: argparse.ArgumentParser) -> None:
    """So that whatever is parsed has no more than what was given."""
    for one in (parser, *_actions_of(parser).values()):
        one._defaults.clear()
        for group in one._mutually_exclusive_groups:
            group.required = False
        for action in one._actions:
            action.required = False
            if action.option_strings:
                action.default = argparse.SUPPRESS


def _actions_of(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """`list`, `describe`, … of a command that has such. (argparse has no public way to look.)"""
    return {
        name: below
        for action in parser._actions
        if isinstance(action, argparse._SubParsersAction)
        for name, below in action.choices.items()
    }


def _options_of(parser: argparse.ArgumentParser) -> dict[str, argparse.Action]:
    return dict(_named_options(parser))


def _named_options(parser: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.Action]]:
    for action in parser._actions:
        for word in action.option_strings:
            if (name := word.lstrip("-")) not in _ONLY_ON_THE_LINE:
                yield name, action
