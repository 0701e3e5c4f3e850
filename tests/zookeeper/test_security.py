"""TLS, SASL and ACLs, with a real ZooKeeper and a real broker: members that get in, and what those read who do not."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError, NoNodeError
from kazoo.security import ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl

from tests.broker.command_process import run_command
from tests.broker.members import Member
from tests.zookeeper.certificates import KEY_PASSWORD, Certificates, make_certificates
from tests.zookeeper.sessions import connected, tree
from zkconsumer.config import ConsumerConfig
from zkconsumer.connector import ZookeeperConsumerConnector
from zkconsumer.errors import (
    ConsumerRebalanceFailedException,
    InvalidConfigException,
    ZkTimeoutException,
    ZooKeeperError,
)
from zkconsumer.testing.errors import NotSupported
from zkconsumer.testing.kafka import KafkaCluster
from zkconsumer.testing.ports import HOST, ReservedPort
from zkconsumer.testing.waiting import eventually, scaled
from zkconsumer.testing.zookeeper import ZooKeeperServer

USER, PASSWORD = "reader", "word-of-the-reader"
SASL = {"mechanism": "DIGEST-MD5", "username": USER, "password": PASSWORD}
OWNERS_ONLY = [make_acl("sasl", USER, all=True), *READ_ACL_UNSAFE]
TRY_FOR_MS = int(scaled(4) * 1000)

Options = Callable[[Certificates], Mapping[str, Any]]


class SecuredServer(NamedTuple):
    """A ZooKeeper with two ports, one of them for TLS, that knows USER by SASL."""

    server: ZooKeeperServer
    tls_address: str


@contextmanager
def secured_server(directory: Path, certificates: Certificates, *, client_auth: str) -> Iterator[SecuredServer]:
    login = directory / f"login-{client_auth}.conf"
    module = "org.apache.zookeeper.server.auth.DigestLoginModule"
    login.write_text(f'Server {{ {module} required user_{USER}="{PASSWORD}"; }};\n')
    with ReservedPort() as port:
        settings = {
            "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
            "secureClientPort": str(port.number),
            "secureClientPortAddress": HOST,
            "ssl.keyStore.location": certificates.server,
            "ssl.trustStore.location": certificates.ca,
            "ssl.clientAuth": client_auth,
            "authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
        }
        port.hand_over()
        options = [f"-Djava.security.auth.login.config={login}"]
        with ZooKeeperServer(settings=settings, java_options=options) as server:
            yield SecuredServer(server, f"{HOST}:{port.number}")


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("security")


@pytest.fixture(scope="module")
def certificates(directory: Path) -> Certificates:
    return make_certificates(directory)


@pytest.fixture(scope="module")
def secured(directory: Path, certificates: Certificates) -> Iterator[SecuredServer]:
    """Its port for TLS wants a client's certificate."""
    with secured_server(directory, certificates, client_auth="need") as server:
        yield server


@pytest.fixture(scope="module")
def cluster(secured: SecuredServer) -> Iterator[KafkaCluster]:
    """A broker that uses the open port."""
    with KafkaCluster(zookeeper=secured.server) as cluster:
        yield cluster


@pytest.fixture
def tls_connect(secured: SecuredServer, cluster: KafkaCluster) -> str:
    """zookeeper.connect of the cluster, by the port for TLS."""
    return f"{secured.tls_address}/{cluster.zookeeper_connect.partition('/')[2]}"


@pytest.fixture
def topic(cluster: KafkaCluster) -> str:
    """Two partitions with a message each."""
    name = f"topic-{secrets.token_hex(4)}"
    cluster.create_topic(name, partitions=2)
    for partition in range(2):
        cluster.produce(name, [b"message"], partition=partition)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{secrets.token_hex(4)}"


@pytest.fixture
def observer(secured: SecuredServer, cluster: KafkaCluster) -> Iterator[KazooClient]:
    """Somebody without authentication, by the open port, in the cluster's chroot."""
    with secured.server.client(chroot=cluster.zookeeper_connect.partition("/")[2]) as client:
        yield client


@pytest.fixture
def new_member(group: str, topic: str) -> Iterator[Callable[..., Member]]:
    """`new_member(address, "c1", options)`: reads the topic in the group; shut down at the end."""
    with ExitStack() as stack:

        def make(address: str, name: str, options: Mapping[str, Any], **settings: Any) -> Member:
            member = Member(address, group, name, {topic: 1}, zookeeper_options=options, **settings)
            stack.callback(member.shutdown)
            return member

        yield make


def mutual_tls(certificates: Certificates) -> dict[str, Any]:
    """All that can be set: our certificate, and theirs checked with its host."""
    return {
        "use_ssl": True,
        "ca": certificates.ca,
        "certfile": certificates.client,
        "keyfile": certificates.client_key,
        "keyfile_password": KEY_PASSWORD,
        "check_hostname": True,
    }


def owners(client: KazooClient, group: str, topic: str) -> dict[str, bytes]:
    """Thread ids by partition; one released while we look has none."""
    path = f"/consumers/{group}/owners/{topic}"
    found = {}
    for name in client.get_children(path):
        with suppress(NoNodeError):
            found[name] = client.get(f"{path}/{name}")[0]
    return found


# --- TLS ---


def test_a_member_lives_on_tls_from_joining_to_its_last_commit(
    certificates: Certificates,
    tls_connect: str,
    observer: KazooClient,
    new_member: Callable[..., Member],
    group: str,
    topic: str,
) -> None:
    member = new_member(tls_connect, "c1", mutual_tls(certificates)).join()
    eventually(lambda: len(member.records) == 2, "both messages")

    assert observer.get_children(f"/consumers/{group}/ids") == [f"{group}_c1"]
    assert owners(observer, group, topic) == dict.fromkeys(("0", "1"), f"{group}_c1-0".encode())
    member.shutdown()
    assert [observer.get(f"/consumers/{group}/offsets/{topic}/{partition}")[0] for partition in (0, 1)] == [b"1", b"1"]
    # A certificate is no authentication that 0.9 would protect nodes for.
    assert observer.get_acls(f"/consumers/{group}/offsets/{topic}/0")[0] == OPEN_ACL_UNSAFE


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (
            lambda files: {**mutual_tls(files), "ca": files.other_ca},
            "certificate verify failed: .*; check the ZooKeeper options ca and check_hostname",
        ),
        (
            lambda files: {"use_ssl": True, "ca": files.ca},
            "; check that the port is one for TLS, and certfile and keyfile if it asks for a client's certificate",
        ),
        (lambda files: {}, "; if the port is one for TLS, set the ZooKeeper option use_ssl"),
    ],
    ids=["another authority", "no certificate of ours", "no TLS"],
)
def test_who_cannot_get_in_by_tls_is_told_what_to_check(
    secured: SecuredServer, certificates: Certificates, options: Options, problem: str
) -> None:
    config = ConsumerConfig(
        zookeeper_connect=secured.tls_address,
        group_id="g",
        zookeeper_connection_timeout_ms=TRY_FOR_MS,
        zookeeper_options=options(certificates),
    )
    expected = f"^Unable to connect to zookeeper server within timeout: {TRY_FOR_MS}: .*{problem}$"

    with pytest.raises(ZkTimeoutException, match=expected) as caught:
        ZookeeperConsumerConnector(config).start()

    assert "\n" not in str(caught.value)
    assert KEY_PASSWORD not in str(caught.value)


def test_tls_with_a_port_that_has_none_is_told(secured: SecuredServer, certificates: Certificates) -> None:
    with (
        pytest.raises(ZkTimeoutException, match="check that the port is one for TLS"),
        connected(
            secured.server.connect_string,
            connection_timeout_ms=TRY_FOR_MS,
            options={"use_ssl": True, "ca": certificates.ca},
        ),
    ):
        pass


def test_a_certificate_for_another_host_is_refused_if_asked_for(
    secured: SecuredServer, certificates: Certificates
) -> None:
    by_name = secured.tls_address.replace(HOST, "localhost")  # which the certificate does not name
    options = mutual_tls(certificates)

    with connected(by_name, options={**options, "check_hostname": False}) as zookeeper:
        assert zookeeper.exists("/")
    with (
        pytest.raises(
            ZkTimeoutException, match=r"Hostname mismatch.*check the ZooKeeper options ca and check_hostname"
        ),
        connected(by_name, connection_timeout_ms=TRY_FOR_MS, options=options),
    ):
        pass


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"ca": "missing.pem"}, r"^ZooKeeper option ca: missing\.pem cannot be used: .*No such file"),
        (
            {"certfile": "missing.pem"},
            r"^ZooKeeper option certfile, keyfile, keyfile_password: missing\.pem, .*No such",
        ),
        ({"keyfile_password": "word-that-is-wrong"}, r"keyfile_password: \S+, \S+client\.key cannot be used"),
        ({"keyfile_password": None}, r"keyfile_password: \S+, \S+client\.key cannot be used"),
    ],
    ids=["no authority", "no certificate", "wrong password", "no password"],
)
def test_files_that_cannot_be_used_are_named_before_anything_is_sent(
    certificates: Certificates, changes: Mapping[str, Any], problem: str
) -> None:
    """In particular nobody is asked for the password on a terminal."""
    with (
        ReservedPort() as port,  # nobody listens
        pytest.raises(InvalidConfigException, match=problem) as caught,
        connected(f"{HOST}:{port.number}", options={**mutual_tls(certificates), **changes}),
    ):
        pass

    assert "word-that-is-wrong" not in str(caught.value)


# --- SASL ---


def test_nodes_of_an_authenticated_member_are_protected_as_in_0_9(
    cluster: KafkaCluster, observer: KazooClient, new_member: Callable[..., Member], group: str, topic: str
) -> None:
    """Owners and offsets: all to their creator, reading to the world. Members and what is above all: open."""
    member = new_member(cluster.zookeeper_connect, "c1", {"sasl_options": SASL}).join()
    eventually(lambda: len(member.records) == 2, "both messages")
    member.connector.commit_offsets()

    top = f"/consumers/{group}"
    found: dict[str, list[ACL]] = {
        path: observer.get_acls(path)[0] for path in {"/consumers", top, *tree(observer, top)}
    }
    kinds = [top, *(f"{top}/{kind}/{topic}" for kind in ("owners", "offsets"))]
    protected = {f"{top}/{kind}" for kind in ("owners", "offsets")} | set(kinds[1:])
    protected |= {f"{path}/{partition}" for path in kinds[1:] for partition in (0, 1)}
    assert found == {
        **dict.fromkeys(["/consumers", top, f"{top}/ids", f"{top}/ids/{group}_c1"], OPEN_ACL_UNSAFE),
        **dict.fromkeys(protected, OWNERS_ONLY),
    }


@pytest.mark.parametrize(
    "changes", [{"password": "word-that-is-wrong"}, {"username": "stranger"}], ids=["password", "user"]
)
@pytest.mark.parametrize("chroot", ["", "/zookeeper"], ids=["without chroot", "with chroot"])
def test_who_is_refused_by_sasl_is_told_at_the_start(
    secured: SecuredServer, changes: Mapping[str, str], chroot: str
) -> None:
    address = secured.server.connect_string + chroot
    config = ConsumerConfig(
        zookeeper_connect=address, group_id="g", zookeeper_options={"sasl_options": {**SASL, **changes}}
    )

    with pytest.raises(ZooKeeperError) as caught:
        ZookeeperConsumerConnector(config).start()

    assert str(caught.value) == (
        f"{address}: ZooKeeper refused our authentication; check who we are by the ZooKeeper option sasl_options, and "
        "that the server has SASL"
    )


def test_a_server_without_sasl_is_told_like_one_that_refuses(shared_server: ZooKeeperServer) -> None:
    with (
        pytest.raises(ZooKeeperError, match=r"ZooKeeper refused our authentication; .*that the server has SASL$"),
        connected(shared_server.connect_string, session_timeout_ms=2000, options={"sasl_options": SASL}),
    ):
        pass


def test_a_scheme_the_server_does_not_know_is_told_at_the_start(shared_server: ZooKeeperServer) -> None:
    with (
        pytest.raises(ZooKeeperError, match=r"refused our authentication; check the scheme in .* auth_data$"),
        connected(shared_server.connect_string, options={"auth_data": [("nonsense", "reader")]}),
    ):
        pass


def test_after_a_restart_of_the_server_a_session_is_authenticated_again(
    directory: Path, certificates: Certificates
) -> None:
    """And by TLS without a certificate of ours, where the server wants none."""
    options = {"use_ssl": True, "ca": certificates.ca, "sasl_options": SASL}
    with (
        secured_server(directory, certificates, client_auth="none") as secured,
        connected(secured.tls_address, session_timeout_ms=int(scaled(30) * 1000), options=options) as zookeeper,
    ):
        zookeeper.update_persistent("/offsets/0", b"1", protected=True)
        session_id = zookeeper.session_id
        secured.server.restart()
        zookeeper.update_persistent("/offsets/0", b"2", protected=True)
        zookeeper.update_persistent("/offsets/1", b"1", protected=True)

        assert zookeeper.session_id == session_id
        assert zookeeper.client.get_acls("/offsets/1")[0] == OWNERS_ONLY


# --- groups where not all are authenticated ---


def test_a_member_without_authentication_gets_nothing_and_breaks_nothing_of_the_others(
    cluster: KafkaCluster,
    observer: KazooClient,
    new_member: Callable[..., Member],
    group: str,
    topic: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """It can register, so the others leave it its share, which nobody reads while it stays."""
    caplog.set_level(logging.INFO)
    mine = f"{group}_c1-0".encode()
    new_member(cluster.zookeeper_connect, "c1", {"sasl_options": SASL}).join()
    stranger = new_member(cluster.zookeeper_connect, "c2", {}, rebalance_max_retries=2)

    with pytest.raises(ConsumerRebalanceFailedException, match=f"^{group}_c2 can't rebalance after 2 retries$"):
        stranger.join()

    path = f"/consumers/{group}/owners/{topic}"
    assert (
        f"{path}/1: ZooKeeper answered NoAuthError: it belongs to somebody who is authenticated; "
        "all members of a group need the same ZooKeeper options"
    ) in caplog.text
    eventually(lambda: owners(observer, group, topic) == {"0": mine}, "the share of the other is left alone")
    with pytest.raises(NoAuthError):
        observer.delete(f"{path}/0")
    stranger.shutdown()
    eventually(lambda: owners(observer, group, topic) == {"0": mine, "1": mine}, "all to the one that is left")


# --- secrets ---


def test_no_secret_is_told_however_much_is_logged(
    certificates: Certificates,
    tls_connect: str,
    new_member: Callable[..., Member],
    caplog: pytest.LogCaptureFixture,
    capfd: pytest.CaptureFixture[str],
) -> None:
    caplog.set_level(1)
    options = {**mutual_tls(certificates), "sasl_options": SASL, "auth_data": [("digest", "digester:word-of-digest")]}

    member = new_member(tls_connect, "c1", options).join()
    eventually(lambda: len(member.records) == 2, "both messages")
    member.shutdown()
    refused = new_member(tls_connect, "c2", {**options, "sasl_options": {**SASL, "password": "word-too-many"}})
    with pytest.raises(ZooKeeperError) as caught:
        refused.join()

    config = member.connector.config
    told = [record.getMessage() + repr(record.args) + str(record.exc_text) for record in caplog.records]
    assert any("Sending request" in line for line in told)  # so requests are logged indeed
    everything = f"{told} {caplog.text} {capfd.readouterr()} {config!r} {config.to_properties()} {caught.value!r}"
    secret = [KEY_PASSWORD, PASSWORD, "word-of-digest", "word-too-many"]
    assert [word for word in secret if word in everything] == []


# --- from a properties file ---


def test_a_command_takes_them_from_a_properties_file(
    certificates: Certificates, tls_connect: str, observer: KazooClient, group: str, topic: str, tmp_path: Path
) -> None:
    given = {**mutual_tls(certificates), **{f"sasl_options.{name}": value for name, value in SASL.items()}}
    lines = [
        f"zookeeper.options.{name}={str(value).lower() if value is True else value}" for name, value in given.items()
    ]
    (tmp_path / "consumer.properties").write_text("\n".join([f"group.id={group}", *lines]))

    result = run_command(
        tmp_path,
        "console-consumer",
        *("--zookeeper", tls_connect, "--topic", topic, "--from-beginning", "--max-messages", "2"),
        *("--consumer.config", "consumer.properties"),
    )

    assert (result.exit_code, result.stdout) == (0, b"message\nmessage\n"), result.stderr
    # To ZooKeeper "the creator" is everybody he is known as, so by the certificate too.
    acl = observer.get_acls(f"/consumers/{group}/offsets/{topic}/0")[0]
    [by_certificate] = [entry for entry in acl if entry.id.scheme == "x509"]
    assert by_certificate.id.id.startswith("CN=client,")
    assert by_certificate.acl_list == ["ALL"]
    assert sorted((entry for entry in acl if entry.id.scheme != "x509"), key=str) == sorted(OWNERS_ONLY, key=str)
    assert PASSWORD not in result.stderr
    assert KEY_PASSWORD not in result.stderr


# --- servers for tests ---


def test_options_for_java_are_refused_where_they_cannot_be_passed_on() -> None:
    with pytest.raises(NotSupported, match="java_options with backend='external': only 'process' can pass them on"):
        ZooKeeperServer(backend="external", address=f"{HOST}:1", java_options=["-Dname=value"])
