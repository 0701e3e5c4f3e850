"""What happened, in sentences, and what it means for somebody who moves a group. Pure: figures in, text out."""

from __future__ import annotations

from collections.abc import Sequence

from study.figures import Figures


def happened(one: Figures) -> str:
    """One paragraph about a subject."""
    said = [f"{one.title}: {one.produced:,} records were produced and {one.delivered:,} deliveries made."]
    said.append("None was lost." if not one.lost else f"{one.lost:,} records were lost.")
    if one.duplicated:
        said.append(f"{one.duplicated:,} deliveries were repetitions.")
    else:
        said.append("Each was delivered once.")
    if one.reordered:
        said.append(f"{one.reordered:,} came after a later record of their partition.")
    if one.delivered_by_non_owner:
        said.append(f"{one.delivered_by_non_owner:,} were delivered by a member that did not own the partition then.")
    if one.commits_going_back:
        said.append(f"{one.commits_going_back:,} commits went back behind an earlier one.")
    if one.rebalances:
        said.append(
            f"The group rebalanced {_times(one.rebalances)}, {one.rebalance_ms / 1000:.1f} s in all;"
            f" partitions were stopped {_times(one.partitions_stopped)} to move {one.partitions_moved}."
        )
    else:
        said.append("The group did not rebalance.")
    if one.pauses:
        said.append(
            f"A partition that changed hands was silent for {_seconds(one.median_pause_ms)} (median),"
            f" {_seconds(one.longest_pause_ms)} at the longest."
        )
    if one.protocol == "old":
        said.append(
            f"ZooKeeper did {one.zookeeper_writes:,} writes and took {one.zookeeper_packets:,} packets around the"
            f" rebalances, with up to {one.most_watches:,} watches set."
        )
    return " ".join(said)


def means(rows: Sequence[Figures]) -> list[str]:
    """What somebody who plans a migration should take from it; only what these figures show."""
    old, new = [one for one in rows if one.protocol == "old"], [one for one in rows if one.protocol == "new"]
    said: list[str] = []
    if any(one.lost for one in rows):
        names = ", ".join(one.title for one in rows if one.lost)
        said.append(f"Records were lost by {names}: look at the evidence below before anything else.")
    else:
        said.append("No subject lost a record in this scenario.")
    doubled = [one for one in rows if one.duplicated]
    if doubled:
        said.append(
            f"{_names(doubled)} delivered records again. What was not committed when a member went away comes again"
            " under both protocols: an application has to bear repetitions before and after a migration."
        )
    if old and new:
        said.append(_compare("longest pause", "longest_pause_ms", old, new))
        said.append(_compare("time in rebalances", "rebalance_ms", old, new))
        stopped_old, stopped_new = (max(one.partitions_stopped for one in side) for side in (old, new))
        said.append(
            f"Partitions were stopped up to {stopped_old} times under the old protocol and up to {stopped_new} times"
            " under the new one. The old protocol stops all of a member's partitions at every change, and so does the"
            " new one unless its assignment is cooperative."
        )
        packets_old, packets_new = (max(one.zookeeper_packets for one in side) for side in (old, new))
        said.append(
            f"Around rebalances ZooKeeper took {packets_old:,} packets for the old protocol, {packets_new:,} for"
            " the new:"
            " that load, and the watches of every member on every other, go away with a migration, and the group"
            " coordinator on a broker takes their place."
        )
    return said


def _compare(what: str, field: str, old: Sequence[Figures], new: Sequence[Figures]) -> str:
    def span(side: Sequence[Figures]) -> str:
        values = sorted(getattr(one, field) for one in side)
        return _seconds(values[0]) if values[0] == values[-1] else f"{_seconds(values[0])} to {_seconds(values[-1])}"

    return f"The {what} was {span(old)} with the old protocol, {span(new)} with the new one."


def _names(rows: Sequence[Figures]) -> str:
    return ", ".join(one.title for one in rows)


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _seconds(milliseconds: int) -> str:
    return f"{milliseconds} ms" if milliseconds < 1000 else f"{milliseconds / 1000:.1f} s"
