"""Print what lets a shell complete commands, options and their values.

Made from the commands' own options, so it fits this version; make it again after an update.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

EXAMPLES = """\
  source <(zkconsumer completion bash)                                      this shell; or into ~/.bashrc
  source <(zkconsumer completion zsh)                                       in ~/.zshrc, behind compinit
  zkconsumer completion fish > ~/.config/fish/completions/zkconsumer.fish"""

FILES = ("FILE", "DIR", "RUN", "TOML")  # in a metavar: complete names of files


@dataclass(frozen=True)
class Value:
    """What an option takes: one of these, a file, or what nobody can guess."""

    choices: Sequence[str] = ()
    is_file: bool = False


@dataclass(frozen=True)
class Level:
    """A command, or one of its actions: `words` may follow, with what they mean; `values` those that take something."""

    words: Mapping[str, str]
    values: Mapping[str, Value] = field(default_factory=dict)
    takes_files: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=("bash", "zsh", "fish"))


def run(arguments: argparse.Namespace) -> int:
    levels = dict(all_levels())
    print("\n".join(_fish(levels) if arguments.shell == "fish" else _bash(levels, is_zsh=arguments.shell == "zsh")))
    return 0


def all_levels() -> Iterator[tuple[str, Level]]:
    """By path: `` for the command line itself, `/groups`, `/groups/list`."""
    from zkconsumer.__main__ import COMMANDS, parser_for

    yield "", Level({name: entry.summary for name, entry in COMMANDS.items()} | {"--help": "", "--version": ""})
    for name in COMMANDS:
        try:
            importlib.import_module(COMMANDS[name].module)
        except ImportError:
            continue  # of an extra that is not installed
        yield from _levels(f"/{name}", parser_for(name))


def _levels(path: str, parser: argparse.ArgumentParser) -> Iterator[tuple[str, Level]]:
    words: dict[str, str] = {}
    values: dict[str, Value] = {}
    takes_files = False
    below: dict[str, argparse.ArgumentParser] = {}
    for action in parser._actions:  # argparse has no public way to look
        if isinstance(action, argparse._SubParsersAction):
            below = action.choices
            words |= {choice.dest: choice.help or "" for choice in action._choices_actions}
        elif not action.option_strings:
            takes_files |= _value(action).is_file
            words |= dict.fromkeys(map(str, action.choices or ()), "")
        else:
            words |= dict.fromkeys(
                action.option_strings, (action.help or "").replace("%(default)s", str(action.default))
            )
            if action.nargs != 0:
                values |= dict.fromkeys(action.option_strings, _value(action))
    words.pop("-h", None)
    yield path, Level(words, values, takes_files)
    for name, parser_below in below.items():
        yield from _levels(f"{path}/{name}", parser_below)


def _value(action: argparse.Action) -> Value:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    return Value(tuple(map(str, action.choices or ())), any(word in metavar for word in FILES))


# --- the shells ---


def _bash(levels: Mapping[str, Level], *, is_zsh: bool) -> Iterator[str]:
    if is_zsh:
        yield "autoload -U +X bashcompinit && bashcompinit"
    paths = "|".join(path for path in levels if path)
    yield from [
        "_zkconsumer() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local path="" words="" files="" i',
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        f'    case "$path/${{COMP_WORDS[i]}}" in {paths}) path="$path/${{COMP_WORDS[i]}}" ;; esac',
        "  done",
        '  case "$path $previous" in',
    ]
    for path, level in levels.items():
        for option, value in level.values.items():
            act = "files=1" if value.is_file else f"words={shlex.quote(' '.join(value.choices))}"
            yield f"    '{path} {option}') {act} ;;"
    yield '    *) case "$path" in'
    for path, level in levels.items():
        files = " files=1" if level.takes_files else ""
        yield f"      '{path}') words={shlex.quote(' '.join(level.words))}{files} ;;"
    yield from [
        "    esac ;;",
        "  esac",
        '  COMPREPLY=($(compgen -W "$words" -- "$current"))',
        '  if [ -n "$files" ]; then COMPREPLY+=($(compgen -f -- "$current")); fi',
        "}",
        "complete -F _zkconsumer zkconsumer",
    ]


def _fish(levels: Mapping[str, Level]) -> Iterator[str]:
    paths = " ".join(path for path in levels if path)
    yield from [
        "function __zkconsumer_path",
        "  set -l path ''",
        "  for word in (commandline -opc)[2..]",
        f"    contains -- $path/$word {paths}; and set path $path/$word",
        "  end",
        "  echo $path",
        "end",
        "complete -c zkconsumer -f",
    ]
    for path, level in levels.items():
        at = f"complete -c zkconsumer -n 'test (__zkconsumer_path)x = {path}x'"
        for word, meaning in level.words.items():
            value = level.values.get(word)
            what = (
                f"-l {word[2:]}"
                if word.startswith("--")
                else f"-o {word[1:]}"
                if word.startswith("-")
                else f"-a {word}"
            )
            takes = "" if value is None else " -x" if not value.is_file else " -rF"
            choices = f" -a {_fish_text(' '.join(value.choices))}" if value is not None and value.choices else ""
            yield f"{at} {what}{takes}{choices} -d {_fish_text(meaning)}"
        if level.takes_files:
            yield f"{at} -F"


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
