"""Options for the connection to ZooKeeper: from properties, from arguments, and what is refused without being shown."""

from __future__ import annotations

import importlib.util
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from zkconsumer.config import ConsumerConfig
from zkconsumer.errors import InvalidConfigException

NEEDED = {"zookeeper.connect": "zk:2181", "group.id": "g"}
SASL = {"mechanism": "DIGEST-MD5", "username": "reader", "password": "word"}


def options_of(properties: Mapping[str, str], arguments: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    return ConsumerConfig.from_properties({**NEEDED, **properties}, zookeeper_options=arguments).zookeeper_options


@pytest.mark.parametrize(
    ("properties", "expected"),
    [
        ({}, {}),
        (
            {"zookeeper.options.use_ssl": "true", "zookeeper.options.ca": "ca.pem"},
            {"use_ssl": True, "ca": "ca.pem"},
        ),
        ({"zookeeper.options.randomize_hosts": "false"}, {"randomize_hosts": False}),
        ({"zookeeper.options.auth_data": "digest:reader:a:b"}, {"auth_data": [("digest", "reader:a:b")]}),
        ({f"zookeeper.options.sasl_options.{name}": value for name, value in SASL.items()}, {"sasl_options": SASL}),
    ],
    ids=["none", "TLS", "off", "digest", "SASL"],
)
def test_properties_hold_options(properties: Mapping[str, str], expected: Mapping[str, Any]) -> None:
    assert options_of(properties) == expected


def test_a_properties_file_holds_options(tmp_path: Path) -> None:
    file = tmp_path / "consumer.properties"
    file.write_text("zookeeper.connect=zk\ngroup.id=g\nzookeeper.options.auth_data = digest:reader:word\n")

    assert ConsumerConfig.from_file(file).zookeeper_options == {"auth_data": [("digest", "reader:word")]}


def test_an_argument_goes_before_the_property() -> None:
    properties = {"zookeeper.options.use_ssl": "true", "zookeeper.options.ca": "ca.pem"}

    assert options_of(properties, {"ca": "other.pem"}) == {"use_ssl": True, "ca": "other.pem"}


def test_a_changed_copy_keeps_them() -> None:
    config = ConsumerConfig.from_properties({**NEEDED, "zookeeper.options.use_ssl": "true"})

    assert config.with_settings(group_id="other").zookeeper_options == {"use_ssl": True}


def test_values_in_properties_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG):
        config = ConsumerConfig.from_properties({**NEEDED, "zookeeper.options.auth_data": "digest:reader:hunter2"})

    assert "Property zookeeper.options.auth_data is overridden to [hidden]" in caplog.messages
    assert "hunter2" not in f"{config} {config!r} {config.to_properties()} {caplog.text}"


@pytest.mark.parametrize(
    ("key", "problem"),
    [
        ("use_ssl", "^zookeeper.options.use_ssl should be true or false$"),
        ("auth_data", "^zookeeper.options.auth_data should be scheme:credential, as in digest:user:password$"),
        (
            "user_ssl",
            "^ZooKeeper options zookeeper.options.user_ssl are not known; known are zookeeper.options.auth_data",
        ),
        ("sasl_options", "^ZooKeeper options zookeeper.options.sasl_options are not known"),
        ("ca.file", "^ZooKeeper options zookeeper.options.ca.file are not known"),
    ],
    ids=["flag", "credential", "misspelt", "SASL without a part", "part of what has none"],
)
def test_properties_nobody_can_read_are_refused_without_their_value(key: str, problem: str) -> None:
    """Unlike an unknown setting, which is only warned about: a connection might be less safe than was meant."""
    with pytest.raises(InvalidConfigException, match=problem.replace(".", r"\.")) as caught:
        options_of({f"zookeeper.options.{key}": "hunter2"})

    assert "hunter2" not in f"{caught.value!r} {caught.value.value!r}"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"hosts": "hunter2"}, "^ZooKeeper options hosts are not known; known are auth_data, ca,"),
        ({"use_ssl": "hunter2"}, "^ZooKeeper option use_ssl: should be True or False, not of type str$"),
        (
            {"auth_data": [("digest", "hunter2", "x")]},
            "^ZooKeeper option auth_data: should be a list of pairs of texts",
        ),
        ({"auth_data": "hunter2"}, "^ZooKeeper option auth_data: should be a list of pairs of texts"),
        (
            {"keyfile_password": "hunter2"},
            "^ZooKeeper option keyfile_password: of no use without use_ssl: set that too$",
        ),
        ({"use_ssl": False, "ca": "ca.pem"}, "^ZooKeeper option ca: of no use without use_ssl"),
        ({"use_ssl": True, "certfile": "c.pem"}, "^ZooKeeper option certfile, keyfile: only one is given"),
        (
            {"use_ssl": True, "verify_certs": False, "check_hostname": True},
            "^ZooKeeper option check_hostname: cannot be had with verify_certs off$",
        ),
        ({"sasl_options": {"password": "hunter2"}}, "^ZooKeeper option sasl_options: mechanism missing$"),
        (
            {"sasl_options": {"mechanism": "DIGEST-MD5", "user": "hunter2"}},
            "^ZooKeeper option sasl_options: username and password missing$",
        ),
        (
            {"sasl_options": {"mechanism": "MD5", "password": "hunter2"}},
            "^ZooKeeper option sasl_options: mechanism MD5 cannot be used: Unknown mechanism MD5$",
        ),
    ],
    ids=[
        *("unknown", "flag", "credentials", "credentials as text", "not encrypted", "encryption off", "half a pair"),
        *("host of nobody", "no mechanism", "no user", "unknown mechanism"),
    ],
)
def test_options_that_cannot_work_are_refused_by_name(options: Mapping[str, Any], problem: str) -> None:
    with pytest.raises(InvalidConfigException, match=problem) as caught:
        ConsumerConfig(zookeeper_connect="zk", group_id="g", zookeeper_options=options)

    assert "hunter2" not in f"{caught.value!r} {caught.value.value!r}"


def test_sasl_without_its_package_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "puresasl" else find(name))

    with pytest.raises(InvalidConfigException) as caught:
        ConsumerConfig(zookeeper_connect="zk", group_id="g", zookeeper_options={"sasl_options": SASL})

    assert str(caught.value) == (
        "ZooKeeper option sasl_options: needs the package pure-sasl: pip install 'zkconsumer[sasl]'"
    )
