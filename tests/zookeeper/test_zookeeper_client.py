"""The operations on ZooKeeper, alone and many at a time; servers that pause, die and come back; lost sessions."""

from __future__ import annotations

import logging
import threading
import uuid
from functools import partial

import pytest
from kazoo.client import KazooClient
from kazoo.security import OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_digest_acl

from tests.zookeeper.sessions import Background, connected, expire, observer, tree
from zkconsumer.errors import (
    InvalidConfigException,
    MissingChroot,
    ZkNodeExistsException,
    ZkTimeoutException,
    ZooKeeperError,
    ZooKeeperSessionExpired,
    ZooKeeperStopped,
)
from zkconsumer.testing.link import Link
from zkconsumer.testing.ports import ReservedPort
from zkconsumer.testing.transactions import Operation, Transaction
from zkconsumer.testing.waiting import eventually
from zkconsumer.testing.zookeeper import ZooKeeperServer
from zkconsumer.zookeeper import CreateOutcome, ZooKeeper

OURS = CreateOutcome(ours=True)


def transactions_of(server: ZooKeeperServer, session_id: int | None) -> list[Transaction]:
    """What the server wrote down about one session, without its begin and end."""
    return [
        transaction
        for transaction in server.transactions()
        if transaction.session == session_id
        and transaction.operation not in (Operation.CREATE_SESSION, Operation.CLOSE_SESSION)
    ]


def operations_of(server: ZooKeeperServer, session_id: int | None, address: str) -> list[str]:
    """The same in words, without the chroot."""
    chroot = "/" + address.partition("/")[2]
    return [
        f"{transaction.operation.value} {transaction.error_name or (transaction.path or '').removeprefix(chroot)}"
        for transaction in transactions_of(server, session_id)
    ]


# --- connecting ---


def test_connecting_writes_nothing(server: ZooKeeperServer, session: ZooKeeper, client: KazooClient) -> None:
    """C1: a session, and no node."""
    assert tree(client) == set()
    assert transactions_of(server, session.session_id) == []


def test_a_server_that_is_not_there_is_an_error_naming_the_timeout() -> None:
    """C2: after zookeeper.connection.timeout.ms, in the real one's words."""
    with ReservedPort() as port:  # nobody listens
        zookeeper = ZooKeeper(f"127.0.0.1:{port.number}", session_timeout_ms=6000, connection_timeout_ms=300)

        with pytest.raises(ZkTimeoutException) as caught:
            zookeeper.start()

    assert str(caught.value) == "Unable to connect to zookeeper server within timeout: 300"


def test_a_missing_chroot_is_an_error_and_is_not_created(server: ZooKeeperServer) -> None:
    """A19: nothing is created, inside or outside."""
    name = f"/missing-{uuid.uuid4().hex}"
    zookeeper = ZooKeeper(server.connect_string + name, session_timeout_ms=6000, connection_timeout_ms=20_000)

    with pytest.raises(MissingChroot, match=name):
        zookeeper.start()

    with observer(server.connect_string) as client:
        assert client.exists(name) is None


def test_a_chroot_that_vanishes_is_an_error_too(session: ZooKeeper, client: KazooClient) -> None:
    """A19: parents are created upwards only to the chroot."""
    client.delete("/")

    with pytest.raises(MissingChroot):
        session.create_ephemerals({"/consumers/g/ids/c": b"x"})


def test_the_session_timeout_is_asked_for_to_the_millisecond(server: ZooKeeperServer, address: str) -> None:
    with connected(address, session_timeout_ms=4004) as zookeeper:
        [begin] = [
            transaction
            for transaction in server.transactions()
            if transaction.session == zookeeper.session_id and transaction.operation is Operation.CREATE_SESSION
        ]

    assert begin.timeout_ms == 4004


@pytest.mark.parametrize("connect", ["127.0.0.1:port", "", ":2181"])
def test_a_connect_string_nobody_can_read_is_a_setting_refused(connect: str) -> None:
    with pytest.raises(InvalidConfigException, match=r"zookeeper\.connect"):
        ZooKeeper(connect, session_timeout_ms=6000, connection_timeout_ms=300)


def test_an_unknown_option_is_named_without_its_value() -> None:
    with pytest.raises(InvalidConfigException) as caught:
        ZooKeeper(
            "127.0.0.1:1",
            session_timeout_ms=1,
            connection_timeout_ms=1,
            options={"auth_date": [("digest", "u:secret")]},
        )

    assert "auth_date" in str(caught.value)
    assert "secret" not in str(caught.value)


def test_closing_takes_ephemeral_nodes_along_and_can_be_repeated(address: str, client: KazooClient) -> None:
    """A2, A12: persistent nodes stay."""
    with connected(address) as zookeeper:
        zookeeper.create_ephemerals({"/a/leaf": b"x"})
        zookeeper.close()

    assert tree(client) == {"/a"}
    with pytest.raises(ZooKeeperStopped):
        zookeeper.read("/a")


def test_calls_before_start_do_not_wait_for_ever(address: str) -> None:
    zookeeper = ZooKeeper(address, session_timeout_ms=6000, connection_timeout_ms=300)

    with pytest.raises(ZooKeeperStopped, match="not started"):
        zookeeper.read("/")


# --- reading ---


def test_null_and_empty_data_read_the_same_and_differ_from_a_missing_node(
    session: ZooKeeper, client: KazooClient
) -> None:
    """A11: 0.8 gives parents null data, 0.9 empty data."""
    client.create("/null", None)
    client.create("/empty", b"")

    assert session.read_many(["/null", "/empty", "/missing"]) == {"/null": b"", "/empty": b"", "/missing": None}


def test_children_of_a_missing_node_are_none_and_of_a_leaf_empty(session: ZooKeeper, client: KazooClient) -> None:
    client.create("/leaf", b"")

    assert session.children_many(["/leaf", "/missing"]) == {"/leaf": [], "/missing": None}


def test_many_are_read_in_one_call(session: ZooKeeper) -> None:
    numbers = range(600)
    session.update_many({f"/many/{number}": str(number).encode() for number in numbers})

    found = session.read_many(f"/many/{number}" for number in numbers)

    assert found == {f"/many/{number}": str(number).encode() for number in numbers}
    assert sorted(session.children("/many") or (), key=int) == [str(number) for number in numbers]


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_zookeeper_does_not_allow_is_an_error_naming_the_path(session: ZooKeeper, name: str) -> None:
    path = f"/consumers/{name}/ids"

    for call in (lambda: session.read(path), lambda: session.create_ephemerals({path: b""})):
        with pytest.raises(ZooKeeperError, match="not a path in ZooKeeper") as caught:
            call()
        assert path in str(caught.value)


# --- creating ---


def test_the_leaf_is_tried_first_then_parents_upwards_as_far_as_they_are_missing(
    server: ZooKeeperServer, session: ZooKeeper, address: str
) -> None:
    """A2: the requests of ZkClient's recursive create, in its order."""
    session.create_ephemerals({"/consumers/g/ids/g_c1": b"x"})
    session.create_ephemerals({"/consumers/g/ids/g_c2": b"x"})

    assert operations_of(server, session.session_id, address) == [
        *["error NoNode"] * 3,
        "create /consumers",
        "create /consumers/g",
        "create /consumers/g/ids",
        "create /consumers/g/ids/g_c1",
        "create /consumers/g/ids/g_c2",
    ]


def test_parents_have_null_data_are_persistent_and_open_to_all(
    server: ZooKeeperServer, session: ZooKeeper, client: KazooClient
) -> None:
    """A2, A10: also null, not empty, in the server's own log."""
    session.create_ephemerals({"/consumers/g/owners/t/0": b"g_c-0"})

    created = [entry for entry in transactions_of(server, session.session_id) if entry.operation is Operation.CREATE]
    assert [(entry.data, entry.ephemeral) for entry in created] == [(None, False)] * 4 + [(b"g_c-0", True)]
    for path in tree(client):
        assert client.get_acls(path)[0] == OPEN_ACL_UNSAFE


def test_parents_shared_by_many_leaves_are_created_once(
    server: ZooKeeperServer, session: ZooKeeper, address: str
) -> None:
    items = {f"/consumers/g/owners/t{topic}/{number}": b"x" for topic in range(3) for number in range(20)}

    assert session.create_ephemerals(items) == dict.fromkeys(items, OURS)

    created = [line for line in operations_of(server, session.session_id, address) if line.startswith("create ")]
    assert len(created) == len(set(created)) == 60 + 3 + 3


def test_a_node_of_our_own_session_with_equal_data_is_ours(
    session: ZooKeeper, caplog: pytest.LogCaptureFixture
) -> None:
    """F4: as after a lost answer; the line operators know."""
    caplog.set_level(logging.INFO)
    session.create_ephemerals({"/owners/0": b"mine"})

    assert session.create_ephemerals({"/owners/0": b"mine"}) == {"/owners/0": OURS}
    assert "/owners/0 exists with value mine during connection loss; this is ok" in caplog.messages


def test_equal_data_of_another_session_is_a_conflict(address: str, session: ZooKeeper) -> None:
    """F4: the node of a session about to expire would vanish under us (Q22)."""
    with connected(address) as before:
        before.create_ephemerals({"/owners/0": b"mine"})

        outcome = session.create_ephemerals({"/owners/0": b"mine"})

    assert outcome == {"/owners/0": CreateOutcome(ours=False, stored=b"mine")}


def test_a_conflict_says_what_is_stored_and_stops_nothing_else(
    session: ZooKeeper, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    """F1: `conflict in <path> data: <mine> stored data: <theirs>`."""
    caplog.set_level(logging.INFO)
    client.create("/owners/1", b"theirs", ephemeral=True, makepath=True)

    outcome = session.create_ephemerals({f"/owners/{number}": b"mine" for number in range(3)})

    assert outcome == {"/owners/0": OURS, "/owners/1": CreateOutcome(ours=False, stored=b"theirs"), "/owners/2": OURS}
    assert "conflict in /owners/1 data: mine stored data: theirs" in caplog.messages
    assert client.get("/owners/1")[0] == b"theirs"


def test_a_single_conflict_is_raised_with_its_path(session: ZooKeeper, client: KazooClient) -> None:
    client.create("/taken", b"theirs", ephemeral=True)

    with pytest.raises(ZkNodeExistsException) as caught:
        session.create_ephemeral_expect_conflict("/taken", b"mine")

    assert caught.value.path == "/taken"


def test_ensure_path_creates_what_is_missing_and_asks_for_nothing_that_is_there(
    server: ZooKeeperServer, session: ZooKeeper, address: str
) -> None:
    for _ in range(2):
        session.ensure_path("/brokers/topics")

    operations = operations_of(server, session.session_id, address)
    assert operations == ["error NoNode", "create /brokers", "create /brokers/topics"]


# --- deleting and setting ---


def test_deleting_what_is_missing_is_fine(
    session: ZooKeeper, client: KazooClient, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    client.create("/there", b"")

    session.delete_many(["/there", "/missing"])

    assert tree(client) == set()
    assert "/missing deleted during connection loss; this is ok" in caplog.messages


def test_deleting_a_node_with_children_is_an_error_naming_it(session: ZooKeeper, client: KazooClient) -> None:
    client.create("/parent/child", b"", makepath=True)

    with pytest.raises(ZooKeeperError, match="/parent: ZooKeeper answered NotEmpty"):
        session.delete("/parent")


def test_updating_sets_first_and_creates_only_what_is_missing(
    server: ZooKeeperServer, session: ZooKeeper, address: str
) -> None:
    """A2, A9: the requests of updatePersistentPath, in its order."""
    session.update_persistent("/offsets/t/0", b"5")
    session.update_persistent("/offsets/t/0", b"6")
    session.update_persistent("/offsets/t/1", b"7")

    assert operations_of(server, session.session_id, address) == [
        "error NoNode",  # set
        "error NoNode",  # create /offsets/t
        "create /offsets",
        "create /offsets/t",
        "create /offsets/t/0",
        "set data /offsets/t/0",
        "error NoNode",  # set
        "error NodeExists",  # create /offsets/t
        "create /offsets/t/1",
    ]
    assert session.read_many(["/offsets/t/0", "/offsets/t/1"]) == {"/offsets/t/0": b"6", "/offsets/t/1": b"7"}


def test_two_sessions_updating_the_same_new_nodes_do_not_get_in_each_others_way(
    address: str, session: ZooKeeper, client: KazooClient
) -> None:
    items = {f"/offsets/t/{number}": b"1" for number in range(300)}

    with connected(address) as other:
        calls = [Background(partial(one.update_many, items)) for one in (session, other)]
        for call in calls:
            call.result()

    assert set(session.read_many(items).values()) == {b"1"}


# --- who may do what ---


def test_without_authentication_everything_is_open(session: ZooKeeper, client: KazooClient) -> None:
    """A10: world:anyone, all five permissions, whatever was asked for."""
    session.create_ephemerals({"/owners/0": b"x"}, protected=True)
    session.update_persistent("/offsets/0", b"1", protected=True)

    assert {path: client.get_acls(path)[0] for path in tree(client)} == dict.fromkeys(tree(client), OPEN_ACL_UNSAFE)


def test_an_authenticated_session_protects_what_it_is_asked_to_protect(server: ZooKeeperServer) -> None:
    """As 0.9 does it: all to the creator, reading to the world; everything else open."""
    address = server.chroot()  # nobody without the password can clean it up
    owner_only = [make_digest_acl("reader", "secret", all=True), *READ_ACL_UNSAFE]

    with connected(address, options={"auth_data": [("digest", "reader:secret")]}) as zookeeper:
        zookeeper.create_ephemerals({"/ids/c": b"x"})
        zookeeper.create_ephemerals({"/owners/t/0": b"x"}, protected=True)
        zookeeper.update_persistent("/offsets/t/0", b"1", protected=True)
        acls = {path: zookeeper.client.get_acls(path)[0] for path in tree(zookeeper.client)}

    assert acls == {
        **dict.fromkeys(["/ids", "/ids/c"], OPEN_ACL_UNSAFE),
        **dict.fromkeys(["/owners", "/owners/t", "/owners/t/0", "/offsets", "/offsets/t", "/offsets/t/0"], owner_only),
    }


def test_a_stranger_is_refused_and_a_session_with_the_same_credentials_is_not(server: ZooKeeperServer) -> None:
    address = server.chroot()
    credentials = {"auth_data": [("digest", "reader:secret")]}
    with connected(address, options=credentials) as zookeeper:
        zookeeper.update_persistent("/offsets/t/0", b"1", protected=True)

    with connected(address) as stranger:
        assert stranger.read("/offsets/t/0") == b"1"
        with pytest.raises(ZooKeeperError, match="/offsets/t/0: ZooKeeper answered NoAuth"):
            stranger.update_persistent("/offsets/t/0", b"2", protected=True)
    with connected(address, options=credentials) as zookeeper:
        zookeeper.update_persistent("/offsets/t/0", b"3", protected=True)
        assert zookeeper.read("/offsets/t/0") == b"3"


def test_credentials_are_in_no_log_line_however_much_is_logged(address: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)

    with connected(address, options={"auth_data": [("digest", "reader:secret-word")]}) as zookeeper:
        zookeeper.read("/")
        zookeeper.client.add_auth("digest", "reader:secret-word-too")
        password = zookeeper.client.client_id[1].hex()

    assert any("GetData" in line for line in caplog.messages)  # so requests are logged indeed
    assert "secret-word" not in caplog.text
    assert password not in caplog.text


# --- connections that break, servers that go away ---


def test_a_server_standing_still_only_delays_a_call(server: ZooKeeperServer, session: ZooKeeper) -> None:
    session.update_persistent("/node", b"1")
    server.pause()
    try:
        call = Background(lambda: session.read("/node"))
        assert not threading.Event().wait(0.3) and call.is_running()
    finally:
        server.resume()

    assert call.result() == b"1"


@pytest.mark.parametrize(
    "name", ["read", "create", "update", "delete"], ids=["reading", "creating", "updating", "deleting"]
)
def test_a_server_killed_and_started_again_only_delays_a_call(
    server: ZooKeeperServer, session: ZooKeeper, name: str
) -> None:
    session.update_persistent("/node", b"1")
    session_id = session.session_id
    calls = {
        "read": lambda: session.read("/node"),
        "create": lambda: session.create_ephemerals({"/leaf": b"x"}),
        "update": lambda: session.update_persistent("/new/node", b"2"),
        "delete": lambda: session.delete("/node"),
    }

    server.kill()
    call = Background(calls[name])
    eventually(lambda: not session.is_connected, "the loss of the connection")
    assert call.is_running()
    server.restart()

    assert call.result() == {"read": b"1", "create": {"/leaf": OURS}}.get(name)
    assert session.session_id == session_id
    if name == "update":
        assert session.read("/new/node") == b"2"
    if name == "delete":
        assert session.read("/node") is None


def _has_children(client: KazooClient, count: float) -> bool:
    return len(client.get_children("/owners/t")) >= count


def test_creates_cut_off_in_the_middle_are_all_ours_in_the_end(server: ZooKeeperServer, address: str) -> None:
    """Those whose answer was lost are found again by reading: same data, our session."""
    host_and_port, _, chroot = address.partition("/")
    items = {f"/owners/t/{number}": b"g_c-0" for number in range(4000)}

    with Link(host_and_port) as link, connected(f"{link.address}/{chroot}") as zookeeper:
        zookeeper.ensure_path("/owners/t")
        call = Background(lambda: zookeeper.create_ephemerals(items))
        for part in (0.2, 0.5, 0.8):
            with observer(address) as client:
                eventually(partial(_has_children, client, part * len(items)), "some of the nodes")
            link.drop_connections()

        assert call.result(60) == dict.fromkeys(items, OURS)
        owners = {node.ephemeral_owner for node in zookeeper.read_many_with_stat(items).values() if node is not None}
        assert owners == {zookeeper.session_id}


def test_stopping_ends_a_call_that_waits_for_a_server_that_is_down(server: ZooKeeperServer, address: str) -> None:
    stopping = threading.Event()
    with connected(address, stopping=stopping) as zookeeper:
        server.kill()
        try:
            call = Background(lambda: zookeeper.read("/"))
            eventually(lambda: not zookeeper.is_connected, "the loss of the connection")
            assert call.is_running()

            stopping.set()

            with pytest.raises(ZooKeeperStopped):
                call.result(1.0)
        finally:
            server.restart()


def test_stopping_ends_a_call_that_waits_for_a_server_standing_still(server: ZooKeeperServer, address: str) -> None:
    stopping = threading.Event()
    with connected(address, session_timeout_ms=60_000, stopping=stopping) as zookeeper:
        server.pause()
        try:
            call = Background(lambda: zookeeper.read("/"))
            stopping.set()

            with pytest.raises(ZooKeeperStopped):
                call.result(10.0)
            Background(zookeeper.close).result(10.0)
        finally:
            server.resume()


def test_while_stopping_calls_still_work_on_a_living_connection(address: str) -> None:
    """The last commit of a shutdown comes after everybody was told to stop."""
    stopping = threading.Event()
    with connected(address, stopping=stopping) as zookeeper:
        stopping.set()
        zookeeper.update_persistent("/offsets/t/0", b"9")

        assert zookeeper.read("/offsets/t/0") == b"9"


def test_closing_ends_calls_of_other_threads(server: ZooKeeperServer, address: str) -> None:
    with connected(address) as zookeeper:
        server.kill()
        try:
            call = Background(lambda: zookeeper.read("/"))
            eventually(lambda: not zookeeper.is_connected, "the loss of the connection")

            Background(zookeeper.close).result()

            with pytest.raises(ZooKeeperStopped):
                call.result()
        finally:
            server.restart()


def test_many_requests_while_the_server_is_away_do_not_block_kazoo_for_good(
    server: ZooKeeperServer, address: str
) -> None:
    """kazoo's own way of waking its thread is full after 278 requests; then nothing could be stopped any more."""
    stopping = threading.Event()
    with connected(address, stopping=stopping) as zookeeper:
        server.kill()
        try:
            eventually(lambda: not zookeeper.is_connected, "the loss of the connection")
            ask = Background(lambda: [zookeeper.client.get_async("/") for _ in range(2000)])

            assert len(ask.result()) == 2000
        finally:
            server.restart()
        assert zookeeper.children("/") == []


# --- lost sessions ---


def test_a_session_that_expires_during_a_call_is_a_typed_error(server: ZooKeeperServer, address: str) -> None:
    items = {f"/owners/{number}": b"x" for number in range(200)}
    with connected(address) as zookeeper:
        calls = 0

        def claim_for_ever() -> None:
            nonlocal calls
            while True:
                zookeeper.create_ephemerals(items)
                zookeeper.delete_many(items)
                calls += 1

        call = Background(claim_for_ever)
        eventually(lambda: calls, "a first round")
        expire(zookeeper, address)

        with pytest.raises(ZooKeeperSessionExpired):
            call.result()


def test_calls_after_an_expiry_work_in_the_new_session(address: str, session: ZooKeeper) -> None:
    session.create_ephemerals({"/ids/c": b"old"})
    old = session.session_id

    expire(session, address)
    session.create_ephemerals({"/ids/c": b"new"})

    node = session.read_with_stat("/ids/c")
    assert node is not None
    assert (node.data, node.ephemeral_owner) == (b"new", session.session_id)
    assert session.session_id != old


def test_calls_meant_for_one_session_do_not_go_on_in_the_next(address: str, session: ZooKeeper) -> None:
    with pytest.raises(ZooKeeperSessionExpired), session.in_one_session():
        assert session.create_ephemerals({"/owners/0": b"x"}) == {"/owners/0": OURS}
        expire(session, address)
        session.create_ephemerals({"/owners/1": b"x"})

    assert session.children("/owners") == []
    assert session.create_ephemerals({"/owners/1": b"x"}) == {"/owners/1": OURS}


def test_a_call_in_a_watch_is_refused_instead_of_holding_up_all_others(session: ZooKeeper, client: KazooClient) -> None:
    caught: list[Exception] = []

    def watch(_event: object) -> None:
        try:
            session.read("/")
        except Exception as error:
            caught.append(error)

    session.client.get_children("/", watch=watch)
    client.create("/child", b"")

    eventually(lambda: caught, "the watch")
    assert isinstance(caught[0], RuntimeError)


def test_a_call_in_a_session_listener_is_refused_instead_of_waiting_for_itself(
    address: str, session: ZooKeeper
) -> None:
    caught: list[Exception] = []

    def listener(state: str) -> None:
        try:
            session.read("/")
        except Exception as error:
            caught.append(error)

    session.client.add_listener(listener)
    expire(session, address)

    eventually(lambda: len(caught) >= 2, "the loss and the new session")
    assert {type(error) for error in caught} == {RuntimeError}
