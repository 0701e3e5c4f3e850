"""Members of ours, joining and leaving a group all at once: `python -m tests.bench.settling key=value …`.

A command a line, each answered with a line:

    connect GROUP FIRST END    make members of these numbers, named m00, m01, …, and let them connect
    join TOPIC STREAMS         let these create so many streams each, all at once; not waited for
    leave                      shut all down
"""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable

from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector


def main() -> None:
    logging.basicConfig(level=logging.ERROR)
    settings = dict(argument.split("=", 1) for argument in sys.argv[1:])
    members: list[ZookeeperConsumerConnector] = []
    joined = 0
    for line in sys.stdin:
        command, *words = line.split()
        if command == "connect":
            members += [_connected(settings, words[0], number) for number in range(int(words[1]), int(words[2]))]
        elif command == "join":
            _in_parallel([_joining(member, words[0], int(words[1])) for member in members[joined:]], wait=False)
            joined = len(members)
        else:
            _in_parallel([member.shutdown for member in members], wait=True)
            members, joined = [], 0
        print("done", flush=True)


def _connected(settings: dict[str, str], group: str, number: int) -> ZookeeperConsumerConnector:
    own = {"group.id": group, "consumer.id": f"m{number:02}"}
    member = ZookeeperConsumerConnector(ConsumerConfig.from_properties(settings | own))
    member.start()
    return member


def _joining(member: ZookeeperConsumerConnector, topic: str, streams: int) -> Callable[[], object]:
    return lambda: member.create_message_streams({topic: streams})


def _in_parallel(steps: list[Callable[[], object]], *, wait: bool) -> None:
    threads = [threading.Thread(target=step, daemon=True) for step in steps]
    for thread in threads:
        thread.start()
    for thread in threads if wait else ():
        thread.join()


if __name__ == "__main__":
    main()
