"""A strategy of the user's own for `zkconsumer plan`: found by `module:callable`, and its answers checked.

def assign(partitions, members):      # {"orders": 12}, {"c1": Member(topics={"orders"}, owned=…, generation=…)}
    return {name: [("orders", 0)] …}  # member -> (topic, partition) pairs
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from typing import Any

from fetcher.structs import TopicAndPartition
from study.assignors import Assignment, Assignor, Member
from zkconsumer.errors import IllegalArgumentException


def own_strategy(name: str) -> Assignor:
    """The callable of this name; modules are also looked for in the current directory. One line says what is wrong."""
    module_name, _, attribute = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found: Any = importlib.import_module(module_name)
        for part in attribute.split("."):
            found = getattr(found, part)
    except Exception as error:  # a user's module may raise anything while it is imported
        raise IllegalArgumentException(f"--strategy {name}: cannot be loaded: {_of(error)}") from error
    if not callable(found):
        raise IllegalArgumentException(f"--strategy {name}: is no function of (partitions, members)")

    def assign(partitions: Mapping[str, int], members: Mapping[str, Member]) -> Assignment:
        try:
            answer = {
                member: [TopicAndPartition(*one) for one in mine] for member, mine in found(partitions, members).items()
            }
        except Exception as error:
            raise IllegalArgumentException(f"it failed: {_of(error)}") from error
        for member, mine in answer.items():
            if member not in members:
                raise IllegalArgumentException(f"it gave partitions to {member}, who is no member")
            for topic, number in mine:
                if not 0 <= number < partitions.get(topic, 0):
                    raise IllegalArgumentException(
                        f"it gave {member} partition {number} of {topic}, which is not there"
                    )
        return {member: answer.get(member, []) for member in members}

    return assign


def _of(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
