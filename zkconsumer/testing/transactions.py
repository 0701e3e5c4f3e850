"""ZooKeeper's own transaction log as typed values: complete, ordered and written by the server, so a referee.

A file `version-2/log.<first zxid in hex>` is, all numbers big-endian:

    file    = "ZKLG", version 2 (i32), database id (i64), record..., zeros allocated ahead
    record  = Adler-32 of the payload (i64), its length (i32), payload, 0x42
    payload = session (i64), cxid (i32), zxid (i64), time in ms (i64), type (i32), body by type, [digest]
    digest  = version (i32), digest of the whole tree (i64); left out of errors, by old servers, and when switched off

Checked against ZooKeeper 3.9.5 and its TxnLogToolkit. Three things in there are not what they seem:

* A multi that failed is logged with the parts before the failing one as if they had been done. The server undoes
  them; here they become errors too (`error` 0, "RolledBack"), so that nobody counts a create that never was.
* Close session lists the ephemerals it took along only if the server writes them (since 3.6, and
  `zookeeper.closeSessionTxn.enabled` not false). Without the list `removed` is empty, and they went all the same.
* Failed requests are logged as well, with an error code and without their path.

A file is read as it is at the call. It may be in use: a last record not yet written in full ends the reading
quietly, a damaged record with others behind it raises TransactionLogError.
"""

from __future__ import annotations

import re
import struct
import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import Enum
from functools import partial
from pathlib import Path
from typing import BinaryIO

from zkconsumer.testing.errors import ServerError


class Operation(Enum):
    """What a transaction did. The kinds of create (create2, container, TTL) are one, as are both kinds of delete."""

    CREATE_SESSION = "create session"
    CLOSE_SESSION = "close session"
    CREATE = "create"
    DELETE = "delete"
    SET_DATA = "set data"
    SET_ACL = "set acl"
    CHECK = "check"
    MULTI = "multi"
    RECONFIG = "reconfig"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class Acl:
    """Who (`scheme`, `id`) may do what (`permissions`: read 1, write 2, create 4, delete 8, admin 16)."""

    permissions: int
    scheme: str
    id: str


@dataclass(frozen=True, slots=True)
class Transaction:
    """One entry of the log. Fields that an operation does not have keep their default.

    `session` is signed, as in `KazooClient.client_id[0]` and `ZnodeStat.ephemeralOwner`: compare them directly. It
    is 0 where the server acts by itself (an empty container deleted). `cxid` is the client's number of the request,
    from 1 up; a close session with cxid 0 is the server's own: an expiry.
    """

    zxid: int
    session: int
    cxid: int
    time_ms: int  # wall clock of the server
    operation: Operation
    path: str | None = None
    data: bytes | None = None  # None: a null buffer, which is not b""
    acl: tuple[Acl, ...] = ()
    ephemeral: bool = False
    container: bool = False
    ttl_ms: int | None = None
    version: int | None = None  # of set data and set acl the new one, of check the one expected plus 1, of reconfig -1
    removed: tuple[str, ...] = ()  # close session: the ephemerals it took along
    timeout_ms: int | None = None  # create session: as granted
    error: int | None = None  # of a failed multi: the code of the part that failed
    parts: tuple[Transaction, ...] = ()  # multi: with its zxid, session, cxid and time

    @property
    def error_name(self) -> str | None:
        """The error in ZooKeeper's words, "NoNode"; its number if there is no word."""
        return None if self.error is None else _ERROR_NAMES.get(self.error, str(self.error))

    def __str__(self) -> str:
        """One line for a test's output: `0x1f create /a/b (ephemeral, session 0x100) b'...'`."""
        words = [f"0x{self.zxid:x} {self.operation.value}"]
        words += [word for word in (self.error_name, self.path) if word is not None]
        words.append(f"({', '.join(self._remarks())})")
        if self.data is not None:
            words.append(repr(self.data[:_SHOWN_BYTES]) + ("..." if len(self.data) > _SHOWN_BYTES else ""))
        if self.removed:
            words.append("removed " + " ".join(self.removed))
        if self.parts:
            words.append("[" + "; ".join(part._as_part() for part in self.parts) + "]")
        return " ".join(words)

    def _remarks(self) -> Iterator[str]:
        if self.ephemeral:
            yield "ephemeral"
        if self.container:
            yield "container"
        if self.ttl_ms is not None:
            yield f"ttl {self.ttl_ms} ms"
        if self.timeout_ms is not None:
            yield f"timeout {self.timeout_ms} ms"
        if self.version is not None:
            yield f"version {self.version}"
        yield f"session 0x{self.session & _UNSIGNED:x}"  # unsigned, as ZooKeeper's own logs print it

    def _as_part(self) -> str:
        return " ".join(word for word in (self.operation.value, self.error_name, self.path) if word is not None)


class TransactionLogError(ServerError):
    """A log that cannot be read: which file, at which byte, what was wrong."""

    def __init__(self, file: str, offset: int, problem: str) -> None:
        super().__init__(f"{file}: byte {offset}: {problem}")
        self.file = file
        self.offset = offset
        self.problem = problem


def read_log(file: Path | BinaryIO | bytes) -> Iterator[Transaction]:
    """The transactions of one log file in order of writing. The bytes are read now, decoded as the iterator goes."""
    if isinstance(file, bytes):
        return _read_records("<bytes>", file)
    if isinstance(file, Path):
        # Bytes copied while the server writes can miss a record and hold the one behind it. If so, look again.
        return _read_records(str(file), file.read_bytes(), read_again=file.read_bytes)
    return _read_records(str(getattr(file, "name", "<stream>")), file.read())


def read_logs(directory: Path) -> list[Transaction]:
    """All `log.*` files of a version-2 directory as one history: ordered by zxid, each zxid once.

    A directory without logs is an empty history, as of a server just started.
    """
    by_zxid: dict[int, Transaction] = {}
    files = [file for file in directory.iterdir() if _LOG_NAME.fullmatch(file.name)]
    if not files and (directory / "version-2").is_dir():
        # An empty history would let every check on it pass.
        raise TransactionLogError(str(directory), 0, "no logs here, they are in its directory version-2")
    for file in files:
        for transaction in read_log(file):
            by_zxid[transaction.zxid] = transaction  # a zxid names one transaction for ever: copies are equal
    return [by_zxid[zxid] for zxid in sorted(by_zxid)]


def flatten(transactions: Iterable[Transaction]) -> Iterator[Transaction]:
    """The same with each multi replaced by its parts. Those of a failed one are all errors."""
    for transaction in transactions:
        if transaction.operation is Operation.MULTI:
            yield from transaction.parts
        else:
            yield transaction


# --- the file: records, padding, damage ---

_MAGIC_AND_VERSION = b"ZKLG" + struct.pack(">i", 2)
_FILE_HEADER_SIZE = 16
_RECORD_HEADER = struct.Struct(">qi")
_END_OF_RECORD = 0x42
_TRANSACTION_HEADER = struct.Struct(">qiqqi")
_LOG_NAME = re.compile(r"log\.[0-9a-f]+")  # not log.1.fixed or log.1.chopped5, which the toolkit leaves behind


def _read_records(name: str, data: bytes, read_again: Callable[[], bytes] | None = None) -> Iterator[Transaction]:
    """Check the file's header, then hand out its records."""
    start = data[: len(_MAGIC_AND_VERSION)]
    # Shorter than the header: the server has just opened it.
    if not _MAGIC_AND_VERSION.startswith(start):
        raise TransactionLogError(name, 0, f"begins with {start!r}, a log of version 2 with {_MAGIC_AND_VERSION!r}")
    return _iterate(name, _without_padding(data), read_again)


def _without_padding(data: bytes) -> bytes:
    """The file without the zeros allocated ahead. Cuts no whole record: those end with 0x42."""
    return data.rstrip(b"\0")


def _iterate(name: str, data: bytes, read_again: Callable[[], bytes] | None) -> Iterator[Transaction]:
    offset = _FILE_HEADER_SIZE
    doubted = -1
    while offset < len(data):
        problem = _problem_of_record(data, offset)
        if problem is None:
            end = _end_of_record(data, offset)
            yield _read_payload(_Reader(name, data, offset + _RECORD_HEADER.size, end - 1))
            offset = end
        elif _is_unfinished_last(data, offset):
            return
        elif read_again is not None and doubted != offset:
            # The server writes in order: what stood behind this record is now no longer missing here.
            doubted = offset
            data = _without_padding(read_again())
        else:
            raise TransactionLogError(name, offset, f"damaged record, yet others follow: {problem}")


def _end_of_record(data: bytes, offset: int) -> int:
    length: int = _RECORD_HEADER.unpack_from(data, offset)[1]
    return offset + _RECORD_HEADER.size + length + 1


def _problem_of_record(data: bytes, offset: int) -> str | None:
    """What is wrong with the frame of the record at offset, None if it is whole."""
    payload = offset + _RECORD_HEADER.size
    if payload > len(data):
        return "its header is cut short"
    checksum, length = _RECORD_HEADER.unpack_from(data, offset)
    end = payload + length
    if length < 0:
        return f"length {length}"
    if end >= len(data):
        return f"length {length}, but only {len(data) - payload} bytes are left"
    if data[end] != _END_OF_RECORD:
        return f"ends with 0x{data[end]:02x} instead of 0x{_END_OF_RECORD:x}"
    found = zlib.adler32(data[payload:end])
    if found != checksum:
        return f"checksum 0x{found:x}, written down as 0x{checksum & _UNSIGNED:x}"
    return None


def _is_unfinished_last(data: bytes, offset: int) -> bool:
    """Whether a bad record is just one the server has not finished: nothing behind it, no whole record inside it."""
    if offset + _RECORD_HEADER.size <= len(data):
        length: int = _RECORD_HEADER.unpack_from(data, offset)[1]
        if length < 0 or _end_of_record(data, offset) < len(data):
            return False
    # A damaged length can claim all the rest of the file. Records begin behind the end of another, and their
    # 64-bit checksum has only 32 bits to fill.
    candidate = data.find(b"B\0\0\0\0", offset)
    while candidate >= 0:
        if _problem_of_record(data, candidate + 1) is None:
            return False
        candidate = data.find(b"B\0\0\0\0", candidate + 1)
    return True


# --- the payload ---

_INT32 = struct.Struct(">i")
_INT64 = struct.Struct(">q")
_DIGEST_SIZE = 12
_DIGEST_VERSION = 2  # the only one so far
_UNSIGNED = 0xFFFF_FFFF_FFFF_FFFF
_SHOWN_BYTES = 60


class _Reader:
    """Takes values off a stretch of the file, front to back. A length beyond its end is an error, never allocated."""

    __slots__ = ("_data", "_end", "_name", "_position")

    def __init__(self, name: str, data: bytes, start: int, end: int) -> None:
        self._name = name
        self._data = data
        self._position = start
        self._end = end

    @property
    def remaining(self) -> int:
        return self._end - self._position

    def error(self, problem: str) -> TransactionLogError:
        return TransactionLogError(self._name, self._position, problem)

    def header(self) -> tuple[int, int, int, int, int]:
        session, cxid, zxid, time_ms, type_ = _TRANSACTION_HEADER.unpack_from(
            self._data, self._take(_TRANSACTION_HEADER.size)
        )
        return session, cxid, zxid, time_ms, type_

    def int32(self) -> int:
        value: int = _INT32.unpack_from(self._data, self._take(4))[0]
        return value

    def next_int32(self) -> int:
        """What int32() would take, left in place."""
        value = self.int32()
        self._position -= 4
        return value

    def int64(self) -> int:
        value: int = _INT64.unpack_from(self._data, self._take(8))[0]
        return value

    def boolean(self) -> bool:
        return self._data[self._take(1)] != 0

    def buffer(self) -> bytes | None:
        length = self.int32()
        if length == -1:
            return None
        start = self._take(length)
        return self._data[start : self._position]

    def string(self) -> str | None:
        value = self.buffer()
        try:
            return None if value is None else value.decode()
        except UnicodeDecodeError:
            raise self.error(f"text that is not UTF-8: {value!r:.80}") from None

    def strings(self) -> tuple[str, ...]:
        return tuple(self.string() or "" for _ in range(self._count()))

    def acl(self) -> tuple[Acl, ...]:
        return tuple(Acl(self.int32(), self.string() or "", self.string() or "") for _ in range(self._count()))

    def typed_buffers(self) -> Iterator[tuple[int, _Reader]]:
        """The parts of a multi: the type of each, and a reader for its body."""
        for _ in range(self._count()):
            type_ = self.int32()
            start = self._take(self.int32())
            yield type_, _Reader(self._name, self._data, start, self._position)

    def finish(self, *, digest_size: int) -> None:
        """Nothing may be left but a digest."""
        if self.remaining not in (0, digest_size):
            raise self.error(f"{self.remaining} bytes left over behind a transaction")

    def _take(self, length: int) -> int:
        """Move on by length, and say where it began."""
        start = self._position
        if not 0 <= length <= self._end - start:
            raise self.error(f"a value of {length} bytes where {self.remaining} are left")
        self._position = start + length
        return start

    def _count(self) -> int:
        count = self.int32()
        if count == -1:  # a null vector
            return 0
        if not 0 <= count <= self.remaining // 4:  # each entry begins with a length or a number
            raise self.error(f"a list of {count} entries where {self.remaining} bytes are left")
        return count


_New = Callable[..., Transaction]  # Transaction with zxid, session, cxid and time filled in


def _read_payload(body: _Reader) -> Transaction:
    session, cxid, zxid, time_ms, type_ = body.header()
    transaction = _read_body(partial(Transaction, zxid, session, cxid, time_ms), type_, body)
    body.finish(digest_size=_DIGEST_SIZE)
    return transaction


def _read_body(new: _New, type_: int, body: _Reader) -> Transaction:
    read = _READERS.get(type_)
    if read is None:
        raise body.error(f"unknown transaction type {type_}")
    return read(new, body)


# Arguments are evaluated from left to right, so each call below reads like the layout of its body.


def _create(new: _New, body: _Reader) -> Transaction:
    transaction = new(
        Operation.CREATE, path=body.string(), data=body.buffer(), acl=body.acl(), ephemeral=body.boolean()
    )
    if body.remaining:  # the parent's child version, unknown to ZooKeeper 3.3
        body.int32()
    return transaction


def _create_container(new: _New, body: _Reader) -> Transaction:
    transaction = new(Operation.CREATE, path=body.string(), data=body.buffer(), acl=body.acl(), container=True)
    body.int32()  # the parent's child version
    return transaction


def _create_ttl(new: _New, body: _Reader) -> Transaction:
    path, data, acl = body.string(), body.buffer(), body.acl()
    body.int32()  # the parent's child version
    return new(Operation.CREATE, path=path, data=data, acl=acl, ttl_ms=body.int64())


def _delete(new: _New, body: _Reader) -> Transaction:
    return new(Operation.DELETE, path=body.string())


def _set_data(new: _New, body: _Reader) -> Transaction:
    return new(Operation.SET_DATA, path=body.string(), data=body.buffer(), version=body.int32())


def _reconfig(new: _New, body: _Reader) -> Transaction:
    return new(Operation.RECONFIG, path=body.string(), data=body.buffer(), version=body.int32())


def _set_acl(new: _New, body: _Reader) -> Transaction:
    return new(Operation.SET_ACL, path=body.string(), acl=body.acl(), version=body.int32())


def _check(new: _New, body: _Reader) -> Transaction:
    return new(Operation.CHECK, path=body.string(), version=body.int32())


def _create_session(new: _New, body: _Reader) -> Transaction:
    return new(Operation.CREATE_SESSION, timeout_ms=body.int32())


def _close_session(new: _New, body: _Reader) -> Transaction:
    # The list may be missing and the digest there. A list of two paths would not fit into the size of a digest.
    digest_only = body.remaining == _DIGEST_SIZE and body.next_int32() == _DIGEST_VERSION
    listed = body.remaining > 0 and not digest_only
    return new(Operation.CLOSE_SESSION, removed=body.strings() if listed else ())


def _error(new: _New, body: _Reader) -> Transaction:
    return new(Operation.ERROR, error=body.int32())


def _multi(new: _New, body: _Reader) -> Transaction:
    parts = []
    for type_, part_body in body.typed_buffers():
        if type_ == _MULTI:
            raise part_body.error("a multi within a multi")
        parts.append(_read_body(new, type_, part_body))
        part_body.finish(digest_size=0)
    errors = [part.error for part in parts if part.operation is Operation.ERROR]
    if not errors:
        return new(Operation.MULTI, parts=tuple(parts))
    # The failing part comes first among the errors; those behind it were not tried and have a code of their own.
    as_done = (part if part.operation is Operation.ERROR else _rolled_back(new, part) for part in parts)
    return new(Operation.MULTI, error=errors[0], parts=tuple(as_done))


def _rolled_back(new: _New, part: Transaction) -> Transaction:
    """A part of a failed multi as the server treats it, whatever the log says it did."""
    return new(Operation.ERROR, path=part.path, error=0)


_MULTI = 14
_READERS: dict[int, Callable[[_New, _Reader], Transaction]] = {
    -11: _close_session,
    -10: _create_session,
    -1: _error,
    1: _create,
    2: _delete,
    5: _set_data,
    7: _set_acl,
    13: _check,
    _MULTI: _multi,
    15: _create,  # create2: the client also wanted the stat
    16: _reconfig,
    19: _create_container,
    20: _delete,  # an empty container, or one whose time to live is over
    21: _create_ttl,
}

# ZooKeeper's KeeperException codes. 0 is its Ok: what a part of a failed multi is answered that would have worked.
_ERROR_NAMES = {
    0: "RolledBack",
    -1: "SystemError",
    -2: "RuntimeInconsistency",
    -3: "DataInconsistency",
    -4: "ConnectionLoss",
    -5: "MarshallingError",
    -6: "Unimplemented",
    -7: "OperationTimeout",
    -8: "BadArguments",
    -12: "UnknownSession",
    -13: "NewConfigNoQuorum",
    -14: "ReconfigInProgress",
    -100: "APIError",
    -101: "NoNode",
    -102: "NoAuth",
    -103: "BadVersion",
    -108: "NoChildrenForEphemerals",
    -110: "NodeExists",
    -111: "NotEmpty",
    -112: "SessionExpired",
    -113: "InvalidCallback",
    -114: "InvalidACL",
    -115: "AuthFailed",
    -118: "SessionMoved",
    -119: "NotReadOnly",
    -120: "EphemeralOnLocalSession",
    -121: "NoWatcher",
    -122: "RequestTimeout",
    -123: "ReconfigDisabled",
    -124: "SessionClosedRequireSaslAuth",
    -125: "QuotaExceeded",
    -127: "ThrottledOp",
}
