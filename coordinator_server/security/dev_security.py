"""--dev-security: sets up a secured broker with one option, for development and tests.

A directory contains a certificate authority, the broker's certificate, a few users with random
passwords, and client settings. The directory is created at the first start and reused later.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from coordinator_server.config.authorizer_settings import AUTHORIZER_CLASS
from coordinator_server.config.config import ConfigError
from coordinator_server.config.hosts import is_loopback
from coordinator_server.security.client_settings import (
    AUTHORITY_FILE,
    CLIENTS,
    USERS_FILE,
    ClientAccess,
    client_settings,
)
from coordinator_server.security.sasl.plain import PLAIN_MODULE, USER_PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from coordinator_server.config.config import Config

USERS = ("admin", "alice", "bob")
"""The default users; admin is a super user."""

SETTING = "dev.security.dir"
MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN")
_OTHER_FILES = frozenset({"ca", "server"})
"""Reserved names that no user may have, because NAME.pem is another file."""

_FOR_OWNER = 0o077
_FOR_OWNER_TO_WRITE = 0o022
"""Forbidden mode bits: _FOR_OWNER for files with secrets, this for other files."""

_EVERYWHERE = ("", "0.0.0.0", "::")


def prepare(config: Config) -> dict[str, str]:
    """Create missing files in the dev.security.dir directory; return the settings to use.

    The settings are defaults, which explicit settings override. Raises ConfigError.
    """
    directory = Path(config.text(SETTING)).absolute()
    # Imported here, because the import takes 30 ms and is rarely needed.
    from coordinator_server.security.dev_authority import (
        AUTHORITY_KEY_FILE,
        DevAuthority,
        write_private,
    )

    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_access(directory, _FOR_OWNER_TO_WRITE)
        for path in (directory / USERS_FILE, directory / AUTHORITY_KEY_FILE):
            _check_access(path, _FOR_OWNER)
        for path in directory.glob("*.pem"):
            is_public = path.name == AUTHORITY_FILE
            _check_access(path, _FOR_OWNER_TO_WRITE if is_public else _FOR_OWNER)
        authority = DevAuthority(directory)
        server = authority.issue("server.pem", "coordinator-server", _hosts(config))
        passwords = _passwords(directory / USERS_FILE)
        protocol = config.security_protocol(config.listeners()[0].name).name
        for user, password in passwords.items():
            authority.issue(f"{user}.pem", user)
            access = ClientAccess(protocol, MECHANISMS[0], user, password, str(directory))
            for client in CLIENTS:
                name, text = _client_file(client, access)
                write_private(directory / name, text.encode())
    except OSError as error:
        raise ConfigError(f"{SETTING}: {error.filename or directory}: {error.strerror}") from error
    return _settings(directory, server, passwords)


def check(config: Config) -> None:
    """Refuse listeners that accept plaintext passwords from other machines.

    Raises ConfigError.
    """
    for listener in config.listeners():
        protocol = config.security_protocol(listener.name)
        mechanisms = config.of_listener(listener.name).items("sasl.enabled.mechanisms")
        takes_passwords = protocol.uses_sasl and not protocol.uses_tls and "PLAIN" in mechanisms
        if takes_passwords and not is_loopback(listener.host):
            raise ConfigError(
                f"listeners: {listener}: passwords (PLAIN) would pass unencrypted between "
                "machines: make it SASL_SSL, or listen on 127.0.0.1"
            )


def _check_access(path: Path, forbidden: int) -> None:
    """Refuse files that other users could have created, changed or read. Raises ConfigError.

    Missing files are created later. Root may use any owner's files, and Windows has no modes.
    """
    if sys.platform != "win32" and path.exists():
        status, user = path.stat(), os.geteuid()
        if status.st_uid != user and user != 0:
            raise ConfigError(
                f"{SETTING}: {path}: it belongs to the user {status.st_uid}, the broker runs as "
                f"{user}"
            )
        if mode := status.st_mode & forbidden:
            remedy = "go-w" if forbidden == _FOR_OWNER_TO_WRITE else "go-rwx"
            can = "write" if mode & _FOR_OWNER_TO_WRITE else "read"
            raise ConfigError(f"{SETTING}: {path}: others may {can} it: chmod {remedy} {path}")


def _passwords(path: Path) -> dict[str, str]:
    """Return the users' passwords, created if missing. Raises ConfigError, OSError."""
    from coordinator_server.security.dev_authority import write_private

    if not path.exists():
        made = {user: secrets.token_urlsafe(18) for user in USERS}
        write_private(path, json.dumps(made, indent=2).encode())
    try:
        read = json.loads(path.read_bytes())
    except ValueError:
        read = None
    words = [*read.keys(), *read.values()] if isinstance(read, dict) else [None]
    are_words = all(isinstance(word, str) and _is_word(word) for word in words)
    if not are_words or not _OTHER_FILES.isdisjoint(words):
        raise ConfigError(
            f"{SETTING}: {path}: names with passwords are expected, of letters, digits, - and _"
        )
    return dict(read)


def _is_word(text: str) -> bool:
    """Return whether a name or password needs no quoting in any file format."""
    return text.isascii() and text.replace("-", "a").replace("_", "a").isalnum()


def _settings(directory: Path, server: Path, passwords: Mapping[str, str]) -> dict[str, str]:
    options = " ".join(f'{USER_PREFIX}{user}="{word}"' for user, word in passwords.items())
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(server),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(directory / AUTHORITY_FILE),
        "ssl.client.auth": "required",  # applies to SSL listeners
        "ssl.principal.mapping.rules": "RULE:^CN=([^,]+)$/$1/,DEFAULT",
        "sasl.enabled.mechanisms": ",".join(MECHANISMS),
        "sasl.jaas.config": f"{PLAIN_MODULE} required {options};",
        "scram.users": ";".join(
            f"{mechanism}=[name={user},password={password}]"
            for user, password in passwords.items()
            for mechanism in MECHANISMS
            if mechanism != "PLAIN"
        ),
        "authorizer.class.name": AUTHORIZER_CLASS,
        "super.users": "User:admin",
        "allow.everyone.if.no.acl.found": "true",
    }


def _client_file(client: str, access: ClientAccess) -> tuple[str, str]:
    """Return name and text of the file with a client's settings."""
    settings = client_settings(client, access)
    if client in ("java", "confluent"):
        text = "".join(f"{name}={value}\n" for name, value in settings.items())
        return f"{access.user}.{client}.properties", text
    return f"{access.user}.{client}.json", json.dumps(settings, indent=2) + "\n"


def _hosts(config: Config) -> list[str]:
    """Return the host names and addresses by which clients may connect."""
    hosts = dict.fromkeys(("localhost", "127.0.0.1", "::1", socket.gethostname()))
    listeners = [*config.listeners(), *config.advertised_listeners().values()]
    hosts.update(dict.fromkeys(listener.host for listener in listeners))
    hosts.update(dict.fromkeys(filter(None, [config.optional_text("published.host")])))
    if any(listener.host in _EVERYWHERE for listener in listeners):
        hosts.update(dict.fromkeys(_own_addresses()))
    return [host for host in hosts if host not in _EVERYWHERE and host.isascii()]


def _own_addresses() -> Iterator[str]:
    """Yield the addresses of the machine's host name, which clients of a container use."""
    try:
        addresses = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
    except OSError:
        return
    for *_, address in addresses:
        yield str(address[0]).partition("%")[0]
