"""Settings: defaults, checks and messages as printed by a real ConsumerConfig of 0.8.2.2 (and 1.1.1 where named)."""

from __future__ import annotations

import logging
import pickle
import re
from pathlib import Path
from typing import Any

import pytest

from fetcher.settings import FetcherSettings
from zkconsumer.config import SETTINGS, ConsumerConfig, ConsumerSettings
from zkconsumer.emulation import Emulation, emulation
from zkconsumer.errors import IllegalArgumentException, InvalidConfigException, KafkaException, NumberFormatException
from zkconsumer.java_properties import parse_properties

MINIMUM = {"zookeeper.connect": "zk:2181", "group.id": "g1"}
DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"

DEFAULTS: dict[str, object] = {
    "zookeeper.connect": "zk:2181",
    "group.id": "g1",
    "zookeeper.session.timeout.ms": 6000,
    "zookeeper.connection.timeout.ms": 6000,
    "zookeeper.sync.time.ms": 2000,
    "consumer.id": None,
    "client.id": "g1",
    "socket.timeout.ms": 30000,
    "socket.receive.buffer.bytes": 65536,
    "fetch.message.max.bytes": 1048576,
    "num.consumer.fetchers": 1,
    "auto.commit.enable": True,
    "auto.commit.interval.ms": 60000,
    "queued.max.message.chunks": 2,
    "rebalance.max.retries": 4,
    "rebalance.backoff.ms": 2000,
    "refresh.leader.backoff.ms": 200,
    "fetch.min.bytes": 1,
    "fetch.wait.max.ms": 100,
    "auto.offset.reset": "largest",
    "consumer.timeout.ms": -1,
    "exclude.internal.topics": True,
    "partition.assignment.strategy": "range",
    "offsets.storage": "zookeeper",
    "dual.commit.enabled": False,
    "offsets.channel.backoff.ms": 1000,
    "offsets.channel.socket.timeout.ms": 10000,
    "offsets.commit.max.retries": 5,
}


ILLEGAL = " is illegal, contains a character other than ASCII alphanumerics, '.', '_' and '-'"
NO_BOOLEAN = (
    "requirement failed: Unacceptable value for property 'auto.commit.enable', boolean values must be either 'true' or"
    " 'false"
)


def config_of(emulate: str | Emulation = "0.8.2", **properties: str) -> ConsumerConfig:
    """From the minimum and these, with underscores for dots."""
    given = MINIMUM | {name.replace("_", "."): value for name, value in properties.items()}
    return ConsumerConfig.from_properties(given, emulate=emulate)


def text_of(error: pytest.ExceptionInfo[BaseException]) -> str:
    return str(error.value)


@pytest.mark.parametrize(("key", "default"), DEFAULTS.items())
def test_default_is_that_of_0_8_2_2(key: str, default: object) -> None:
    """B1: all 28 keys."""
    value = getattr(config_of(), key.replace(".", "_"))

    assert value == default
    assert type(value) is type(default)


def test_there_are_28_keys_and_one_of_a_later_release() -> None:
    """B1: fetch.max.bytes came with 0.10.1."""
    assert len(DEFAULTS) == 28
    assert {setting.key for setting in SETTINGS} == DEFAULTS.keys() | {"fetch.max.bytes"}
    assert config_of().fetch_max_bytes == 52428800


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        ({"zookeeper_session_timeout_ms": "400"}, "zookeeper_connection_timeout_ms", 400),
        ({"zookeeper_sync_time_ms": "200"}, "rebalance_backoff_ms", 200),
        ({"group_id": "other"}, "client_id", "other"),
        ({"offsets_storage": "kafka"}, "dual_commit_enabled", True),
        ({"offsets_storage": "KAFKA"}, "dual_commit_enabled", True),
    ],
)
def test_default_follows_another_setting(given: dict[str, str], name: str, value: object) -> None:
    """B2: four settings default to others."""
    assert getattr(config_of(**given), name) == value


@pytest.mark.parametrize(
    ("given", "name", "value"),
    [
        (
            {"zookeeper_session_timeout_ms": "400", "zookeeper_connection_timeout_ms": "7"},
            "zookeeper_connection_timeout_ms",
            7,
        ),
        ({"zookeeper_sync_time_ms": "200", "rebalance_backoff_ms": "9"}, "rebalance_backoff_ms", 9),
        ({"client_id": "c"}, "client_id", "c"),
        ({"offsets_storage": "kafka", "dual_commit_enabled": "false"}, "dual_commit_enabled", False),
    ],
)
def test_value_given_wins_over_the_setting_it_would_follow(given: dict[str, str], name: str, value: object) -> None:
    """B2: only the default follows."""
    assert getattr(config_of(**given), name) == value


@pytest.mark.parametrize(
    ("properties", "key"),
    [
        ({}, "zookeeper.connect"),
        ({"group.id": "g"}, "zookeeper.connect"),
        ({"zookeeper.connect": "zk"}, "group.id"),
    ],
)
def test_missing_property_is_named(properties: dict[str, str], key: str) -> None:
    """B3: zookeeper.connect is asked for first."""
    with pytest.raises(InvalidConfigException) as error:
        ConsumerConfig.from_properties(properties)

    assert text_of(error) == f"requirement failed: Missing required property '{key}'"
    assert error.value.key == key


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"client_id": "a b"}, "client.id a b" + ILLEGAL),
        ({"group_id": "g/1", "client_id": "c"}, "group.id g/1" + ILLEGAL),
        ({"group_id": "g/1"}, "client.id g/1" + ILLEGAL),
        ({"group_id": "grüppe", "client_id": "c"}, "group.id grüppe" + ILLEGAL),
        ({"group_id": "g\n", "client_id": "c"}, "group.id g\n" + ILLEGAL),
        (
            {"auto_offset_reset": "earliest"},
            "Wrong value earliest of auto.offset.reset in ConsumerConfig; Valid values are smallest and largest",
        ),
        (
            {"offsets_storage": "Redis"},
            "Wrong value redis of offsets.storage in consumer config; Valid values are 'zookeeper' and 'kafka'",
        ),
        (
            {"socket_timeout_ms": "-1"},
            "requirement failed: socket.timeout.ms should always be at least fetch.wait.max.ms to prevent unnecessary"
            " socket timeouts",
        ),
        ({"auto_commit_enable": "yes"}, NO_BOOLEAN),
        ({"auto_commit_enable": "True"}, NO_BOOLEAN),
    ],
    ids=[
        "client.id",
        "group.id",
        "group.id as client.id",
        "umlaut",
        "newline",
        "reset",
        "storage",
        "socket timeout",
        "bool",
        "True",
    ],
)
def test_wrong_value_fails_in_the_words_of_0_8_2_2(given: dict[str, str], message: str) -> None:
    """B4, B5, B6, B7, B10: the texts as printed by the real one."""
    with pytest.raises(InvalidConfigException) as error:
        config_of(**given)

    assert text_of(error) == message


def test_empty_group_is_accepted() -> None:
    """B4: as in 0.8.2.2."""
    assert config_of(group_id="").client_id == ""


def test_group_is_blamed_for_itself_when_fixed() -> None:
    """B5: the switch of Q32."""
    with pytest.raises(InvalidConfigException, match=r"^group\.id g/1 is illegal"):
        config_of("fixed", group_id="g/1")


@pytest.mark.parametrize(("text", "value"), [("kafka", "kafka"), ("KAFKA", "kafka"), ("ZooKeeper", "zookeeper")])
def test_offsets_storage_may_be_in_any_case(text: str, value: str) -> None:
    """B7: lower-cased."""
    assert config_of(offsets_storage=text).offsets_storage == value


def test_unknown_strategy_is_accepted_by_0_8_2() -> None:
    """B8: it means range there."""
    assert config_of(partition_assignment_strategy="sticky").partition_assignment_strategy == "sticky"


@pytest.mark.parametrize("release", ["0.9", "1.1", "fixed"])
def test_unknown_strategy_is_refused_from_0_9_on(release: str) -> None:
    """B8: the text of 1.1.1."""
    with pytest.raises(InvalidConfigException) as error:
        config_of(release, partition_assignment_strategy="sticky")

    assert text_of(error) == (
        "Wrong value sticky of partition.assignment.strategy in consumer config; Valid values are 'range' and"
        " 'roundrobin'"
    )


def test_socket_timeout_below_the_wait_is_accepted_by_0_8_2() -> None:
    """B9: 50 against 100 passed."""
    assert config_of(socket_timeout_ms="50").socket_timeout_ms == 50


@pytest.mark.parametrize("release", ["0.9", "1.1", "fixed"])
def test_socket_timeout_below_the_wait_is_refused_from_0_9_on(release: str) -> None:
    """B9: and accepted when equal."""
    assert config_of(release, socket_timeout_ms="100").socket_timeout_ms == 100
    with pytest.raises(InvalidConfigException, match=r"^requirement failed: socket\.timeout\.ms should always be"):
        config_of(release, socket_timeout_ms="99")


@pytest.mark.parametrize(
    "text", [" 1", "1 ", "", "abc", "1.0", "0x10", "1_000", "2147483648", "-2147483649", "9" * 5000]
)
def test_number_is_read_as_java_reads_it(text: str) -> None:
    """B1: no trimming, 32 bits."""
    with pytest.raises(NumberFormatException) as error:
        config_of(num_consumer_fetchers=text)

    assert text_of(error) == (
        f'For input string: "{text}" (num.consumer.fetchers should be a whole number of 32 bits, without blanks)'
    )
    assert (error.value.key, error.value.value) == ("num.consumer.fetchers", text)


@pytest.mark.parametrize(("text", "value"), [("+5", 5), ("-5", -5), ("007", 7), ("2147483647", 2147483647)])
def test_number_may_have_a_sign_and_zeros(text: str, value: int) -> None:
    assert config_of(consumer_timeout_ms=text).consumer_timeout_ms == value


def test_values_are_trimmed_from_0_9_on() -> None:
    config = config_of("0.9", num_consumer_fetchers=" 3\t", auto_commit_enable=" false ", client_id=" c ")

    assert (config.num_consumer_fetchers, config.auto_commit_enable, config.client_id) == (3, False, "c")


def test_error_is_that_of_the_setting_read_first() -> None:
    """As in 0.8.2.2: numbers are read before texts are checked, client.id before auto.offset.reset."""
    with pytest.raises(NumberFormatException):
        config_of(consumer_timeout_ms="x", client_id="a b", auto_offset_reset="x")
    with pytest.raises(InvalidConfigException, match=r"^client\.id"):
        config_of(client_id="a b", auto_offset_reset="x")


def test_every_config_error_is_a_value_error_and_a_kafka_exception() -> None:
    for kind in (ValueError, KafkaException, IllegalArgumentException):
        assert issubclass(InvalidConfigException, kind)
        assert issubclass(NumberFormatException, InvalidConfigException)


def test_properties_are_reported_alphabetically(caplog: pytest.LogCaptureFixture) -> None:
    """B11: known ones with their value, unknown ones as a warning without, external ones not at all."""
    given = MINIMUM | {"zzz.password": "hunter2", "external.thing": "x", "auto.offset.reset": "smallest", "Zeta": "1"}

    with caplog.at_level(logging.INFO, logger="zkconsumer.config"):
        ConsumerConfig.from_properties(given)

    assert [(record.levelname, record.getMessage()) for record in caplog.records] == [
        ("INFO", "Verifying properties"),
        ("WARNING", "Property Zeta is not valid"),
        ("INFO", "Property auto.offset.reset is overridden to smallest"),
        ("INFO", "Property group.id is overridden to g1"),
        ("INFO", "Property zookeeper.connect is overridden to zk:2181"),
        ("WARNING", "Property zzz.password is not valid"),
    ]


def test_keyword_settings_are_the_same_as_properties() -> None:
    by_name = ConsumerConfig(
        zookeeper_connect="zk:2181", group_id="g1", auto_commit_enable=False, consumer_timeout_ms=5
    )
    by_key = config_of(auto_commit_enable="false", consumer_timeout_ms="5")

    assert by_name == by_key
    assert hash(by_name) == hash(by_key)


@pytest.mark.parametrize(
    ("name", "value"),
    [("consumer_timeout_ms", "5"), ("consumer_timeout_ms", True), ("auto_commit_enable", 1), ("client_id", 5)],
)
def test_keyword_setting_of_another_type_is_refused(name: str, value: object) -> None:
    settings: Any = {name: value}

    with pytest.raises(InvalidConfigException, match=f"^{name} should be of type .*, not {type(value).__name__}: "):
        ConsumerConfig(zookeeper_connect="zk", group_id="g", **settings)


def test_keyword_number_beyond_32_bits_is_refused() -> None:
    with pytest.raises(NumberFormatException):
        ConsumerConfig(zookeeper_connect="zk", group_id="g", consumer_timeout_ms=2**31)


@pytest.mark.parametrize(
    ("name", "near"), [("auto_comit_enable", "auto_commit_enable"), ("group.id", "group_id"), ("groupid", "group_id")]
)
def test_misspelt_keyword_names_the_nearest(name: str, near: str) -> None:
    settings: Any = {name: "x"}

    with pytest.raises(TypeError, match=rf"^ConsumerConfig has no setting {re.escape(name)}: did you mean .*{near}"):
        ConsumerConfig(zookeeper_connect="zk", group_id="g", **settings)


def test_configuration_cannot_be_changed() -> None:
    config = config_of()

    with pytest.raises(AttributeError):
        config.group_id = "other"  # type: ignore[misc]


def test_changed_copy_lets_defaults_follow_again() -> None:
    config = config_of(zookeeper_sync_time_ms="100").with_settings(zookeeper_sync_time_ms=50, emulate="0.9")

    assert (config.rebalance_backoff_ms, config.group_id, config.emulate) == (50, "g1", "0.9")


def test_secrets_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        config = ConsumerConfig(
            zookeeper_connect="zk", group_id="g", zookeeper_options={"auth_data": [("digest", "u:hunter2")]}
        )

    assert config.zookeeper_options == {"auth_data": [("digest", "u:hunter2")]}
    assert repr(config) == "ConsumerConfig(zookeeper_connect='zk', group_id='g', zookeeper_options=…)"
    assert "hunter2" not in f"{config} {config!r} {config.to_properties()} {caplog.text}"


def test_all_settings_come_back_from_properties() -> None:
    config = config_of(consumer_id="c1", offsets_storage="kafka", auto_commit_enable="false", socket_timeout_ms="77")

    properties = config.to_properties()

    assert list(properties) == sorted(properties)
    assert properties["auto.commit.enable"] == "false"
    assert ConsumerConfig.from_properties(properties) == config


def test_configuration_survives_pickling() -> None:
    config = config_of("1.1", consumer_id="c1")

    assert pickle.loads(pickle.dumps(config)) == config


def test_release_is_looked_up_or_taken_as_given() -> None:
    own = Emulation(keep_trying_to_rebalance=True)

    assert config_of("0.9").emulation == emulation("0.9")
    assert config_of(own).emulation is own
    with pytest.raises(InvalidConfigException, match=r"^Wrong value 0\.7 of emulate"):
        config_of("0.7")


def test_fetchers_get_what_concerns_them() -> None:
    config = config_of(
        Emulation(request_versions="0.9", wait_after_fetch_error=True, ask_only_for_topics_in_zookeeper=True),
        client_id="c",
        socket_timeout_ms="1",
        socket_receive_buffer_bytes="2",
        fetch_message_max_bytes="3",
        fetch_max_bytes="4",
        fetch_min_bytes="5",
        fetch_wait_max_ms="6",
        num_consumer_fetchers="7",
        refresh_leader_backoff_ms="8",
        auto_offset_reset="smallest",
    )

    assert config.fetcher_settings() == FetcherSettings(
        client_id="c",
        socket_timeout_ms=1,
        socket_receive_buffer_bytes=2,
        fetch_message_max_bytes=3,
        fetch_max_bytes=4,
        fetch_min_bytes=5,
        fetch_wait_max_ms=6,
        num_consumer_fetchers=7,
        refresh_leader_backoff_ms=8,
        auto_offset_reset="smallest",
        request_versions="0.9",
        wait_after_fetch_error=True,
        only_topics_in_zookeeper=True,
    )


@pytest.mark.parametrize(
    ("given", "warning"),
    [
        ({"rebalance_max_retries": "3"}, "rebalance.max.retries x rebalance.backoff.ms = 6000 ms is not longer than"),
        ({"rebalance_max_retries": "0"}, "rebalance.max.retries=0: no attempt to rebalance is made"),
        ({"num_consumer_fetchers": "0"}, "num.consumer.fetchers=0: nothing is ever fetched"),
        ({"queued_max_message_chunks": "0"}, "queued.max.message.chunks=0: streams cannot be created"),
        ({"fetch_message_max_bytes": "0"}, "fetch.message.max.bytes=0: no message fits"),
    ],
)
def test_setting_that_cannot_work_well_is_warned_of(
    given: dict[str, str], warning: str, caplog: pytest.LogCaptureFixture
) -> None:
    config_of(**given)

    assert [message[: len(warning)] for message in caplog.messages if "Property" not in message] == [warning]


def test_defaults_need_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        config_of()

    assert caplog.messages == []


def test_file_is_read_as_java_reads_it(tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_bytes(
        b"# comment\r\n! another\n\n  zookeeper.connect = h1:2181,\\\n      h2:2181/kafka\ngroup.id:g1\n"
        b"auto.offset.reset  smallest\r\nclient.id=c\\u0031\nconsumer.id=a=b\nexternal\n"
    )

    config = ConsumerConfig.from_file(file)

    assert config.zookeeper_connect == "h1:2181,h2:2181/kafka"
    assert (config.group_id, config.auto_offset_reset, config.client_id, config.consumer_id) == (
        "g1",
        "smallest",
        "c1",
        "a=b",
    )


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"a=b", {"a": "b"}),
        (b"a = b ", {"a": "b "}),
        (b"a\\ b\\==c", {"a b=": "c"}),
        (b"a:=b", {"a": "=b"}),
        (b"a", {"a": ""}),
        (b"=b", {"": "b"}),
        (b"a=\\t\\n\\q\\\\", {"a": "\t\n q\\".replace(" ", "")}),
        (b"a=1\na=2", {"a": "2"}),
        (b"a=b\\\n\\\n  c", {"a": "bc"}),
        (b"a=b\\", {"a": "b"}),
        (b"a=x\\\\\nb=y", {"a": "x\\", "b": "y"}),
        (b"a=\\\n#no comment", {"a": "#no comment"}),
        (b"a=\xe9\\u20ac\\ud83d\\ude00", {"a": "é€😀"}),
        (b"\\\n\nc=d", {"c": "d"}),
        (b"\\\n!x\\\nc=d", {"c": "d"}),
        (b"a\\\n#b=c", {"a#b": "c"}),
        (b"", {}),
    ],
    ids=repr,
)
def test_properties_syntax(data: bytes, expected: dict[str, str]) -> None:
    """Checked against java.util.Properties of Java 17."""
    assert parse_properties(data) == expected


def test_file_with_a_broken_escape_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_bytes(b"a=\\u12")

    with pytest.raises(InvalidConfigException, match=r"consumer\.properties is no properties file: .*four hexadecimal"):
        ConsumerConfig.from_file(file)


def test_documented_table_is_that_of_the_code() -> None:
    """B1: docs/configuration.md names every key with its type and default."""
    rows = re.findall(r"^\| `([\w.]+)` \| (text|int|bool) \| (.*?) \|", DOCS.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {key: (kind, default) for key, kind, default in rows}

    assert documented.keys() == {setting.key for setting in SETTINGS}
    for setting in SETTINGS:
        kind, default = documented[setting.key]
        assert kind == setting.kind
        if setting.default is not None:
            assert default.strip("`") == str(setting.default).lower()
    assert documented["group.id"][1] == documented["zookeeper.connect"][1] == "required"


def test_keyword_arguments_are_the_settings() -> None:
    assert set(ConsumerSettings.__annotations__) == {setting.name for setting in SETTINGS} | {
        "emulate",
        "zookeeper_options",
    }
