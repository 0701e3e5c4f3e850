"""The options of format("zkconsumer"), checked: the consumer's own keys, and a few of the source.

Pure. Spark gives texts; keys count without case, as Spark has it.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pipeline.checkpoint import Checkpoint
from pipeline.errors import UnknownOption
from zkconsumer.config import SETTINGS, ConsumerConfig
from zkconsumer.emulation import emulation
from zkconsumer.errors import InvalidConfigException, KafkaException
from zkconsumer.topic_filter import Whitelist
from zkconsumer.zookeeper_options import PREFIX

OWN_KEYS = (
    "topics",
    "topics.pattern",
    "members",
    "maxOffsetsPerTrigger",
    "checkpointLocation",
    "starting.offsets",
    "ending.offsets",
    "release.timeout.ms",
    "leader.timeout.ms",
    "handover",
    "fail.on.data.loss",
    "emulate",
)
HANDOVERS = ("checkpoint", "group")
GIVEN_BY_SPARK = ("path",)  # load("…") would set it
SETTINGS_OF_OURS = ("auto.commit.enable", "consumer.timeout.ms")
RELEASE_TIMEOUT_MS = 5000
LEADER_TIMEOUT_MS = 120_000  # a broker that was killed and has to look through its log comes back within this

Positions = Mapping[str, Mapping[int, int]]
"""Topic -> partition -> offset."""


@dataclass(frozen=True)
class SourceOptions:
    """What a source was asked to read, and how."""

    config: ConsumerConfig
    streams_of: Mapping[str, int]  # empty with a pattern
    pattern: str | None
    members: int = 1
    most_rows: int | None = None
    starting: str | Positions = "stored"
    ending: str | Positions = "latest"
    release_timeout_s: float = RELEASE_TIMEOUT_MS / 1000
    leader_timeout_s: float = LEADER_TIMEOUT_MS / 1000
    handover: str = "checkpoint"
    fail_on_data_loss: bool = True
    checkpoint: Checkpoint | None = None
    streams_of_pattern: int = field(default=1)

    @classmethod
    def of(cls, given: Mapping[str, str]) -> SourceOptions:
        """Raises UnknownOption or InvalidConfigException, whose text is one line."""
        known = {key.lower(): key for key in (*OWN_KEYS, *(setting.key for setting in SETTINGS))}
        own: dict[str, str] = {}
        consumer: dict[str, str] = {}
        for key, value in given.items():
            name = known.get(key.lower(), key)
            if name in OWN_KEYS:
                own[name] = value
            elif key.lower() in known or key.startswith(PREFIX):
                consumer[name] = value
            else:
                raise _unknown(key, list(known.values()))
        _check_ours(consumer)
        topics, pattern = _subscription(own)
        return cls(
            config=_config(consumer, own.get("emulate", "fixed")),
            streams_of=topics,
            pattern=None if pattern is None else pattern[0],
            streams_of_pattern=1 if pattern is None else pattern[1],
            members=_whole_number(own, "members", 1, least=1) or 1,
            most_rows=_whole_number(own, "maxOffsetsPerTrigger", None, least=1),
            starting=_positions(own, "starting.offsets", ("stored", "earliest", "latest"), "stored"),
            ending=_positions(own, "ending.offsets", ("latest",), "latest"),
            release_timeout_s=(_whole_number(own, "release.timeout.ms", RELEASE_TIMEOUT_MS, least=0) or 0) / 1000,
            leader_timeout_s=(_whole_number(own, "leader.timeout.ms", LEADER_TIMEOUT_MS, least=0) or 0) / 1000,
            handover=_one_of(own, "handover", HANDOVERS),
            fail_on_data_loss=_one_of(own, "fail.on.data.loss", ("true", "false")) == "true",
            checkpoint=Checkpoint(own["checkpointLocation"]) if "checkpointLocation" in own else None,
        )


def _config(consumer: Mapping[str, str], emulate: str) -> ConsumerConfig:
    try:
        # A member's own streams are read by nobody: what it thinks was consumed must never be stored.
        habits = emulation(emulate).with_switches(commit_when_session_is_lost=False)
        return ConsumerConfig.from_properties({**consumer, "auto.commit.enable": "false"}, emulate=habits)
    except InvalidConfigException as error:
        text = str(error).removeprefix("requirement failed: ")
        missing = f": give it by .option({error.key!r}, …)" if text.startswith("Missing") else ""
        raise UnknownOption(text + missing) from None
    except (KafkaException, ValueError) as error:
        raise UnknownOption(f"option emulate={emulate}: {error}") from None


def _check_ours(consumer: Mapping[str, str]) -> None:
    for key in SETTINGS_OF_OURS:
        if key in consumer:
            raise UnknownOption(f"option {key} is not for you to set: Spark's batches say when offsets are committed")


def _subscription(own: Mapping[str, str]) -> tuple[dict[str, int], tuple[str, int] | None]:
    if ("topics" in own) == ("topics.pattern" in own):
        raise UnknownOption('give either option topics ("orders:2,clicks" = topic:streams) or topics.pattern')
    if "topics" in own:
        named = [_topic(entry, own["topics"]) for entry in own["topics"].split(",")]
        twice = [topic for topic, times in Counter(topic for topic, _ in named).items() if times > 1]
        if twice:
            raise UnknownOption(f"option topics={own['topics']}: {', '.join(twice)} is named more than once")
        return dict(named), None
    regex = own["topics.pattern"]
    try:
        Whitelist(regex)
    except KafkaException as error:
        raise UnknownOption(f"option topics.pattern: {error}") from None
    return {}, (regex, 1)


def _topic(entry: str, whole: str) -> tuple[str, int]:
    name, colon, count = entry.strip().partition(":")
    if not name or (colon and (not count.isdigit() or int(count) < 1)):
        raise UnknownOption(f'option topics={whole}: {entry!r} should be "topic" or "topic:streams", as in "orders:2"')
    return name, int(count) if colon else 1


def _whole_number(own: Mapping[str, str], key: str, default: int | None, *, least: int) -> int | None:
    if key not in own:
        return default
    text = own[key].strip()
    if not text.isdigit() or int(text) < least:
        raise UnknownOption(f"option {key}={own[key]} should be a whole number, at least {least}")
    return int(text)


def _one_of(own: Mapping[str, str], key: str, allowed: tuple[str, ...]) -> str:
    value = own.get(key, allowed[0]).lower()
    if value not in allowed:
        raise UnknownOption(f"option {key}={own[key]} should be {' or '.join(allowed)}")
    return value


def _positions(own: Mapping[str, str], key: str, words: tuple[str, ...], default: str) -> str | Positions:
    import json

    text = own.get(key, default)
    if text in words:
        return text
    try:
        given: Any = json.loads(text)
        return {str(topic): {int(p): int(offset) for p, offset in places.items()} for topic, places in given.items()}
    except (ValueError, AttributeError, TypeError):
        raise UnknownOption(
            f"option {key}={text} should be {' or '.join(words)}, or offsets by topic and partition as in"
            ' {"orders": {"0": 17}}'
        ) from None


def _unknown(key: str, known: list[str]) -> UnknownOption:
    if key.lower() in GIVEN_BY_SPARK:
        return UnknownOption("load() takes no path here: topics are named by option topics")
    near = difflib.get_close_matches(key, known, n=2)
    hint = f"; did you mean {' or '.join(near)}?" if near else "; see docs/pipeline.md for those there are"
    return UnknownOption(f"no option {key}{hint}")
