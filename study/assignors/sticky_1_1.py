"""The sticky assignor of 0.11 to 2.3 (Java: StickyAssignor), as in 1.1.1.

Even counts first, then as few moves as possible. Members tell what they had as user data, without a generation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, pairwise

from study.assignors.balancing import Balancer
from study.assignors.java_order import grouped_by_topic, in_map_of, text_map_order
from study.assignors.model import Assignment, Member, in_java_order
from study.assignors.numbering import Held, Question, Roster, by_name


def assign_sticky_1_1(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
    """Keep what members had, give the rest to those with fewest, then even out."""
    return by_name(share_sticky_1_1, partitions, members)


def share_sticky_1_1(question: Question) -> Held:
    """assign_sticky_1_1() in numbers."""
    roster, topic_of = question.roster, question.roster.numbering.topic_of
    former = {
        name: grouped_by_topic(dict.fromkeys(question.owned.get(name, ())), topic_of, text_map_order)
        for name in roster.names_in_map_order
    }
    existing = {name: _existing(mine, roster) for name, mine in former.items()}
    alike = len({topics.intersection(roster.candidates) for topics in roster.subscriptions}) == 1
    order = _by_turns(existing, roster) if question.owned and alike else roster.rarest_first
    owned = {
        name: mine[:] if alike else [number for number in mine if topic_of[number] in roster.topics_of[name]]
        for name, mine in existing.items()
    }
    return Balancer(owned, roster).balance(roster.unclaimed(owned, order), order, new_ones_first=False)


def _existing(numbers: list[int], roster: Roster) -> list[int]:
    """Without partitions that are gone, and topics that nobody subscribes to any more."""
    topic_of, is_gone = roster.numbering.topic_of, roster.numbering.is_gone
    return [number for number in numbers if topic_of[number] in roster.candidates and not is_gone(number)]


def _by_turns(left: Mapping[str, Sequence[int]], roster: Roster) -> list[int]:
    """The member with most partitions left (ties: the greatest id) gives its first, again and again; then the rest.

    So all that still have as many as the fullest give one each, from the greatest id down, then all with one less.
    """
    with_count: dict[int, list[str]] = {}
    for name, mine in left.items():
        with_count.setdefault(len(mine), []).append(name)
    order: list[int] = []
    names: list[str] = []
    for count, following in pairwise([*sorted(with_count, reverse=True), 0]):
        names = in_java_order([*names, *with_count[count]])[::-1]
        rows = (left[name][len(left[name]) - count : len(left[name]) - following] for name in names)
        order += chain.from_iterable(zip(*rows, strict=True))
    order = list(dict.fromkeys(order))
    if len(order) == len(roster.everything):
        return order
    in_order_of_topics = roster.numbering.numbers_of(text_map_order(roster.candidates))
    rest = roster.unclaimed({"": order}, in_order_of_topics)
    return order + in_map_of(len(in_order_of_topics), rest, roster.numbering.spread_hash)
