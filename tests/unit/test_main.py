"""The command line itself: what is listed, what is refused, and with which exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import zkconsumer
from zkconsumer import _start
from zkconsumer.__main__ import COMMANDS, main
from zkconsumer.commands.completion import all_levels

NO_SERVER = "127.0.0.1:1"
CONSUMING = ["console-consumer", "consumer-perf", "verifiable-consumer"]


def failing(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, list[str]]:
    """Exit code and lines on standard error of a command that has nothing to say on standard output."""
    try:
        code = main(arguments)
    except SystemExit as error:
        code = int(error.code or 0)
    printed = capsys.readouterr()
    assert printed.out == ""
    return code, printed.err.splitlines()


@pytest.mark.parametrize("option", ["--help", "-h", "help"])
def test_the_overview_lists_every_command(capsys: pytest.CaptureFixture[str], option: str) -> None:
    code = main([option])

    lines = capsys.readouterr().out.splitlines()
    assert code == 0
    assert lines[0] == "usage: zkconsumer COMMAND [OPTIONS]"
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(COMMANDS)


def test_without_a_command_the_overview_is_shown_and_it_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 2
    assert "usage: zkconsumer COMMAND" in capsys.readouterr().out


@pytest.mark.parametrize("option", ["--version", "-V"])
def test_the_version_is_the_package_s(capsys: pytest.CaptureFixture[str], option: str) -> None:
    assert main([option]) == 0
    assert capsys.readouterr().out == f"zkconsumer {zkconsumer.__version__}\n"


def test_an_unknown_command_is_named(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = failing(capsys, "console-consummer", "--topic", "t")

    assert code == 2
    assert lines == ["zkconsumer: there is no command 'console-consummer'; `zkconsumer --help` lists them"]


@pytest.mark.parametrize("name", list(COMMANDS))
def test_the_help_of_each_command_has_examples_of_it(capsys: pytest.CaptureFixture[str], name: str) -> None:
    with pytest.raises(SystemExit) as end:
        main([name, "--help"])

    text = capsys.readouterr().out
    assert end.value.code == 0
    assert text.startswith(f"usage: zkconsumer {name} ")
    assert f"  zkconsumer {name}" in text.partition("examples:\n")[2]


@pytest.mark.parametrize("path", [path for path, _ in all_levels() if path.count("/") == 2])
def test_the_help_of_each_action_has_examples_of_it(capsys: pytest.CaptureFixture[str], path: str) -> None:
    with pytest.raises(SystemExit) as end:
        main([*path.split("/")[1:], "--help"])

    assert end.value.code == 0
    assert f"  zkconsumer{path.replace('/', ' ')}" in capsys.readouterr().out.partition("examples:\n")[2]


@pytest.mark.parametrize("arguments", [["completion", "bash"], ["--help"]])
def test_output_that_cannot_be_written_is_no_trace(arguments: list[str]) -> None:
    """To a reader that has gone, as `| head` does, and to a full disk."""
    command = [sys.executable, "-m", "zkconsumer", *arguments]
    unread, pipe = os.pipe()
    os.close(unread)
    gone = subprocess.run(command, stdout=pipe, stderr=subprocess.PIPE, text=True, check=False)
    os.close(pipe)
    with open("/dev/full", "wb") as full:
        no_space = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)

    assert (gone.returncode, gone.stderr) == (141, "")
    assert (no_space.returncode, no_space.stderr) == (1, "zkconsumer: standard output: No space left on device\n")


@pytest.mark.parametrize("name", CONSUMING)
def test_an_unknown_option_is_wrong_usage(capsys: pytest.CaptureFixture[str], name: str) -> None:
    code, lines = failing(capsys, name, "--zookeeper", NO_SERVER, "--no-such-option")

    assert code == 2
    assert "--no-such-option" in lines[-1]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["console-consumer", "--topic", "t"], 'Missing required argument "[zookeeper]"'),
        (
            ["console-consumer"],
            "The console consumer is a tool that reads data from Kafka and outputs it to standard output.",
        ),
        (
            ["console-consumer", "--zookeeper", NO_SERVER],
            "Exactly one of whitelist/blacklist/topic is required.",
        ),
        (
            ["console-consumer", "--zookeeper", NO_SERVER, "--topic", "t", "--blacklist", "b"],
            "Exactly one of whitelist/blacklist/topic is required.",
        ),
        (["consumer-perf"], 'Missing required argument "[topic]"'),
        (["consumer-perf", "--topic", "t"], 'Missing required argument "[zookeeper]"'),
        (["consumer-perf", "--topic", "t", "--zookeeper", NO_SERVER, "--threads", "0"], "--threads and"),
        (["verifiable-consumer", "--topic", "t"], 'Missing required argument "[zookeeper]"'),
        (["verifiable-consumer", "--zookeeper", NO_SERVER, "--topic", "t"], 'Missing required argument "[group-id]"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_missing_is_said_before_the_usage(
    capsys: pytest.CaptureFixture[str], arguments: list[str], line: str
) -> None:
    """Texts and exit code of 0.8.2.2's tools (tools.md)."""
    code, lines = failing(capsys, *arguments)

    assert code == 1
    assert lines[0].startswith(line)
    assert lines[1].startswith(f"usage: zkconsumer {arguments[0]} ")


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["--consumer.config", "missing.properties"], "missing.properties: No such file or directory"),
        (["--consumer.config", "broken.properties"], "broken.properties is no properties file: "),
        (["--property", "print.key"], "Invalid command line properties: print.key"),
        (["--formatter", "kafka.tools.Other"], "--formatter kafka.tools.Other: there are kafka.tools.Default"),
        (["--formatter", "no_such_module:Class"], "--formatter no_such_module:Class: cannot be loaded: No module"),
        (["--formatter", "os:Class"], "--formatter os:Class: cannot be loaded: module 'os' has no attribute"),
        (["--formatter", "io:BytesIO"], "--formatter io:BytesIO: has no method init, write_to"),
        (["--timeout-ms", "99999999999"], 'For input string: "99999999999"'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_cannot_be_used_is_said_in_one_line(
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    arguments: list[str],
    line: str,
) -> None:
    """No trace: it is the user's to mend. Nothing is connected to before."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.properties").write_text("group.id=\\u12")

    code, lines = failing(capsys, "console-consumer", "--zookeeper", NO_SERVER, "--topic", "t", *arguments)

    assert code == 1
    assert len(lines) == 1
    assert lines[0].startswith(f"zkconsumer console-consumer: {line}")


def test_a_topic_that_is_no_regular_expression_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    code, lines = failing(capsys, "console-consumer", "--zookeeper", NO_SERVER, "--whitelist", "(")

    assert (code, lines) == (1, ["zkconsumer console-consumer: ( is an invalid regex."])


def test_a_date_format_that_is_none_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    where = ("--zookeeper", NO_SERVER, "--topic", "t")

    code, lines = failing(capsys, "consumer-perf", *where, "--date-format", "yyyy-QQ")

    assert (code, lines) == (1, ["zkconsumer consumer-perf: Illegal pattern character 'Q'"])


def test_traces_are_shown_if_wanted() -> None:
    result = subprocess.run(
        [sys.executable, "-m", "zkconsumer", "tree", "--zookeeper", "no,://such"],
        env={**os.environ, "ZKCONSUMER_DEBUG": "1"},
        capture_output=True,
        text=True,
        check=False,
    )

    assert result.returncode == 1
    assert "Traceback" in result.stderr


@pytest.mark.parametrize("name", CONSUMING)
def test_help_does_not_need_a_server_package(name: str) -> None:
    """Who only consumes has no pyspark."""
    check = f"import sys, zkconsumer.__main__ as m\ntry: m.main([{name!r}, '--help'])\nexcept SystemExit: pass\n"
    check += "assert not {'pyspark', 'confluent_kafka', 'pytest'} & set(sys.modules)"

    result = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=False)

    assert (result.returncode, result.stderr) == (0, "")


def test_ctrl_c_before_the_command_has_begun_is_no_trace(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_arguments: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("zkconsumer.__main__._main", interrupted)

    assert (_start.main(), main([])) == (130, 130)
