"""What happened, in sentences, and what it means for somebody who moves a group. Pure: figures in, text out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter

from study.figures import Figures
from study.happenings import Happening

PLANNED = ("join", "leave", "add partitions", "add topic")
GROWTH = ("add partitions", "add topic")
CRASHES = ("kill", "pause", "expire session")
PAUSE, WAIT = attrgetter("longest_pause_ms"), attrgetter("longest_wait_ms")


def headline(rows: Sequence[Figures]) -> str:
    """The run in two or three sentences."""
    said = []
    losers = [one for one in rows if one.lost]
    said.append(f"{names(losers)} lost records." if losers else "No consumer lost a record.")
    again = [one for one in rows if one.duplicated]
    if again:
        said.append(f"{_who(again, rows)} delivered some again.")
    else:
        said.append("None delivered one twice.")
    zombies = [one for one in rows if one.delivered_by_non_owner]
    if zombies:
        said.append(f"{_who(zombies, rows)} delivered records of partitions that belonged to another member by then.")
    slowest = max(rows, key=lambda one: one.longest_pause_ms, default=None)
    if slowest is not None and slowest.longest_pause_ms:
        said.append(f"The longest silence of a partition that changed hands was {_by_consumer(rows, PAUSE)}.")
    elif any(one.longest_wait_ms for one in rows):
        said.append(
            "No partition was silent while it changed hands. The record that waited longest for its reader waited"
            f" {_by_consumer(rows, WAIT)}."
        )
    return " ".join(said)


def _stalled(rows: Sequence[Figures]) -> str:
    return (
        f"this machine, or ZooKeeper on it, stood still for {_span([one.longest_stall_ms for one in rows])}: what was"
        " found may come of that. Play it again when the machine has less to do."
    )


def happened(one: Figures) -> str:
    """One paragraph about a subject."""
    said = [f"{one.title}: {one.produced:,} records, {one.delivered:,} deliveries."]
    said.append("None was lost." if not one.lost else f"{one.lost:,} records were lost.")
    early = max(0, one.delivered + one.lost - one.produced - one.duplicated)
    if one.duplicated:
        more = f", {early:,} more came while the group formed" if early else ""
        said.append(f"{one.duplicated:,} deliveries were repetitions{more}.")
    else:
        more = f", but for {early:,} while the group formed" if early else ""
        said.append(f"Each was delivered once{more}.")
    if one.reordered:
        said.append(f"{one.reordered:,} came after a later record of their partition.")
    if one.delivered_by_non_owner:
        said.append(f"{one.delivered_by_non_owner:,} were delivered by a member that did not own the partition then.")
    if one.commits_going_back:
        said.append(f"{one.commits_going_back:,} commits went back behind an earlier one.")
    if one.rebalances:
        said.append(
            f"The group rebalanced {_times(one.rebalances)}, {duration(one.rebalance_ms)} in all;"
            f" partitions were stopped {_times(one.partitions_stopped)} to move {one.partitions_moved}."
        )
    else:
        said.append("The group did not rebalance.")
    if one.pauses:
        said.append(
            f"A partition that changed hands was silent for {duration(one.median_pause_ms)} (median),"
            f" {duration(one.longest_pause_ms)} at the longest."
        )
    if one.longest_stall_ms:
        said.append(f"Meanwhile {_stalled([one])}")
    if one.longest_wait_ms:
        said.append(f"The record that waited longest for its reader waited {duration(one.longest_wait_ms)}.")
    if one.protocol == "old":
        said.append(
            f"ZooKeeper did {one.zookeeper_writes:,} writes and took {one.zookeeper_packets:,} packets around the"
            f" rebalances, with up to {one.most_watches:,} watches set."
        )
    return " ".join(said)


def means(rows: Sequence[Figures]) -> list[str]:
    """What somebody who plans a migration should take from it: what these figures show, and why."""
    old, new = [one for one in rows if one.protocol == "old"], [one for one in rows if one.protocol == "new"]
    stalled = [one for one in rows if one.longest_stall_ms]
    said = [f"While {names(stalled)} ran, {_stalled(stalled)}"] if stalled else []
    said += _records(rows)
    if old and new:
        said += [*_pauses(old, new), *_stopped(old, new)]
    if new and any(each.kind in GROWTH for one in new for each in one.happened):
        said.append(
            "New consumers look for new partitions and topics every metadata.max.age.ms: here 1 s, by default 5"
            " minutes, in which nobody reads what is new. Old ones hear of them from ZooKeeper at once."
        )
    zombies = [one for one in rows if one.delivered_by_non_owner]
    if zombies:
        said.append(
            f"{_who(zombies, rows)} went on delivering after losing partitions: a member that stood still does not"
            " know it. Moving a group does not change that; only an application that bears repetitions does."
        )
    if old and new:
        packets_old, packets_new = (max(one.zookeeper_packets for one in side) for side in (old, new))
        said.append(
            f"Around rebalances ZooKeeper took {packets_old:,} packets for the old protocol, {packets_new:,} for the"
            " new (brokers' own and heartbeats included). What the old one adds, and the watches of every member on"
            " every other, goes away with a migration; the group coordinator on a broker takes its place."
        )
        said.append(
            "Offsets do not move by themselves: old groups keep them in ZooKeeper unless told otherwise, new ones in"
            " Kafka. Copy them while the group is stopped (`zkconsumer offsets migrate`), or the new group begins at"
            " auto.offset.reset, whose default skips everything that is there."
        )
    return said


def by_happening(rows: Sequence[Figures]) -> list[tuple[str, list[Happening | None]]]:
    """For each thing the scenario did: its words, and what each subject made of it."""
    texts = dict.fromkeys(each.text for one in rows for each in one.happened)
    found = [{each.text: each for each in one.happened} for one in rows]
    return [(text, [each.get(text) for each in found]) for text in texts]


def duration(milliseconds: int) -> str:
    """For people."""
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"


def names(rows: Sequence[Figures]) -> str:
    """One after the other."""
    titles = [one.title for one in rows]
    return " and ".join(filter(None, (", ".join(titles[:-1]), *titles[-1:])))


def _who(some: Sequence[Figures], rows: Sequence[Figures]) -> str:
    """As short as it can be said."""
    others = [one for one in rows if one not in some]
    if not others and len(rows) > 1:
        return "All consumers"
    return f"All but {names(others)}" if len(others) < len(some) - 1 else names(some)


def _records(rows: Sequence[Figures]) -> list[str]:
    if any(one.lost for one in rows):
        said = [
            f"Records were lost by {names([one for one in rows if one.lost])}: look at the evidence before all else."
        ]
    else:
        said = ["No consumer lost a record in this scenario."]
    again = [one for one in rows if one.duplicated]
    if again:
        counts = ", ".join(f"{one.duplicated:,}" for one in again)
        said.append(
            f"{_who(again, rows)} delivered records again ({counts}). What was delivered after the last commit comes"
            " again when its partition gets another reader, under both protocols; how much depends on how long ago"
            " that commit was. An application has to bear repetitions before a migration and after it."
        )
    return said


def _pauses(old: Sequence[Figures], new: Sequence[Figures]) -> list[str]:
    """Planned changes and crashes apart: they have different causes."""
    said = []
    planned = _of_kinds(old, new, lambda kind: kind in PLANNED)
    if planned:
        said.append(
            "When members come and go in order, or partitions are added, the longest silence of a partition that"
            f" changed hands was {planned[0]} under the old protocol and {planned[1]} under the new one. Under the old"
            " one members hear of it from ZooKeeper at once. Under the new one they hear of it with their next"
            " heartbeat (heartbeat.interval.ms), and all wait for the slowest of them."
        )
    crashes = _of_kinds(old, new, lambda kind: kind in CRASHES)
    if crashes:
        said.append(
            "When a member dies or stands still, the longest silence of a partition that changed hands was"
            f" {crashes[0]} under the old protocol and {crashes[1]} under the new one: both wait for a time-out, here"
            " the same for both. The defaults are not the same: zookeeper.session.timeout.ms is 6 s,"
            " session.timeout.ms 10 s and from Kafka 3.0 on 45 s. Set it when you move, or crashes will be felt for"
            " longer."
        )
    return said


def _of_kinds(old: Sequence[Figures], new: Sequence[Figures], wanted: Callable[[str], bool]) -> tuple[str, str] | None:
    """The longest pause of each subject after these, as a span each side; None if nothing was silent."""
    sides = [
        [
            max((each.longest_pause_ms for each in one.happened if wanted(each.kind)), default=0)
            for one in side
        ]
        for side in (old, new)
    ]  # fmt: skip
    return (_span(sides[0]), _span(sides[1])) if any(map(any, sides)) else None


def _stopped(old: Sequence[Figures], new: Sequence[Figures]) -> list[str]:
    stopped_old, stopped_new = ([one.partitions_stopped for one in side] for side in (old, new))
    if not any((*stopped_old, *stopped_new)):
        return []
    return [
        f"Partitions were stopped {_span(stopped_old, str)} times under the old protocol, {_span(stopped_new, str)}"
        " times under the new one. The old protocol stops all of a member's partitions at every change, and so does"
        " the new one unless its assignment is cooperative."
    ]


def _by_consumer(rows: Sequence[Figures], figure: Callable[[Figures], int]) -> str:
    span = _span([figure(one) for one in rows])
    return f"{span}, depending on the consumer" if " to " in span else span


def _span(values: Sequence[int], text: Callable[[int], str] = duration) -> str:
    least, most = text(min(values)), text(max(values))
    return least if least == most else f"{least} to {most}"


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"
