"""The settings of a consumer (0.8: ConsumerConfig, ZKConfig, VerifiableProperties).

All 28 keys of 0.8.2.2 with its defaults, checks and messages, and `fetch.max.bytes` of later releases. A setting is
given by its name (`auto_commit_interval_ms=1000`, typed) or in properties (`auto.commit.interval.ms`, text, read as
Java reads it). Rule: a wrong setting fails here, when the configuration is made, and nowhere later.
"""

from __future__ import annotations

import difflib
import logging
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, Required, Self, TypedDict, Unpack

from fetcher.java import text_order_key
from fetcher.settings import FetcherSettings
from zkconsumer.emulation import Emulation, emulation
from zkconsumer.errors import InvalidConfigException, NumberFormatException
from zkconsumer.java_properties import parse_properties
from zkconsumer.zookeeper_options import PREFIX, checked_options, options_in

log = logging.getLogger(__name__)

_LEGAL = re.compile(r"[a-zA-Z0-9._-]*")
_JAVA_INTEGER = re.compile(r"[+-]?\d{1,40}")
_INT_32 = range(-(1 << 31), 1 << 31)


class Setting(NamedTuple):
    """One key: what kind of value it has, and its default (None: required, absent or another setting's value)."""

    key: str
    kind: Literal["text", "int", "bool"]
    default: str | int | bool | None = None

    @property
    def name(self) -> str:
        """As an argument and field of ConsumerConfig."""
        return self.key.replace(".", "_")


# In the order in which 0.8.2.2 reads them: it decides which of several errors is reported.
SETTINGS = (
    Setting("zookeeper.connect", "text"),
    Setting("zookeeper.session.timeout.ms", "int", 6000),
    Setting("zookeeper.connection.timeout.ms", "int"),
    Setting("zookeeper.sync.time.ms", "int", 2000),
    Setting("group.id", "text"),
    Setting("consumer.id", "text"),
    Setting("socket.timeout.ms", "int", 30_000),
    Setting("socket.receive.buffer.bytes", "int", 64 * 1024),
    Setting("fetch.message.max.bytes", "int", 1024 * 1024),
    Setting("num.consumer.fetchers", "int", 1),
    Setting("auto.commit.enable", "bool", True),
    Setting("auto.commit.interval.ms", "int", 60_000),
    Setting("queued.max.message.chunks", "int", 2),
    Setting("rebalance.max.retries", "int", 4),
    Setting("fetch.min.bytes", "int", 1),
    Setting("fetch.max.bytes", "int", 50 * 1024 * 1024),  # from 0.10.1
    Setting("fetch.wait.max.ms", "int", 100),
    Setting("rebalance.backoff.ms", "int"),
    Setting("refresh.leader.backoff.ms", "int", 200),
    Setting("offsets.channel.backoff.ms", "int", 1000),
    Setting("offsets.channel.socket.timeout.ms", "int", 10_000),
    Setting("offsets.commit.max.retries", "int", 5),
    Setting("offsets.storage", "text", "zookeeper"),
    Setting("dual.commit.enabled", "bool"),
    Setting("auto.offset.reset", "text", "largest"),
    Setting("consumer.timeout.ms", "int", -1),
    Setting("client.id", "text"),
    Setting("exclude.internal.topics", "bool", True),
    Setting("partition.assignment.strategy", "text", "range"),
)
_SETTING_NAMED = {setting.name: setting for setting in SETTINGS}
_SETTING_OF_KEY = {setting.key: setting for setting in SETTINGS}
_REQUIRED = ("zookeeper.connect", "group.id")


class ConsumerSettings(TypedDict, total=False):
    """The keyword arguments of ConsumerConfig."""

    zookeeper_connect: Required[str]
    group_id: Required[str]
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    zookeeper_sync_time_ms: int
    consumer_id: str | None
    client_id: str
    socket_timeout_ms: int
    socket_receive_buffer_bytes: int
    fetch_message_max_bytes: int
    num_consumer_fetchers: int
    auto_commit_enable: bool
    auto_commit_interval_ms: int
    queued_max_message_chunks: int
    rebalance_max_retries: int
    rebalance_backoff_ms: int
    refresh_leader_backoff_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_wait_max_ms: int
    auto_offset_reset: str
    consumer_timeout_ms: int
    exclude_internal_topics: bool
    partition_assignment_strategy: str
    offsets_storage: str
    dual_commit_enabled: bool
    offsets_channel_backoff_ms: int
    offsets_channel_socket_timeout_ms: int
    offsets_commit_max_retries: int
    emulate: str | Emulation
    zookeeper_options: Mapping[str, Any]


@dataclass(frozen=True, init=False, repr=False)
class ConsumerConfig:
    """Checked settings, one field a key, never changed afterwards. Raises InvalidConfigException for a wrong one.

    `emulate`: the release whose habits to have, or an Emulation. `zookeeper_options`: further arguments of the
    ZooKeeper client (auth_data, sasl_options, use_ssl, ca, certfile, keyfile, …), which are shown nowhere; properties
    have them under `zookeeper.options.`.
    """

    zookeeper_connect: str
    group_id: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    zookeeper_sync_time_ms: int
    consumer_id: str | None
    client_id: str
    socket_timeout_ms: int
    socket_receive_buffer_bytes: int
    fetch_message_max_bytes: int
    num_consumer_fetchers: int
    auto_commit_enable: bool
    auto_commit_interval_ms: int
    queued_max_message_chunks: int
    rebalance_max_retries: int
    rebalance_backoff_ms: int
    refresh_leader_backoff_ms: int
    fetch_min_bytes: int
    fetch_max_bytes: int
    fetch_wait_max_ms: int
    auto_offset_reset: str
    consumer_timeout_ms: int
    exclude_internal_topics: bool
    partition_assignment_strategy: str
    offsets_storage: str
    dual_commit_enabled: bool
    offsets_channel_backoff_ms: int
    offsets_channel_socket_timeout_ms: int
    offsets_commit_max_retries: int
    emulate: str | Emulation = "0.8.2"
    zookeeper_options: Mapping[str, Any] = field(default_factory=dict, hash=False)
    _given: tuple[str, ...] = field(default=(), compare=False)

    def __init__(self, **settings: Unpack[ConsumerSettings]) -> None:
        given: dict[str, Any] = dict(settings)
        _refuse_unknown(given)
        options = given.pop("zookeeper_options", {})
        emulate = given.pop("emulate", "0.8.2")
        texts = {_SETTING_NAMED[name].key: _as_text(name, value) for name, value in given.items() if value is not None}
        self._fill(texts, emulate, options)

    @classmethod
    def from_properties(
        cls,
        properties: Mapping[str, str | int | bool],
        *,
        emulate: str | Emulation = "0.8.2",
        zookeeper_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """From Java's keys and text values (0.8: new ConsumerConfig(props)). Unknown keys are only warned about."""
        config = cls.__new__(cls)
        texts = {key: _property_text(value) for key, value in properties.items()}
        config._fill(texts, emulate, zookeeper_options or {})
        return config

    @classmethod
    def from_file(
        cls,
        path: str | os.PathLike[str],
        *,
        emulate: str | Emulation = "0.8.2",
        zookeeper_options: Mapping[str, Any] | None = None,
    ) -> Self:
        """From a .properties file, read as Java reads it."""
        try:
            properties = parse_properties(Path(path).read_bytes())
        except ValueError as error:
            raise InvalidConfigException(f"{path} is no properties file: {error}") from error
        return cls.from_properties(properties, emulate=emulate, zookeeper_options=zookeeper_options)

    def with_settings(self, **changes: Any) -> Self:
        """The same with some settings given differently; defaults that follow other settings follow them again."""
        kept: dict[str, Any] = {name: getattr(self, name) for name in self._given}
        kept |= {"emulate": self.emulate, "zookeeper_options": self.zookeeper_options}
        return type(self)(**(kept | changes))

    def to_properties(self) -> dict[str, str]:
        """Every setting as text under its key, alphabetically. Not in it: `emulate`, `zookeeper_options`."""
        values = {setting.key: getattr(self, setting.name) for setting in SETTINGS}
        return {key: _property_text(values[key]) for key in sorted(values) if values[key] is not None}

    @property
    def emulation(self) -> Emulation:
        """The switches that `emulate` stands for."""
        return self.emulate if isinstance(self.emulate, Emulation) else emulation(self.emulate)

    def fetcher_settings(self) -> FetcherSettings:
        """What the fetchers need to know."""
        return FetcherSettings(
            client_id=self.client_id,
            socket_timeout_ms=self.socket_timeout_ms,
            socket_receive_buffer_bytes=self.socket_receive_buffer_bytes,
            fetch_message_max_bytes=self.fetch_message_max_bytes,
            fetch_max_bytes=self.fetch_max_bytes,
            fetch_min_bytes=self.fetch_min_bytes,
            fetch_wait_max_ms=self.fetch_wait_max_ms,
            num_consumer_fetchers=self.num_consumer_fetchers,
            refresh_leader_backoff_ms=self.refresh_leader_backoff_ms,
            auto_offset_reset=self.auto_offset_reset,
            request_versions=self.emulation.request_versions,
            wait_after_fetch_error=self.emulation.wait_after_fetch_error,
            only_topics_in_zookeeper=self.emulation.ask_only_for_topics_in_zookeeper,
        )

    def __repr__(self) -> str:
        shown = [f"{name}={getattr(self, name)!r}" for name in self._given]
        if self.emulate != "0.8.2":
            shown.append(f"emulate={self.emulate!r}")
        if self.zookeeper_options:
            shown.append("zookeeper_options=…")  # may hold passwords
        return f"ConsumerConfig({', '.join(shown)})"

    def _fill(self, texts: Mapping[str, str], emulate: str | Emulation, options: Mapping[str, Any]) -> None:
        switches = emulate if isinstance(emulate, Emulation) else emulation(emulate)
        values = _read(texts, switches)
        _check(values, "client.id" in texts, switches)
        values |= {"emulate": emulate, "zookeeper_options": checked_options({**options_in(texts), **options})}
        values["_given"] = tuple(setting.name for setting in SETTINGS if setting.key in texts)
        for name, value in values.items():
            object.__setattr__(self, name, value)
        _report(texts)
        _warn(self)


def _refuse_unknown(given: Mapping[str, Any]) -> None:
    known = list(ConsumerSettings.__annotations__)
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name.replace(".", "_"), known, n=3)
            hint = f": did you mean {' or '.join(near)}?" if near else ""
            raise TypeError(f"ConsumerConfig has no setting {name}{hint}")


def _as_text(name: str, value: object) -> str:
    """A typed value as it would stand in properties. Raises InvalidConfigException if it is of another type."""
    setting = _SETTING_NAMED[name]
    wanted: type = {"text": str, "int": int, "bool": bool}[setting.kind]
    if not isinstance(value, wanted) or (setting.kind == "int" and isinstance(value, bool)):
        raise InvalidConfigException(
            f"{name} should be of type {wanted.__name__}, not {type(value).__name__}: {value!r}",
            key=setting.key,
            value=value,
        )
    return _property_text(value)


def _property_text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _read(texts: Mapping[str, str], switches: Emulation) -> dict[str, Any]:
    """Every setting's value, in the order of 0.8.2.2. Raises InvalidConfigException for what cannot be read."""
    values: dict[str, Any] = {}
    for setting in SETTINGS:
        if setting.key in texts:
            text = texts[setting.key].strip(_TRIMMED) if switches.trim_values else texts[setting.key]
            values[setting.name] = _value(setting, text)
        elif setting.key in _REQUIRED:
            raise InvalidConfigException(
                f"requirement failed: Missing required property '{setting.key}'", key=setting.key
            )
        else:
            values[setting.name] = _default(setting, values)
        # As in 0.8.2.2: there it is compared before fetch.wait.max.ms is read, so with 0.
        if setting.key == ("fetch.wait.max.ms" if switches.check_socket_timeout else "socket.timeout.ms"):
            _check_socket_timeout(values)
    return values


_TRIMMED = "".join(map(chr, range(0x21)))  # String.trim(): every character up to the blank


def _value(setting: Setting, text: str) -> str | int | bool:
    if setting.kind == "int":
        return _integer(setting.key, text)
    if setting.kind == "bool":
        return _boolean(setting.key, text)
    return text.lower() if setting.key == "offsets.storage" else text


def _default(setting: Setting, values: Mapping[str, Any]) -> Any:
    match setting.key:
        case "zookeeper.connection.timeout.ms":
            return values["zookeeper_session_timeout_ms"]
        case "rebalance.backoff.ms":
            return values["zookeeper_sync_time_ms"]
        case "client.id":
            return values["group_id"]
        case "dual.commit.enabled":
            return values["offsets_storage"] == "kafka"
        case _:
            return setting.default


def _integer(key: str, text: str) -> int:
    if not _JAVA_INTEGER.fullmatch(text) or int(text) not in _INT_32:
        raise NumberFormatException(
            f'For input string: "{text}" ({key} should be a whole number of 32 bits, without blanks)',
            key=key,
            value=text,
        )
    return int(text)


def _boolean(key: str, text: str) -> bool:
    if text not in ("true", "false"):
        # As in 0.8.2.2: the last quote is missing there too.
        raise InvalidConfigException(
            f"requirement failed: Unacceptable value for property '{key}', boolean values must be either 'true' or"
            " 'false",
            key=key,
            value=text,
        )
    return text == "true"


def _check_socket_timeout(values: Mapping[str, Any]) -> None:
    if values.get("fetch_wait_max_ms", 0) > values["socket_timeout_ms"]:
        raise InvalidConfigException(
            "requirement failed: socket.timeout.ms should always be at least fetch.wait.max.ms to prevent unnecessary"
            " socket timeouts",
            key="socket.timeout.ms",
            value=values["socket_timeout_ms"],
        )


def _check(values: Mapping[str, Any], client_id_given: bool, switches: Emulation) -> None:
    """The checks on texts, in the order of 0.8.2.2 (0.8: ConsumerConfig.validate)."""
    if client_id_given or not switches.name_group_id_in_errors:
        # As in 0.8.2.2: client.id defaults to group.id and is looked at first, so it is blamed for both.
        _check_characters("client.id", values["client_id"])
    _check_characters("group.id", values["group_id"])
    _check_one_of(values, "auto.offset.reset", "ConsumerConfig", ("smallest", "largest"), quote="")
    _check_one_of(values, "offsets.storage", "consumer config", ("zookeeper", "kafka"))
    if switches.check_strategy:
        _check_one_of(values, "partition.assignment.strategy", "consumer config", ("range", "roundrobin"))


def _check_characters(key: str, value: str) -> None:
    if not _LEGAL.fullmatch(value):
        raise InvalidConfigException(
            f"{key} {value} is illegal, contains a character other than ASCII alphanumerics, '.', '_' and '-'",
            key=key,
            value=value,
        )


def _check_one_of(
    values: Mapping[str, Any], key: str, where: str, allowed: tuple[str, str], *, quote: str = "'"
) -> None:
    value = values[_SETTING_OF_KEY[key].name]
    if value not in allowed:
        first, second = (f"{quote}{name}{quote}" for name in allowed)
        raise InvalidConfigException(
            f"Wrong value {value} of {key} in {where}; Valid values are {first} and {second}", key=key, value=value
        )


def _report(texts: Mapping[str, str]) -> None:
    """Every key given, alphabetically (0.8: VerifiableProperties.verify). No value that may be a secret is shown."""
    log.info("Verifying properties")
    for key in sorted(texts, key=text_order_key):
        if key in _SETTING_OF_KEY:
            log.info("Property %s is overridden to %s", key, texts[key])
        elif key.startswith(PREFIX):
            log.info("Property %s is overridden to [hidden]", key)
        elif not key.startswith("external"):
            log.warning("Property %s is not valid", key)


def _warn(config: ConsumerConfig) -> None:
    """What 0.8 accepts in silence although it cannot work well."""
    patience_ms = config.rebalance_max_retries * config.rebalance_backoff_ms
    if config.rebalance_max_retries > 0 and patience_ms <= config.zookeeper_session_timeout_ms:
        log.warning(
            "rebalance.max.retries x rebalance.backoff.ms = %d ms is not longer than zookeeper.session.timeout.ms = %d:"
            " while a crashed member still holds its partitions, all attempts may fail",
            patience_ms,
            config.zookeeper_session_timeout_ms,
        )
    for key, least, effect in _MINIMA:
        value = getattr(config, _SETTING_OF_KEY[key].name)
        if value < least:
            log.warning("%s=%d: %s", key, value, effect)


_MINIMA = (
    ("rebalance.max.retries", 1, "no attempt to rebalance is made, so streams cannot be created"),
    ("num.consumer.fetchers", 1, "nothing is ever fetched"),
    ("queued.max.message.chunks", 1, "streams cannot be created"),
    ("fetch.message.max.bytes", 1, "no message fits"),
)
