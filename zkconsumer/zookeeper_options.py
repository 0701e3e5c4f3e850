"""Authentication and encryption of the connection to ZooKeeper: what `zookeeper_options` may hold.

0.8 has no such settings; 0.9 takes them from the Java machine. Here they are KazooClient's arguments, given as a
mapping, or in properties under `zookeeper.options.` (`zookeeper.options.ca=ca.pem`). Rule: what is wrong is told by its
name, never by its value, which may be a secret; and nothing that was to be encrypted goes out in the clear.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Any

from zkconsumer.errors import InvalidConfigException

PREFIX = "zookeeper.options."

_TLS_FLAGS = ("verify_certs", "check_hostname")
_TLS_TEXTS = ("ca", "certfile", "keyfile", "keyfile_password")
_FLAGS = frozenset(("use_ssl", *_TLS_FLAGS, "randomize_hosts"))
OPTIONS = frozenset((*_FLAGS, *_TLS_TEXTS, "auth_data", "sasl_options"))
"""KazooClient's arguments for authentication, TLS and the choice of a host."""


def options_in(properties: Mapping[str, str]) -> dict[str, Any]:
    """Those that properties hold, each as the client wants it. Not yet checked, but for how they are written."""
    options: dict[str, Any] = {}
    for key in sorted(properties):
        name, dot, part = key.removeprefix(PREFIX).partition(".")
        if not key.startswith(PREFIX):
            continue
        if name == "sasl_options" and dot:
            options.setdefault(name, {})[part] = properties[key]
        elif dot or name not in OPTIONS or name == "sasl_options":
            raise _unknown([key], [PREFIX + known for known in OPTIONS])
        else:
            options[name] = _value(key, name, properties[key])
    return options


def checked_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of the options. Raises InvalidConfigException for what cannot work; files are looked at later."""
    unknown = sorted(set(options) - OPTIONS)
    if unknown:
        raise _unknown(unknown, OPTIONS)
    _check_types(options)
    _check_tls(options)
    if options.get("sasl_options"):
        return {**options, "sasl_options": _checked_sasl(options["sasl_options"])}
    return dict(options)


def _value(key: str, name: str, text: str) -> Any:
    if name in _FLAGS:
        if text not in ("true", "false"):
            raise InvalidConfigException(f"{key} should be true or false", key=key)
        return text == "true"
    if name == "auth_data":
        scheme, colon, credential = text.partition(":")
        if not colon:
            raise InvalidConfigException(f"{key} should be scheme:credential, as in digest:user:password", key=key)
        return [(scheme, credential)]
    return text


def _check_types(options: Mapping[str, Any]) -> None:
    for name, value in options.items():
        if name in _FLAGS and not isinstance(value, bool):
            raise _wrong(name, f"should be True or False, not of type {type(value).__name__}")
        if name == "auth_data" and not all(_is_pair(entry) for entry in value or ()):
            raise _wrong(name, 'should be a list of pairs of texts: [("digest", "user:password")]')


def _is_pair(entry: object) -> bool:
    return isinstance(entry, tuple | list) and len(entry) == 2 and all(isinstance(part, str) for part in entry)


def _check_tls(options: Mapping[str, Any]) -> None:
    given = [name for name in (*_TLS_TEXTS, *_TLS_FLAGS) if options.get(name) is not None]
    if given and not options.get("use_ssl"):
        # kazoo would connect without encryption, and not say so.
        raise _wrong(", ".join(given), "of no use without use_ssl: set that too")
    if (options.get("certfile") is None) != (options.get("keyfile") is None):
        raise _wrong("certfile, keyfile", "only one is given: a client's certificate needs both")
    if options.get("check_hostname") and options.get("verify_certs") is False:
        raise _wrong("check_hostname", "cannot be had with verify_certs off")


def _checked_sasl(given: Mapping[str, Any]) -> dict[str, Any]:
    if importlib.util.find_spec("puresasl") is None:
        raise _wrong("sasl_options", "needs the package pure-sasl: pip install 'zkconsumer[sasl]'")
    needed = ["mechanism"]
    if given.get("mechanism") == "DIGEST-MD5":
        needed += ["username", "password"]
    missing = [name for name in needed if not given.get(name)]
    if missing:
        raise _wrong("sasl_options", f"{' and '.join(missing)} missing")
    _check_mechanism(given["mechanism"])
    return dict(given)  # kazoo adds to it


def _check_mechanism(mechanism: str) -> None:
    """Else kazoo's thread would die of it, and the connection only seem to take too long."""
    from puresasl import SASLError
    from puresasl.client import SASLClient

    try:
        SASLClient("", mechanism=mechanism)
    except SASLError as error:
        raise _wrong("sasl_options", f"mechanism {mechanism} cannot be used: {error}") from None


def _wrong(names: str, problem: str) -> InvalidConfigException:
    return InvalidConfigException(f"ZooKeeper option {names}: {problem}", key=f"{PREFIX}{names}")


def _unknown(names: list[str], known: Any) -> InvalidConfigException:
    return InvalidConfigException(
        f"ZooKeeper options {', '.join(names)} are not known; known are {', '.join(sorted(known))}"
    )
