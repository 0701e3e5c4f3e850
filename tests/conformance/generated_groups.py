"""Groups made by chance from a seed, for asking the real assignors about: names that tie, sort oddly or do not exist.

    for case in cases(seed=1, count=300):
        case.topics, case.members

What one case holds can be written to ZooKeeper and kept as JSON; the same seed gives the same cases everywhere.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple, Self

from kazoo.client import KazooClient

# Texts whose Java hash is the same, also with the same partition behind them.
TIED = ("Aa", "BB", "AaAa", "AaBB", "BBAa", "BBBB")
PLAIN = ("t1", "t10", "t2", "orders", "a", "bb", "zeta", "clicks-eu", "clicks.us", "T_1", "polygenelubricants")
# Scala's tables grow with the 13th, 25th, 49th name; half of these have one hash.
MANY = tuple("".join(parts) for parts in product(("Aa", "BB"), repeat=4)) + tuple(f"topic-{n}" for n in range(16))
INTERNAL = ("__consumer_offsets", "__transaction_state")
MISSING = ("never-created", "AbBb")
# In this order as text. (ZooKeeper takes no character beyond the first 65,536 in a path.)
IDS = ("Aa", "BB", "c-1", "c-10", "c-2", "c1", "c10", "c2", "host-1794979821442-deadbeef", "z", "é", "￮")
FILTERS = (".*", "t.*", "Aa|BB", "[A-B].+", "clicks[-.](eu|us)", "nothing-like-this", "__.*|orders")


class Registered(NamedTuple):
    """What a member's node says; a filter has its regex instead of a topic."""

    pattern: str
    subscription: Mapping[str, int]

    def data(self) -> bytes:
        """As 0.8.2.2 writes it."""
        fields = {
            "version": 1,
            "subscription": dict(self.subscription),
            "pattern": self.pattern,
            "timestamp": "1794980898565",
        }
        return json.dumps(fields).encode()


@dataclass(frozen=True)
class Case:
    """A cluster's topics and the members of one group."""

    group: str
    topics: Mapping[str, Sequence[int]]
    members: Mapping[str, Registered]
    exclude_internal_topics: bool

    def to_json(self) -> dict[str, Any]:
        members = {name: [member.pattern, dict(member.subscription)] for name, member in self.members.items()}
        return {
            "group": self.group,
            "topics": {topic: list(partitions) for topic, partitions in self.topics.items()},
            "members": members,
            "exclude_internal_topics": self.exclude_internal_topics,
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        members = {name: Registered(*member) for name, member in fields["members"].items()}
        return cls(fields["group"], fields["topics"], members, fields["exclude_internal_topics"])

    def write(self, client: KazooClient) -> None:
        """Make `client`'s chroot hold these topics and no others, and this group beside those of other cases."""
        old = client.get_children("/brokers/topics")
        answers = [client.delete_async(f"/brokers/topics/{topic}") for topic in old]
        answers += [
            client.create_async(f"/brokers/topics/{topic}", topic_data(partitions))
            for topic, partitions in self.topics.items()
        ]
        client.ensure_path(f"/consumers/{self.group}/ids")
        answers += [
            client.create_async(f"/consumers/{self.group}/ids/{name}", member.data())
            for name, member in self.members.items()
        ]
        for answer in answers:
            answer.get(timeout=30)


def topic_data(partitions: Sequence[int]) -> bytes:
    """A topic's node, on broker 0."""
    return json.dumps({"version": 1, "partitions": {str(partition): [0] for partition in partitions}}).encode()


def cases(*, seed: int, count: int) -> Iterator[Case]:
    """The same for the same seed."""
    for number in range(count):
        chance = random.Random(f"{seed}-{number}")
        yield _case(chance, group=f"g{seed}x{number}")


def _case(chance: random.Random, group: str) -> Case:
    names = [*TIED, *chance.sample(PLAIN, 5)] if chance.random() < 0.4 else [*PLAIN, *TIED[:2]]
    most = 9
    if chance.random() < 0.1:
        names, most = [*names, *MANY], 40
    topics = {topic: _partitions(chance) for topic in chance.sample(names, chance.randint(1, min(most, len(names))))}
    topics |= {topic: [0, 1] for topic in INTERNAL if chance.random() < 0.3}
    ids = [f"{group}_{name}" for name in chance.sample(IDS, chance.randint(1, 6))]
    make = chance.choice([_alike, _alike, _unlike, _with_filters])
    return Case(group, topics, make(chance, ids, list(topics)), exclude_internal_topics=chance.random() < 0.7)


def _partitions(chance: random.Random) -> list[int]:
    count = chance.choice([0, 1, 1, 2, 3, 5, 8, 13])
    partitions = chance.sample(range(count + 2), count) if chance.random() < 0.1 else list(range(count))
    chance.shuffle(partitions)
    return partitions


def _alike(chance: random.Random, ids: Sequence[str], topics: Sequence[str]) -> dict[str, Registered]:
    """What 0.8.2's round robin wants: the same topics for all, one count a member; each in an order of its own."""
    if chance.random() < 0.3:
        pattern, regex = chance.choice(["white_list", "black_list"]), chance.choice(FILTERS)
        return {name: Registered(pattern, {regex: _count(chance)}) for name in ids}
    chosen = chance.sample(topics, chance.randint(1, len(topics)))
    members = {}
    for name in ids:
        count = _count(chance)
        members[name] = Registered("static", dict.fromkeys(chance.sample(chosen, len(chosen)), count))
    return members


def _unlike(chance: random.Random, ids: Sequence[str], topics: Sequence[str]) -> dict[str, Registered]:
    """Anything static: other topics, counts that differ by topic, none at all, topics that do not exist."""
    names = [*topics, *MISSING]
    members = {}
    for name in ids:
        chosen = chance.sample(names, chance.randint(0, len(names)))
        members[name] = Registered("static", {topic: _count(chance) for topic in chosen})
    return members


def _with_filters(chance: random.Random, ids: Sequence[str], topics: Sequence[str]) -> dict[str, Registered]:
    """White and black lists next to each other and to static ones."""
    members = _unlike(chance, ids, topics)
    for name in ids:
        if chance.random() < 0.6:
            pattern = chance.choice(["white_list", "black_list"])
            members[name] = Registered(pattern, {chance.choice(FILTERS): _count(chance)})
    return members


def _count(chance: random.Random) -> int:
    return chance.choice([1, 1, 1, 2, 2, 3, 4, 12])
