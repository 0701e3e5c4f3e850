"""Bytes of znodes, against what real consumers and brokers of the releases named wrote."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fetcher.structs import Broker
from zkconsumer.errors import KafkaException, UnreadableZnode
from zkconsumer.znodes import (
    NO_TIMESTAMP,
    Pattern,
    Registration,
    decode_broker,
    decode_leader,
    decode_offset,
    decode_partitions,
    decode_registration,
    encode_offset,
    encode_registration,
    escape,
)

BROKER_0_8_2 = b'{"jmx_port":-1,"timestamp":"1794979821442","host":"127.0.0.1","version":1,"port":19092}'
BROKER_1_1 = (
    b'{"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},"endpoints":["PLAINTEXT://127.0.0.1:39111"],'
    b'"jmx_port":-1,"host":"127.0.0.1","timestamp":"1794981344006","port":39111,"version":4}'
)
BROKER_3_9 = (
    b'{"features":{},"listener_security_protocol_map":{"PLAINTEXT":"PLAINTEXT"},'
    b'"endpoints":["PLAINTEXT://127.0.0.1:39139"],"jmx_port":-1,"port":39139,"host":"127.0.0.1","version":5,'
    b'"timestamp":"1794982047720"}'
)
TOPIC_3_9 = (
    b'{"partitions":{"0":[39],"1":[39],"2":[39]},"topic_id":"xJA456zwQJu-Tl6xHrTEAw","adding_replicas":{},'
    b'"removing_replicas":{},"version":3}'
)

REGISTRATIONS = [
    (
        Registration({"tx": 2}, "static", 1794980898565),
        b'{"version":1,"subscription":{"tx":2},"pattern":"static","timestamp":"1794980898565"}',
    ),
    (
        Registration({"t[xy]/?": 2}, "white_list", 1794980958855),
        b'{"version":1,"subscription":{"t[xy]\\/?":2},"pattern":"white_list","timestamp":"1794980958855"}',
    ),
    (
        Registration({}, "static", 1794981559947),
        b'{"version":1,"subscription":{},"pattern":"static","timestamp":"1794981559947"}',
    ),
    (
        Registration({"a": 1, "b": 3}, "static", 5),
        b'{"version":1,"subscription":{"a":1,"b":3},"pattern":"static","timestamp":"5"}',
    ),
    (
        Registration({"secret.*|internal": 1}, "black_list", 7),
        b'{"version":1,"subscription":{"secret.*|internal":1},"pattern":"black_list","timestamp":"7"}',
    ),
]


@pytest.mark.parametrize(
    ("registration", "data"), REGISTRATIONS, ids=["static", "white_list", "empty", "two topics", "black_list"]
)
def test_registration_has_the_bytes_that_0_8_2_2_writes(registration: Registration, data: bytes) -> None:
    """A3, A4, A5: the first three as seen in ZooKeeper."""
    assert encode_registration(registration) == data
    assert decode_registration(data) == registration


@pytest.mark.parametrize(
    ("text", "escaped"),
    [
        ('"', '\\"'),
        ("\\", "\\\\"),
        ("/", "\\/"),
        ("\b", "\\b"),
        ("\f", "\\f"),
        ("\n", "\\n"),
        ("\r", "\\r"),
        ("\t", "\\t"),
        ("\x00", "\\u0000"),
        ("\x1f", "\\u001f"),
        ("\x7f", "\\u007f"),
        ("\x9f", "\\u009f"),
        ("\xa0", "\xa0"),
        ("é", "é"),
        ("😀", "😀"),
        ("t\\w", "t\\\\w"),
    ],
    ids=repr,
)
def test_regex_is_escaped_as_0_8_2_does(text: str, escaped: str) -> None:
    """A6: and reads back the same."""
    assert escape(text) == escaped
    assert decode_registration(encode_registration(Registration({text: 1}, "white_list", 1))).subscription == {text: 1}


@given(
    subscription=st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), st.integers(1, 2**31 - 1)),
    timestamp_ms=st.integers(0, 2**63 - 1),
)
def test_every_json_parser_reads_what_is_written(subscription: dict[str, int], timestamp_ms: int) -> None:
    """A4: all numbers fit 32 bits, the timestamp is text."""
    content = json.loads(encode_registration(Registration(subscription, "static", timestamp_ms)))

    assert content == {
        "version": 1,
        "subscription": subscription,
        "pattern": "static",
        "timestamp": str(timestamp_ms),
    }


def test_count_that_does_not_fit_32_bits_is_never_written() -> None:
    with pytest.raises(ValueError, match="2147483648 streams of t do not fit into 32 bits"):
        encode_registration(Registration({"t": 2**31}, "static", 1))


@pytest.mark.parametrize(
    ("data", "timestamp_ms"),
    [
        (b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":1794980898565}', 1794980898565),
        (b'{"subscription":{"t":1},"pattern":"static"}', NO_TIMESTAMP),
        (b'{"version":99999999999,"subscription":{"t":1},"pattern":"static","timestamp":"x"}', NO_TIMESTAMP),
        (b' { "pattern" : "static" , "subscription" : { "t" : 1 } , "timestamp" : null } ', NO_TIMESTAMP),
        (b'{"subscription":{"t":1},"pattern":"something new"}', NO_TIMESTAMP),
        (b'{"subscription":{"t":1},"pattern":null}', NO_TIMESTAMP),
    ],
    ids=["numeric timestamp", "no timestamp", "large version", "white space", "unknown pattern", "null pattern"],
)
def test_registration_of_others_is_read_leniently(data: bytes, timestamp_ms: int) -> None:
    """A16, A17, A18: none of these needs to stop a group."""
    assert decode_registration(data) == Registration({"t": 1}, "static", timestamp_ms)


def test_wildcard_without_an_entry_is_static() -> None:
    assert decode_registration(b'{"subscription":{},"pattern":"white_list"}').pattern == "static"


@pytest.mark.parametrize(
    "data",
    [
        None,
        b"",
        b"no json",
        b"[]",
        b'"text"',
        b'{"pattern":"static"}',
        b'{"subscription":{"t":1}}',
        b'{"subscription":[],"pattern":"static"}',
        b'{"subscription":{"t":"1"},"pattern":"static"}',
        b'{"subscription":{"t":true},"pattern":"static"}',
        b'{"subscription":{"t":4294967297},"pattern":"static"}',
        b'{"subscription":{"t":NaN},"pattern":"static"}',
        b"[" * 100_000,
        b'{"subscription":{"t":' + b"9" * 10_000 + b'},"pattern":"static"}',
        b"\xff\xfe{",
    ],
    ids=lambda data: repr(data)[:40],
)
def test_registration_without_meaning_is_unreadable(data: bytes | None) -> None:
    """E9: the text 0.8 gives, with the data; the path is added where it is known."""
    with pytest.raises(UnreadableZnode, match=r"^error constructing TopicCount : ") as raised:
        decode_registration(data)

    placed = raised.value.at("/consumers/g/ids/g_c1")
    assert str(placed).startswith("/consumers/g/ids/g_c1: error constructing TopicCount : ")
    assert placed.data == data
    assert isinstance(placed, KafkaException)


@pytest.mark.parametrize(
    ("data", "broker"),
    [
        (BROKER_0_8_2, Broker(7, "127.0.0.1", 19092)),
        (BROKER_1_1, Broker(7, "127.0.0.1", 39111)),
        (BROKER_3_9, Broker(7, "127.0.0.1", 39139)),
        (b'{"version":2,"endpoints":["SSL://h:1","PLAINTEXT://h:2"],"host":"x","port":9}', Broker(7, "h", 2)),
        (
            b'{"version":3,"rack":"r","endpoints":["PLAINTEXT://[::1]:9092"],"host":"::1","port":9092}',
            Broker(7, "::1", 9092),
        ),
        (
            b'{"version":4,"listener_security_protocol_map":{"OUT":"SSL","IN":"PLAINTEXT"},'
            b'"endpoints":["OUT://a:1","IN://b:2"],"host":null,"port":-1}',
            Broker(7, "b", 2),
        ),
        (b'{"version":2,"endpoints":["PLAINTEXT://:9092"],"host":"h","port":9092}', Broker(7, "h", 9092)),
        (b'{"version":2,"endpoints":["nonsense",5],"host":"h","port":9092}', Broker(7, "h", 9092)),
        (b'{"version":4,"endpoints":["SSL://a:1"],"host":null,"port":-1}', Broker(7, "null", -1)),
        (b'{"host":"h","port":1,"timestamp":17949798214421794979821442}', Broker(7, "h", 1)),
    ],
    ids=[
        "0.8.2.2",
        "1.1.1",
        "3.9.1",
        "version 2",
        "version 3, IPv6",
        "listener by name",
        "empty host",
        "strange endpoints",
        "no plaintext",
        "huge number",
    ],
)
def test_broker_of_every_release_is_understood(data: bytes, broker: Broker) -> None:
    """A13, A14: the first three as seen in ZooKeeper."""
    assert decode_broker(7, data) == broker


def test_broker_is_read_by_the_old_fields_alone_if_told_so() -> None:
    data = b'{"version":2,"endpoints":["PLAINTEXT://new:2"],"host":"old","port":1}'

    assert decode_broker(1, data, read_endpoints=False) == Broker(1, "old", 1)


@pytest.mark.parametrize(
    "data", [None, b"", b"x", b"{}", b'{"host":"h"}', b'{"host":5,"port":1}', b'{"host":"h","port":"1"}']
)
def test_broker_that_cannot_be_read_says_so_in_0_8s_words(data: bytes | None) -> None:
    with pytest.raises(UnreadableZnode, match=r"^Failed to parse the broker info from zookeeper: "):
        decode_broker(0, data)


@pytest.mark.parametrize(
    ("data", "partitions"),
    [
        (b'{"version":1,"partitions":{"2":[0],"1":[0],"0":[0]}}', [0, 1, 2]),
        (b'{"version":2,"partitions":{"10":[0],"9":[0]},"adding_replicas":{},"removing_replicas":{}}', [9, 10]),
        (TOPIC_3_9, [0, 1, 2]),
        (None, []),
        (b"", []),
        (b"no json", []),
        (b'{"version":1}', []),
        (b'{"version":1,"partitions":{}}', []),
    ],
    ids=["version 1", "version 2", "version 3", "no node", "empty", "no json", "no field", "none"],
)
def test_partitions_come_in_numeric_order(data: bytes | None, partitions: list[int]) -> None:
    """A15, G13: and what says nothing of partitions has none."""
    assert decode_partitions(data) == partitions


@pytest.mark.parametrize(
    "data", [b'{"partitions":{"x":[0]}}', b'{"partitions":{"4294967296":[0]}}', b'{"partitions":[0]}']
)
def test_partitions_that_are_no_numbers_are_unreadable(data: bytes) -> None:
    with pytest.raises(UnreadableZnode):
        decode_partitions(data)


@pytest.mark.parametrize(
    ("data", "leader"),
    [
        (b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}', 0),
        (b'{"controller_epoch":1,"leader":-1,"version":1,"leader_epoch":0,"isr":[]}', None),
    ],
)
def test_leader_minus_one_means_none(data: bytes, leader: int | None) -> None:
    assert decode_leader(data) == leader


@pytest.mark.parametrize("data", [None, b"{}", b'{"leader":"0"}'])
def test_state_without_a_leader_field_is_unreadable(data: bytes | None) -> None:
    with pytest.raises(UnreadableZnode, match="no leader"):
        decode_leader(data)


@pytest.mark.parametrize(
    ("data", "offset"), [(b"20", 20), (b"-7", -7), (b"+5", 5), (b"0", 0), (b"9223372036854775807", 2**63 - 1)]
)
def test_offset_is_decimal_text(data: bytes, offset: int) -> None:
    """A9: negative ones are read as they are."""
    assert decode_offset(data) == offset


def test_offset_is_written_without_anything_around_it() -> None:
    """A9: 20 after offsets 0 to 19 were taken."""
    assert encode_offset(20) == b"20"


@pytest.mark.parametrize("data", [None, b"", b"abc", b" 1", b"1\n", b"1_0", b"9223372036854775808", b"9" * 10_000])
def test_offset_that_is_no_number_is_unreadable(data: bytes | None) -> None:
    """E10: in the words of Java's parser."""
    with pytest.raises(UnreadableZnode, match=r'^For input string: "'):
        decode_offset(data)


@pytest.mark.parametrize(
    "decode",
    [decode_registration, decode_partitions, decode_offset, decode_leader, lambda data: decode_broker(0, data)],
    ids=["registration", "partitions", "offset", "leader", "broker"],
)
@given(data=st.binary(max_size=200))
def test_no_bytes_raise_anything_but_unreadable(decode: Callable[[bytes], object], data: bytes) -> None:
    with contextlib.suppress(UnreadableZnode):
        decode(data)


def test_half_a_surrogate_pair_becomes_a_question_mark_as_in_java() -> None:
    pattern: Pattern = "white_list"

    assert b'{"a?":1}' in encode_registration(Registration({"a\ud800": 1}, pattern, 1))
