"""Topics of a test cluster: made, changed, deleted and looked at (0.8: kafka.admin.AdminUtils).

Changes are written to ZooKeeper as those tools write them, which all releases that run on ZooKeeper act upon, 3.9.1
included: one way for all, hundredths of a second where starting the real tools' Java machine takes seconds. A request
to create topics exists since 0.10.1 only. Every method returns when all running brokers act on what it did.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from zkconsumer.testing import kafka_requests
from zkconsumer.testing.errors import NotSupported, ServerError, WaitTimeout
from zkconsumer.testing.kafka_releases import FORMAT_VERSIONS, Release
from zkconsumer.testing.kafka_requests import EARLIEST, END, BrokerError
from zkconsumer.testing.waiting import eventually

if TYPE_CHECKING:
    from kazoo.client import KazooClient

CHANGE_TIMEOUT_S = 30.0
NOTICE_TIMEOUT_S = 5.0
# Brokers look for old segments every second (see kafka_releases), but not in the first 30 seconds of their life.
RETENTION_TIMEOUT_S = 45.0
# How old records are when they are deleted by age: those produced next have as long until the setting is back.
RETENTION_MS = 2000


_LEGAL_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class TopicError(ServerError):
    """A topic that cannot be made, changed or found as asked."""


class RunningBroker(NamedTuple):
    """A broker that can be asked."""

    id: int
    address: str  # its own, not a link's
    log_tail: Callable[[], str]


class Topics:
    """The topics of one cluster. `client`'s root is the cluster's chroot."""

    def __init__(self, client: KazooClient, release: Release, running: Callable[[], Sequence[RunningBroker]]) -> None:
        self._client = client
        self._release = release
        self._running = running

    def create(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int = 1,
        assignment: Mapping[int, Sequence[int]] | None = None,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """(0.8: createTopic) `assignment` gives each partition's brokers, preferred leader first."""
        if not _LEGAL_NAME.fullmatch(name) or name in (".", ".."):
            raise TopicError(f"topic {name!r}: a name has 1 to 249 letters, digits, dots, underscores and hyphens")
        replicas = assignment or self._spread(name, partitions, replication_factor)
        self._check_brokers(name, replicas)
        if self._client.exists(f"/brokers/topics/{name}"):
            raise TopicError(f"topic {name!r} exists already: delete it first, or take another name")
        self._write(f"/config/topics/{name}", {"version": 1, "config": dict(config or {})})
        self._write(f"/brokers/topics/{name}", _assignment(replicas))
        self._await_leaders(name, len(replicas))

    def add_partitions(self, name: str, total: int) -> None:
        """(0.8: addPartitions) Grow to `total`; new partitions have as many replicas as the first."""
        topic = self._topic(name)
        present = {int(number): brokers for number, brokers in topic["partitions"].items()}
        if total <= len(present):
            raise TopicError(f"topic {name!r} has {len(present)} partitions: it cannot be given {total}, only more")
        spread = self._spread(name, total, len(present[0]))
        wanted = {number: present.get(number, brokers) for number, brokers in spread.items()}
        # What newer controllers keep beside the partitions (the topic's id) has to stay.
        self._write(f"/brokers/topics/{name}", {**topic, **_assignment(wanted), "version": topic["version"]})
        self._await_leaders(name, total)

    def delete(self, name: str) -> None:
        """(0.8: deleteTopic) Needs all brokers that hold it to run."""
        self._topic(name)
        self._write(f"/admin/delete_topics/{name}", "")
        eventually(
            lambda: (
                not self._client.exists(f"/brokers/topics/{name}")
                and all(name not in kafka_requests.metadata(broker.address).leaders for broker in self._running())
            ),
            f"topic {name!r} being deleted (are all of its brokers up, and delete.topic.enable=true?)",
            CHANGE_TIMEOUT_S,
        )

    def names(self) -> list[str]:
        """All, those that brokers made for themselves included, sorted."""
        return sorted(self._children("/brokers/topics"))

    def partitions(self, name: str) -> list[int]:
        return sorted(int(number) for number in self._topic(name)["partitions"])

    def replicas_of(self, name: str, partition: int) -> list[int]:
        """Brokers that hold a partition, the preferred leader first."""
        replicas = self._topic(name)["partitions"].get(str(partition))
        if replicas is None:
            raise TopicError(f"topic {name!r} has no partition {partition}")
        return [int(broker) for broker in replicas]

    def leader_of(self, name: str, partition: int) -> int:
        """The broker that leads a partition as ZooKeeper has it; -1 if none does."""
        self.replicas_of(name, partition)
        state = self._read(f"/brokers/topics/{name}/partitions/{partition}/state")
        return -1 if state is None else int(state["leader"])

    def in_sync_replicas_of(self, name: str, partition: int) -> list[int]:
        self.replicas_of(name, partition)
        state = self._read(f"/brokers/topics/{name}/partitions/{partition}/state")
        return [] if state is None else [int(broker) for broker in state["isr"]]

    def move_leader(self, name: str, partition: int, *, to: int) -> None:
        """Let a running broker lead: make it the first replica (in the old leader's place if it was none), elect it.

        (0.8: ReassignPartitionsCommand, then PreferredReplicaLeaderElectionCommand.)
        """
        before = self.replicas_of(name, partition)
        self._check_brokers(name, {partition: [to]})
        others = [broker for broker in before if broker != to]
        if to not in before:
            leader = self.leader_of(name, partition)
            others.remove(leader if leader in others else others[0])
        one = {"topic": name, "partition": partition}
        if before != [to, *others]:
            self._have_controller_do("reassign_partitions", {**one, "replicas": [to, *others]})
        if self.leader_of(name, partition) != to:
            self._have_controller_do("preferred_replica_election", one)
        eventually(
            lambda: self.leader_of(name, partition) == to and self._all_know_leaders(name, partition),
            lambda: f"{name}-{partition} led by {to}, not {self.leader_of(name, partition)} (is it up and in sync?)",
            CHANGE_TIMEOUT_S,
        )

    def await_leader(self, name: str, partition: int, *, other_than: int | None = None) -> int:
        """Wait until a running broker leads and all agree (for example after another was killed); which one."""

        def leader() -> list[int]:
            found = self.leader_of(name, partition)
            agreed = found not in (-1, other_than) and self._all_know_leaders(name, partition)
            return [found] if agreed else []

        return eventually(leader, f"a leader of {name}-{partition} that answers", CHANGE_TIMEOUT_S)[0]

    def config(self, name: str) -> dict[str, str]:
        """What the topic overrides."""
        self._topic(name)
        found = self._read(f"/config/topics/{name}")
        return {} if found is None else dict(found["config"])

    def alter_config(self, name: str, changes: Mapping[str, str | None]) -> None:
        """(0.8: changeTopicConfig) Override these, or with None: go back to the broker's default.

        Brokers do not say when they act on it but in their logs, so that is where we look. Where there is no log (an
        external broker), it may be a moment later.
        """
        merged = {**self.config(name), **changes}
        config = {key: value for key, value in merged.items() if value is not None}
        earlier = {broker.id: _notices(broker.log_tail(), name) for broker in self._running()}
        self._write(f"/config/topics/{name}", {"version": 1, "config": config})
        if self._release.is_0_8:
            notice: Any = name
        else:
            notice = {"version": 2, "entity_path": f"topics/{name}"}
        self._client.create("/config/changes/config_change_", _json(notice), sequence=True, makepath=True)
        logging = [broker for broker in self._running() if broker.log_tail()]
        with suppress(WaitTimeout):
            eventually(
                lambda: all(_notices(broker.log_tail(), name) - earlier.get(broker.id, set()) for broker in logging),
                timeout_s=NOTICE_TIMEOUT_S,
            )

    def message_format(self, name: str) -> int:
        """In which format the topic is kept now."""
        return self._release.format_of(self.config(name))

    def keep_in_format(self, name: str, message_format: int) -> None:
        """Store what is produced from now on in this format; what is there stays as it is."""
        self._release.check_format(message_format)
        if self.message_format(name) != message_format:
            self.alter_config(name, {"message.format.version": FORMAT_VERSIONS.get(message_format)})

    def end_offsets(self, name: str) -> dict[int, int]:
        """For each partition the offset that the next record will have."""
        return {partition: self._offset(name, partition, END) for partition in self.partitions(name)}

    def earliest_offsets(self, name: str) -> dict[int, int]:
        """For each partition the offset of the first record that is still there."""
        return {partition: self._offset(name, partition, EARLIEST) for partition in self.partitions(name)}

    def delete_records(self, name: str, *, before: Mapping[int, int] | None = None) -> None:
        """Let partitions begin at these offsets; None: all partitions at their ends.

        0.8.2.2 has no request for that. There all is deleted by age, as a broker does it for itself, which takes some
        seconds, and half a minute on a broker just started.
        """
        if self._release.has_delete_records:
            self._delete_by_request(name, self.end_offsets(name) if before is None else before)
        elif before is None:
            self._delete_by_age(name)
        else:
            raise NotSupported(
                f"Kafka {self._release.version} cannot delete records up to an offset (brokers can since 0.11): "
                "leave out before= to delete all"
            )

    def _delete_by_request(self, name: str, before: Mapping[int, int]) -> None:
        for partition, offset in before.items():
            kafka_requests.delete_records(self._leader_address(name, partition), name, {partition: offset})

    def _delete_by_age(self, name: str) -> None:
        ends = self.end_offsets(name)
        retention_ms = self.config(name).get("retention.ms")
        self.alter_config(name, {"retention.ms": str(RETENTION_MS)})
        try:
            eventually(
                lambda: self.earliest_offsets(name) == ends,
                f"all records of {name!r} being deleted (produce nothing meanwhile)",
                RETENTION_TIMEOUT_S,
            )
        finally:
            self.alter_config(name, {"retention.ms": retention_ms})

    def _offset(self, name: str, partition: int, at: int) -> int:
        return kafka_requests.offset_at(self._leader_address(name, partition), name, partition, at)

    def _leader_address(self, name: str, partition: int) -> str:
        leader = self.leader_of(name, partition)
        addresses = {broker.id: broker.address for broker in self._running()}
        if leader not in addresses:
            raise TopicError(f"{name}-{partition}: its leader is {leader}, and that broker does not run here")
        return addresses[leader]

    def _spread(self, name: str, partitions: int, replication_factor: int) -> dict[int, list[int]]:
        """Partition 0 to the first broker, and so on: unlike the tools, which start anywhere, a test wants to know."""
        brokers = sorted(int(broker) for broker in self._children("/brokers/ids"))
        if partitions < 1 or replication_factor < 1:
            raise TopicError(f"topic {name!r}: needs at least one partition and one replica")
        if replication_factor > len(brokers):
            raise TopicError(
                f"topic {name!r}: replication factor {replication_factor}, but only {len(brokers)} brokers run"
            )
        return {
            partition: [brokers[(partition + replica) % len(brokers)] for replica in range(replication_factor)]
            for partition in range(partitions)
        }

    def _check_brokers(self, name: str, replicas: Mapping[int, Sequence[int]]) -> None:
        known = {int(broker) for broker in self._children("/brokers/ids")}
        for partition, brokers in replicas.items():
            missing = set(brokers) - known
            if missing or not brokers:
                raise TopicError(f"{name}-{partition}: no running broker {sorted(missing)}; there are {sorted(known)}")

    def _await_leaders(self, name: str, partitions: int) -> None:
        eventually(
            lambda: len(self._topic(name)["partitions"]) == partitions and self._all_know_leaders(name),
            f"leaders for the {partitions} partitions of topic {name!r}",
            CHANGE_TIMEOUT_S,
        )

    def _all_know_leaders(self, name: str, partition: int | None = None) -> bool:
        """Whether every running broker names the leaders ZooKeeper has, and these know that they lead."""
        wanted = self.partitions(name) if partition is None else [partition]
        leaders = {number: self.leader_of(name, number) for number in wanted}
        if -1 in leaders.values():
            return False
        try:
            for broker in self._running():
                believed = kafka_requests.metadata(broker.address).leaders.get(name, {})
                if any(believed.get(number) != leader for number, leader in leaders.items()):
                    return False
            for number in wanted:
                self._offset(name, number, END)
        except (BrokerError, TopicError):
            return False
        return True

    def _have_controller_do(self, task: str, partition: Mapping[str, Any]) -> None:
        """Leave a task under /admin and wait until the controller has taken it away. One at a time."""
        path = f"/admin/{task}"
        for what in (f"an earlier {task} to be finished", f"{task} for {dict(partition)}"):
            if what.startswith(task):
                self._write(path, {"version": 1, "partitions": [partition]})
            eventually(lambda: not self._client.exists(path), what, CHANGE_TIMEOUT_S)

    def _topic(self, name: str) -> dict[str, Any]:
        topic = self._read(f"/brokers/topics/{name}")
        if topic is None:
            raise TopicError(f"there is no topic {name!r}: create it first")
        return topic

    def _children(self, path: str) -> list[str]:
        from kazoo.exceptions import NoNodeError

        try:
            return list(self._client.get_children(path))
        except NoNodeError:
            return []

    def _read(self, path: str) -> dict[str, Any] | None:
        from kazoo.exceptions import NoNodeError

        try:
            found: dict[str, Any] = json.loads(self._client.get(path)[0])
        except NoNodeError:
            return None
        return found

    def _write(self, path: str, value: Any) -> None:
        """Update, or create with parents."""
        from kazoo.exceptions import NoNodeError

        data = _json(value) if value != "" else b""
        try:
            self._client.set(path, data)
        except NoNodeError:
            self._client.create(path, data, makepath=True)


def _assignment(replicas: Mapping[int, Sequence[int]]) -> dict[str, Any]:
    return {"version": 1, "partitions": {str(partition): list(brokers) for partition, brokers in replicas.items()}}


def _json(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":")).encode()


def _notices(log: str, name: str) -> set[str]:
    """Lines in which a broker says that it has read the topic's configuration."""
    return {line for line in log.splitlines() if "config" in line and name in line}
