"""`zkconsumer plan` of a living group of old consumers, read from a real ZooKeeper."""

from __future__ import annotations

import json

import pytest

from zkconsumer.__main__ import main
from zkconsumer.testing.plugin import ZooKeeperForOneTest

STATIC = b'{"version":1,"subscription":{"orders":2,"clicks":1},"pattern":"static","timestamp":"1794981559947"}'
WILDCARD = b'{"version":1,"subscription":{"o.*":1},"pattern":"white_list","timestamp":"1794981559948"}'


def everything_in(zookeeper: ZooKeeperForOneTest) -> set[str]:
    with zookeeper.client() as client:
        found, waiting = set(), ["/"]
        while waiting:
            path = waiting.pop()
            found.add(path)
            waiting += [f"{path.rstrip('/')}/{child}" for child in client.get_children(path)]
        return found


def test_a_living_group_is_read_and_nothing_is_written(
    zookeeper: ZooKeeperForOneTest, capsys: pytest.CaptureFixture[str]
) -> None:
    """Threads and wildcards as the members have registered them; topics without a subscriber are left out."""
    with zookeeper.client() as client:
        for topic, partitions in {"orders": 5, "others": 2, "clicks": 1, "unread": 3}.items():
            state = json.dumps({"version": 1, "partitions": {str(number): [0] for number in range(partitions)}})
            client.create(f"/brokers/topics/{topic}", state.encode(), makepath=True)
        client.create("/consumers/billing/ids/billing_a-1", STATIC, makepath=True)
        client.create("/consumers/billing/ids/billing_b-1", WILDCARD)
    before = everything_in(zookeeper)

    assert main(["plan", "--zookeeper", zookeeper.connect_string, "--group", "billing", "--json"]) == 0

    told = json.loads(capsys.readouterr().out)
    assert told["topics"] == {"orders": 5, "others": 2, "clicks": 1}
    assert told["members"] == {"billing_a-1": {"orders": 2, "clicks": 1}, "billing_b-1": {"orders": 1, "others": 1}}
    # By hand: orders' five partitions among a's two threads and b's one, the first two get two each.
    assert told["strategies"]["old range"]["assignment"] == {
        "billing_a-1": {"clicks": [0], "orders": [0, 1, 2, 3]},
        "billing_b-1": {"orders": [4], "others": [0, 1]},
    }
    assert told["strategies"]["range"]["assignment"]["billing_b-1"] == {"orders": [3, 4], "others": [0, 1]}
    assert everything_in(zookeeper) == before


def test_a_group_without_members_is_said_in_one_line(
    zookeeper: ZooKeeperForOneTest, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["plan", "--zookeeper", zookeeper.connect_string, "--group", "nobody"]) == 1

    assert capsys.readouterr().err == (
        f"zkconsumer plan: group nobody has no members in ZooKeeper at {zookeeper.connect_string}\n"
    )
