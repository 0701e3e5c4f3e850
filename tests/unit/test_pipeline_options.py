from __future__ import annotations

import pytest

from fetcher.structs import TopicAndPartition
from pipeline.errors import UnknownOption
from pipeline.options import SourceOptions
from pipeline.ranges import OffsetRange, StreamOffset, limited

NEEDED = {"zookeeper.connect": "127.0.0.1:2181", "group.id": "g", "topics": "orders:2,clicks"}


def test_topics_name_their_streams_and_keys_count_without_case() -> None:
    options = SourceOptions.of({**NEEDED, "MAXOFFSETSPERTRIGGER": "10", "Members": "3"})

    assert options.streams_of == {"orders": 2, "clicks": 1}
    assert (options.most_rows, options.members) == (10, 3)
    assert options.config.auto_commit_enable is False


@pytest.mark.parametrize(
    ("changed", "line"),
    [
        ({"memebers": "2"}, "no option memebers; did you mean members?"),
        ({"members": "none"}, "option members=none should be a whole number, at least 1"),
        ({"topics": "orders:0"}, '\'orders:0\' should be "topic" or "topic:streams"'),
        ({"topics": "orders:2,,"}, '\'\' should be "topic" or "topic:streams"'),
        ({"topics": "orders:2,orders"}, "option topics=orders:2,orders: orders is named more than once"),
        ({"maxOffsetsPerTrigger": "0"}, "option maxOffsetsPerTrigger=0 should be a whole number, at least 1"),
        ({"leader.timeout.ms": "-1"}, "option leader.timeout.ms=-1 should be a whole number, at least 0"),
        ({"topics.pattern": "o.*"}, "give either option topics"),
        ({"checkpointLocation": "s3://bucket/a"}, "option checkpointLocation=s3://bucket/a should be a directory"),
        ({"handover": "nobody"}, "option handover=nobody should be checkpoint or group"),
        ({"starting.offsets": "[1]"}, "should be stored or earliest or latest, or offsets by topic and partition"),
        ({"auto.commit.enable": "true"}, "option auto.commit.enable is not for you to set"),
        ({"auto.offset.reset": "first"}, "Wrong value first of auto.offset.reset"),
        ({"path": "orders"}, "load() takes no path here"),
    ],
    ids=lambda value: "=".join(*value.items()) if isinstance(value, dict) else "",
)
def test_a_wrong_option_is_told_in_one_line(changed: dict[str, str], line: str) -> None:
    with pytest.raises(UnknownOption) as error:
        SourceOptions.of({**NEEDED, **changed})

    assert line in str(error.value)
    assert "\n" not in str(error.value)


def test_a_missing_option_is_named() -> None:
    with pytest.raises(UnknownOption, match=r"Missing required property 'group.id'"):
        SourceOptions.of({key: value for key, value in NEEDED.items() if key != "group.id"})


def ranges(*lengths: int) -> list[OffsetRange]:
    return [OffsetRange(TopicAndPartition("t", p), 10, 10 + length) for p, length in enumerate(lengths)]


@pytest.mark.parametrize(
    ("lengths", "most", "expected"),
    [
        ([5, 0, 7], None, {0: 5, 2: 7}),
        ([100, 100], 50, {0: 25, 1: 25}),
        ([3, 100, 100], 53, {0: 3, 1: 25, 2: 25}),
        ([100, 100, 100], 2, {0: 1, 1: 1}),
        ([5, 5], 1000, {0: 5, 1: 5}),
    ],
    ids=["no limit", "equal shares", "small ones whole", "fewer than partitions", "all fits"],
)
def test_a_limit_is_shared_out(lengths: list[int], most: int | None, expected: dict[int, int]) -> None:
    found = limited(ranges(*lengths), most)

    assert {one.where.partition: one.length for one in found} == expected
    assert all(one.start == 10 for one in found)


def test_a_checkpoint_remembers_ranges_and_all_ends() -> None:
    first = StreamOffset().after(ranges(5, 7))
    second = first.after([OffsetRange(TopicAndPartition("t", 1), 17, 20, "g_c-0")])

    restored = StreamOffset.from_json(second.to_json())

    assert restored == second
    assert restored.ranges == (OffsetRange(TopicAndPartition("t", 1), 17, 20, "g_c-0"),)
    assert restored.ends == {TopicAndPartition("t", 0): 15, TopicAndPartition("t", 1): 20}


def test_a_pattern_is_checked_when_it_is_given() -> None:
    with pytest.raises(UnknownOption, match=r"option topics\.pattern: "):
        SourceOptions.of({"zookeeper.connect": "127.0.0.1:2181", "group.id": "g", "topics.pattern": "orders["})
