"""What is done to a group, as data: TOML in, a checked frozen value out (docs/study.md describes the file)."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zkconsumer.testing.errors import ServerError
from zkconsumer.testing.programs import KAFKA_VERSIONS

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
    for topic, partitions in topics.items():
        if not isinstance(partitions, int) or partitions < 1:
            raise reader.wrong(f"workload.topics.{topic}", partitions, "a number of partitions from 1 up")
    count = reader.value(group, "members", int, within="group", least=1)
    members = tuple(f"m{number}" for number in range(1, count + 1))
    kafka = servers.get("kafka", "1.1.1")
    if kafka not in KAFKA_VERSIONS or kafka == "0.8.2.2":
        raise reader.wrong("servers.kafka", kafka, "1.1.1 or 3.9.1, which both protocols can use")
    duration_s = float(reader.value(data, "duration_s", (int, float), least=1))
    steps = tuple(reader.step(number, step, duration_s) for number, step in enumerate(data.get("event", []), start=1))
    return Scenario(
        name=name,
        title=reader.value(data, "title", str),
        about=" ".join(str(data.get("about", "")).split()),
        topics=dict(topics),
        rate=reader.value(workload, "rate", int, within="workload", least=1),
        members=members,
        duration_s=duration_s,
        steps=tuple(sorted(steps, key=lambda step: step.at_s)),
        pattern=group.get("pattern"),
        work_ms=dict(group.get("work_ms", {})),
        session_timeout_ms=group.get("session_timeout_ms", 3000),
        commit_interval_ms=group.get("commit_interval_ms", 1000),
        kafka=kafka,
        brokers=servers.get("brokers", 1),
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
        fits = isinstance(value, kind) and not isinstance(value, bool)
        if not fits or (least is not None and data[key] < least):
            names = " or ".join(one.__name__ for one in (kind if isinstance(kind, tuple) else (kind,)))
            raise self.wrong(name, value, names + (f" from {least} up" if least is not None else ""))
        return value

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
            values["members"] = tuple(str(member) for member in values["members"])
        return Step(at_s=at_s, do=do, **values)
