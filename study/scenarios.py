"""What is done to a group, as data: TOML in, a checked frozen value out (docs/study.md describes the file)."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from study.timeline import Timeline
from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.programs import KAFKA_VERSIONS

MOST_SESSION_MS = 10_000
"""The servers of a study allow no longer sessions, of either protocol."""
SHIPPED = Path(__file__).with_name("shipped")

# What can be done, and the keys each needs besides `at` and `do`.
ACTIONS: Mapping[str, tuple[str, ...]] = {
    "join": ("members",),
    "leave": ("members",),
    "kill": ("members",),
    "pause": ("members", "for_s"),
    "expire session": ("members",),
    "cut link": ("members", "for_s"),
    "kill broker": ("broker",),
    "start broker": ("broker",),
    "restart zookeeper": ("for_s",),
    "add partitions": ("topic", "partitions"),
    "add topic": ("topic", "partitions"),
}
_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "at": (int, float), "do": str, "members": list, "for_s": (int, float),
    "broker": int, "topic": str, "partitions": int,
}  # fmt: skip
_IN_WORDS = {int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a table"}
_TOPIC = re.compile(r"[A-Za-z0-9._-]{1,249}")
_MEMBER = re.compile(r"[A-Za-z0-9-]{1,50}")


class ScenarioError(ServerError):
    """A scenario that cannot be played: which file, where, what to do."""


@dataclass(frozen=True, slots=True)
class Step:
    """One thing done at a time, in seconds from the start."""

    at_s: float
    do: str
    members: tuple[str, ...] = ()
    for_s: float = 0.0
    broker: int = 0
    topic: str = ""
    partitions: int = 0

    @property
    def detail(self) -> str:
        """In words, without the members."""
        if self.topic:
            return f"{self.topic}: {self.partitions} partitions"
        if self.do in ("kill broker", "start broker"):
            return f"broker {self.broker}"
        return f"for {self.for_s:g} s" if self.for_s else ""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A workload, a group, servers, and a timeline."""

    name: str
    title: str
    about: str
    topics: Mapping[str, int]
    rate: int  # records a second, over all partitions
    members: tuple[str, ...]
    duration_s: float
    steps: tuple[Step, ...]
    pattern: str | None = None
    work_ms: Mapping[str, int] | None = None  # by member, for those that are slow
    session_timeout_ms: int = 3000
    commit_interval_ms: int = 1000
    kafka: str = "1.1.1"
    brokers: int = 1


def shipped() -> list[Scenario]:
    """All that come with the package, by name."""
    return [load(str(path)) for path in sorted(SHIPPED.glob("*.toml"))]


def load(name_or_path: str) -> Scenario:
    """A shipped scenario by name, or one of your own by its file."""
    path = Path(name_or_path)
    if path.suffix != ".toml":
        path = SHIPPED / f"{name_or_path}.toml"
        if not path.is_file():
            known = ", ".join(sorted(file.stem for file in SHIPPED.glob("*.toml")))
            raise ScenarioError(
                f"there is no scenario {name_or_path!r}: give a file ending in .toml, or one of {known}"
            )
    try:
        return parse(path.stem, tomllib.loads(path.read_text(encoding="utf-8")), str(path))
    except FileNotFoundError as error:
        raise ScenarioError(f"{path}: there is no such file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path} is no TOML: {error}") from error


def parse(name: str, data: Mapping[str, Any], where: str) -> Scenario:
    """Check everything before anything starts; ScenarioError names the key."""
    reader = _Reader(where)
    reader.only(data, "title", "about", "duration_s", "workload", "group", "servers", "event")
    workload, group = reader.table(data, "workload"), reader.table(data, "group")
    servers = reader.table(data, "servers", optional=True)
    reader.only(workload, "topics", "rate", within="workload")
    reader.only(group, "members", "pattern", "work_ms", "session_timeout_ms", "commit_interval_ms", within="group")
    reader.only(servers, "kafka", "brokers", within="servers")
    topics = reader.value(workload, "topics", dict, within="workload")
    if not topics:
        raise reader.wrong("workload.topics", topics, "one topic at least, as in { orders = 6 }")
    for topic, partitions in topics.items():
        reader.topic("workload.topics", topic)
        reader.number(f"workload.topics.{topic}", partitions, least=1)
    count = reader.value(group, "members", int, within="group", least=1)
    members = tuple(f"m{number}" for number in range(1, count + 1))
    kafka = servers.get("kafka", "1.1.1")
    if kafka not in KAFKA_VERSIONS or kafka == "0.8.2.2":
        raise reader.wrong("servers.kafka", kafka, "1.1.1 or 3.9.1, which both protocols can use")
    brokers = reader.number("servers.brokers", servers.get("brokers", 1), least=1, most=3)
    duration_s = float(reader.value(data, "duration_s", (int, float), least=1))
    steps = reader.steps(data.get("event", []), duration_s, Timeline(members, topics, brokers))
    everybody = {*members, *(name for step in steps for name in step.members)}
    return Scenario(
        name=name,
        title=reader.value(data, "title", str),
        about=" ".join(reader.text("about", data.get("about", "")).split()),
        topics=dict(topics),
        rate=reader.value(workload, "rate", int, within="workload", least=1),
        members=members,
        duration_s=duration_s,
        steps=steps,
        pattern=reader.pattern(group.get("pattern")),
        work_ms=reader.work(group.get("work_ms", {}), everybody),
        session_timeout_ms=reader.number(
            "group.session_timeout_ms", group.get("session_timeout_ms", 3000), least=1000, most=MOST_SESSION_MS
        ),
        commit_interval_ms=reader.number("group.commit_interval_ms", group.get("commit_interval_ms", 1000), least=1),
        kafka=kafka,
        brokers=brokers,
    )


class _Reader:
    """Takes values out of a file and says where one is wrong."""

    def __init__(self, where: str) -> None:
        self._where = where

    def wrong(self, key: str, value: object, wanted: str) -> ScenarioError:
        return ScenarioError(f"{self._where}: {key} = {value!r}: has to be {wanted}")

    def only(self, data: Mapping[str, Any], *known: str, within: str = "") -> None:
        unknown = sorted(data.keys() - set(known))
        if unknown:
            place = f"[{within}] " if within else ""
            raise ScenarioError(f"{self._where}: {place}{unknown[0]!r} is not known; there are {', '.join(known)}")

    def table(self, data: Mapping[str, Any], key: str, *, optional: bool = False) -> Mapping[str, Any]:
        if optional and key not in data:
            return {}
        found: Mapping[str, Any] = self.value(data, key, dict)
        return found

    def value(
        self,
        data: Mapping[str, Any],
        key: str,
        kind: type | tuple[type, ...],
        *,
        within: str = "",
        least: int | None = None,
    ) -> Any:
        name = f"{within}.{key}" if within else key
        if key not in data:
            raise ScenarioError(f"{self._where}: {name} is missing")
        value: Any = data[key]
        kinds = kind if isinstance(kind, tuple) else (kind,)
        fits = isinstance(value, kinds) and not isinstance(value, bool)
        if not fits or (least is not None and value < least):
            wanted = _IN_WORDS[kinds[-1]]
            raise self.wrong(name, value, wanted + (f" from {least} up" if least is not None else ""))
        return value

    def number(self, name: str, value: object, *, least: int, most: int | None = None) -> int:
        fits = isinstance(value, int) and not isinstance(value, bool) and value >= least
        if not fits or (most is not None and value > most):  # type: ignore[operator]  # fits: it is a number
            until = f" to {most}" if most is not None else " up"
            raise self.wrong(name, value, f"a whole number from {least}{until}")
        return int(value)  # type: ignore[call-overload, no-any-return]

    def text(self, name: str, value: object) -> str:
        if not isinstance(value, str):
            raise self.wrong(name, value, "text")
        return value

    def topic(self, name: str, value: object) -> None:
        if not _TOPIC.fullmatch(str(value)) or value in (".", ".."):
            raise self.wrong(name, value, "a topic's name: letters, digits, dots, dashes, underscores, at most 249")

    def pattern(self, value: object) -> str | None:
        if value is None:
            return None
        try:
            re.compile(self.text("group.pattern", value))
        except re.error as error:
            raise self.wrong("group.pattern", value, f"a regular expression ({error})") from error
        return str(value)

    def work(self, value: object, members: Collection[str]) -> Mapping[str, int]:
        if not isinstance(value, dict):
            raise self.wrong("group.work_ms", value, "a table, as in { m2 = 20 }")
        for member, work_ms in value.items():
            if member not in members:
                raise self.wrong("group.work_ms", member, f"a member's name: {', '.join(sorted(members))}")
            self.number(f"group.work_ms.{member}", work_ms, least=0)
        return dict(value)

    def steps(self, events: object, duration_s: float, timeline: Timeline) -> tuple[Step, ...]:
        """By time; each is checked against what stands at its time."""
        if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
            raise self.wrong("event", events, "a list of tables: write [[event]]")
        steps = [(self.step(number, event, duration_s), number) for number, event in enumerate(events, start=1)]
        for step, number in sorted(steps, key=lambda pair: pair[0].at_s):
            mistake = timeline.next(step)
            if mistake is not None:
                key, value, wanted = mistake
                raise self.wrong(f"event {number}.{key}", value, wanted)
        return tuple(sorted((step for step, _ in steps), key=lambda step: step.at_s))

    def step(self, number: int, data: Mapping[str, Any], duration_s: float) -> Step:
        within = f"event {number}"
        do = self.value(data, "do", str, within=within)
        if do not in ACTIONS:
            raise self.wrong(f"{within}.do", do, f"one of {', '.join(ACTIONS)}")
        self.only(data, "at", "do", *ACTIONS[do], within=within)
        values = {key: self.value(data, key, _TYPES[key], within=within) for key in ("at", *ACTIONS[do])}
        at_s = float(values.pop("at"))
        if not 0 <= at_s <= duration_s:
            raise self.wrong(f"{within}.at", at_s, f"between 0 and duration_s ({duration_s:g})")
        if "members" in values:
            names = values["members"]
            if not names or not all(isinstance(one, str) and _MEMBER.fullmatch(one) for one in names):
                raise self.wrong(f"{within}.members", names, 'names, as in ["m2"]: letters, digits, dashes')
            if len(set(names)) < len(names):
                raise self.wrong(f"{within}.members", names, "different names")
            values["members"] = tuple(names)
        if "for_s" in values and values["for_s"] <= 0:
            raise self.wrong(f"{within}.for_s", values["for_s"], "more than 0 seconds")
        if "topic" in values:
            self.topic(f"{within}.topic", values["topic"])
        if "partitions" in values:
            self.number(f"{within}.partitions", values["partitions"], least=1)
        return Step(at_s=at_s, do=do, **values)
