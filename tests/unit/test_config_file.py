"""Options from a file: any of any command, less than what is given, and refused in one line where they mean nothing."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from zkconsumer.__main__ import COMMANDS, main, parser_for
from zkconsumer.commands.completion import all_levels
from zkconsumer.commands.config_file import RaisingParser, with_file

PLAN = ["plan", "--topic", "orders=12", "--member", "c*4"]
LEAVES = [(path, level) for path, level in all_levels() if path and not {"describe", "set", "list"} & set(level.words)]


def parsed(words: Sequence[str]) -> argparse.Namespace:
    """As the command would see it; nothing is run."""
    command, *rest = words
    found: argparse.Namespace = parser_for(command).parse_args(
        with_file(command, rest, parser_for(command, RaisingParser), COMMANDS)
    )
    found.__dict__.pop("usage_parser", None)
    return found


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "zkconsumer.properties"


@pytest.mark.parametrize("path", [path for path, _ in LEAVES])
def test_every_option_of_every_command_may_stand_in_a_file(file: Path, path: str) -> None:
    """One at a time: it means what it means on the command line. So do all of a command's actions at once."""
    level, (command, *action) = dict(LEAVES)[path], path.split("/")[1:]
    for option in level.words:
        if not option.startswith("--") or option in ("--help", "--config"):
            continue
        value = level.values.get(option)
        text = "true" if value is None else value.choices[0] if value.choices else "1"
        file.write_text(f"zkconsumer.{'.'.join([command, *action])}.{option[2:]}={text}\nzookeeper.connect=x:1\n")
        parser = parser_for(command, RaisingParser)
        found = with_file(command, [*action, "--config", str(file)], parser, COMMANDS)

        assert found[-2:] == ["--config", str(file)]
        given = [*action, option if value is None else f"{option}={text}"]
        assert vars(parser.parse_args(found[:-2])) == vars(parser.parse_args(given)) != {}


def test_an_option_without_an_action_is_for_all_that_have_it(file: Path) -> None:
    """One named with its action counts more; a flag may be false, and a list has blanks between."""
    file.write_text(
        "zkconsumer.offsets.journal-dir=/all\nzkconsumer.offsets.rewind.journal-dir=/rewind\n"
        "zkconsumer.offsets.rewind.to-earliest=true\nzkconsumer.offsets.execute=false\n"
        "zkconsumer.offsets.rewind.topic=orders 'two words'\n"
    )
    where = ["--group", "g", "--config", str(file)]

    get, rewind = parsed(["offsets", "get", *where]), parsed(["offsets", "rewind", *where])

    assert (str(get.journal_dir), str(rewind.journal_dir)) == ("/all", "/rewind")
    assert (rewind.to_earliest, rewind.execute, rewind.topic) == (True, False, ["orders", "two words"])


def test_what_is_given_counts_more(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Lists are replaced, not added to, and what excludes an option of the file puts it aside. Also by the variable."""
    file.write_text(
        "zkconsumer.groups.describe.group=from-file\nzkconsumer.groups.describe.members=true\n"
        "zkconsumer.doctor.group=a b\nzkconsumer.offsets.rewind.to-earliest=true\n"
    )
    monkeypatch.setenv("ZKCONSUMER_CONFIG", str(file))

    assert (parsed(["groups", "describe"]).group, parsed(["groups", "describe"]).view) == ("from-file", "members")
    assert parsed(["groups", "describe", "--group=given", "--state"]).view == "state"
    assert (parsed(["doctor"]).group, parsed(["doctor", "--group", "given"]).group) == (["a", "b"], ["given"])
    rewind = parsed(["offsets", "rewind", "--group", "g", "--by", "1"])
    assert (rewind.by, rewind.to_earliest) == (1, False)


def test_a_command_runs_with_what_the_file_says(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text("zkconsumer.plan.strategy=range sticky\nzkconsumer.plan.json=true\n")

    assert main([*PLAN, "--config", str(file)]) == 0
    told = json.loads(capsys.readouterr().out)
    assert main([*PLAN, "--strategy", "range", "--strategy", "sticky", "--json"]) == 0

    assert told == json.loads(capsys.readouterr().out)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("zkconsumer.plna.json=true",
         "zkconsumer.plna.json: there is no command 'plna'; `zkconsumer --help` lists them"),
        ("zkconsumer.plan.jsno=true", "zkconsumer.plan.jsno: `zkconsumer plan` has no option --jsno"),
        ("zkconsumer.plan.config=other", "zkconsumer.plan.config: `zkconsumer plan` has no option --config"),
        ("zkconsumer.plan.json=yes", "zkconsumer.plan.json=yes: true or false"),
        ("zkconsumer.plan.topic='orders=1", "zkconsumer.plan.topic='orders=1: No closing quotation"),
        ("no\\u00zz", "no properties file: "),
    ],
)  # fmt: skip
def test_what_means_nothing_is_refused_in_one_line(
    file: Path, capsys: pytest.CaptureFixture[str], line: str, reason: str
) -> None:
    file.write_text(f"{line}\n")

    code = main([*PLAN, "--config", str(file)])

    printed = capsys.readouterr()
    assert (code, printed.out, printed.err.count("\n")) == (1, "", 1)
    assert printed.err.startswith(f"zkconsumer plan: {file}") and reason in printed.err


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        ("zkconsumer.groups.describe.watch=0", "zkconsumer.groups.describe.watch=0: 0: seconds, from 0.1 to a day"),
        ("zkconsumer.groups.watsh=1", "zkconsumer.groups.watsh: `zkconsumer groups` has no option --watsh"),
        ("zkconsumer.groups.list.watch=1",
         "zkconsumer.groups.list.watch: `zkconsumer groups list` has no option --watch"),
        ("zkconsumer.groups.state=true\nzkconsumer.groups.members=true",
         "argument --members: not allowed with argument --state"),
    ],
)  # fmt: skip
def test_options_of_actions_are_refused_too(
    file: Path, capsys: pytest.CaptureFixture[str], lines: str, reason: str
) -> None:
    file.write_text(f"{lines}\n")

    code = main(["groups", "describe", "--group", "g", "--config", str(file)])

    assert (code, capsys.readouterr().err) == (1, f"zkconsumer groups: {file}: {reason}\n")


def test_a_file_that_is_not_there_is_named(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main([*PLAN, "--config", str(file)])

    assert (code, capsys.readouterr().err) == (1, f"zkconsumer plan: {file}: No such file or directory\n")


def test_wrong_usage_and_help_are_told_as_without_a_file(file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Whatever the file says: required options are named, and help shows them as required."""
    file.write_text("zkconsumer.groups.json=true\n")

    told = []
    for words in (["groups", "describe", "--help"], ["groups", "describe"], ["groups"]):
        for more in ([], ["--config", str(file)]) if len(words) > 1 else ([],):
            with pytest.raises(SystemExit) as end:
                main([*words, *more])
            printed = capsys.readouterr()
            told.append((end.value.code, printed.out, printed.err))

    assert told[0] == told[1] and told[0][0] == 0 and " --group GROUP" in told[0][1]
    assert told[2] == told[3] and told[2][0] == 2 and "are required: --group" in told[2][2]
    assert told[4][0] == 2
