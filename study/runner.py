"""Plays a scenario to one subject on fresh real servers and writes down what happened. Judges nothing."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from study.ownership import Line, commit_from_record, commits_from_log, owners_from_log, owners_from_reports
from study.scenarios import Scenario, Step
from study.subjects.member import Member, MemberSettings
from study.subjects.table import Subject
from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.link import Link
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer

GROUP = "study"
SETTLE_TIMEOUT_S = 120.0
DRAIN_TIMEOUT_S = 60.0
SAMPLE_S = 0.1
HEARTBEATS_A_SESSION = 3
SETTLED_S = 0.5
START_ESTIMATE_S = 7.0
Tell = Callable[[str], None]


def estimate_s(scenario: Scenario) -> float:
    """How long one subject takes, before anything was measured."""
    joining = sum(len(step.members) for step in scenario.steps if step.do == "join")
    return START_ESTIMATE_S + 0.3 * (len(scenario.members) + joining) + scenario.duration_s


def play(scenario: Scenario, subject: Subject, tell: Tell = lambda _: None, *, wait_s: float = 0.0) -> list[Line]:
    """The history of one subject, ordered by time. The timeline starts `wait_s` after all partitions are read."""
    with _Play(scenario, subject, tell) as running:
        running.start(wait_s)
        running.follow_timeline()
        running.drain()
        running.end()
        return running.history()


def now_ms() -> int:
    """The one clock of all lines."""
    return time.time_ns() // 1_000_000


class StudyProducerError(ServerError):
    """The workload could not be produced: there is nothing to judge."""


class _Play:
    """One run: servers, members, workload, and the lines so far. Used with `with`, which ends everything."""

    def __init__(self, scenario: Scenario, subject: Subject, tell: Tell) -> None:
        self._scenario, self._subject, self._tell = scenario, subject, tell
        self._lines: list[Line] = []
        self._reports: list[Line] = []
        self._members: dict[str, Member] = {}
        self._names: dict[str, int] = {}
        self._links: dict[str, Link] = {}
        self._delivered: set[tuple[str, int, int]] = set()
        self._reader: dict[tuple[str, int], str] = {}
        self._reader_changed_s = 0.0
        self._partitions: list[tuple[str, int]] = [(t, p) for t, n in scenario.topics.items() for p in range(n)]
        self._joins: list[Future[None]] = []
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._stack = ExitStack()
        self._end_ms = 0

    def __enter__(self) -> _Play:
        return self

    def __exit__(self, *_: object) -> None:
        self._ending.set()
        self._stack.close()

    # --- phases ---

    def start(self, wait_s: float) -> None:
        """Servers, topics, records, members; returns when every partition is read, and has been for a while."""
        scenario = self._scenario
        self._tell("ZooKeeper and Kafka start")
        self._zookeeper = self._stack.enter_context(ZooKeeperServer(tick_time_ms=500))
        settings = {"group.min.session.timeout.ms": "1000"}
        self._kafka = self._stack.enter_context(
            KafkaCluster(version=scenario.kafka, brokers=scenario.brokers, zookeeper=self._zookeeper, settings=settings)
        )
        for topic, partitions in scenario.topics.items():
            self._kafka.create_topic(topic, partitions=partitions, replication_factor=scenario.brokers)
        self._pool = self._stack.enter_context(ThreadPoolExecutor(4, thread_name_prefix="study"))
        self._stack.callback(self._close_members)
        self._tell(f"{len(scenario.members)} members join")
        producing = self._stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="study-produce"))
        self._stack.callback(self._ending.set)
        self._producing = producing.submit(self._produce)
        self._stack.enter_context(_thread("study-load", self._sample_load, self._ending))
        self._join(scenario.members)
        for join in self._joins:
            join.result()
        eventually(self._is_settled, "every partition read, by the same member for a while", SETTLE_TIMEOUT_S)
        self._ending.wait(wait_s)
        self._start_s = time.monotonic()
        self._event("start")

    def follow_timeline(self) -> None:
        """Do each step at its time, and let the rest of the time pass."""
        steps = list(self._scenario.steps)
        undo: list[tuple[float, Callable[[], None]]] = []
        end_s = self._start_s + self._scenario.duration_s
        while steps or undo or time.monotonic() < end_s:
            self._collect()
            if self._producing.done():
                self._producing.result()  # it has failed: all that comes would be nothing
            passed_s = time.monotonic() - self._start_s
            if undo and undo[0][0] <= passed_s:
                undo.pop(0)[1]()
            elif steps and steps[0].at_s <= passed_s:
                step = steps.pop(0)
                self._tell(" ".join(filter(None, (step.do, ", ".join(step.members), step.detail))))
                later = self._do(step)
                if later is not None:
                    undo = sorted([*undo, (passed_s + step.for_s, later)], key=lambda one: one[0])
            else:
                self._ending.wait(0.02)

    def drain(self) -> None:
        """Produce no more, wait until all was read, or until it is clear that it never will be."""
        self._tell("the rest is read")
        for join in self._joins:
            join.result()
        self._ending.set()
        self._producing.result()
        deadline = time.monotonic() + DRAIN_TIMEOUT_S
        while time.monotonic() < deadline and not self._all_delivered():
            threading.Event().wait(0.05)

    def end(self) -> None:
        """What members would do from now on is no part of the study; leaving in order, fifty of them take minutes."""
        self._tell("members end")
        self._end_ms = now_ms()
        self._event("end")
        for end in [self._pool.submit(member.kill) for member in self._members.values()]:
            end.result()
        self._collect()

    def history(self) -> list[Line]:
        """All lines, those of servers' logs too. Ownership that lasted to the end has no end."""
        transactions = self._zookeeper.transactions()
        lines = [*self._lines, *(line for line in self._reports if line["kind"] == "delivered")]
        if self._subject.protocol == "old":
            owned = owners_from_log(transactions, GROUP)
        else:
            owned = owners_from_reports(self._reports)
        for line in owned:
            if line["until_ms"] is not None and line["until_ms"] >= self._end_ms:
                line["until_ms"] = None
        commits = commits_from_log(transactions, GROUP) + list(self._stored_commits())
        lines += owned + [line for line in commits if line["time_ms"] <= self._end_ms]
        lines += [
            {
                "kind": "transaction",
                "zxid": one.zxid,
                "session": one.session,
                "time_ms": one.time_ms,
                "operation": one.operation.value,
                "path": one.path,
            }
            for one in transactions
            if one.time_ms <= self._end_ms
        ]
        for line in lines:
            line["subject"] = self._subject.name
        return sorted(lines, key=lambda line: line.get("time_ms", line.get("from_ms", 0)))

    # --- steps ---

    def _do(self, step: Step) -> Callable[[], None] | None:
        """Do it, and return what ends it if it is to end by itself."""
        for name in step.members or ("",):
            self._event(step.do, name, step.detail)
        match step.do:
            case "join":
                self._join(step.members)
            case "leave":
                for name in step.members:
                    self._joins.append(self._pool.submit(self._current(name).stop))
            case "kill":
                for name in step.members:
                    self._current(name).kill()
            case "pause":
                return self._pause(step.members)
            case "expire session":
                self._joins += [self._pool.submit(self._expire, name) for name in step.members]
            case "cut link":
                for name in step.members:
                    self._links[self._incarnation(name)].black_hole()
                return lambda: self._heal(step.members)
            case "kill broker":
                self._kafka.brokers[step.broker].kill()
            case "start broker":
                self._joins.append(self._pool.submit(self._kafka.brokers[step.broker].start))
            case "restart zookeeper":
                self._zookeeper.kill()
                return self._zookeeper.start
            case "add partitions":
                self._joins.append(self._pool.submit(self._add_partitions, step))
            case "add topic":
                self._joins.append(self._pool.submit(self._add_topic, step))
        return None

    def _join(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._names[name] = self._names.get(name, 0) + 1
            incarnation = self._incarnation(name)
            link = Link(self._zookeeper.connect_string)
            link.start()
            self._stack.callback(link.close)
            self._links[incarnation] = link
            chroot = self._kafka.zookeeper_connect.partition("/")[2]
            scenario = self._scenario
            member = self._subject.member(
                MemberSettings(
                    name=incarnation,
                    group=GROUP,
                    topics=tuple(scenario.topics),
                    pattern=scenario.pattern,
                    zookeeper_connect=f"{link.address}/{chroot}",
                    bootstrap_servers=self._kafka.bootstrap_servers,
                    session_timeout_ms=scenario.session_timeout_ms,
                    commit_interval_ms=scenario.commit_interval_ms,
                    work_ms=(scenario.work_ms or {}).get(name, 0),
                )
            )
            self._members[incarnation] = member
            self._joins.append(self._pool.submit(member.start))

    def _incarnation(self, name: str) -> str:
        """A member that comes back is another one: its old self may still be about."""
        number = self._names.get(name, 1)
        return name if number == 1 else f"{name}.{number}"

    def _current(self, name: str) -> Member:
        return self._members[self._incarnation(name)]

    def _pause(self, names: tuple[str, ...]) -> Callable[[], None]:
        members, from_ms = [(self._incarnation(name), self._current(name)) for name in names], now_ms()
        for _, member in members:
            member.pause()

        def resume() -> None:
            for name, member in members:
                member.resume()
                self._add({"kind": "paused", "member": name, "from_ms": from_ms, "until_ms": now_ms()})

        return resume

    def _heal(self, names: tuple[str, ...]) -> None:
        for name in names:
            self._links[self._incarnation(name)].heal()

    def _expire(self, name: str) -> None:
        """Cut the member off until the server has given its session up. The new protocol has no such session."""
        link, ids = self._links[self._incarnation(name)], f"/ids/{GROUP}_{self._incarnation(name)}"
        victims = {
            number
            for number, session in self._zookeeper.sessions().items()
            if any(path.endswith(ids) for path in session.ephemerals)
        }
        if not victims:
            self._event("no session to expire", name)
            return
        link.black_hole()
        try:
            eventually(lambda: not victims & self._zookeeper.sessions().keys(), f"the end of {name}'s session", 60.0)
        finally:
            link.heal()

    def _add_partitions(self, step: Step) -> None:
        self._kafka.add_partitions(step.topic, step.partitions)
        have = {partition for topic, partition in self._partitions if topic == step.topic}
        self._partitions = self._partitions + [(step.topic, p) for p in range(step.partitions) if p not in have]

    def _add_topic(self, step: Step) -> None:
        self._kafka.create_topic(step.topic, partitions=step.partitions, replication_factor=self._scenario.brokers)
        self._partitions = self._partitions + [(step.topic, p) for p in range(step.partitions)]

    # --- beside the timeline ---

    def _produce(self) -> None:
        """Records at a steady rate, to all partitions in turn, until told to end."""
        producer = Producer(
            {"bootstrap.servers": self._kafka.bootstrap_servers, "acks": "all", "linger.ms": 5, "log_level": 2,
             "enable.idempotence": True,  # a record that is stored once more is no repetition of the consumer's
             "message.timeout.ms": 60_000, "topic.metadata.refresh.interval.ms": 1000}
        )  # fmt: skip
        began_s, sent = time.monotonic(), 0
        while not self._ending.wait(0.01):
            due = int((time.monotonic() - began_s) * self._scenario.rate)
            while sent < due and self._sent(producer, sent):
                sent += 1
            producer.poll(0)
        left = producer.flush(DRAIN_TIMEOUT_S)
        if left:
            raise StudyProducerError(f"{left} records were not acknowledged within {DRAIN_TIMEOUT_S:.0f} s")

    def _sent(self, producer: Producer, number: int) -> bool:
        """Not yet if the partition is so new that the producer does not know it, or if too much is waiting."""
        topic, partition = self._partitions[number % len(self._partitions)]
        try:
            producer.produce(topic, b"%d" % number, partition=partition, on_delivery=self._stored)
        except BufferError:
            return False
        except KafkaException as error:
            if error.args[0].code() not in (KafkaError._UNKNOWN_PARTITION, KafkaError._UNKNOWN_TOPIC):
                raise
            producer.list_topics(topic, timeout=1.0)
            return False
        return True

    def _stored(self, error: Any, message: Any) -> None:
        if error is None and message.offset() >= 0:  # an acknowledgement that was lost may come without an offset
            self._add(
                {
                    "kind": "produced",
                    "topic": message.topic(),
                    "partition": message.partition(),
                    "offset": message.offset(),
                    "time_ms": now_ms(),
                }
            )

    def _sample_load(self) -> None:
        """ZooKeeper's own counters, as long as it answers."""
        while not self._ending.wait(SAMPLE_S):
            try:
                counters = dict(re.findall(r"^(\w+)\t(\d+)", self._zookeeper.four_letter_word("mntr"), re.MULTILINE))
            except OSError:
                continue
            if "zk_packets_received" in counters:
                self._add(
                    {
                        "kind": "load",
                        "time_ms": now_ms(),
                        "packets": int(counters["zk_packets_received"]),
                        "watches": int(counters["zk_watch_count"]),
                        "sessions": int(counters["zk_global_sessions"]),
                    }
                )

    def _collect(self) -> None:
        for name, member in list(self._members.items()):
            for line in member.lines():
                line["member"] = name
                self._reports.append(line)
                if line["kind"] == "delivered":
                    self._delivered.add((line["topic"], line["partition"], line["offset"]))
                    self._note_reader((line["topic"], line["partition"]), name)

    def _note_reader(self, partition: tuple[str, int], member: str) -> None:
        if self._reader.get(partition) != member:
            self._reader[partition] = member
            self._reader_changed_s = time.monotonic()

    def _is_settled(self) -> bool:
        """Every partition read, by the same member for as long as a member may not know that it has to hand it over.

        Members of the new protocol hear of that with a heartbeat; cooperative ones share out in two rounds.
        """
        self._collect()
        quiet_s = self._scenario.session_timeout_ms / 1000 / HEARTBEATS_A_SESSION + SETTLED_S
        if time.monotonic() - self._reader_changed_s < quiet_s:
            return False
        read = {(topic, partition) for topic, partition, _ in self._delivered}
        # Else the first joins, which new consumers do after their process is up, would be counted as rebalances.
        readers = {line["member"] for line in self._reports if line["kind"] == "delivered"}
        # Assigned by ranges, of two topics with two partitions each no more than two members get any.
        most = max(self._scenario.topics.values())
        return read >= set(self._partitions) and len(readers) >= min(len(self._members), most)

    def _all_delivered(self) -> bool:
        self._collect()
        with self._lock:
            produced = [line for line in self._lines if line["kind"] == "produced"]
        return all((line["topic"], line["partition"], line["offset"]) in self._delivered for line in produced)

    def _stored_commits(self) -> Iterator[Line]:
        """What the brokers keep in __consumer_offsets."""
        if "__consumer_offsets" not in self._kafka.topics():
            return
        reader = Consumer(
            {"bootstrap.servers": self._kafka.bootstrap_servers, "group.id": "study-reader",
             "enable.auto.commit": False,
             "enable.partition.eof": True, "log_level": 2}
        )  # fmt: skip
        try:
            left = {*self._kafka.end_offsets("__consumer_offsets")}
            reader.assign([TopicPartition("__consumer_offsets", number, 0) for number in left])
            deadline = time.monotonic() + 30
            while left and time.monotonic() < deadline:
                record = reader.poll(1.0)
                if record is None:
                    continue
                if record.error() is not None:
                    left.discard(record.partition())
                    continue
                line = commit_from_record(record.key(), record.value(), record.timestamp()[1], GROUP)
                if line is not None:
                    yield line
        finally:
            reader.close()

    def _close_members(self) -> None:
        for member in self._members.values():
            member.close()

    def _event(self, event: str, member: str = "", detail: str = "") -> None:
        self._add({"kind": "event", "event": event, "member": member, "time_ms": now_ms(), "detail": detail})

    def _add(self, line: Line) -> None:
        with self._lock:
            self._lines.append(line)


@contextmanager
def _thread(name: str, work: Callable[[], None], ending: threading.Event) -> Iterator[None]:
    thread = threading.Thread(target=work, name=name)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
