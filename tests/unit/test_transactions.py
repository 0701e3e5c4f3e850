"""The reader of ZooKeeper's transaction log, against logs a real server wrote and against bytes made here."""

from __future__ import annotations

import io
import re
import struct
import zlib
from collections.abc import Iterable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zkconsumer.testing.transactions import (
    Acl,
    Operation,
    Transaction,
    TransactionLogError,
    flatten,
    read_log,
    read_logs,
)

VECTORS = Path(__file__).parent.parent / "vectors" / "zookeeper-log"
RECORDED = ["default", "without-close-session-list", "without-digest", "ensemble"]

ANYONE = Acl(31, "world", "anyone")
HEADER = b"ZKLG" + struct.pack(">iq", 2, 0)


# --- against the toolkit ---


@pytest.mark.parametrize("recorded", RECORDED)
def test_every_recorded_transaction_is_read_as_the_toolkit_prints_it(recorded: str) -> None:
    entries = toolkit_entries(VECTORS / recorded / "toolkit.txt")

    transactions = read_logs(VECTORS / recorded)

    assert [in_toolkit_words(transaction) for transaction in transactions] == entries


def test_parts_of_a_multi_are_read_with_what_the_multi_shares() -> None:
    multi = recorded_transaction("default", 0x19)

    assert multi.operation is Operation.MULTI
    assert multi.error is None
    assert {(part.zxid, part.session, part.cxid, part.time_ms) for part in multi.parts} == {
        (multi.zxid, multi.session, multi.cxid, multi.time_ms)
    }
    assert [(part.operation, part.path, part.data, part.version, part.ephemeral) for part in multi.parts] == [
        (Operation.CHECK, "/plain", None, 3, False),  # the client asked for version 2
        (Operation.CREATE, "/m1", b"m", None, False),
        (Operation.CREATE, "/m2", b"", None, True),
        (Operation.SET_DATA, "/plain", b"five", 3, False),
        (Operation.DELETE, "/nodata", None, None, False),
    ]


def test_no_part_of_a_failed_multi_looks_done() -> None:
    multi = recorded_transaction("default", 0x1A)

    assert multi.error_name == "NoNode"
    assert [(part.operation, part.error_name, part.path) for part in multi.parts] == [
        (Operation.ERROR, "RolledBack", "/rolledback"),  # the log itself says create
        (Operation.ERROR, "RolledBack", "/plain"),  # and set data
        (Operation.ERROR, "NoNode", None),
        (Operation.ERROR, "RuntimeInconsistency", None),
    ]


def test_flattening_replaces_each_multi_by_its_parts() -> None:
    transactions = read_logs(VECTORS / "default")

    flat = list(flatten(transactions))

    assert len(flat) == len(transactions) - 3 + (5 + 4 + 1)
    assert all(transaction.operation is not Operation.MULTI for transaction in flat)
    assert [transaction.path for transaction in flat if transaction.zxid == 0x19][1:3] == ["/m1", "/m2"]
    assert not [t for t in flat if t.operation is Operation.CREATE and t.path == "/rolledback"]


def test_null_data_is_not_empty_data() -> None:
    assert recorded_transaction("default", 0x3).data == b""
    assert recorded_transaction("default", 0xE).data is None


def test_a_session_id_is_signed_as_kazoo_has_it() -> None:
    sessions = {transaction.session for transaction in read_logs(VECTORS / "ensemble")}

    assert sessions == {-4035225091629318144}  # KazooClient.client_id[0] at the time of recording


def test_a_close_without_a_list_of_ephemerals_is_told_from_a_digest() -> None:
    closed = [t for t in read_logs(VECTORS / "without-close-session-list") if t.operation is Operation.CLOSE_SESSION]

    assert len(closed) == 5
    assert {transaction.removed for transaction in closed} == {()}


def test_a_list_as_long_as_a_digest_is_still_a_list() -> None:
    closed = transaction(1, Operation.CLOSE_SESSION, removed=("/abc",))

    assert list(read_log(HEADER + record(encoded(closed)))) == [closed]


@pytest.mark.parametrize(
    ("recorded", "zxid", "line"),
    [
        ("default", 0x1, "0x1 create session (timeout 2000 ms, session 0x10000195e6f0000)"),
        ("default", 0x5, "0x5 create /ephemeral (ephemeral, session 0x10000195e6f0000) b'{\"version\":1}'"),
        ("default", 0xC, "0xc create /container (container, session 0x10000195e6f0000) b'c'"),
        ("default", 0xD, "0xd create /ttl (ttl 86400000 ms, session 0x10000195e6f0000) b't'"),
        ("default", 0x11, "0x11 set data /plain (version 2, session 0x10000195e6f0000) b'four'"),
        ("default", 0x13, "0x13 delete /stat (session 0x10000195e6f0000)"),
        ("default", 0x14, "0x14 error NodeExists (session 0x10000195e6f0000)"),
        ("default", 0x1B, "0x1b multi BadVersion (session 0x10000195e6f0000) [error BadVersion]"),
        ("default", 0x21, "0x21 close session (session 0x10000195e6f0001) removed /b1 /b2"),
        ("ensemble", 0x100000002, "0x100000002 create /e (ephemeral, session 0xc8000028a0b10000) b''"),
    ],
)
def test_a_transaction_prints_as_one_line(recorded: str, zxid: int, line: str) -> None:
    assert str(recorded_transaction(recorded, zxid)) == line


def test_long_data_is_cut_when_printed() -> None:
    long = transaction(1, Operation.SET_DATA, path="/a", data=b"x" * 61, version=1)

    assert str(long).endswith(" b'" + "x" * 60 + "'...")
    assert str(replace(long, data=b"x" * 60)).endswith(" b'" + "x" * 60 + "'")


# --- properties, on bytes encoded here ---

int32 = st.integers(-(2**31), 2**31 - 1)
int64 = st.integers(-(2**63), 2**63 - 1)
text = st.text(max_size=8)
paths = text.map(lambda name: "/" + name)
data = st.none() | st.binary(max_size=20)
acls = st.lists(st.builds(Acl, int32, text, text), max_size=2).map(tuple)


def transactions_of(operation: Operation, **fields: st.SearchStrategy[object]) -> st.SearchStrategy[Transaction]:
    return st.builds(Transaction, int64, int64, int32, int64, st.just(operation), **fields)


creates = (
    transactions_of(Operation.CREATE, path=paths, data=data, acl=acls, ephemeral=st.booleans())
    | transactions_of(Operation.CREATE, path=paths, data=data, acl=acls, container=st.just(True))
    | transactions_of(Operation.CREATE, path=paths, data=data, acl=acls, ttl_ms=int64)
)
deletes = transactions_of(Operation.DELETE, path=paths)
data_changes = transactions_of(Operation.SET_DATA, path=paths, data=data, version=int32)
checks = transactions_of(Operation.CHECK, path=paths, version=int32)
errors = transactions_of(Operation.ERROR, error=int32)


def multi_of(whole: Transaction, parts: Iterable[Transaction]) -> Transaction:
    shared = [replace(p, zxid=whole.zxid, session=whole.session, cxid=whole.cxid, time_ms=whole.time_ms) for p in parts]
    failed = [part.error for part in shared if part.operation is Operation.ERROR]
    return replace(whole, parts=tuple(shared), error=failed[0] if failed else None)


multis = st.builds(
    multi_of,
    transactions_of(Operation.MULTI),
    st.lists(creates | deletes | data_changes | checks, max_size=3) | st.lists(errors, max_size=3),
)
any_transaction = (
    creates
    | deletes
    | data_changes
    | checks
    | errors
    | multis
    | transactions_of(Operation.RECONFIG, path=paths, data=data, version=int32)
    | transactions_of(Operation.SET_ACL, path=paths, acl=acls, version=int32)
    | transactions_of(Operation.CREATE_SESSION, timeout_ms=int32)
    | transactions_of(Operation.CLOSE_SESSION, removed=st.lists(paths, max_size=3).map(tuple))
)
digests = st.none() | st.integers(-(2**63), 2**63 - 1)


@given(st.lists(st.tuples(any_transaction, digests), max_size=5), st.integers(0, 40))
def test_what_was_encoded_is_read_back(written: list[tuple[Transaction, int | None]], padding: int) -> None:
    log = HEADER + b"".join(record(encoded(t), digest) for t, digest in written) + bytes(padding)

    assert list(read_log(log)) == [t for t, _ in written]


@given(st.lists(any_transaction, min_size=1, max_size=3), st.integers(0, 40))
def test_a_log_cut_anywhere_gives_the_records_that_are_whole(written: list[Transaction], padding: int) -> None:
    records = [record(encoded(transaction), 7) for transaction in written]
    log = HEADER + b"".join(records)
    ends = [len(HEADER) + sum(map(len, records[: count + 1])) for count in range(len(records))]

    for cut in range(len(log)):
        whole = written[: sum(end <= cut for end in ends)]
        assert list(read_log(log[:cut])) == whole
        if cut >= len(HEADER):
            assert list(read_log(log[:cut] + bytes(padding))) == whole


@given(st.lists(any_transaction, min_size=2, max_size=4), st.data())
def test_a_changed_byte_in_a_record_with_others_behind_it_raises(
    written: list[Transaction], draw: st.DataObject
) -> None:
    records = [record(encoded(transaction), 7) for transaction in written]
    log = bytearray(HEADER + b"".join(records))
    damaged = draw.draw(st.integers(len(HEADER), len(log) - len(records[-1]) - 1))
    log[damaged] ^= draw.draw(st.integers(1, 255))

    with pytest.raises(TransactionLogError):
        list(read_log(bytes(log)))


@given(any_transaction, any_transaction, st.data())
def test_a_changed_byte_in_the_last_payload_ends_the_log_quietly(
    first: Transaction, last: Transaction, draw: st.DataObject
) -> None:
    kept = HEADER + record(encoded(first), 7)
    log = bytearray(kept + record(encoded(last), 7))
    damaged = draw.draw(st.integers(len(kept) + 12, len(log) - 2))
    log[damaged] ^= draw.draw(st.integers(1, 255))

    assert list(read_log(bytes(log) + bytes(100))) == [first]


# --- damage and what is not a log ---


def test_damage_names_file_and_byte(tmp_path: Path) -> None:
    first = record(encoded(transaction(1, Operation.DELETE, path="/a")))
    second = record(encoded(transaction(2, Operation.DELETE, path="/b")))
    file = tmp_path / "log.1"
    file.write_bytes(HEADER + first + second.replace(b"/b", b"/x") + first)

    with pytest.raises(TransactionLogError, match=r"log\.1: byte 67: damaged record.*checksum") as info:
        list(read_log(file))
    assert (info.value.file, info.value.offset) == (str(file), 16 + len(first))


def test_zeros_with_a_record_behind_them_are_damage_not_padding() -> None:
    whole = record(encoded(transaction(1, Operation.DELETE, path="/a")))

    with pytest.raises(TransactionLogError, match="byte 16"):
        list(read_log(HEADER + bytes(len(whole)) + whole))


def test_a_file_copied_while_the_server_wrote_is_looked_at_again(monkeypatch: pytest.MonkeyPatch) -> None:
    written = [transaction(zxid, Operation.DELETE, path="/a") for zxid in (1, 2, 3)]
    first, second, third = (record(encoded(t)) for t in written)
    # The second record was still missing when its page was copied, the third there when its own was.
    views = iter([HEADER + first + bytes(len(second)) + third, HEADER + first + second + third])
    monkeypatch.setattr(Path, "read_bytes", lambda self: next(views))

    assert list(read_log(Path("log.1"))) == written


def test_a_header_with_nothing_behind_it_is_an_empty_log() -> None:
    assert list(read_log(HEADER)) == []
    assert list(read_log(HEADER + bytes(65536))) == []


@pytest.mark.parametrize(
    "content",
    [b"ZKSN" + HEADER[4:], b"PK\x03\x04", bytes(16), b"ZKLG" + struct.pack(">iq", 3, 0)],
    ids=["snapshot", "zip", "zeros", "version 3"],
)
def test_what_is_not_a_log_of_version_2_is_refused_at_once(content: bytes) -> None:
    with pytest.raises(TransactionLogError, match="<bytes>: byte 0: begins with"):
        read_log(content)


def test_an_unknown_type_is_named() -> None:
    payload = struct.pack(">qiqqi", 1, 1, 1, 1, 99)

    with pytest.raises(TransactionLogError, match="unknown transaction type 99"):
        list(read_log(HEADER + record(payload)))


CREATE, SET_ACL, MULTI, CLOSE = 1, 7, 14, -11


@pytest.mark.parametrize(
    ("type_", "body", "problem"),
    [
        (CREATE, struct.pack(">i", 2**31 - 1), "a value of 2147483647 bytes where 0 are left"),
        (CREATE, struct.pack(">i", -2), "a value of -2 bytes"),
        (CREATE, struct.pack(">i1si", 1, b"/", 5), "a value of 5 bytes where 0 are left"),
        (CREATE, struct.pack(">i2s", 2, b"\xff\xfe"), "not UTF-8"),
        (SET_ACL, struct.pack(">i1sii", 1, b"/", 2**31 - 1, 0), "a list of 2147483647 entries where 4 bytes are left"),
        (SET_ACL, struct.pack(">i1si", 1, b"/", -2), "a list of -2 entries"),
        (CLOSE, struct.pack(">i", 1), "a list of 1 entries where 0 bytes are left"),
        (MULTI, struct.pack(">iii", 1, 2, -1), "a value of -1 bytes"),
        (MULTI, struct.pack(">iiii", 1, 14, 4, 0), "a multi within a multi"),
        (MULTI, struct.pack(">iii", 1, 77, 0), "unknown transaction type 77"),
        (MULTI, struct.pack(">iiiii", 1, -1, 8, -101, 0), "4 bytes left over"),
        (-1, struct.pack(">iii", -101, 0, 0), "8 bytes left over"),
    ],
)
def test_a_payload_that_cannot_be_is_refused_though_its_checksum_is_right(
    type_: int, body: bytes, problem: str
) -> None:
    payload = struct.pack(">qiqqi", 1, 1, 1, 1, type_) + body

    with pytest.raises(TransactionLogError, match=problem):
        list(read_log(HEADER + record(payload)))


def test_a_payload_shorter_than_its_header_is_refused() -> None:
    with pytest.raises(TransactionLogError, match="a value of 32 bytes where 3 are left"):
        list(read_log(HEADER + record(b"abc")))


def test_a_create_of_zookeeper_3_3_has_no_version_of_its_parent() -> None:
    payload = encoded(transaction(1, Operation.CREATE, path="/a", data=b"x", acl=(ANYONE,), ephemeral=True))

    (read,) = read_log(HEADER + record(payload[:-4]))

    assert (read.path, read.data, read.acl, read.ephemeral) == ("/a", b"x", (ANYONE,), True)


def test_an_error_without_a_word_is_its_number() -> None:
    assert transaction(1, Operation.ERROR, error=-999).error_name == "-999"
    assert transaction(1, Operation.DELETE).error_name is None


# --- files and directories ---


def test_an_open_file_is_read_from_where_it_stands() -> None:
    log = (VECTORS / "default" / "log.1").read_bytes()

    assert list(read_log(io.BytesIO(log))) == list(read_log(log))


def test_a_directory_is_one_history_with_each_zxid_once(tmp_path: Path) -> None:
    written = [transaction(zxid, Operation.DELETE, path=f"/{zxid}") for zxid in range(1, 19)]
    encoded_records = [record(encoded(t)) for t in written]
    # By name log.10 comes before log.9, and zxid 9 is in two files.
    (tmp_path / "log.1").write_bytes(HEADER + b"".join(encoded_records[:9]) + bytes(50))
    (tmp_path / "log.9").write_bytes(HEADER + b"".join(encoded_records[8:15]))
    (tmp_path / "log.10").write_bytes(HEADER + b"".join(encoded_records[15:]))
    (tmp_path / "log.1.fixed").write_bytes(b"left behind by the toolkit")
    (tmp_path / "snapshot.0").write_bytes(b"ZKSN")

    assert read_logs(tmp_path) == written


def test_a_directory_without_logs_is_an_empty_history(tmp_path: Path) -> None:
    assert read_logs(tmp_path) == []


def test_the_directory_above_is_refused_with_a_hint(tmp_path: Path) -> None:
    (tmp_path / "version-2").mkdir()

    with pytest.raises(TransactionLogError, match="they are in its directory version-2"):
        read_logs(tmp_path)


# --- helpers ---


def transaction(zxid: int, operation: Operation, **fields: object) -> Transaction:
    return replace(Transaction(zxid, session=5, cxid=6, time_ms=7, operation=operation), **fields)  # type: ignore[arg-type]


def recorded_transaction(recorded: str, zxid: int) -> Transaction:
    (found,) = [transaction for transaction in read_logs(VECTORS / recorded) if transaction.zxid == zxid]
    return found


def record(payload: bytes, digest: int | None = None) -> bytes:
    if digest is not None:
        payload += struct.pack(">iq", 2, digest)
    return struct.pack(">qi", zlib.adler32(payload), len(payload)) + payload + b"B"


def encoded(transaction: Transaction) -> bytes:
    """The payload of a record, without digest."""
    type_, body = encoded_body(transaction)
    head = (transaction.session, transaction.cxid, transaction.zxid, transaction.time_ms, type_)
    return struct.pack(">qiqqi", *head) + body


def encoded_body(t: Transaction) -> tuple[int, bytes]:
    match t.operation:
        case Operation.CREATE if t.container:
            return 19, buffer(t.path) + buffer(t.data) + acl_vector(t.acl) + number(3)
        case Operation.CREATE if t.ttl_ms is not None:
            return 21, buffer(t.path) + buffer(t.data) + acl_vector(t.acl) + number(3) + struct.pack(">q", t.ttl_ms)
        case Operation.CREATE:
            ephemeral = bytes([t.ephemeral])
            return t.cxid % 2 * 14 + 1, buffer(t.path) + buffer(t.data) + acl_vector(t.acl) + ephemeral + number(3)
        case Operation.DELETE:
            return t.cxid % 2 * 18 + 2, buffer(t.path)
        case Operation.SET_DATA | Operation.RECONFIG:
            return 5 if t.operation is Operation.SET_DATA else 16, buffer(t.path) + buffer(t.data) + number(t.version)
        case Operation.SET_ACL:
            return 7, buffer(t.path) + acl_vector(t.acl) + number(t.version)
        case Operation.CHECK:
            return 13, buffer(t.path) + number(t.version)
        case Operation.CREATE_SESSION:
            return -10, number(t.timeout_ms)
        case Operation.CLOSE_SESSION:
            return -11, number(len(t.removed)) + b"".join(map(buffer, t.removed))
        case Operation.ERROR:
            return -1, number(t.error)
        case Operation.MULTI:
            parts = [encoded_body(part) for part in t.parts]
            return 14, number(len(parts)) + b"".join(number(type_) + buffer(body) for type_, body in parts)


def buffer(value: bytes | str | None) -> bytes:
    if value is None:
        return number(-1)
    content = value.encode() if isinstance(value, str) else value
    return number(len(content)) + content


def number(value: int | None) -> bytes:
    return struct.pack(">i", value)


def acl_vector(acl: tuple[Acl, ...]) -> bytes:
    return number(len(acl)) + b"".join(number(a.permissions) + buffer(a.scheme) + buffer(a.id) for a in acl)


TOOLKIT_ENTRY = re.compile(
    r"^(?P<time>[\d/]+, [\d:]+ [AP]M UTC) session 0x(?P<session>\w+) cxid 0x(?P<cxid>\w+) zxid 0x(?P<zxid>\w+) "
    r"(?P<kind>\w+) (?P<body>.*?)\n(?=[\d/]+, [\d:]+ [AP]M UTC session |EOF reached)",
    re.MULTILINE | re.DOTALL,
)
OPERATIONS = {
    "createSession": Operation.CREATE_SESSION,
    "closeSession": Operation.CLOSE_SESSION,
    "create": Operation.CREATE,
    "create2": Operation.CREATE,
    "createContainer": Operation.CREATE,
    "createTTL": Operation.CREATE,
    "delete": Operation.DELETE,
    "deleteContainer": Operation.DELETE,
    "setData": Operation.SET_DATA,
    "setACL": Operation.SET_ACL,
    "multi": Operation.MULTI,
    "reconfig": Operation.RECONFIG,
    "error": Operation.ERROR,
}


def toolkit_entries(file: Path) -> list[tuple[int, int, int, datetime, Operation, str]]:
    """What the toolkit printed, as numbers and the text of the body."""
    printed = file.read_bytes().decode()
    entries = [
        (
            int(entry["zxid"], 16),
            int(entry["session"], 16),
            int(entry["cxid"], 16),
            datetime.strptime(entry["time"], "%m/%d/%y, %I:%M:%S %p UTC").replace(tzinfo=UTC),
            OPERATIONS[entry["kind"]],
            comparable(entry["kind"], entry["body"]),
        )
        for entry in TOOLKIT_ENTRY.finditer(printed)
    ]
    assert f"EOF reached after {len(entries)} txns." in printed
    return entries


def comparable(kind: str, body: str) -> str:
    """The toolkit's body without what a Transaction does not keep or the toolkit does not decode."""
    if kind == "multi":
        return " ".join(re.findall(r"/\w+", body))  # the bodies of its parts are printed as raw bytes
    if kind in ("create", "create2", "createContainer"):
        return body.rpartition(",")[0]  # without the version of the parent
    if kind == "createTTL":
        return re.sub(r",\d+(,\d+)$", r"\1", body)
    return body


def in_toolkit_words(t: Transaction) -> tuple[int, int, int, datetime, Operation, str]:
    time = datetime.fromtimestamp(t.time_ms // 1000, UTC)
    return (t.zxid, t.session & (2**64 - 1), t.cxid, time, t.operation, body_in_toolkit_words(t))


def body_in_toolkit_words(t: Transaction) -> str:
    data = (t.data or b"").decode()
    match t.operation:
        case Operation.CREATE:
            acl = ", ".join(f"{a.permissions},s{{'{a.scheme},'{a.id}}}\n" for a in t.acl)
            kind = "" if t.container else f",{t.ttl_ms}" if t.ttl_ms is not None else f",{t.ephemeral}".lower()
            return f"{t.path},{data},[{acl}]{kind}"
        case Operation.SET_DATA | Operation.RECONFIG:
            return f"{t.path},{data},{t.version}"
        case Operation.SET_ACL:
            acl = ",".join(f"s{{{a.permissions},s{{'{a.scheme},'{a.id}}}}}" for a in t.acl)
            return f"'{t.path},v{{{acl}}},{t.version}"
        case Operation.DELETE:
            return f"'{t.path}"
        case Operation.CREATE_SESSION:
            return str(t.timeout_ms)
        case Operation.CLOSE_SESSION:
            return "v{" + ",".join(f"'{path}" for path in t.removed) + "}" if t.removed else ""
        case Operation.ERROR:
            return str(t.error)
        case Operation.MULTI:
            return " ".join(part.path for part in t.parts if part.path is not None)
        case Operation.CHECK:
            raise AssertionError("only part of a multi")
