"""Who gets what in a group of new consumers: the assignors of kafka-clients as pure functions, and own ones."""

from __future__ import annotations

from study.assignors.dealing import assign_range, assign_round_robin
from study.assignors.model import Assignment, Assignor, Member
from study.assignors.own import assign_broadcast, random_assignor
from study.assignors.sticky_1_1 import assign_sticky_1_1
from study.assignors.sticky_3_9 import assign_cooperative_sticky, assign_sticky_3_9

__all__ = [
    "Assignment",
    "Assignor",
    "Member",
    "assign_broadcast",
    "assign_cooperative_sticky",
    "assign_range",
    "assign_round_robin",
    "assign_sticky_1_1",
    "assign_sticky_3_9",
    "random_assignor",
]
