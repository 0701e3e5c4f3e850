"""What a group has in ZooKeeper, read (and prepared) by hand: no code of ours under test is used."""

from __future__ import annotations

import json
import secrets
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError


def fresh(name: str) -> str:
    """A name nobody else has: servers are shared by all tests of a run."""
    return f"{name}-{secrets.token_hex(3)}"


class Group:
    """The znodes under /consumers/<name>; `client`'s root is the cluster's chroot."""

    def __init__(self, client: KazooClient, name: str) -> None:
        self.client = client
        self.name = name
        self.path = f"/consumers/{name}"

    def members(self) -> dict[str, dict[str, Any]]:
        """Registrations by consumer id."""
        return {name: json.loads(data) for name, data in self._children("ids").items()}

    def owners(self, topic: str) -> dict[int, str]:
        """Thread ids by partition."""
        return {int(name): data.decode() for name, data in self._children(f"owners/{topic}").items()}

    def offsets(self, topic: str) -> dict[int, str]:
        """Stored offsets by partition, as the text they are."""
        return {int(name): data.decode() for name, data in self._children(f"offsets/{topic}").items()}

    def put(self, path: str, data: str) -> None:
        """Write a node of the group, as somebody else might."""
        full_path = f"{self.path}/{path}"
        self.client.ensure_path(full_path)
        self.client.set(full_path, data.encode())

    def remove(self, path: str) -> None:
        self.client.delete(f"{self.path}/{path}")

    def _children(self, path: str) -> dict[str, bytes]:
        try:
            names = self.client.get_children(f"{self.path}/{path}")
        except NoNodeError:
            return {}
        found = {}
        for name in names:
            try:
                found[name] = self.client.get(f"{self.path}/{path}/{name}")[0]
            except NoNodeError:  # gone since it was listed
                continue
        return found
