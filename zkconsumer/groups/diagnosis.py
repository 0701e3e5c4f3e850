"""What is wrong with a group in ZooKeeper, and what will break (no 0.8 counterpart).

Pure: facts in, findings out, each with the node, the reason and what to do. Judged by what real 0.8.2 members do with
what they read, which is less than we can read ourselves.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fetcher.errors import KafkaException
from fetcher.structs import TopicAndPartition
from zkconsumer import paths
from zkconsumer.assignment import assignor_for, mine
from zkconsumer.cluster_view import assignment_context
from zkconsumer.emulation import OFFSETS_TOPIC, emulation
from zkconsumer.errors import IllegalArgumentException, UnreadableZnode
from zkconsumer.groups.cluster import NoLeader
from zkconsumer.groups.zookeeper_group import ZooKeeperGroup
from zkconsumer.paths import GroupPaths, GroupTopicPaths
from zkconsumer.topic_count import ConsumerThreadId, TopicCount, from_registration
from zkconsumer.znodes import decode_offset, decode_registration, encode_offset

ERROR, WARNING = "error", "warning"
_LARGEST = 2**31


@dataclass(frozen=True)
class Finding:
    """One thing that is wrong."""

    severity: str
    fault: str  # a name for scripts
    path: str
    reason: str
    advice: str


@dataclass(frozen=True)
class RebalanceSettings:
    """From a consumer's file of settings."""

    retries: int
    backoff_ms: int
    session_timeout_ms: int


@dataclass(frozen=True)
class Facts:
    """All that is looked at. Without brokers `begins` and `ends` hold no numbers, which is a finding of its own."""

    group: ZooKeeperGroup
    topics: Sequence[str]
    partitions_of: Mapping[str, Sequence[int]]  # of all topics the group has to do with; empty: no such topic
    begins: Mapping[TopicAndPartition, int | KafkaException] = field(default_factory=dict)
    ends: Mapping[TopicAndPartition, int | KafkaException] = field(default_factory=dict)
    strategy: str = "range"
    settings: RebalanceSettings | None = None
    kafka_members: Sequence[str] = ()
    kafka_offsets: Mapping[TopicAndPartition, int] = field(default_factory=dict)
    brokers: int = 1  # registered
    kafka_unknown: str = ""  # why brokers could not be asked about the group
    unreadable: Sequence[UnreadableZnode] = ()  # of brokers, topics and partitions


def diagnose(facts: Facts) -> list[Finding]:
    """All findings, errors first."""
    counts: dict[str, TopicCount] = {}
    findings = list(_registrations(facts, counts))
    readable = len(counts) == len(facts.group.members)
    threads = {member: _threads(count, facts.topics) for member, count in counts.items()}
    findings += _owners(facts, threads)
    findings += _unowned(facts, threads)
    if readable and threads:
        findings += _assigned(facts, threads)
    findings += _offsets(facts)
    findings += _sessions(facts)
    findings += _two_worlds(facts)
    findings += _not_looked_at(facts)
    return sorted(findings, key=lambda finding: finding.severity != ERROR)


def subscribed_topics(group: ZooKeeperGroup, topics: Sequence[str]) -> set[str]:
    """Those of the members that can be read."""
    found: set[str] = set()
    for consumer_id, node in group.members.items():
        try:
            found |= _threads(from_registration(consumer_id, decode_registration(node.data)), topics).keys()
        except (UnreadableZnode, IllegalArgumentException):
            continue
    return found


# --- members ---


def _registrations(facts: Facts, counts: dict[str, TopicCount]) -> Iterator[Finding]:
    """Those that real members cannot read; the others are put into `counts`."""
    for consumer_id, node in sorted(facts.group.members.items()):
        path = GroupPaths(facts.group.name).id(consumer_id)
        try:
            registration = decode_registration(node.data)
            count = from_registration(consumer_id, registration)
            count.registration(0)
        except (UnreadableZnode, IllegalArgumentException) as error:
            reason = str(error) if isinstance(error, IllegalArgumentException) else _why_unreadable(node.data)
            yield _blocks_the_group("registration-unreadable", path, reason)
            continue
        counts[consumer_id] = count
        number = _number_beyond_32_bits(node.data)
        if number is not None:
            yield _blocks_the_group(
                "registration-number-too-large", path, f"the number {number} does not fit the 32 bits that 0.8 reads;"
                " a timestamp has to be text"
            )  # fmt: skip
        if registration.pattern != "static" and len(registration.subscription) > 1:
            first = next(iter(registration.subscription))
            yield Finding(
                ERROR, "registration-many-patterns", path,
                f"{len(registration.subscription)} entries of a {registration.pattern}, as kafka-node writes them:"
                f" real members take the first, {first!r}, and leave the other topics to nobody",
                "let the foreign client have a group of its own",
            )  # fmt: skip
        if node.ephemeral_owner == 0:
            yield Finding(
                ERROR, "member-never-leaves", path,
                "the node is not ephemeral: its partitions stay with it when nobody is there",
                f"if no such consumer runs, delete {path}",
            )  # fmt: skip


def _blocks_the_group(fault: str, path: str, reason: str) -> Finding:
    return Finding(
        ERROR, fault, path, f"{reason}. Every rebalance of every 0.8.2 member fails while it is there",
        "stop the client that wrote it, and give it a group of its own",
    )  # fmt: skip


def _why_unreadable(data: bytes) -> str:
    text = data.decode(errors="replace")
    try:
        content = json.loads(text)
    except ValueError:
        dialect = ", as pykafka writes its topic" if re.fullmatch(r"[\w.\-]+", text) else ""
        return f"no JSON{dialect}: {text[:60]!r}"
    missing = [key for key in ("pattern", "subscription") if not isinstance(content, dict) or key not in content]
    return f"without {' and '.join(missing)}: {text[:100]}" if missing else f"a strange subscription: {text[:100]}"


def _number_beyond_32_bits(data: bytes) -> str | None:
    def look(value: object) -> Iterator[str]:
        if isinstance(value, dict):
            for one in value.values():
                yield from look(one)
        elif isinstance(value, list):
            for one in value:
                yield from look(one)
        elif isinstance(value, _Number) and not -_LARGEST <= float(value.text) < _LARGEST:
            yield value.text

    content = json.loads(data, parse_int=_Number, parse_float=_Number)
    return next(look(content), None)


class _Number:
    """A JSON number as it is written."""

    def __init__(self, text: str) -> None:
        self.text = text


def _threads(count: TopicCount, topics: Sequence[str]) -> dict[str, list[ConsumerThreadId]]:
    return count.threads_by_topic(topics)


# --- owners ---


Threads = Mapping[str, Mapping[str, list[ConsumerThreadId]]]  # by member, by topic


def _owners(facts: Facts, threads: Threads) -> Iterator[Finding]:
    group = facts.group
    for where, node in sorted(group.owners.items()):
        path = GroupTopicPaths(group.name, where.topic).owner(where.partition)
        text = node.data.decode(errors="replace")
        member = _member_of(text)
        if member is None:
            yield Finding(
                ERROR, "owner-no-thread", path, f"{text!r} is no thread id, as CONSUMER-0: a foreign client wrote it",
                "let that client have a group of its own",
            )  # fmt: skip
        elif member not in group.members:
            yield Finding(
                ERROR, "owner-not-a-member", path, f"its owner {text} is not registered: nobody may be consuming",
                f"if no such consumer runs, delete {path}; the next rebalance claims the partition",
            )  # fmt: skip
        elif member in threads and text not in map(str, threads[member].get(where.topic, ())):
            yield Finding(
                ERROR, "owner-not-subscribed", path, f"its owner {text} is no stream of {where.topic} by its node",
                "restart that consumer",
            )  # fmt: skip
        elif node.ephemeral_owner != group.members[member].ephemeral_owner:
            what = "is not ephemeral: it stays" if not node.ephemeral_owner else "is of another session: it will vanish"
            yield Finding(
                ERROR if not node.ephemeral_owner else WARNING, "owner-of-another-session", path,
                f"the node {what} whatever {member} does", f"restart {member}, then delete it if it still stands",
            )  # fmt: skip
    for path in group.strange:
        if re.fullmatch(r"\d+-\d+", path.rpartition("/")[2]):
            reason = (
                "it is named broker-partition, as pykafka does: no real member sees that somebody has the partition"
            )
            yield Finding(WARNING, "strange-node", path, reason, "let that client have a group of its own")
        else:
            yield Finding(WARNING, "strange-node", path, "its name should be a partition's number", "delete it")


def _member_of(owner: str) -> str | None:
    try:
        return ConsumerThreadId.parse(owner).consumer_id
    except ValueError:
        return None


def _unowned(facts: Facts, threads: Threads) -> Iterator[Finding]:
    subscribed = {topic for topics in threads.values() for topic in topics}
    for topic in sorted(subscribed):
        for partition in facts.partitions_of.get(topic, ()):
            if TopicAndPartition(topic, partition) not in facts.group.owners:
                yield Finding(
                    ERROR, "partition-without-owner", GroupTopicPaths(facts.group.name, topic).owner(partition),
                    "members subscribe to the topic, and nobody owns the partition: it is not consumed",
                    "wait a moment if the group is rebalancing, else restart a member",
                )  # fmt: skip


def _assigned(facts: Facts, threads: Threads) -> Iterator[Finding]:
    """What the members themselves would decide now."""
    release = emulation("0.8.2")
    assign = assignor_for(facts.strategy, release)
    expected: dict[TopicAndPartition, ConsumerThreadId] = {}
    for member in threads:
        context = assignment_context(
            facts.group.name, member, threads, lambda topics: {one: facts.partitions_of.get(one, ()) for one in topics},
            whole_group=release.reads_partitions_of_the_whole_group,
        )  # fmt: skip
        try:
            expected |= mine(assign(context), member)
        except IllegalArgumentException:
            yield Finding(
                ERROR, "round-robin-differs", GroupPaths(facts.group.name).ids,
                "members subscribe to different topics, or with different numbers of streams: round robin refuses that"
                f" in every member ({_stream_counts(threads)})",
                "give all members the same topics and numbers of streams, or use range",
            )  # fmt: skip
            return
    owners = facts.group.owner_texts()
    for where, thread in sorted(expected.items()):
        owner = owners.get(where)
        if owner is not None and owner != str(thread) and _member_of(owner) in facts.group.members:
            yield Finding(
                ERROR, "owner-differs", GroupTopicPaths(facts.group.name, where.topic).owner(where.partition),
                f"owned by {owner}, while {facts.strategy} gives it to {thread}: a member has other rules, saw"
                " other members, or did not rebalance", "see that all have one partition.assignment.strategy; restart"
                f" {_member_of(owner)}",
            )  # fmt: skip


def _stream_counts(threads: Threads) -> str:
    counts = {
        member: ", ".join(f"{topic} {len(ids)}" for topic, ids in sorted(topics.items()))
        for member, topics in threads.items()
    }
    return "; ".join(f"{member}: {text}" for member, text in sorted(counts.items()))


# --- offsets ---


def _offsets(facts: Facts) -> Iterator[Finding]:
    for where, node in sorted(facts.group.offsets.items()):
        path = GroupTopicPaths(facts.group.name, where.topic).offset(where.partition)
        try:
            offset = decode_offset(node.data)
        except UnreadableZnode:
            yield Finding(
                ERROR, "offset-unreadable", path, f"{node.data.decode(errors='replace')[:40]!r} is no number: attempts"
                " of the member that gets the partition fail", "write a number, or delete the node",
            )  # fmt: skip
            continue
        if where.partition not in facts.partitions_of.get(where.topic, ()):
            yield Finding(
                WARNING,
                "offset-of-no-partition",
                path,
                f"there is no partition {where}",
                "delete it if the topic is gone",
            )
            continue
        yield from _beside_the_log(facts, where, offset, path, "zookeeper")
    for where, offset in sorted(facts.kafka_offsets.items()):
        in_zookeeper = facts.group.offsets.get(where)
        if in_zookeeper is None or in_zookeeper.data != encode_offset(offset):  # else it was said
            path = f"{OFFSETS_TOPIC} [{facts.group.name},{where.topic},{where.partition}]"
            yield from _beside_the_log(facts, where, offset, path, "kafka")


def _beside_the_log(facts: Facts, where: TopicAndPartition, offset: int, path: str, store: str) -> Iterator[Finding]:
    begin, end = facts.begins.get(where), facts.ends.get(where)
    rewind = f"zkconsumer offsets rewind --store {store}"
    if isinstance(end, int) and offset > end:
        yield Finding(
            ERROR, "offset-beyond-log", path, f"{offset} is beyond the log, which ends at {end}: the fetch fails"
            " and auto.offset.reset decides", f"stop the group and set the offset ({rewind})",
        )  # fmt: skip
    elif isinstance(begin, int) and 0 <= offset < begin:
        yield Finding(
            ERROR, "offset-behind-retention", path, f"{offset} is deleted already, the log begins at {begin}:"
            f" {begin - offset} messages are lost, and with auto.offset.reset=largest all the rest too",
            f"stop the group and set the offset to the beginning ({rewind} --to-earliest)",
        )  # fmt: skip


def _not_looked_at(facts: Facts) -> Iterator[Finding]:
    """What brokers would have to tell, and did not: that nothing was found there means nothing."""
    group = facts.group
    for node in facts.unreadable:
        yield Finding(
            ERROR, "node-unreadable", node.path, f"{node.reason}. Members cannot read it either: their rebalances fail",
            "find out who wrote it, and let a broker or the topic tool write it again",
        )  # fmt: skip
    if not facts.brokers:
        yield Finding(
            ERROR, "no-brokers", paths.BROKER_IDS, "no broker is registered: nobody can consume, and offsets could not"
            " be compared with the log", "start the brokers, or see that this is their chroot",
        )  # fmt: skip
        return
    unknown = {where: end for where, end in facts.ends.items() if isinstance(end, KafkaException)}
    by_reason: dict[str, list[TopicAndPartition]] = {}
    for where, error in sorted(unknown.items()):
        if isinstance(error, NoLeader):
            yield Finding(
                ERROR, "partition-without-leader", paths.topic_partition_state(*where),
                "no broker that is alive leads the partition: it cannot be consumed, and its offset could not be"
                " compared with the log", "start the brokers that hold it",
            )  # fmt: skip
        else:
            by_reason.setdefault(str(error), []).append(where)
    for reason, partitions in by_reason.items():
        yield Finding(
            ERROR, "broker-away", GroupTopicPaths(group.name, partitions[0].topic).offset(partitions[0].partition),
            f"{reason}; {len(partitions)} offsets could not be compared with the log",
            "see that the broker runs, and can be reached from here",
        )  # fmt: skip
    if facts.kafka_unknown:
        yield Finding(
            WARNING, "kafka-group-unknown", GroupPaths(group.name).directory,
            f"whether there is a group of this name in Kafka could not be asked: {facts.kafka_unknown}",
            "look again when all brokers run",
        )  # fmt: skip


# --- settings, and the other world ---


def _sessions(facts: Facts) -> Iterator[Finding]:
    settings = facts.settings
    if settings is None or settings.retries * settings.backoff_ms > settings.session_timeout_ms:
        return
    yield Finding(
        ERROR, "session-outlasts-retries", GroupPaths(facts.group.name).ids,
        f"rebalance.max.retries {settings.retries} × rebalance.backoff.ms {settings.backoff_ms} is not more than"
        f" zookeeper.session.timeout.ms {settings.session_timeout_ms}: when a member dies the others give up before its"
        " owner nodes are gone", "raise rebalance.max.retries or rebalance.backoff.ms",
    )  # fmt: skip


def _two_worlds(facts: Facts) -> Iterator[Finding]:
    group, path = facts.group, GroupPaths(facts.group.name).directory
    if facts.kafka_members and group.members:
        yield Finding(
            ERROR, "members-in-both-worlds", path,
            f"{len(group.members)} members in ZooKeeper and {len(facts.kafka_members)} in Kafka: each side consumes"
            " all that it subscribes to, and messages of topics of both are taken twice", "stop one side",
        )  # fmt: skip
    stored = {where: node.data.decode(errors="replace") for where, node in group.offsets.items()}
    differing = {
        where: (stored[where], offset)
        for where, offset in facts.kafka_offsets.items()
        if where in stored and stored[where] != str(offset)
    }
    if differing:
        where, (here, there) = next(iter(sorted(differing.items())))
        yield Finding(
            WARNING, "offsets-in-both-worlds", path,
            f"{len(differing)} partitions have other offsets in Kafka, e.g. {where}: {here} here, {there} there",
            "find out which one counts (zkconsumer offsets diff) before anybody changes offsets.storage",
        )  # fmt: skip
