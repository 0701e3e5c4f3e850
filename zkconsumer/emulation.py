"""Which release's habits a consumer has: a frozen value of named switches (no 0.8 counterpart).

The default is 0.8.2.2. "0.9" and "1.1" are the later releases of the same consumer; "fixed" turns every switch to the
better behaviour. What all members must do alike, and what is fixed for everybody, has no switch. Numbers Q… are those
of the table of quirks in docs/compatibility.md.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from fetcher.settings import RequestVersions
from zkconsumer.errors import InvalidConfigException

RoundRobin = Literal["0.8.2", "0.10.2", "1.0"]
CommitRetries = Literal["at shutdown", "inverted", "as named"]
ZooKeeperRequests = Literal["many at a time", "one by one"]

OFFSETS_TOPIC = "__consumer_offsets"
TRANSACTIONS_TOPIC = "__transaction_state"
INTERNAL_TOPICS = frozenset({OFFSETS_TOPIC})


@dataclass(frozen=True, slots=True, kw_only=True)
class Emulation:
    """One field a switch; the defaults are 0.8.2.2. `with_switches` makes one of your own."""

    round_robin: RoundRobin = "0.8.2"
    """Which of three round-robin algorithms; all members need the same (Q2, Q3; KAFKA-687, KAFKA-2434)."""

    keep_trying_to_rebalance: bool = False
    """After rebalance.max.retries failed attempts go on with more, instead of staying idle until the group changes
    again (Q6, KAFKA-4228)."""

    fail_on_duplicate_consumer_id: bool = False
    """A consumer.id that is taken raises ZkNodeExistsException at once, as from 0.9, instead of waiting until the
    other one leaves (Q8, KAFKA-1387)."""

    keep_what_does_not_change: bool = False
    """A rebalance that would give this consumer what it owns already stops, releases and claims nothing (Q4). Nobody
    has to wait for it: what others wait for is not what it keeps."""

    commit_when_session_is_lost: bool = False
    """After a lost session commit what was consumed, where nobody else owns it yet, instead of delivering it again
    (Q9)."""

    honour_rewind_in_zookeeper: bool = False
    """With dual commit start at an offset that was set back in ZooKeeper alone, instead of at the larger of two. What
    is stored in Kafka has a note for that."""

    drop_ready_item_on_rebalance: bool = False
    """A message seen by has_next() but not taken before a rebalance is forgotten, instead of delivered twice (Q11)."""

    drop_chunk_on_shutdown: bool = False
    """Streams end at once at shutdown, instead of delivering the rest of their chunk uncommitted (Q13)."""

    commit_retries: CommitRetries = "at shutdown"
    """When a failed commit to Kafka is repeated: only in a shutdown (0.8.2), when retry_on_failure is False (0.9 to
    1.1, the flag is inverted there), or when it is True (Q17)."""

    ask_only_for_topics_in_zookeeper: bool = False
    """Ask brokers for no topic that ZooKeeper does not list, so that a deleted one is not created again (Q23)."""

    name_group_id_in_errors: bool = False
    """An illegal group.id is reported as group.id even when client.id defaults to it (Q32)."""

    check_strategy: bool = False
    """Refuse a partition.assignment.strategy that is neither range nor roundrobin, as from 0.9 (KAFKA-2032)."""

    check_socket_timeout: bool = False
    """Refuse a socket.timeout.ms below fetch.wait.max.ms, as from 0.9; 0.8.2 checks before it has read the latter
    (Q30, KAFKA-1147)."""

    trim_values: bool = False
    """Ignore blanks around the values of properties, as from 0.9."""

    request_versions: RequestVersions = "newest"
    """Versions of the requests: the newest the broker knows, so that it need not convert messages down (the default in
    every profile), or exactly those a release sends."""

    zookeeper_requests: ZooKeeperRequests = "many at a time"
    """Ask ZooKeeper for what can be asked together, once (the default in every profile), or one by one, in the order of
    0.8.2.2 and as often as it asks: a server's log tells how many requests came between two that change something."""

    empty_parent_data: bool = False
    """Parents of the ids node are created with empty data, as from 0.9, instead of none at all."""

    wait_after_fetch_error: bool = False
    """A fetcher waits refresh.leader.backoff.ms after a failed fetch, as from 0.9 (KAFKA-1461)."""

    read_endpoints: bool = True
    """Find brokers by the endpoints they register (0.9 and later), which gives the same address as the old fields
    wherever those have one."""

    internal_topics: frozenset[str] = INTERNAL_TOPICS
    """Topics that exclude.internal.topics hides from wildcards; 1.1 knows one more."""

    @property
    def reads_partitions_of_the_whole_group(self) -> bool:
        """From 0.10.2 a member reads the partitions of all the group's topics, before only of its own."""
        return self.round_robin != "0.8.2"

    @property
    def asks_zookeeper_one_by_one(self) -> bool:
        return self.zookeeper_requests == "one by one"

    @property
    def imitates_requests(self) -> bool:
        """Whether some server is to be asked in the order of a release."""
        return self.asks_zookeeper_one_by_one or self.request_versions != "newest"

    def with_switches(self, **changes: Any) -> Emulation:
        """The same with some switches set differently. An unknown name is a TypeError."""
        names = [field.name for field in fields(self)]
        for name in changes:
            if name not in names:
                near = difflib.get_close_matches(name, names, n=1)
                raise TypeError(f"no switch is called {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        return replace(self, **changes)


_FROM_0_9 = Emulation(
    fail_on_duplicate_consumer_id=True,
    commit_retries="inverted",
    check_strategy=True,
    check_socket_timeout=True,
    trim_values=True,
    empty_parent_data=True,
    wait_after_fetch_error=True,
)
_PROFILES = {
    "0.8.2": Emulation(),
    "0.9": _FROM_0_9,
    "1.1": _FROM_0_9.with_switches(round_robin="1.0", internal_topics=frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})),
    "fixed": Emulation(
        round_robin="1.0",
        keep_trying_to_rebalance=True,
        keep_what_does_not_change=True,
        fail_on_duplicate_consumer_id=True,
        commit_when_session_is_lost=True,
        honour_rewind_in_zookeeper=True,
        drop_ready_item_on_rebalance=True,
        drop_chunk_on_shutdown=True,
        commit_retries="as named",
        ask_only_for_topics_in_zookeeper=True,
        name_group_id_in_errors=True,
        check_strategy=True,
        check_socket_timeout=True,
        trim_values=True,
        wait_after_fetch_error=True,
        internal_topics=frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC}),
    ),
}
PROFILES = tuple(_PROFILES)


def emulation(name: str) -> Emulation:
    """The switches of a release, or "fixed"."""
    try:
        return _PROFILES[name]
    except KeyError:
        raise InvalidConfigException(
            f"Wrong value {name} of emulate; Valid values are {', '.join(PROFILES)}", key="emulate", value=name
        ) from None
