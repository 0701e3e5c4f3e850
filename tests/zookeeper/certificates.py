"""Certificates made on the spot, as PEM: ZooKeeper and Python both read that."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import trustme
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

KEY_PASSWORD = "word-of-the-key"


class Certificates(NamedTuple):
    """Files."""

    ca: str
    other_ca: str  # which has signed nothing
    server: str  # key and certificate in one file, for 127.0.0.1
    client: str
    client_key: str  # encrypted with KEY_PASSWORD


def make_certificates(directory: Path) -> Certificates:
    """Two authorities; a server and a client that the first one vouches for."""
    authority, other = (trustme.CA(key_type=trustme.KeyType.RSA) for _ in range(2))
    server = authority.issue_cert("127.0.0.1", key_type=trustme.KeyType.RSA)
    client = authority.issue_cert("127.0.0.1", common_name="client", key_type=trustme.KeyType.RSA)
    contents = {
        "ca.pem": authority.cert_pem.bytes(),
        "other-ca.pem": other.cert_pem.bytes(),
        "server-with-key.pem": _pkcs8(server) + b"".join(blob.bytes() for blob in server.cert_chain_pems),
        "client.pem": b"".join(blob.bytes() for blob in client.cert_chain_pems),
        "client.key": _pkcs8(client, KEY_PASSWORD),
    }
    for name, data in contents.items():
        (directory / name).write_bytes(data)
    return Certificates(*(str(directory / name) for name in contents))


def _pkcs8(certificate: trustme.LeafCert, password: str | None = None) -> bytes:
    """The key in the only form that Java reads."""
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    protection = BestAvailableEncryption(password.encode()) if password else NoEncryption()
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, protection)
