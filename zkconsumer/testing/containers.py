"""Servers in containers, made from images that this machine builds for itself (see images.py).

    python -m zkconsumer.testing.containers images [NAME ...]   make the images that docker-compose.yml uses
    python -m zkconsumer.testing.containers remove [OWNER]      remove containers and networks left behind

A server listens inside its container on the number that is published on 127.0.0.1, because a broker registers one
address for clients out here and for itself. Other containers reach it by name in a bridge network.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tarfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from io import BytesIO
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, TYPE_CHECKING

from zkconsumer.testing.backends import Layout
from zkconsumer.testing.engine import (
    APIError,
    ContainerNetwork,
    NotFound,
    RequestException,
    engine_errors,
    find_engine,
    remove_all,
    shared_network,
)
from zkconsumer.testing.errors import NotSupported, PortTaken, ServerError, ServerStartError
from zkconsumer.testing.images import ALL_IMAGES, build_images, tag_of
from zkconsumer.testing.jars import cache_directory, exclusive
from zkconsumer.testing.java_compiler import compile_java
from zkconsumer.testing.ports import HOST, ReservedPort
from zkconsumer.testing.process import LOG_TAIL_LINES
from zkconsumer.testing.programs import Program, program
from zkconsumer.testing.waiting import scaled

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

DATA_DIRECTORY = "/data"
SETTINGS_DIRECTORY = "/conf"
STOP_TIMEOUT_S = 20.0
COPY_ATTEMPTS = 5
CONFLICT = 409
_FIRST_EXTRA_PORT = 2888
_known_images: dict[str, str] = {}
"""Id by name of the images this process has found to be up to date: hashing their jars again would take long."""


class ContainerBackend:
    """A server in a container of its own (see backends.Backend for the states). The container is made by open(),
    keeps its data while it is stopped, and cannot outlive this process (see engine.py).

    Containers of one `network` reach each other by peer_address; without one given, all of this process do.
    """

    def __init__(
        self,
        program: Program,
        *,
        port: int = 0,
        extra_ports: int = 0,
        full_speed: bool = False,
        network: ContainerNetwork | None = None,
    ) -> None:
        self.name = f"{program.kind}-{program.version.replace('.', '-')}-{secrets.token_hex(4)}"
        self._program = program
        self._wanted_port = port
        self._number_of_extra_ports = extra_ports
        self._java_options = program.java_options(full_speed=full_speed)
        self._network = network or shared_network
        self._joined = False
        self._port: ReservedPort | None = None
        self._container: Container | None = None

    @property
    def address(self) -> str:
        return f"{HOST}:{self._number()}"

    @property
    def peer_address(self) -> str:
        return f"{self.name}:{self._number()}"

    @property
    def running(self) -> bool:
        return self._status() in ("running", "paused")

    def open(self) -> Layout:
        if self._container is None:
            try:
                self._port = ReservedPort(self._wanted_port)
                self._network.join()
                self._joined = True
                image = ensure_image(self._network.client, self._program)
                with engine_errors(self.name):
                    self._container = self._create(image, self._port.number)
            except BaseException:
                self.close()
                raise
        number = self._number()
        # Free in a container of its own, all but the one just given; nobody outside needs them.
        others = [other for other in range(_FIRST_EXTRA_PORT, 65536) if other != number]
        return Layout(DATA_DIRECTORY, "0.0.0.0", number, tuple(others[: self._number_of_extra_ports]))

    def start(self, settings: Mapping[str, str]) -> None:
        if self.running:
            raise ServerStartError(f"{self.name}: cannot start: already running")
        text = "".join(f"{key}={value}\n" for key, value in settings.items())
        with engine_errors(self.name):
            archive = _archive_of(self._program.settings_file, text)
            self._existing().put_archive(SETTINGS_DIRECTORY, archive)
            self._start_on_its_port()

    def stop(self) -> None:
        self.resume()
        with engine_errors(self.name):
            if self.running:
                self._existing().stop(timeout=int(scaled(STOP_TIMEOUT_S)))

    def kill(self) -> None:
        with engine_errors(self.name):
            if self.running:
                self._kill_and_wait(self._existing())

    def pause(self) -> None:
        if not self.running:
            raise ServerError(f"{self.name}: cannot be paused, it does not run")
        with engine_errors(self.name):
            if self._status() == "running":
                self._existing().pause()

    def resume(self) -> None:
        with engine_errors(self.name):
            if self._status() == "paused":
                self._existing().unpause()

    def log_tail(self) -> str:
        if self._container is None:
            return ""
        with engine_errors(self.name):
            return self._container.logs(tail=LOG_TAIL_LINES).decode(errors="replace")

    @contextmanager
    def data_files(self) -> Iterator[Path]:
        container = self._existing()
        with TemporaryDirectory(dir=self._network.scratch) as scratch:
            with engine_errors(self.name):
                _copy_out(container, DATA_DIRECTORY, Path(scratch))
            yield Path(scratch) / DATA_DIRECTORY.lstrip("/")

    def close(self) -> None:
        container, self._container = self._container, None
        port, self._port = self._port, None
        joined, self._joined = self._joined, False
        try:
            if container is not None:
                with engine_errors(self.name), suppress(NotFound):
                    container.remove(force=True, v=True)
        finally:
            if joined:
                self._network.leave()
            if port is not None:
                port.close()

    def _number(self) -> int:
        if self._port is None:
            raise ServerStartError(f"{self.name}: has no address before it is started")
        return self._port.number

    def _existing(self) -> Container:
        if self._container is None:
            raise ServerStartError(f"{self.name}: not started, or closed already")
        return self._container

    def _status(self) -> str:
        """As the engine tells it now; "" without a container."""
        if self._container is None:
            return ""
        with engine_errors(self.name):
            self._container.reload()
            return self._container.status

    def _create(self, image: str, number: int) -> Container:
        network = self._network
        return network.client.containers.create(
            image,
            name=self.name,
            hostname=self.name,
            labels=network.labels,
            network=network.name,
            ports={f"{number}/tcp": (HOST, number)},
            environment={"JDK_JAVA_OPTIONS": " ".join(self._java_options)},
        )

    def _kill_and_wait(self, container: Container) -> None:
        try:
            # A paused one too: the engine lets it go on only after the signal, so it does nothing more.
            container.kill()
        except APIError as error:
            if error.status_code != CONFLICT:  # that one: it has ended by itself meanwhile
                raise
        container.wait(timeout=scaled(STOP_TIMEOUT_S))

    def _start_on_its_port(self) -> None:
        container, port = self._existing(), self._port
        assert port is not None
        port.hand_over()
        try:
            container.start()
        except APIError as error:
            if "address already in use" not in str(error) and "port is already allocated" not in str(error):
                raise
            self._start_without_reservation(container, port)

    def _start_without_reservation(self, container: Container, port: ReservedPort) -> None:
        """Some engines cannot bind a port beside us: let go of it, as on systems where nobody can."""
        port.close()
        try:
            container.start()
        except APIError as error:
            raise PortTaken(f"{self.name}: port {port.number} on {HOST} is in use by another program") from error


def ensure_image(client: DockerClient, program: Program) -> str:
    """The tag of the program's image, made now if the engine lacks it or has one of other contents."""
    name, tag = program.image_name, tag_of(program.image_name)
    found = _image_id(client, tag)
    if found is None or _known_images.get(name) != found:
        try:
            make_images(client, [name], progress=_show_unless_up_to_date)
        except NotSupported:
            if found is None:  # else somebody brought it here, for a machine that cannot make it
                raise
        _known_images[name] = str(_image_id(client, tag))
    return tag


def make_images(client: DockerClient, names: Sequence[str], *, progress: Callable[[str], None]) -> None:
    """Make those of the images that the engine does not have, by one process of this user at a time."""
    cache = cache_directory()
    cache.mkdir(parents=True, exist_ok=True)
    with exclusive(cache / "images.building"), engine_errors("images"):
        build_images(
            client,
            which=names,
            class_path_of=lambda name: program(*name.split(":", 1)).jars(),
            compile_java=compile_java,
            progress=progress,
        )


def _image_id(client: DockerClient, tag: str) -> str | None:
    with engine_errors(f"image {tag}"):
        try:
            return client.images.get(tag).id
        except NotFound:
            return None


def _show_unless_up_to_date(text: str) -> None:
    if not text.endswith("up to date") and sys.__stderr__ is not None:  # pytest captures sys.stderr
        print(f"container images: {text}", file=sys.__stderr__, flush=True)


def _archive_of(name: str, text: str) -> bytes:
    """A tar of one file that everybody may read."""
    data, entry = text.encode(), tarfile.TarInfo(name)
    entry.size, entry.mode = len(data), 0o644
    buffer = BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as tar:
        tar.addfile(entry, BytesIO(data))
    return buffer.getvalue()


def _copy_out(container: Container, source: str, target: Path) -> None:
    """Copy a directory of the container. A file that grows meanwhile breaks the archive: then once more."""
    for attempt in range(1, COPY_ATTEMPTS + 1):
        try:
            with TemporaryFile(dir=target) as archive:
                chunks, _ = container.get_archive(source)
                for chunk in chunks:
                    archive.write(chunk)
                archive.seek(0)
                return _extract(archive, target)
        except (tarfile.TarError, RequestException):
            if attempt == COPY_ATTEMPTS:
                raise


def _extract(archive: IO[bytes], target: Path) -> None:
    """Directories and files only, written by name: no links, owners or modes are of interest here."""
    with tarfile.open(fileobj=archive) as tar:
        for member in tar:
            path = target / member.name
            if member.isdir():
                path.mkdir(exist_ok=True)
            elif (content := tar.extractfile(member)) is not None:
                with content, path.open("wb") as file:
                    shutil.copyfileobj(content, file)


def main() -> int:
    """`images` for make images, `remove` for the guard and for people."""
    parser = argparse.ArgumentParser(prog="python -m zkconsumer.testing.containers", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    images = commands.add_parser("images", help="make the servers' images, from this machine's Java")
    images.add_argument("names", nargs="*", metavar="NAME", help=f"default: {' '.join(ALL_IMAGES)}")
    remove = commands.add_parser("remove", help="remove containers and networks, also of tests that run now")
    remove.add_argument("owner", nargs="?", metavar="OWNER", help="only what has this owner label")
    arguments = parser.parse_args()
    try:
        client = find_engine()
        if arguments.command == "images":
            make_images(client, arguments.names or ALL_IMAGES, progress=print)
        else:
            remove_all(client, arguments.owner)
    except ServerError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
