"""Print what lets a shell complete commands, options and their values.

Made from the commands' own options, so it fits this version; make it again after an update. Names of groups and topics
are asked of the servers on the line that is being typed, or in the config file: `completion group LINE`.
"""

from __future__ import annotations

import argparse
import importlib
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from fetcher.admin import BrokerConnections
from zkconsumer.commands.common import FAILED
from zkconsumer.commands.options import bootstrap_servers, zookeeper_connect
from zkconsumer.errors import KafkaException
from zkconsumer.groups.cluster import BrokerCluster, ZooKeeperCluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.zookeeper_group import list_groups
from zkconsumer.zookeeper import ZooKeeper

EXAMPLES = """\
  source <(zkconsumer completion bash)                                      this shell; or into ~/.bashrc
  source <(zkconsumer completion zsh)                                       in ~/.zshrc, behind compinit
  zkconsumer completion fish > ~/.config/fish/completions/zkconsumer.fish"""

SHELLS = ("bash", "zsh", "fish")
FILES = ("FILE", "DIR", "RUN", "TOML")  # in a metavar: complete names of files
NAMED = {"--group": "group", "--to-group": "group", "--group-id": "group", "--topic": "topic"}
ZOOKEEPER_OPTIONS = ("--zookeeper", "--zookeeper.connect", "--zkconnect")
BROKER_OPTIONS = ("--bootstrap-server", "--broker-list")
PATIENCE_MS = 4_000  # of somebody who has pressed TAB


@dataclass(frozen=True)
class Value:
    """What an option takes: one of these, a file, the name of a `group` or `topic`, or what nobody can guess."""

    choices: Sequence[str] = ()
    is_file: bool = False
    name_of: str = ""


@dataclass(frozen=True)
class Level:
    """A command, or one of its actions: `words` may follow, with what they mean; `values` those that take something."""

    words: Mapping[str, str]
    values: Mapping[str, Value] = field(default_factory=dict)
    takes_files: bool = False


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", metavar="bash|zsh|fish", type=_shell, choices=(*SHELLS, *sorted(set(NAMED.values()))))
    parser.add_argument("line", nargs="?", default="", help=argparse.SUPPRESS)


def _shell(text: str) -> str:
    """What the shells themselves ask for is nobody else's business."""
    if text not in (*SHELLS, *NAMED.values()):
        raise argparse.ArgumentTypeError(f"{text}: there is completion for {', '.join(SHELLS)}")
    return text


def run(arguments: argparse.Namespace) -> int:
    """Of names 1 if nobody could be asked: the shell shows nothing then."""
    if arguments.shell in NAMED.values():
        try:
            print("\n".join(names(arguments.shell, arguments.line)))
        except (KafkaException, OSError):
            return FAILED
        return 0
    levels = dict(all_levels())
    print("\n".join({"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell](levels)))
    return 0


def names(kind: str, line: str) -> list[str]:
    """All groups or topics that the servers on the line know."""
    servers = _servers(line)
    connect, bootstrap = zookeeper_connect(servers), bootstrap_servers(servers)
    found: set[str] = set()
    if connect:
        with ZooKeeper(connect, session_timeout_ms=PATIENCE_MS, connection_timeout_ms=PATIENCE_MS) as zookeeper:
            found |= set(list_groups(zookeeper) if kind == "group" else ZooKeeperCluster(zookeeper).topics())
    if bootstrap:
        with BrokerConnections(timeout_s=PATIENCE_MS / 1000) as connections:
            cluster = BrokerCluster(connections, bootstrap)
            found |= set(KafkaGroups(connections, cluster.brokers()).names() if kind == "group" else cluster.topics())
    return sorted(found)


def _servers(line: str) -> argparse.Namespace:
    """As far as the line has been typed."""
    try:
        words = shlex.split(line)
    except ValueError:
        words = line.split()
    given: dict[str, str | None] = {}
    for word, following in zip(words, [*words[1:], ""], strict=True):
        option, equals, value = word.partition("=")
        given[option] = (value if equals else following) or None
    zookeeper, brokers = (
        next((given[one] for one in options if one in given), None) for options in (ZOOKEEPER_OPTIONS, BROKER_OPTIONS)
    )
    return argparse.Namespace(zookeeper=zookeeper, bootstrap_server=brokers, config=given.get("--config"))


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
            shown = (one for one in action.choices or () if one not in NAMED.values())
            words |= dict.fromkeys(map(str, shown), "")
        else:
            words |= dict.fromkeys(
                action.option_strings, (action.help or "").replace("%(default)s", str(action.default))
            )
            if action.nargs != 0:
                values |= dict.fromkeys(action.option_strings, _value(action))
    if words.keys().isdisjoint({*ZOOKEEPER_OPTIONS, *BROKER_OPTIONS}):  # nobody to ask
        values = {option: replace(value, name_of="") for option, value in values.items()}
    words.pop("-h", None)
    yield path, Level(words, values, takes_files)
    for name, parser_below in below.items():
        yield from _levels(f"{path}/{name}", parser_below)


def _value(action: argparse.Action) -> Value:
    metavar = action.metavar if isinstance(action.metavar, str) else ""
    named = next((NAMED[option] for option in action.option_strings if option in NAMED and "=" not in metavar), "")
    return Value(tuple(map(str, action.choices or ())), any(word in metavar for word in FILES), named)


# --- the shells ---


def _bash(levels: Mapping[str, Level]) -> Iterator[str]:
    yield from [
        "_zkconsumer() {",
        '  local current="${COMP_WORDS[COMP_CWORD]}" previous="${COMP_WORDS[COMP_CWORD-1]}"',
        '  local at="" found="" files="" named="" i',
        "  for ((i = 1; i < COMP_CWORD; i++)); do",
        '    local word="${COMP_WORDS[i]}"',
        *_decide(levels),
        # Not its words: bash cuts them at the colon of HOST:PORT.
        '  local line="${COMP_LINE:0:COMP_POINT}"',
        '  if [ -n "$named" ]; then found=$(zkconsumer completion "$named" "$line" 2>/dev/null); fi',
        '  COMPREPLY=($(compgen -W "$found" -- "$current"))',
        '  if [ -n "$files" ]; then COMPREPLY+=($(compgen -f -- "$current")); fi',
        "}",
        "complete -F _zkconsumer zkconsumer",
    ]


def _zsh(levels: Mapping[str, Level]) -> Iterator[str]:
    yield from [
        "_zkconsumer() {",
        '  local previous="${words[CURRENT-1]}" at="" found="" files="" named="" i word',
        "  for ((i = 2; i < CURRENT; i++)); do",
        '    word="${words[i]}"',
        *_decide(levels),
        '  if [[ -n "$named" ]]; then found=$(zkconsumer completion "$named" "${words[*]}" 2>/dev/null); fi',
        "  compadd -- ${=found}",
        '  if [[ -n "$files" ]]; then _files; fi',
        "}",
        "compdef _zkconsumer zkconsumer",
    ]


def _decide(levels: Mapping[str, Level]) -> Iterator[str]:
    """For bash and zsh alike: from `word` after `word` to `at`, and from that and `previous` to what may follow."""
    paths = "|".join(path for path in levels if path)
    yield f'    case "$at/$word" in {paths}) at="$at/$word" ;; esac'
    yield "  done"
    yield '  case "$at $previous" in'
    for path, level in levels.items():
        for option, value in level.values.items():
            act = "files=1" if value.is_file else f"found={shlex.quote(' '.join(value.choices))}"
            yield f"    '{path} {option}') {f'named={value.name_of}' if value.name_of else act} ;;"
    yield '    *) case "$at" in'
    for path, level in levels.items():
        files = " files=1" if level.takes_files else ""
        yield f"      '{path}') found={shlex.quote(' '.join(level.words))}{files} ;;"
    yield "    esac ;;"
    yield "  esac"


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
            given = "" if value is None else _fish_names(value.name_of) if value.name_of else " ".join(value.choices)
            choices = f" -a {_fish_text(given)}" if given else ""
            yield f"{at} {what}{takes}{choices} -d {_fish_text(meaning)}"
        if level.takes_files:
            yield f"{at} -F"


def _fish_names(kind: str) -> str:
    return f"(zkconsumer completion {kind} (commandline -cp) 2>/dev/null)"


def _fish_text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
