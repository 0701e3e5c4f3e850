"""Subscriptions: thread ids, their order, and what is registered."""

from __future__ import annotations

import pytest

from zkconsumer.errors import IllegalArgumentException
from zkconsumer.topic_count import (
    ConsumerThreadId,
    StaticTopicCount,
    TopicCount,
    WildcardTopicCount,
    from_registration,
    threads_in_order,
)
from zkconsumer.topic_filter import Blacklist, Whitelist
from zkconsumer.znodes import Registration


def test_thread_id_is_the_consumer_id_a_dash_and_a_number() -> None:
    """A8: nothing else stands in an owner node."""
    assert str(ConsumerThreadId("group1_consumer1", 0)) == "group1_consumer1-0"


def test_thread_id_is_parsed_at_the_last_dash() -> None:
    assert ConsumerThreadId.parse("g1_host-7-1794980733842-570fa452-11") == ("g1_host-7-1794980733842-570fa452", 11)


@pytest.mark.parametrize("text", ["", "g_c1", "g_c1-", "g_c1-x", "g_c1-²"])
def test_text_without_a_number_at_the_end_is_no_thread_id(text: str) -> None:
    with pytest.raises(ValueError, match="is no thread id"):
        ConsumerThreadId.parse(text)


def test_threads_sort_as_text() -> None:
    """G6: a dash comes before a digit, and 10 before 2."""
    threads = [ConsumerThreadId(consumer, thread) for consumer in ("g_c2", "g_c10", "g_c1") for thread in (2, 10, 0)]

    assert [str(thread) for thread in threads_in_order(threads)] == [
        "g_c1-0",
        "g_c1-10",
        "g_c1-2",
        "g_c10-0",
        "g_c10-10",
        "g_c10-2",
        "g_c2-0",
        "g_c2-10",
        "g_c2-2",
    ]


def test_threads_sort_by_utf_16_units() -> None:
    # U+1F600 is a pair of units from U+D83D on, below U+FF5E, although its code point is above.
    threads = [ConsumerThreadId("g_～", 0), ConsumerThreadId("g_😀", 0)]

    assert [thread.consumer_id for thread in threads_in_order(threads)] == ["g_😀", "g_～"]


def test_static_subscription_numbers_the_threads_of_each_topic() -> None:
    count = StaticTopicCount("g_c1", {"tx": 2, "__consumer_offsets": 1})

    assert count.threads_by_topic(["tx"], exclude_internal_topics=True) == {
        "tx": [("g_c1", 0), ("g_c1", 1)],
        "__consumer_offsets": [("g_c1", 0)],
    }


def test_wildcard_gives_every_allowed_topic_the_same_threads() -> None:
    count = WildcardTopicCount("g_c1", Whitelist("t.*|__.*"), 2)

    assert count.threads_by_topic(["tx", "ty", "other", "__consumer_offsets"]) == {
        "tx": [("g_c1", 0), ("g_c1", 1)],
        "ty": [("g_c1", 0), ("g_c1", 1)],
    }
    assert "__consumer_offsets" in count.threads_by_topic(["__consumer_offsets"], exclude_internal_topics=False)


@pytest.mark.parametrize(
    ("count", "registration"),
    [
        (StaticTopicCount("g_c1", {"tx": 2}), Registration({"tx": 2}, "static", 5)),
        (StaticTopicCount("g_c1", {}), Registration({}, "static", 5)),
        (WildcardTopicCount("g_c1", Whitelist("a,b"), 3), Registration({"a|b": 3}, "white_list", 5)),
        (WildcardTopicCount("g_c1", Blacklist("x"), 1), Registration({"x": 1}, "black_list", 5)),
    ],
    ids=["static", "nothing", "whitelist", "blacklist"],
)
def test_subscription_survives_its_registration(count: TopicCount, registration: Registration) -> None:
    """A3, A5: what is written, and what another member makes of it."""
    assert count.registration(5) == registration
    assert from_registration("g_c1", registration) == count


def test_registered_regex_is_normalised_again() -> None:
    count = from_registration("g_c1", Registration({" 'a, b' ": 1, "ignored": 7}, "white_list"))

    assert count == WildcardTopicCount("g_c1", Whitelist("a|b"), 1)


def test_wildcard_without_an_entry_subscribes_to_nothing() -> None:
    assert from_registration("g_c1", Registration({}, "black_list")) == StaticTopicCount("g_c1", {})


@pytest.mark.parametrize(
    "count",
    [StaticTopicCount("g_c1", {"tx": 0}), WildcardTopicCount("g_c1", Whitelist("tx"), 0)],
    ids=["static", "wildcard"],
)
def test_count_below_one_is_refused_before_anything_is_written(count: TopicCount) -> None:
    """C7: and by every reader of such a registration."""
    with pytest.raises(IllegalArgumentException, match=r"^assertion failed: 0 streams of tx; at least 1 is needed$"):
        count.registration(5)
    with pytest.raises(IllegalArgumentException, match="assertion failed"):
        count.threads_by_topic(["tx"])
