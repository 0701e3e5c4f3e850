"""Profiles of releases: which habits each has."""

from __future__ import annotations

import dataclasses
import inspect

import pytest

from zkconsumer import emulation as module
from zkconsumer.emulation import PROFILES, Emulation, emulation
from zkconsumer.errors import InvalidConfigException

# From the tables of releases and of quirks: 0.8.2, 0.9, 1.1, fixed.
EXPECTED: dict[str, tuple[object, object, object, object]] = {
    "round_robin": ("0.8.2", "0.8.2", "1.0", "1.0"),
    "keep_trying_to_rebalance": (False, False, False, True),
    "fail_on_duplicate_consumer_id": (False, True, True, True),
    "keep_what_does_not_change": (False, False, False, True),
    "commit_when_session_is_lost": (False, False, False, True),
    "honour_rewind_in_zookeeper": (False, False, False, True),
    "drop_ready_item_on_rebalance": (False, False, False, True),
    "drop_chunk_on_shutdown": (False, False, False, True),
    "commit_retries": ("at shutdown", "inverted", "inverted", "as named"),
    "ask_only_for_topics_in_zookeeper": (False, False, False, True),
    "name_group_id_in_errors": (False, False, False, True),
    "check_strategy": (False, True, True, True),
    "check_socket_timeout": (False, True, True, True),
    "trim_values": (False, True, True, True),
    "request_versions": ("newest", "newest", "newest", "newest"),
    "zookeeper_requests": ("many at a time",) * 4,
    "empty_parent_data": (False, True, True, False),
    "wait_after_fetch_error": (False, True, True, True),
    "read_endpoints": (True, True, True, True),
    "internal_topics": (
        {"__consumer_offsets"},
        {"__consumer_offsets"},
        {"__consumer_offsets", "__transaction_state"},
        {"__consumer_offsets", "__transaction_state"},
    ),
}


def test_every_switch_is_in_the_table() -> None:
    assert {field.name for field in dataclasses.fields(Emulation)} == set(EXPECTED)


@pytest.mark.parametrize("switch", EXPECTED)
def test_switch_stands_as_the_release_behaves(switch: str) -> None:
    assert tuple(getattr(emulation(name), switch) for name in ("0.8.2", "0.9", "1.1", "fixed")) == EXPECTED[switch]


def test_default_is_0_8_2() -> None:
    assert Emulation() == emulation("0.8.2")


@pytest.mark.parametrize(("name", "whole_group"), [("0.8.2", False), ("0.9", False), ("1.1", True), ("fixed", True)])
def test_partitions_of_the_whole_group_are_read_from_0_10_2_on(name: str, whole_group: bool) -> None:
    assert emulation(name).reads_partitions_of_the_whole_group is whole_group


def test_unknown_release_lists_the_known_ones() -> None:
    with pytest.raises(
        InvalidConfigException, match=r"^Wrong value 0\.7 of emulate; Valid values are 0\.8\.2, 0\.9, 1\.1, fixed$"
    ):
        emulation("0.7")

    assert PROFILES == ("0.8.2", "0.9", "1.1", "fixed")


def test_switches_can_be_set_one_by_one() -> None:
    changed = emulation("0.8.2").with_switches(keep_trying_to_rebalance=True)

    assert changed.keep_trying_to_rebalance
    assert changed.with_switches(keep_trying_to_rebalance=False) == emulation("0.8.2")


def test_unknown_switch_names_the_nearest() -> None:
    with pytest.raises(TypeError, match=r"no switch is called 'trim_value': did you mean 'trim_values'\?"):
        emulation("0.8.2").with_switches(trim_value=True)


def test_every_switch_says_what_it_does() -> None:
    source = inspect.getsource(module.Emulation)

    for switch in EXPECTED:
        declaration = next(line for line in source.splitlines() if line.startswith(f"    {switch}:"))
        following = source[source.index(declaration) + len(declaration) :].lstrip()
        assert following.startswith('"""'), switch
