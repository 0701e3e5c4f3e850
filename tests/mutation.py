"""`make mutation`: break the consumer in a dozen places, one after the other, and see that the tests notice.

Each mutant is a text replaced in a scratch copy of the tree, and the few tests that have to fail then. The same tests
pass in the copy as it is (else a failure would say nothing); a mutant whose tests cannot even be collected is no catch.

    python -m tests.mutation [--write] [--only NAME …]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
RESULTS = ROOT / "tests" / "conformance" / "mutation-results.md"
COPIED = ("zkconsumer", "fetcher", "tests", "docs", "README.md", "pyproject.toml")
TESTS_FAILED = 1  # pytest's exit codes
TIME_LIMIT_S = 600.0


@dataclass(frozen=True, slots=True)
class Mutant:
    """One thing done wrong."""

    name: str
    wrong: str
    file: str
    text: str
    replacement: str
    tests: tuple[str, ...]

    def apply(self, root: Path) -> None:
        path = root / self.file
        source = path.read_text(encoding="utf-8")
        found = source.count(self.text)
        if found != 1:
            raise SystemExit(f"mutant {self.name}: its text is {found} times in {self.file}, not once; mend the mutant")
        path.write_text(source.replace(self.text, self.replacement), encoding="utf-8")


MUTANTS = (
    Mutant(
        "range remainder",
        "the last threads take the partitions left over, not the first",
        "zkconsumer/assignment.py",
        "(position < rest)",
        "(position >= threads - rest)",
        ("tests/unit/test_assignment.py::test_range_gives_the_first_threads_the_partitions_left_over",),
    ),
    Mutant(
        "order of threads",
        "thread 2 comes before thread 10",
        "zkconsumer/topic_count.py",
        "return text_order_key(str(thread_id))",
        'return text_order_key(f"{thread_id.consumer_id}-{thread_id.thread:09}")',
        (
            "tests/unit/test_topic_count.py::test_threads_sort_as_text",
            "tests/unit/test_assignment_vectors.py",
        ),
    ),
    Mutant(
        "round robin order",
        "partitions are dealt by the absolute value of their hash",
        "zkconsumer/assignment.py",
        "key=hashes.__getitem__)",
        "key=lambda place: abs(hashes[place] - _SIGN))",
        ("tests/unit/test_assignment.py::test_round_robin_of_0_8_2_goes_by_the_hash_of_topic_and_partition",),
    ),
    Mutant(
        "ownership rollback",
        "what was claimed beside a conflict is kept",
        "zkconsumer/ownership.py",
        "        self._roll_back(claimed)\n",
        "",
        ("tests/zookeeper/test_ownership.py::test_a_partition_of_another_gives_back_all_the_others",),
    ),
    Mutant(
        "release before commit",
        "partitions are released before positions are stored",
        "zkconsumer/rebalancer.py",
        "        self._close_fetchers(topics=my_topics)  # first, or we deliver what others already own\n"
        "        self._call_before_releasing_partitions()\n"
        "        self._release_all()\n",
        "        self._call_before_releasing_partitions()\n"
        "        self._release_all()\n"
        "        self._close_fetchers(topics=my_topics)\n",
        ("tests/broker/test_rebalancer.py::test_the_steps_of_an_attempt_come_in_order",),
    ),
    Mutant(
        "fetched, not consumed",
        "a commit stores how far was fetched",
        "zkconsumer/topic_registry.py",
        "{where: info.consumed_offset for",
        "{where: info.fetched_offset for",
        ("tests/broker/test_offset_storage.py::test_as_many_as_were_taken_are_stored",),
    ),
    Mutant(
        "revoked chunk",
        "a chunk taken while a rebalance clears is delivered",
        "zkconsumer/streams.py",
        "if chunk.info.revoked or self._state is _State.DONE:",
        "if self._state is _State.DONE:",
        ("tests/unit/test_streams.py::test_a_chunk_taken_at_the_moment_of_a_rebalance_is_not_delivered",),
    ),
    Mutant(
        "revoked partition",
        "a fetcher hands over chunks of a partition that was given up",
        "fetcher/partition.py",
        "if self.revoked or not self.queue.put(",
        "if not self.queue.put(",
        ("tests/unit/test_partition.py::test_a_revoked_partition_takes_nothing",),
    ),
    Mutant(
        "checksum of a message",
        "a message with a wrong checksum is delivered (formats 0 and 1)",
        "fetcher/message.py",
        "if stored != computed:",
        "if stored != computed and False:",
        (
            "tests/unit/test_message_set.py::test_a_wrong_checksum_is_found_when_the_message_is_checked",
            "tests/unit/test_streams.py::test_a_wrong_checksum_fails_the_iterator_for_good_and_loses_no_position",
        ),
    ),
    Mutant(
        "checksum of a batch",
        "a batch with a wrong checksum is delivered (format 2)",
        "fetcher/record_batch.py",
        "if computed != crc:",
        "if computed != crc and False:",
        ("tests/unit/test_message_set.py::test_a_wrong_checksum_of_a_batch_is_found_before_its_first_record",),
    ),
    Mutant(
        "watch set once",
        "a watch that fired is asked once more and never again",
        "zkconsumer/watches.py",
        "        if event.type != EventType.NONE:  # NONE: the watch is gone with its connection\n",
        '        if event.type != EventType.NONE and not getattr(self, "_fired", False):\n'
        "            self._fired = True\n",
        ("tests/broker/test_triggers.py::test_one_that_leaves_makes_the_others_rebalance_once",),
    ),
    Mutant(
        "watch after a reconnect",
        "what changed during a disconnection is not asked for",
        "zkconsumer/watches.py",
        "            self._publish(SessionReconnected)\n"
        "            for watch in self._snapshot():\n"
        "                watch.ask()\n",
        "            self._publish(SessionReconnected)\n",
        ("tests/broker/test_sessions.py::test_what_changed_during_a_disconnection_is_noticed_after_it",),
    ),
    Mutant(
        "registration in a new session",
        "after an expired session it owns and fetches, and is no member",
        "zkconsumer/membership.py",
        "commit_when_session_is_lost)\n        self._register(topic_count)\n",
        "commit_when_session_is_lost)\n        self._sessions_lost_before = self._zookeeper.sessions_lost\n",
        ("tests/broker/test_sessions.py::test_after_an_expired_session_it_is_a_member_again",),
    ),
    Mutant(
        "checkpoints",
        "offsets that did not change are written again",
        "zkconsumer/offsets.py",
        " and offset != self._checkpoints.get(where)",
        "",
        ("tests/zookeeper/test_offsets.py::test_an_offset_equal_to_the_last_commit_is_not_written_again",),
    ),
    Mutant(
        "offset not known yet",
        "-1 is stored for a partition not yet reset",
        "zkconsumer/offsets.py",
        "(offset := _plain(given)) >= 0 and",
        "(offset := _plain(given)) >= -1 and",
        (
            "tests/zookeeper/test_offsets.py::test_a_partition_without_an_offset_is_not_written",
            "tests/zookeeper/test_offsets.py::test_no_offset_is_never_written_over_one",
        ),
    ),
    Mutant(
        "fetcher id",
        "the hash does not overflow as in Java",
        "fetcher/manager.py",
        "java_abs(to_int32(31 * java_hash(topic) + partition))",
        "java_abs(31 * java_hash(topic) + partition)",
        ("tests/unit/test_fetcher_manager.py::test_fetcher_ids_are_those_of_the_table",),
    ),
    Mutant(
        "escaping of a regex",
        "a slash is written as it is",
        "zkconsumer/znodes.py",
        '"/": "\\\\/", ',
        "",
        (
            "tests/unit/test_znodes.py::test_regex_is_escaped_as_0_8_2_does",
            "tests/zookeeper/test_registration.py",
        ),
    ),
    Mutant(
        "kept what is not held",
        "a fixed member goes on as if nothing had changed though one of its claims is gone",
        "zkconsumer/rebalancer.py",
        " and self._parts.ownership.holds_all(kept)",
        "",
        ("tests/broker/test_rebalancer.py::test_a_fixed_member_keeps_what_does_not_change",),
    ),
    Mutant(
        "kept after a failure",
        "a fixed member believes that it still fetches after an attempt that failed",
        "zkconsumer/rebalancer.py",
        """        self._step("stop fetchers")
        self._kept = None
""",
        """        self._step("stop fetchers")
""",
        ("tests/broker/test_rebalancer.py::test_a_fixed_member_keeps_nothing_after_a_failed_attempt",),
    ),
    Mutant(
        "set back or left behind",
        "a node that was not reached by the last commit counts as set back",
        "zkconsumer/rewinds.py",
        "if in_zookeeper in (NO_OFFSET, int(before)):",
        "if in_zookeeper == NO_OFFSET:",
        ("tests/unit/test_rewinds.py",),
    ),
    Mutant(
        "number of requests",
        "asked to ask as often as the real one, it does not look at the end who is there",
        "zkconsumer/cluster_view.py",
        """        if self._zookeeper.one_by_one:
            self._members()
""",
        "",
        ("tests/conformance/test_to_the_letter.py::test_everything_is_asked_for_as_often_and_in_the_same_order",),
    ),
    Mutant(
        "order of commits",
        "asked to store in the order of the real one, it stores in that of the registry",
        "zkconsumer/offsets.py",
        "for where in order_of_commit(offsets) if where in changed",
        "for where in offsets if where in changed",
        ("tests/conformance/test_to_the_letter.py::test_everything_is_asked_for_as_often_and_in_the_same_order",),
    ),
    Mutant(
        "order of the offset manager",
        "asked to ask in the order of the real one, it names topics to the offset manager as they come",
        "fetcher/request_order.py",
        "for topic in _order_of_groups(by_topic) for where in by_topic[topic]]",
        "for topic in by_topic for where in by_topic[topic]]",
        ("tests/unit/test_request_order.py::test_the_offset_manager_is_asked_in_the_order_of_the_real_consumer",),
    ),
    Mutant(
        "hash of 1.1",
        "asked to ask as 1.1 does, it goes by the hash that partitions have in 0.8.2.2",
        "fetcher/request_order.py",
        "return 31 * (31 + where.partition) + java_hash(where.topic)",
        "return hash_of_partition(where)",
        ("tests/unit/test_request_order.py::test_fetches_of_1_1_begin_in_the_order_of_the_real_consumer",),
    ),
    Mutant(
        "a new topic",
        "asked to ask as often as the real one, a wildcard watches only what is new",
        "zkconsumer/membership.py",
        """        if self._zookeeper.one_by_one:
            self._look_again_at_all()
""",
        "",
        ("tests/conformance/test_to_the_letter.py::test_a_new_topic_makes_wildcards_ask_for_the_same",),
    ),
)


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    mutants = [mutant for mutant in MUTANTS if options.only is None or mutant.name in options.only]
    with tempfile.TemporaryDirectory(prefix="zkconsumer-mutation-") as directory:
        scratch = Path(directory).resolve()
        _copy(scratch)
        _check_unbroken(scratch, mutants)
        outcomes = {mutant.name: _try(scratch, mutant) for mutant in mutants}
    caught = sum(outcome == "caught" for outcome in outcomes.values())
    print(f"{caught} of {len(mutants)} caught")
    if options.write and len(mutants) == len(MUTANTS):
        RESULTS.write_text(as_page(outcomes), encoding="utf-8")
    return 0 if caught == len(mutants) else 1


def as_page(outcomes: dict[str, str]) -> str:
    """The section of docs/conformance.md; the same for the same outcomes."""
    caught = sum(outcome == "caught" for outcome in outcomes.values())
    rows = "\n".join(
        f"| {mutant.name} | {mutant.wrong} | `{mutant.file}` | {outcomes[mutant.name]} |"
        f" {'<br>'.join(f'`{test}`' for test in mutant.tests)} |"
        for mutant in MUTANTS
    )
    return (
        "## Mutation\n\n"
        f"`make mutation` breaks the consumer in {len(MUTANTS)} places, one after the other, in a copy of the tree,\n"
        "and runs the tests that have to notice; before, the same tests pass in the copy as it is. Of the last run:\n"
        f"{caught} of {len(MUTANTS)} caught.\n\n"
        f"| mutant | what is wrong then | in | outcome | tests run |\n|---|---|---|---|---|\n{rows}\n"
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description="Break the code, see tests fail.")
    parser.add_argument("--only", action="append", choices=[mutant.name for mutant in MUTANTS], help="this mutant")
    parser.add_argument("--write", action="store_true", help=f"put the table into {RESULTS.relative_to(ROOT)}")
    return parser


def _copy(scratch: Path) -> None:
    ignored = shutil.ignore_patterns("__pycache__", "*.so")
    for name in COPIED:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, scratch / name, ignore=ignored)
        else:
            shutil.copy2(ROOT / name, scratch / name)


def _check_unbroken(scratch: Path, mutants: Sequence[Mutant]) -> None:
    """That the copy is what is run, and that all tests pass in it."""
    program = "import fetcher, zkconsumer; print(fetcher.__file__); print(zkconsumer.__file__)"
    found = subprocess.run(
        [sys.executable, "-c", program],
        cwd=scratch,
        env=_environment(scratch),
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    if not all(Path(path).is_relative_to(scratch) for path in found):
        raise SystemExit(f"the copy in {scratch} is not what Python imports there, but {found}")
    tests = list(dict.fromkeys(test for mutant in mutants for test in mutant.tests))
    outcome = _run(scratch, tests)
    if outcome.returncode:
        raise SystemExit(f"these tests have to pass before anything is broken:\n{outcome.stdout[-4000:]}")


def _try(scratch: Path, mutant: Mutant) -> str:
    path = scratch / mutant.file
    unbroken = path.read_bytes()
    mutant.apply(scratch)
    try:
        outcome = _run(scratch, mutant.tests)
    finally:
        path.write_bytes(unbroken)
    answer = {0: "survived", TESTS_FAILED: "caught"}.get(
        outcome.returncode, f"not tried: pytest says {outcome.returncode}"
    )
    print(f"{mutant.name:32}{answer}", flush=True)
    if answer.startswith("not tried"):
        print(outcome.stdout[-4000:])
    return answer


def _run(scratch: Path, tests: Sequence[str]) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "--strict-servers", "-x", "-q", "-p", "no:cacheprovider"]
    command += ["-m", "conformance_full or not conformance_full", *tests]
    return subprocess.run(
        command,
        cwd=scratch,
        env=_environment(scratch),
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
        check=False,
    )


def _environment(scratch: Path) -> dict[str, str]:
    # Bytecode is told from its source by size and second: a mutant made in the same second would not be seen. What is
    # compiled is not in the copy, so that the places broken are the ones that run.
    return {
        **os.environ,
        "PYTHONPATH": str(scratch),
        "PYTHONDONTWRITEBYTECODE": "1",
        "ZKCONSUMER_PURE_PYTHON": "1",
    }


if __name__ == "__main__":
    sys.exit(main())
