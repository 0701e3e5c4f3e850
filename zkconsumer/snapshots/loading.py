"""Put a snapshot into a sandbox: decide first (pure), then write.

Topics are made anew on the sandbox's own brokers, with the same partitions. What groups have is written as it stood,
unreadable bytes included: that is what is to be rehearsed. Never written are brokers' registrations, which would send
the sandbox's consumers to production, the controller, and topics' deletions.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from fetcher.admin import BrokerConnections
from fetcher.structs import Broker
from zkconsumer import paths
from zkconsumer.errors import IllegalArgumentException, UnreadableZnode
from zkconsumer.groups.cluster import ZooKeeperCluster
from zkconsumer.groups.kafka_group import KafkaGroups
from zkconsumer.groups.stores import KafkaStore
from zkconsumer.paths import GroupPaths
from zkconsumer.snapshots.files import KafkaOffsets, Node, Snapshot
from zkconsumer.topic_count import from_registration
from zkconsumer.znodes import decode_broker, decode_partitions, decode_registration
from zkconsumer.zookeeper import ZooKeeper

LARGEST_REQUEST = 1024 * 1024 - 1  # jute.maxbuffer: a server hangs up at more
ROOM_FOR_THE_REST = 256  # of a request: header, ACL
AT_ONCE = 5_000  # nodes, whose data are in memory twice meanwhile
SESSIONS = 50  # at most; more members share them
INTERNAL_TOPICS = ("__consumer_offsets", "__transaction_state")
# Settings that mean the same in every release; a value that a broker does not know takes the partition off line.
TOPIC_SETTINGS = {
    "cleanup.policy", "delete.retention.ms", "flush.messages", "flush.ms", "index.interval.bytes", "max.message.bytes",
    "min.cleanable.dirty.ratio", "retention.bytes", "retention.ms", "segment.bytes", "segment.index.bytes",
    "segment.ms",
}  # fmt: skip

Assignment = dict[int, list[int]]


@dataclass(frozen=True)
class Target:
    """What stands where it is to be loaded."""

    connect: str
    brokers: Mapping[int, str]  # address by id
    topics: Mapping[str, int]  # number of partitions
    groups: Mapping[str, bool]  # has it members?
    in_kafka: Mapping[str, bool] = field(default_factory=dict)  # the same, of those with offsets or members there


@dataclass(frozen=True)
class Wishes:
    """What the user said."""

    groups: Sequence[str] = ()
    overwrite: bool = False
    restart_offsets: bool = False
    with_members: bool = False


@dataclass
class LoadPlan:
    """What is written, and what is not. `refused`: reasons, any of which forbids the whole."""

    topics: dict[str, Assignment] = field(default_factory=dict)
    settings: dict[str, dict[str, str]] = field(default_factory=dict)  # of topics
    kept_topics: list[str] = field(default_factory=list)
    groups: list[str] = field(default_factory=list)
    nodes: dict[str, bytes] = field(default_factory=dict)
    offsets: int = 0
    members: dict[int, dict[str, bytes]] = field(default_factory=dict)  # ephemeral nodes by session
    in_kafka: dict[str, KafkaOffsets] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)
    refused: list[str] = field(default_factory=list)

    @property
    def partitions(self) -> int:
        """Of all topics that are made."""
        return sum(map(len, self.topics.values()))


def read_target(zookeeper: ZooKeeper, connect: str, in_kafka: Collection[str] = ()) -> Target:
    """With all its topics and groups, and those of the groups named that are in Kafka."""
    brokers = _brokers(
        (int(path.rpartition("/")[2]), data)
        for path, data in zookeeper.read_many(
            paths.broker(name) for name in zookeeper.children(paths.BROKER_IDS) or ()
        ).items()
        if data is not None
    )
    topics = zookeeper.read_many(paths.topic(name) for name in zookeeper.children(paths.BROKER_TOPICS) or ())
    groups = zookeeper.children(paths.CONSUMERS) or []
    ids = zookeeper.children_many(GroupPaths(group).ids for group in groups)
    return Target(
        connect,
        {number: broker.address for number, broker in brokers.items()},
        {path.rpartition("/")[2]: len(_partitions(data)) for path, data in topics.items()},
        {group: bool(ids[GroupPaths(group).ids]) for group in groups},
        _in_kafka(zookeeper, in_kafka) if brokers and in_kafka else {},
    )


def _in_kafka(zookeeper: ZooKeeper, names: Iterable[str]) -> dict[str, bool]:
    with BrokerConnections() as connections:
        cluster = ZooKeeperCluster(zookeeper)
        store = KafkaStore(KafkaGroups(connections, cluster.brokers()), cluster)
        live = {name: store.is_live(name) for name in names}
        return {name: is_live for name, is_live in live.items() if is_live or store.read(name)}


def plan_load(snapshot: Snapshot, target: Target, wishes: Wishes) -> LoadPlan:
    """Pure."""
    _refuse_groups_it_does_not_have(snapshot, wishes)
    plan = LoadPlan(groups=[name for name in snapshot.names_below(paths.CONSUMERS) if _is_chosen(name, wishes)])
    _refuse_the_same_cluster(plan, snapshot, target, wishes)
    _plan_topics(plan, snapshot, target, _chosen_topics(plan, snapshot, wishes))
    _plan_groups(plan, snapshot, target, wishes)
    _plan_kafka(plan, snapshot, target, wishes)
    _tell_what_is_never_loaded(plan, snapshot)
    return plan


def carry_out(plan: LoadPlan, zookeeper: ZooKeeper, on_step: Callable[[str], None] = lambda step: None) -> None:
    """Write all but the members. Interrupted, it can be done again with overwrite."""
    on_step(f"making {len(plan.topics)} topics")
    configs = {name: plan.settings.get(name, {}) for name in plan.topics}
    # As 0.8's AdminUtils: first the settings, then the partitions, upon which controllers of all releases act.
    _write(zookeeper, {paths.topic_config(n): _json({"version": 1, "config": c}) for n, c in configs.items()})
    _write(
        zookeeper,
        {
            paths.topic(name): _json({"version": 1, "partitions": {str(p): b for p, b in assignment.items()}})
            for name, assignment in plan.topics.items()
        },
    )
    on_step(f"writing {len(plan.nodes)} nodes of {len(plan.groups)} groups")
    _write(zookeeper, plan.nodes)


def _write(zookeeper: ZooKeeper, nodes: Mapping[str, bytes]) -> None:
    """Created where they are missing, their parents too, else set: directories that are there stay as they are."""
    with_parents: dict[str, bytes | None] = {}
    for path, data in nodes.items():
        for end in range(1, len(path)):
            if path[end] == "/":
                with_parents.setdefault(path[:end], None)
        with_parents[path] = data or None
    items = list(with_parents.items())
    for start in range(0, len(items), AT_ONCE):
        there = zookeeper.create_tree(dict(items[start : start + AT_ONCE]))
        zookeeper.update_many({path: nodes[path] for path in there if nodes.get(path)})


def write_to_kafka(plan: LoadPlan, groups: KafkaGroups, on_step: Callable[[str], None] = lambda step: None) -> None:
    """To brokers that know all partitions."""
    on_step(f"writing offsets of {len(plan.in_kafka)} groups to Kafka")
    for group, offsets in plan.in_kafka.items():
        if offsets:
            groups.commit(group, offsets)


def unknown_to_brokers(plan: LoadPlan, connections: BrokerConnections, brokers: Iterable[Broker]) -> int:
    """How many partitions of offsets in Kafka some broker does not know yet: it refuses such offsets."""
    wanted = {where for offsets in plan.in_kafka.values() for where in offsets}
    return max((len(wanted - connections.metadata([broker]).leaders.keys()) for broker in brokers), default=0)


def without_leader(plan: LoadPlan, zookeeper: ZooKeeper) -> int:
    """How many of the partitions made have no leader yet."""
    states = zookeeper.read_many(
        paths.topic_partition_state(name, partition)
        for name, assignment in plan.topics.items()
        for partition in assignment
    )
    return sum(state is None or b'"leader":-1' in state for state in states.values())


def subscribed(snapshot: Snapshot, group: str) -> set[str]:
    """Topics the group has to do with: of members that can be read, of owners, and of offsets."""
    topics = snapshot.names_below(paths.BROKER_TOPICS)
    found: set[str] = set()
    for names, node in snapshot.below(GroupPaths(group).directory):
        if names[0] in ("owners", "offsets") and len(names) == 2:
            found.add(names[1])
        elif names[0] == "ids" and len(names) == 2:
            try:
                found |= from_registration(names[1], decode_registration(node.data)).threads_by_topic(topics).keys()
            except (UnreadableZnode, IllegalArgumentException):
                continue
    return found


# --- what is chosen ---


def _refuse_groups_it_does_not_have(snapshot: Snapshot, wishes: Wishes) -> None:
    present = list(dict.fromkeys([*snapshot.names_below(paths.CONSUMERS), *snapshot.in_kafka]))
    missing = [group for group in wishes.groups if group not in present]
    if missing:
        raise IllegalArgumentException(f"the snapshot has no group {missing[0]}; it has {', '.join(present) or 'none'}")


def _is_chosen(group: str, wishes: Wishes) -> bool:
    return not wishes.groups or group in wishes.groups


def _chosen_topics(plan: LoadPlan, snapshot: Snapshot, wishes: Wishes) -> list[str]:
    topics = snapshot.names_below(paths.BROKER_TOPICS)
    if wishes.groups:
        wanted = set().union(*(subscribed(snapshot, group) for group in plan.groups))
        wanted |= {where.topic for group in wishes.groups for where in snapshot.in_kafka.get(group, ())}
        topics = [topic for topic in topics if topic in wanted]
    return topics


def _refuse_the_same_cluster(plan: LoadPlan, snapshot: Snapshot, target: Target, wishes: Wishes) -> None:
    brokers = _brokers((int(names[0]), node.data) for names, node in snapshot.below(paths.BROKER_IDS)
                       if len(names) == 1 and names[0].isdecimal())  # fmt: skip
    same = sorted({one.address for one in brokers.values()} & set(target.brokers.values()))
    if (same or snapshot.source == target.connect) and not wishes.overwrite:
        what = f"its broker {same[0]} is in the snapshot" if same else f"it is {snapshot.source}"
        plan.refused.append(f"is this where the snapshot was made? {what}")


def _plan_topics(plan: LoadPlan, snapshot: Snapshot, target: Target, topics: Iterable[str]) -> None:
    if not target.brokers:
        wanted = set(topics)
        for names, node in snapshot.below(paths.BROKER_TOPICS):
            if names[0] in wanted and not node.session:
                _add_node(plan, node)
        for topic in wanted & target.topics.keys():
            plan.refused.append(f"topic {topic} exists, and there are no brokers to ask about it")
        return
    ids = sorted(target.brokers)
    for position, topic in enumerate(topics):
        if topic in INTERNAL_TOPICS:
            plan.left_out.append(f"topic {topic}: brokers make their own")
            continue
        listed = snapshot.nodes.get(paths.topic(topic))
        replicas = _replicas(listed.data if listed else b"")
        if not replicas:
            plan.left_out.append(f"topic {topic}: its node names no partitions that can be read")
        elif topic not in target.topics:
            plan.topics[topic] = _spread(replicas, ids, position)
            config = snapshot.nodes.get(paths.topic_config(topic))
            plan.settings[topic] = _settings(plan, topic, config.data if config else b"")
        elif target.topics[topic] == len(replicas):
            plan.kept_topics.append(topic)
        else:
            plan.refused.append(
                f"topic {topic} exists with {target.topics[topic]} partitions, the snapshot has {len(replicas)}"
            )


def _plan_groups(plan: LoadPlan, snapshot: Snapshot, target: Target, wishes: Wishes) -> None:
    left: dict[str, int] = {"ids": 0, "owners": 0}
    for group in plan.groups:
        if target.groups.get(group):
            plan.refused.append(f"group {group} exists and has members")
        elif group in target.groups and not wishes.overwrite:
            plan.refused.append(f"group {group} exists")
        _add_node(plan, snapshot.nodes.get(GroupPaths(group).directory) or Node(GroupPaths(group).directory, b""))
        for names, node in snapshot.below(GroupPaths(group).directory):
            is_offset = names[0] == "offsets" and len(names) == 3
            plan.offsets += is_offset
            if not node.session:
                _add_node(plan, Node(node.path, b"0") if is_offset and wishes.restart_offsets else node)
            elif wishes.with_members:
                plan.members.setdefault(node.session, {})[node.path] = node.data
            else:
                left[names[0]] = left.get(names[0], 0) + 1
    if any(left.values()):
        plan.left_out.append(
            f"{left['ids']} registrations and {left['owners']} owners: they live only as long as somebody holds them"
        )


def _plan_kafka(plan: LoadPlan, snapshot: Snapshot, target: Target, wishes: Wishes) -> None:
    chosen = {group: offsets for group, offsets in snapshot.in_kafka.items() if _is_chosen(group, wishes)}
    if chosen and not target.brokers:
        plan.left_out.append(f"offsets of {len(chosen)} groups in Kafka: there are no brokers to keep them")
        return
    counts = {topic: len(assignment) for topic, assignment in plan.topics.items()}
    counts |= {topic: target.topics[topic] for topic in plan.kept_topics}
    unknown = 0
    for group, offsets in chosen.items():
        if target.in_kafka.get(group):
            plan.refused.append(f"group {group} exists in Kafka and has members")
        elif group in target.in_kafka and not wishes.overwrite:
            plan.refused.append(f"group {group} exists in Kafka")
        kept = {where: one for where, one in offsets.items() if where.partition < counts.get(where.topic, 0)}
        unknown += len(offsets) - len(kept)
        plan.in_kafka[group] = {
            where: one._replace(offset=0) if wishes.restart_offsets else one for where, one in kept.items()
        }
    if unknown:
        plan.left_out.append(f"{unknown} offsets in Kafka of partitions that are not made here")


def _tell_what_is_never_loaded(plan: LoadPlan, snapshot: Snapshot) -> None:
    brokers = len(snapshot.names_below(paths.BROKER_IDS))
    if brokers:
        plan.left_out.append(f"{brokers} brokers: consumers of the sandbox would go to them")
    deletions = snapshot.names_below(paths.TOPIC_DELETIONS)
    if deletions:
        plan.left_out.append(f"{len(deletions)} topics were being deleted, e.g. {deletions[0]}: they stay here")


def _add_node(plan: LoadPlan, node: Node) -> None:
    if len(node.data) + len(node.path.encode()) + ROOM_FOR_THE_REST > LARGEST_REQUEST:
        plan.left_out.append(f"{node.path}: {len(node.data):,} bytes do not fit a request (jute.maxbuffer)")
    else:
        plan.nodes[node.path] = node.data


# --- values ---


def _brokers(registrations: Iterable[tuple[int, bytes]]) -> dict[int, Broker]:
    found = {}
    for number, data in registrations:
        try:
            found[number] = decode_broker(number, data)
        except UnreadableZnode:
            continue  # the number alone says that it is there
    return found


def _partitions(data: bytes | None) -> list[int]:
    try:
        return decode_partitions(data)
    except UnreadableZnode:
        return []


def _replicas(data: bytes) -> dict[int, int]:
    """How many each partition has."""
    partitions = _partitions(data)
    content = json.loads(data) if partitions else {}
    lists = content.get("partitions", {})
    return {one: max(1, len(lists[str(one)])) if isinstance(lists.get(str(one)), list) else 1 for one in partitions}


def _spread(replicas: Mapping[int, int], brokers: Sequence[int], shift: int) -> Assignment:
    """In turn, with as many replicas as there are brokers for."""
    return {
        partition: [brokers[(partition + shift + one) % len(brokers)] for one in range(min(count, len(brokers)))]
        for partition, count in replicas.items()
    }


def _settings(plan: LoadPlan, topic: str, data: bytes) -> dict[str, str]:
    try:
        content = json.loads(data or b"{}")
        config = content.get("config", {}) if isinstance(content, dict) else {}
        found = {str(key): str(value) for key, value in config.items()}
    except (ValueError, AttributeError, RecursionError):
        plan.left_out.append(f"settings of topic {topic}: they cannot be read")
        return {}
    foreign = sorted(found.keys() - TOPIC_SETTINGS)
    if foreign:
        plan.left_out.append(f"settings of topic {topic} that not every release has: {', '.join(foreign)}")
    return {key: value for key, value in found.items() if key in TOPIC_SETTINGS}


def _json(content: object) -> bytes:
    return json.dumps(content, separators=(",", ":")).encode()


def by_session(members: Mapping[int, Mapping[str, bytes]]) -> list[dict[str, bytes]]:
    """What each of our sessions is to hold: what one session held there stays together here."""
    held: list[dict[str, bytes]] = [{} for _ in range(min(SESSIONS, len(members)))]
    for position, session in enumerate(sorted(members)):
        held[position % SESSIONS] |= members[session]
    return held


def member_counts(nodes: Iterable[str]) -> tuple[int, int]:
    """Registrations and owners among paths."""
    kinds = [path.split("/")[3] for path in nodes if path.count("/") >= 3]
    return kinds.count("ids"), kinds.count("owners")
