"""The container engine: where it is, the networks we make in it, and how all we made goes away again.

Whatever is made in an engine carries OWNER_LABEL with the name of its ContainerNetwork. A guard process (see _guard.py)
knows that name and has everything with it removed if this process dies without closing its servers.
"""

from __future__ import annotations

import json
import os
import secrets
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

from zkconsumer.testing.errors import EngineNotFound, ServerError
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.waiting import scaled

try:
    import docker
except ImportError as error:
    raise EngineNotFound(
        "the container back end needs the docker package: pip install 'zkconsumer[testing]'"
    ) from error

from docker.context import ContextAPI
from docker.errors import APIError, DockerException, NotFound
from requests.exceptions import RequestException

# With the errors: this module is the one place where a missing docker package is told in a helpful way.
__all__ = [
    "OWNER_LABEL",
    "APIError",
    "ContainerNetwork",
    "NotFound",
    "RequestException",
    "engine_errors",
    "find_engine",
    "remove_all",
    "shared_network",
]

OWNER_LABEL = "org.zkconsumer.owner"
REQUEST_TIMEOUT_S = 120.0
LONGEST_REMOVAL_S = 60.0
_PAUSE_S = 0.5
_REMOVE_COMMAND = "import json, sys; sys.path[:] = json.loads(sys.argv.pop(1)); " + (
    "from zkconsumer.testing.containers import main; sys.exit(main())"
)


def find_engine() -> docker.DockerClient:
    """A client of DOCKER_HOST's engine, else of the docker client's context; EngineNotFound if it does not answer."""
    address = os.environ.get("DOCKER_HOST") or _address_of_context()
    if not _is_on_this_machine(address):
        raise EngineNotFound(
            f"the container engine {address} is on another machine, and servers are published on its loopback only: "
            "let DOCKER_HOST name an engine of this machine"
        )
    try:
        settings = {**os.environ, "DOCKER_HOST": address}
        client = docker.from_env(timeout=int(scaled(REQUEST_TIMEOUT_S)), environment=settings)
        client.ping()
    except (DockerException, RequestException, OSError) as error:
        raise EngineNotFound(
            f"no container engine answers at {address} ({_reason(error)}): "
            "start Docker, or let DOCKER_HOST name another engine, for example unix:///run/user/1000/docker.sock"
        ) from error
    return client


def remove_all(client: docker.DockerClient, owner: str | None = None) -> None:
    """Remove every container and network made by this owner, or by anybody in this package.

    Looks again until nothing has come up: the engine may still be busy with the last request of an owner killed.
    """
    label = OWNER_LABEL if owner is None else f"{OWNER_LABEL}={owner}"
    clean_looks = 0
    for _ in range(int(scaled(LONGEST_REMOVAL_S) / _PAUSE_S)):
        try:
            clean_looks = 0 if _remove_what_is_there(client, label) else clean_looks + 1
        except APIError:
            clean_looks = 0  # in use, or being removed by somebody else
        if clean_looks == 2:
            return
        threading.Event().wait(_PAUSE_S)
    raise ServerError(f"the container engine did not remove everything labelled {label} in time")


@contextmanager
def engine_errors(what: str) -> Iterator[None]:
    """Turns whatever the engine or the way to it complains of into a ServerError of one line."""
    try:
        yield
    except (DockerException, RequestException) as error:
        raise ServerError(f"{what}: the container engine failed: {_reason(error)}") from error


class ContainerNetwork:
    """A bridge network whose containers know each other by name, and the guard over all of them.

    It exists in the engine while somebody has joined it: the first join makes it, the last leave removes it.
    """

    def __init__(self) -> None:
        self.name = ""
        self._client: docker.DockerClient | None = None
        self._guard: GuardedProcess | None = None
        self._members = 0
        self._lock = threading.Lock()

    @property
    def client(self) -> docker.DockerClient:
        """Valid between join() and leave()."""
        assert self._client is not None, "join() first"
        return self._client

    @property
    def scratch(self) -> Path:
        """A directory that goes away with the network. Valid between join() and leave()."""
        assert self._guard is not None, "join() first"
        return self._guard.directory

    @property
    def labels(self) -> dict[str, str]:
        """What everything in the network has to be labelled with."""
        return {OWNER_LABEL: self.name}

    def join(self) -> None:
        with self._lock:
            if self._members == 0:
                self._open()
            self._members += 1

    def leave(self) -> None:
        with self._lock:
            self._members -= 1
            if self._members == 0:
                self._close()

    def _open(self) -> None:
        client = find_engine()
        self.name = f"zkconsumer-{os.getpid()}-{secrets.token_hex(4)}"
        self._client, self._guard = client, GuardedProcess("network")
        try:
            self._guard.open()
            # Before anything is made: a guard told later could miss it.
            self._guard.at_death(_removal_of(self.name))
            with engine_errors(f"network {self.name}"):
                client.networks.create(self.name, driver="bridge", labels=self.labels)
        except BaseException:
            self._close()
            raise

    def _close(self) -> None:
        client, guard = self._client, self._guard
        self._client = self._guard = None
        assert client is not None and guard is not None
        try:
            with engine_errors(f"network {self.name}"):
                _remove_what_is_there(client, f"{OWNER_LABEL}={self.name}")
        finally:
            client.close()
            guard.close()


shared_network = ContainerNetwork()
"""Where a container goes that is given no other: servers of one process reach each other."""


def _removal_of(owner: str) -> list[str]:
    """The command for the guard. It finds this package where this process did."""
    path = json.dumps([os.path.abspath(entry) for entry in sys.path])
    return [sys.executable, "-c", _REMOVE_COMMAND, path, "remove", owner]


def _remove_what_is_there(client: docker.DockerClient, label: str) -> bool:
    """Whether there was anything."""
    containers = client.containers.list(all=True, filters={"label": label}, ignore_removed=True)
    for container in containers:
        with suppress(NotFound):
            container.remove(force=True, v=True)
    networks = client.networks.list(filters={"label": label})
    for network in networks:
        with suppress(NotFound):
            network.remove()
    return bool(containers or networks)


def _address_of_context() -> str:
    """Where the docker command would look: the SDK by itself knows no contexts."""
    try:
        context = ContextAPI.get_current_context()
    except (DockerException, OSError, ValueError):
        context = None  # a broken configuration file is not ours to report
    return str(context.Host) if context is not None and context.Host else "unix:///var/run/docker.sock"


def _is_on_this_machine(address: str) -> bool:
    parts = urlsplit(address)
    return parts.scheme in ("unix", "http+unix", "npipe") or parts.hostname in ("localhost", "127.0.0.1", "::1")


def _reason(error: BaseException) -> str:
    """The innermost cause the operating system gave, or the engine's own words, on one line."""
    if isinstance(error, APIError) and error.explanation:
        return " ".join(str(error.explanation).split())
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split())
