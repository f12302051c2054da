"""A broker with TLS and users: its security files and the settings of its clients."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any
from weakref import finalize

from coordinator_server.security.client_settings import USERS_FILE, ClientAccess, client_settings

PROTOCOLS = ("ssl", "sasl_plaintext", "sasl_ssl")


class Secured:
    """The security of one broker; its files are deleted with this object. Raises ValueError.

    `protocol` is one of PROTOCOLS, ignoring case.
    """

    def __init__(self, protocol: str) -> None:
        if protocol.lower() not in PROTOCOLS:
            raise ValueError(f"security: {protocol!r} is none of {', '.join(PROTOCOLS)}")
        self.protocol = protocol.upper()
        self.directory = tempfile.mkdtemp(prefix="coordinator-server-security-")
        finalize(self, shutil.rmtree, self.directory, ignore_errors=True)

    def arguments(self, address: str) -> list[str]:
        """Return the arguments of `serve` for a listener at HOST:PORT."""
        listener = f"listeners={self.protocol}://{address}"
        return ["--dev-security", self.directory, "--set", listener]

    def users(self) -> dict[str, str]:
        """Return users and passwords; empty until the broker has created them."""
        path = Path(self.directory, USERS_FILE)
        users: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return users

    def access(self, user: str, mechanism: str) -> ClientAccess:
        """Return the access data of a user. Raises ValueError for an unknown user."""
        users = self.users()
        if user not in users:
            raise ValueError(f"there is no user {user!r}, only {', '.join(users)}")
        return ClientAccess(self.protocol, mechanism, user, users[user], self.directory)


def client_config(
    client: str, bootstrap_servers: str, secured: Secured | None, user: str, mechanism: str
) -> dict[str, Any]:
    """Return the settings of a client, with the address. Raises ValueError."""
    access = (
        ClientAccess("PLAINTEXT", mechanism, user, "", "")
        if secured is None
        else secured.access(user, mechanism)
    )
    name = "bootstrap_servers" if "kafka" in client else "bootstrap.servers"
    config: dict[str, Any] = {name: bootstrap_servers, **client_settings(client, access)}
    if client == "aiokafka" and access.uses_tls:
        import ssl  # imported here, because only secured brokers need ssl

        context = ssl.create_default_context(cafile=access.authority)
        if access.has_certificate:
            context.load_cert_chain(access.certificate)
        config["ssl_context"] = context
    return config
