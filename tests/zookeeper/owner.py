"""A program that owns a server, for tests that kill it: prints the server's pid, directory and guard, then waits."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

from zkconsumer.testing.backends import ProcessBackend
from zkconsumer.testing.zookeeper import ZooKeeperServer


def main(how: str) -> None:
    server = ZooKeeperServer()
    if how == "interrupted":
        print("starting", flush=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts with &
        with server:
            signal.pause()
    server.start()
    backend = server._backend
    assert isinstance(backend, ProcessBackend)
    assert backend.pid is not None
    guard = int(Path(f"/proc/{backend.pid}/stat").read_text().rpartition(")")[2].split()[1])
    if how == "forking" and os.fork() == 0:
        signal.alarm(60)  # at the latest
        signal.pause()  # keeps open what the owner had open
    found = {"server": backend.pid, "guard": guard, "directory": str(backend.directory), "port": server.connect_string}
    print(json.dumps(found), flush=True)
    if how == "until told":
        sys.stdin.read()
        server.close()
    else:
        signal.pause()


if __name__ == "__main__":
    main(sys.argv[1])
