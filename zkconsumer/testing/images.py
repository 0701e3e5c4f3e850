"""Container images of the servers, made on this machine without any registry.

An image is three layers on nothing at all: this machine's Java cut down by `jlink` with the shared libraries it needs,
its class-data archive, and the server's jars with ContainerMain as entry point. Its shell knows nothing but health
checks. All images of one build share the first two layers and reach the engine as one archive in the format of `docker
save`, so no builder is needed. What an image is made from is hashed into a label; an image with that label is not made
again.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

import docker
from docker.errors import APIError, DockerException

from zkconsumer.testing.errors import NotSupported, ServerError, UnknownVersion
from zkconsumer.testing.process import GuardedProcess
from zkconsumer.testing.programs import KAFKA_VERSIONS, LOG_FILES, ZOOKEEPER_VERSION

ALL_IMAGES = (f"zookeeper:{ZOOKEEPER_VERSION}", *(f"kafka:{version}" for version in KAFKA_VERSIONS))
REPOSITORY = "zkconsumer"
CONTENT_LABEL = "org.zkconsumer.content"
NAME_LABEL = "org.zkconsumer.image"

CompileJava = Callable[[Path, Sequence[Path], Path], None]

_MODULES = (
    "java.base", "java.desktop", "java.logging", "java.management", "java.naming", "java.security.jgss",
    "java.security.sasl", "java.xml", "jdk.management", "jdk.net", "jdk.security.auth", "jdk.unsupported",
)  # fmt: skip
# Of java.desktop only java.beans is wanted, by log4j 2: its native code would draw in fonts and X11.
_LEFT_OUT = "/java.desktop/lib/**"
# Opened while running, so ldd does not list them: name look-up, and what the jars' native codecs link against.
_COMPANIONS = (
    "libresolv.so.2", "libnss_files.so.2", "libnss_dns.so.2",
    "libpthread.so.0", "libdl.so.2", "librt.so.1", "libm.so.6",
)  # fmt: skip
_MAIN_SOURCE = Path(__file__).parent / "java_sources" / "ContainerMain.java"
# The time of every file: equal input makes an equal layer, and the class-data archive remembers that of lib/modules.
_MTIME, _CREATED = 1_577_836_800, "2020-01-01T00:00:00Z"
_USER = 1000
_JAVA_OPTIONS = "-Xmx256m -XX:+UseSerialGC -XX:+ExitOnOutOfMemoryError"
_TEXT_FILES = {
    "etc/passwd": f"root:x:0:0:root:/:\nserver:x:{_USER}:{_USER}:server:/tmp:\n",
    "etc/group": f"root:x:0:\nserver:x:{_USER}:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
}
# An engine gives the text of a health check to /bin/sh. Ours is a line that hands it to ContainerMain.
_SHELL = "#!/opt/java/bin/java @/opt/zkconsumer/shell.options\n"
_SHELL_OPTIONS = "-Xmx16m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData -cp /opt/zkconsumer ContainerMain\n"
_ENTRY_FILES = {
    "bin/sh": _SHELL,
    "opt/zkconsumer/shell.options": _SHELL_OPTIONS,
    **{f"opt/zkconsumer/{name}": text for name, text in LOG_FILES.items()},
}


class _Server(NamedTuple):
    """What differs between the servers' images."""

    ports: Sequence[int]
    java_options: str


_SERVERS = {
    "zookeeper": _Server((2181, 2888, 3888), f"{_JAVA_OPTIONS} -XX:TieredStopAtLevel=1"),
    "kafka": _Server((9092,), _JAVA_OPTIONS),
}


class _Layer(NamedTuple):
    """A tar file in the scratch directory; its digest is its name in the archive and its identity in the engine."""

    path: Path
    digest: str


def build_images(
    client: docker.DockerClient,
    *,
    which: Collection[str] = ALL_IMAGES,
    class_path_of: Callable[[str], Sequence[Path]],
    compile_java: CompileJava,
    progress: Callable[[str], None],
) -> dict[str, str]:
    """Make those of the images that the engine does not have; returns the tag of each name.

    `class_path_of(name)` gives the server's jars; `compile_java(source, class_path, directory)` puts classes there.
    """
    for name in which:
        if name.partition(":")[0] not in _SERVERS:
            raise UnknownVersion(f"there is no image {name!r}: known are {', '.join(ALL_IMAGES)}")
    _check_machine(client)
    jdk = _find_jdk()
    common = _digest_of_common_parts(jdk)
    contents: dict[str, str] = {}
    missing: dict[str, Sequence[Path]] = {}
    for name in which:
        jars = class_path_of(name)
        contents[name] = _digest([common, name, *(f"{jar.name} {_digest_of_file(jar)}" for jar in jars)])
        if not _use_existing(client, name, contents[name]):
            missing[name] = jars
    if missing:
        with _scratch_directory() as scratch:
            _build(client, scratch, jdk, missing, contents, compile_java, progress)
    for name in which:
        progress(f"{tag_of(name)} {'built' if name in missing else 'is up to date'}")
    return {name: tag_of(name) for name in which}


def tag_of(name: str) -> str:
    """`kafka:1.1.1` is `zkconsumer/kafka:1.1.1` in the engine."""
    return f"{REPOSITORY}/{name}"


# --- what there is already ---


def _check_machine(client: docker.DockerClient) -> None:
    if platform.system() != "Linux":
        raise NotSupported("images are made from this machine's own Java and libraries: that needs Linux")
    theirs = str(client.info()["Architecture"])
    if theirs != platform.machine():
        raise NotSupported(f"images made here are for {platform.machine()}, the container engine runs on {theirs}")


def _find_jdk() -> Path:
    """The home of a JDK: JAVA_HOME's, that of the `java` in use, or that of a `jlink` on the path."""
    java, jlink = shutil.which("java"), shutil.which("jlink")
    candidates = [Path(os.environ["JAVA_HOME"])] if os.environ.get("JAVA_HOME") else []
    candidates += [Path(found).resolve().parent.parent for found in (java, jlink) if found]
    for home in candidates:
        if (home / "bin" / "jlink").exists():
            return home
    raise NotSupported("no jlink found, only a JDK has it: install one (Debian: openjdk-17-jdk-headless)")


def _digest_of_common_parts(jdk: Path) -> str:
    """Everything but the jars: this recipe, the entry point, the Java release, the libraries."""
    release = jdk / "release"
    java = release.read_text() if release.exists() else str((jdk / "bin" / "jlink").stat())
    libraries = _shared_libraries([jdk / "bin" / "java", jdk / "lib" / "server" / "libjvm.so"])
    sources = [_digest_of_file(Path(__file__)), _digest_of_file(_MAIN_SOURCE), *LOG_FILES.values()]
    return _digest([java, *sources, *(f"{library} {_digest_of_file(library)}" for library in libraries)])


def _use_existing(client: docker.DockerClient, name: str, content: str) -> bool:
    found = client.images.list(filters={"label": f"{CONTENT_LABEL}={content}"})
    if found and tag_of(name) not in found[0].tags:
        found[0].tag(tag_of(name))
    return bool(found)


# --- making them ---


@contextmanager
def _scratch_directory() -> Iterator[Path]:
    """A guarded one: 300 MB shall not stay because somebody killed a test run."""
    guard = GuardedProcess("images")
    guard.open()
    try:
        yield guard.directory
    finally:
        guard.close()


def _build(
    client: docker.DockerClient,
    scratch: Path,
    jdk: Path,
    jars_of: Mapping[str, Sequence[Path]],
    contents: Mapping[str, str],
    compile_java: CompileJava,
    progress: Callable[[str], None],
) -> None:
    progress("linking a Java run time")
    runtime = _link_runtime(jdk, scratch / "runtime")
    archive_of_classes = runtime / "lib" / "server" / "classes.jsa"
    base = [
        _runtime_layer(scratch, runtime, without=archive_of_classes),
        # A layer of its own: Java 17 never writes it twice the same, and the big layer shall not suffer from that.
        _layer(scratch, "classes", {f"opt/java/{archive_of_classes.relative_to(runtime)}": archive_of_classes}),
    ]
    progress("compiling the entry point")
    (scratch / "main").mkdir()
    compile_java(_MAIN_SOURCE, [], scratch / "main")
    classes = {f"opt/zkconsumer/{path.name}": path for path in sorted((scratch / "main").glob("*.class"))}

    architecture = str(client.version()["Arch"])
    layers: set[_Layer] = set(base)
    documents: dict[str, bytes] = {}
    manifest: list[dict[str, object]] = []
    for name, jars in jars_of.items():
        files: dict[str, Path | str] = {**classes, **_ENTRY_FILES, **{f"opt/server/{jar.name}": jar for jar in jars}}
        own = _layer(scratch, re.sub(r"\W", "-", name), files, directories=("data", "conf"))
        layers.add(own)
        image = [*base, own]
        settings = _container_settings(name, jars, contents[name])
        document = json.dumps(_image_document(settings, architecture, image), sort_keys=True).encode()
        document_name = f"{hashlib.sha256(document).hexdigest()}.json"
        documents[document_name] = document
        layer_names = [f"{layer.digest}.tar" for layer in image]
        manifest.append({"Config": document_name, "RepoTags": [tag_of(name)], "Layers": layer_names})
    documents["manifest.json"] = json.dumps(manifest).encode()
    _load(client, _archive(scratch, documents, layers), progress)
    _remove_replaced(client, jars_of)


def _link_runtime(jdk: Path, target: Path) -> Path:
    smaller = ["--no-header-files", "--no-man-pages", "--strip-java-debug-attributes", f"--exclude-files={_LEFT_OUT}"]
    _run([str(jdk / "bin" / "jlink"), "--add-modules", ",".join(_MODULES), *smaller, "--output", str(target)])
    shutil.rmtree(target / "legal", ignore_errors=True)
    os.utime(target / "lib" / "modules", (_MTIME, _MTIME))
    _run([str(target / "bin" / "java"), "-XX:+UseG1GC", "-Xshare:dump"])  # of G1, since every collector can read that
    return target


def _runtime_layer(scratch: Path, runtime: Path, *, without: Path) -> _Layer:
    own = sorted(path for path in runtime.rglob("*") if path.is_file() and path != without)
    binaries = [runtime / "bin" / "java", *(path for path in own if ".so" in path.suffixes)]
    libraries = [path for path in _shared_libraries(binaries) if not path.is_relative_to(runtime)]
    files: dict[str, Path | str] = {f"opt/java/{path.relative_to(runtime)}": path for path in own}
    files |= {str(path).lstrip("/"): path for path in libraries}
    return _layer(scratch, "java", files | _TEXT_FILES, directories=("tmp",))


def _shared_libraries(binaries: Iterable[Path]) -> list[Path]:
    """What `ldd` lists for them, under the paths it gives, and the companions that lie beside the C library."""
    listed = _run(["ldd", *map(str, binaries)])
    found = {Path(match) for match in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", listed, flags=re.MULTILINE)}
    beside = {path.parent for path in found if path.name.startswith("libc.")}
    found |= {folder / name for folder in beside for name in _COMPANIONS if (folder / name).exists()}
    return sorted(found)


def _container_settings(name: str, jars: Sequence[Path], content: str) -> dict[str, object]:
    kind = name.partition(":")[0]
    server = _SERVERS[kind]
    class_path = ":".join(["/opt/zkconsumer", *(f"/opt/server/{jar.name}" for jar in jars)])
    return {
        # JDK_JAVA_OPTIONS and not arguments of the entry point: a container can be given others.
        "Env": ["PATH=/opt/java/bin", f"CLASSPATH={class_path}", f"JDK_JAVA_OPTIONS={server.java_options}"],
        "Entrypoint": ["/opt/java/bin/java", "ContainerMain"],
        "Cmd": [kind],
        "User": f"{_USER}:{_USER}",
        "WorkingDir": "/tmp",
        "ExposedPorts": {f"{port}/tcp": {} for port in server.ports},
        "Labels": {CONTENT_LABEL: content, NAME_LABEL: name},
    }


def _image_document(settings: Mapping[str, object], architecture: str, layers: Sequence[_Layer]) -> dict[str, object]:
    return {
        "architecture": architecture,
        "os": "linux",
        "created": _CREATED,
        "config": settings,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{layer.digest}" for layer in layers]},
        "history": [{"created": _CREATED, "created_by": f"zkconsumer: {layer.path.stem}"} for layer in layers],
    }


def _layer(scratch: Path, name: str, files: Mapping[str, Path | str], directories: Sequence[str] = ()) -> _Layer:
    """A tar of these files, owned by root; the directories are the server's own."""
    path = scratch / f"{name}.tar"
    parents = {str(parent) for file in files for parent in Path(file).parents} - {"."}
    with tarfile.open(path, "w") as tar:
        for directory in sorted(parents):
            tar.addfile(_entry(directory, tarfile.DIRTYPE, 0o755))
        for directory in directories:
            tar.addfile(_entry(directory, tarfile.DIRTYPE, 0o1777 if directory == "tmp" else 0o755, owner=_USER))
        for file, source in sorted(files.items()):
            data = source.encode() if isinstance(source, str) else source.read_bytes()
            runs = source.startswith("#!") if isinstance(source, str) else os.access(source, os.X_OK)
            entry = _entry(file, tarfile.REGTYPE, 0o755 if runs else 0o644)
            entry.size = len(data)
            tar.addfile(entry, BytesIO(data))
    return _Layer(path, _digest_of_file(path))


def _entry(name: str, kind: bytes, mode: int, owner: int = 0) -> tarfile.TarInfo:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.mtime, entry.uid, entry.gid = kind, mode, _MTIME, owner, owner
    return entry


def _archive(scratch: Path, documents: Mapping[str, bytes], layers: Iterable[_Layer]) -> Path:
    path = scratch / "archive.tar"
    with tarfile.open(path, "w") as tar:
        for layer in layers:
            tar.add(layer.path, arcname=f"{layer.digest}.tar")
        for name, data in documents.items():
            entry = _entry(name, tarfile.REGTYPE, 0o644)
            entry.size = len(data)
            tar.addfile(entry, BytesIO(data))
    return path


def _load(client: docker.DockerClient, archive: Path, progress: Callable[[str], None]) -> None:
    progress(f"handing {archive.stat().st_size // 1_000_000} MB to the container engine")
    with archive.open("rb") as data:
        try:
            client.images.load(data)
        except DockerException as e:
            raise ServerError(f"the container engine did not take the images: {e}") from e


def _remove_replaced(client: docker.DockerClient, names: Iterable[str]) -> None:
    """Remove earlier builds that lost their tag, unless a container still uses them."""
    for name in names:
        for image in client.images.list(filters={"label": f"{NAME_LABEL}={name}", "dangling": True}):
            try:
                client.images.remove(str(image.id))
            except APIError:
                continue


def _run(command: Sequence[str]) -> str:
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "LC_ALL": "C"}, check=False)
    if result.returncode != 0:
        output = (result.stdout + result.stderr).strip()
        raise ServerError(f"{Path(command[0]).name} failed with exit code {result.returncode}: {output}")
    return result.stdout


def _digest(parts: Iterable[str]) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _digest_of_file(path: Path) -> str:
    with path.open("rb") as data:
        return hashlib.file_digest(data, "sha256").hexdigest()
