"""`zkconsumer plan`: its input, what it computes, and what it prints."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

from study.plan import STRATEGIES, Change, Group, plan
from study.plan_input import from_flags
from study.plan_output import ranges, spread
from zkconsumer.__main__ import main

SEEDS = ["--topic", "t1=5", "--topic", "t2=7", "--member", "c0", "--member", "c1", "--member", "c2=t1,t2"]
SEEDS += ["--member", "c3=t2", "--member", "c4=t2"]


def test_the_seeds_group_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    """The tables of seeds 000 and 002, round robin as it really is."""
    assert main(["plan", *SEEDS, "--json"]) == 0

    strategies = json.loads(capsys.readouterr().out)["strategies"]
    assert list(strategies) == list(STRATEGIES)
    assert strategies["range"]["assignment"]["c2"] == {"t1": [4], "t2": [4]}
    assert strategies["roundrobin"]["assignment"]["c0"] == {"t1": [0, 3], "t2": [3]}
    assert strategies["sticky 1.1"]["assignment"]["c4"] == {"t2": [1, 4]}
    assert "Round-robin assignment is allowed only if" in strategies["old roundrobin 0.8.2"]["problem"]


def test_old_range_shares_out_among_threads() -> None:
    """G1: five partitions, two members with two threads each."""
    group = Group({"t": 5}, {"C1": {"t": 2}, "C2": {"t": 2}})

    outcome = plan(group, "old range", join=None, leave=None)

    assert {name: [number for _, number in mine] for name, mine in outcome.assignment.items()} == {
        "C1": [0, 1, 2],
        "C2": [3, 4],
    }


@pytest.mark.parametrize(
    ("release", "expected"),
    [
        # By hand from the hashes of the spec: [bb,0] [bb,1] [zeta,0] [zeta,1] [a,0] [a,1], C2 passed over for a.
        ("0.10.2", {"C1": "bb0 zeta0 a0 a1", "C2": "bb1 zeta1"}),
        # The spec's example, run on 1.1.1.
        ("1.1", {"C1": "zeta0 a0 a1 bb1", "C2": "zeta1 bb0"}),
    ],
)
def test_old_round_robin_differs_by_release(release: str, expected: dict[str, str]) -> None:
    group = Group({"a": 2, "bb": 2, "zeta": 2}, {"C1": {"a": 1, "bb": 1, "zeta": 1}, "C2": {"bb": 1, "zeta": 1}})

    outcome = plan(group, f"old roundrobin {release}", join=None, leave=None)

    found = {name: " ".join(f"{topic}{number}" for topic, number in mine) for name, mine in outcome.assignment.items()}
    assert found == expected


OWN = """
def first_takes_all(partitions, members):
    return {min(members): [(topic, number) for topic, count in partitions.items() for number in range(count)]}

def gives_to_nobody(partitions, members):
    return {"nobody": [("t", 0)]}

def gives_too_much(partitions, members):
    return {min(members): [("t", 99)]}

def breaks(partitions, members):
    raise KeyError("t")

number = 5
"""


def test_a_strategy_of_ones_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "own_strategies.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    group = ["plan", "--topic", "t=3", "--member", "b", "--member", "a", "--json", "--strategy", "range"]

    assert main([*group, "--strategy", "own_strategies:first_takes_all"]) == 0
    strategies = json.loads(capsys.readouterr().out)["strategies"]
    assert list(strategies) == ["range", "own_strategies:first_takes_all"]
    assert strategies["own_strategies:first_takes_all"]["assignment"] == {"a": {"t": [0, 1, 2]}, "b": {}}
    assert strategies["own_strategies:first_takes_all"]["leave"]["moved"] == 3

    for name, problem in [
        ("gives_to_nobody", "it gave partitions to nobody, who is no member"),
        ("gives_too_much", "it gave a partition 99 of t, which is not there"),
        ("breaks", "it failed: KeyError: 't'"),
    ]:
        assert main([*group, "--strategy", f"own_strategies:{name}"]) == 0
        assert json.loads(capsys.readouterr().out)["strategies"][f"own_strategies:{name}"]["problem"] == problem

    for name, complaint in [
        ("own_strategies:missing", "cannot be loaded: AttributeError: module 'own_strategies' has no attribute"),
        ("no_such_module:x", "cannot be loaded: ModuleNotFoundError: No module named 'no_such_module'"),
        ("own_strategies:number", "is no function of (partitions, members)"),
    ]:
        assert main([*group, "--strategy", name]) == 1
        error = capsys.readouterr().err
        assert complaint in error and error.count("\n") == 1


def test_ctrl_c_ends_it_without_a_trace(tmp_path: Path) -> None:
    (tmp_path / "own_slow.py").write_text(
        "import signal, sys, time\n"
        "def assign(partitions, members):\n"
        "    signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in what a shell starts with &
        "    print('begun', file=sys.stderr, flush=True)\n"
        "    time.sleep(600)\n"
    )
    command = [sys.executable, "-m", "zkconsumer", "plan", "--topic", "t=3", "--member", "a"]
    with subprocess.Popen(
        [*command, "--strategy", "own_slow:assign"],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            assert process.stderr and process.stderr.readline() == "begun\n"
            process.send_signal(signal.SIGINT)
            out, error = process.communicate(timeout=60)
        finally:
            process.kill()

    assert (process.returncode, out, error) == (130, "", "")


@pytest.mark.parametrize(
    ("strategy", "joined", "left"),
    [
        # Two with four partitions each. By hand: range cuts 3 3 2 instead of 4 4; sticky takes one from each.
        ("range", Change(3, 3, 1), Change(4, 0, 1)),
        ("sticky 3.9", Change(2, 2, 1), Change(4, 0, 1)),
        ("cooperative-sticky", Change(2, 2, 2), Change(4, 0, 1)),
    ],
)
def test_moves_are_counted(strategy: str, joined: Change, left: Change) -> None:
    group = Group({"t": 8}, {"a": {"t": 1}, "b": {"t": 1}})

    outcome = plan(group, strategy, join=("c", {"t": 1}), leave="b")

    assert (outcome.joined, outcome.left) == (joined, left)


def test_members_can_be_many_and_have_threads() -> None:
    group = from_flags(["t=3", "u=1"], ["c*2", "d=t:4"])

    assert group.members == {"c0": {"t": 1, "u": 1}, "c1": {"t": 1, "u": 1}, "d": {"t": 4}}


def test_a_file_and_a_picture(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, picture = tmp_path / "group.toml", tmp_path / "plan.svg"
    file.write_text('[topics]\n"<b>" = 3\n[members]\na = ["<b>"]\nb = { "<b>" = 2 }\n')

    assert main(["plan", "--file", str(file), "--picture", str(picture), "--strategy", "range"]) == 0

    assert "<b>(0-1)" in capsys.readouterr().out
    drawn = ElementTree.parse(picture).getroot()
    titles = [title.text for title in drawn.iter("{http://www.w3.org/2000/svg}title")]
    assert titles[1:] == ["<b> 0", "<b> 1", "<b> 2"]


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ([], "say where the group comes from"),
        (["--topic", "t"], "--topic t: expected NAME=PARTITIONS"),
        (["--topic", "t=1"], "there is no member"),
        (["--topic", "t=1", "--member", "a=u"], "member a subscribes to u, which is none of the topics"),
        (["--topic", "t=1", "--topic", "t=2", "--member", "a"], "topic t is given twice"),
        (["--topic", "t=1", "--member", "a=t,t:2"], "--member a=t,t:2: t is given twice"),
        (["--topic", "t=99999999999", "--member", "a"], "a plan has at most 10,000,000 partitions"),
        (["--topic", "t=1", "--member", "a*99999999999"], "a plan has at most 100,000 members"),
        (["--topic", "t=1", "--member", "a", "--join", "b=u"], "member b subscribes to u, which is none of"),
        (["--topic", "t=1", "--member", "a", "--join", "b*3"], "--join b*3: one member joins, not 3"),
        (["--topic", "t=1", "--member", "a", "--group", "g"], "say where the group comes from"),
        (["--group", "g"], "where does the group live?"),
        (["--group", "g", "--zookeeper", "127.0.0.1:1", "--bootstrap-server", "127.0.0.1:1"], "give one of them"),
        (["--topic", "t=1", "--member", "a", "--leave", "b"], "--leave b: there is no such member"),
        (["--topic", "t=1", "--member", "a", "--strategy", "best"], "--strategy best: there are old range"),
        (["--zookeeper", "127.0.0.1:1"], "--zookeeper and --bootstrap-server need --group"),
        (["--file", "no-such-file.toml"], "no-such-file.toml: No such file"),
    ],
)
def test_mistakes_get_one_line(arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["plan", *arguments]) == 1

    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('topics = 5\n[members]\na = ["t"]', "topics should be a table, begun by a line [topics]"),
        ("members = [1]\n[topics]\nt = 5", "members should be a table"),
        ('[topics]\nt = 5\n[members]\na = [["t"]]', "members.a should be a list of topics"),
        ("[topics]\nt = 5\n[members]\na = [1]", "members.a should be a list of topics"),
        ("[topics]\nt = 5\n[members]\na = { t = 0 }", "members.a should be a list of topics"),
        ('[topics]\nt = -5\n[members]\na = ["t"]', "topics.t = -5 should be a number of partitions"),
        ("[topics", "group.toml is no TOML"),
    ],
)
def test_mistakes_in_a_file_get_one_line(
    content: str, complaint: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "group.toml").write_text(content)

    assert main(["plan", "--file", str(tmp_path / "group.toml")]) == 1

    error = capsys.readouterr().err
    assert complaint in error and error.count("\n") == 1


LARGE = ["--topic", "t=400", "--member", "c*200", "--strategy", "roundrobin", "--strategy", "cooperative"]


def test_of_a_large_group_the_table_tells_how_even_it_is_and_who_moves_most(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """By hand: 400 over 200 members are 2 each; over 201 two have one less, one of them new."""
    assert main(["plan", *LARGE]) == 0

    out = capsys.readouterr().out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert max(map(len, out.splitlines())) <= 80
    assert "cooperative-sticky 2 2 2 0 1 1 2 0" in lines
    assert "cooperative-sticky 2 ×200" in lines
    assert "cooperative-sticky c199 2 → c0 1, c1 1" in lines
    assert "c17 " not in out, "200 members one by one"


def test_of_a_large_group_the_picture_has_bars_for_what_moves(tmp_path: Path) -> None:
    picture = tmp_path / "plan.svg"

    assert main(["plan", *LARGE, "--picture", str(picture)]) == 0

    drawn = ElementTree.parse(picture).getroot()
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert "1 of 400" in texts and "2 of 400" in texts
    assert "2 partitions each" in texts
    assert "2 partitions: 200 members" in [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}title")]


def test_json_tells_who_gave_and_who_took(capsys: pytest.CaptureFixture[str]) -> None:
    """By hand: two with four each; three have 3, 3 and 2, so each gives one."""
    arguments = ["--topic", "t=8", "--member", "a", "--member", "b", "--join", "c", "--strategy", "sticky 3.9"]
    assert main(["plan", *arguments, "--json"]) == 0

    told = json.loads(capsys.readouterr().out)["strategies"]["sticky 3.9"]
    assert told["join"] == {"moved": 2, "needless": 2, "rounds": 1, "gave": {"a": 1, "b": 1}, "took": {"c": 2}}
    assert told["leave"]["gave"] == {"b": 4} and told["leave"]["took"] == {"a": 4}


@pytest.mark.parametrize(
    ("counts", "most", "expected"),
    [
        ([2, 2, 3], 5, [(2, 2, 2), (3, 3, 1)]),
        ([0, 1, 2, 3, 9], 3, [(0, 3, 4), (4, 7, 0), (8, 11, 1)]),
        ([], 3, []),
    ],
)
def test_counts_are_put_into_steps(counts: list[int], most: int, expected: list[tuple[int, int, int]]) -> None:
    assert spread(counts, most) == expected


def test_runs_of_numbers_are_written_short() -> None:
    assert ranges([5, 0, 1, 2]) == "0-2,5"
