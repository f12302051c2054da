"""What published compose files set for their broker, and what becomes of it here.

The rows are in published.toml. Files, hosts and ports are those of the test
(tests/e2e/test_published_variables.py); docs/docker.md has the rows as a table, which the same test
compares.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.certificates import Authority, jks, jks_trusted

PASSWORD = "certificatePassword123"
"""The password of all key stores; one row has it in its variables."""

TABLE = Path(__file__).with_suffix(".toml")


class Login(NamedTuple):
    """A client that connects to a listener; TLS follows from the protocol of the listener."""

    listener: str
    mechanism: str = ""
    user: str = ""
    password: str = ""


class Published(NamedTuple):
    """One service of one published file; published.toml says what the fields are."""

    source: str
    service: str
    image: str
    what: str
    variables: str
    logins: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    refusal: str = ""
    change: str = ""
    topics: tuple[str, ...] = ()
    jaas: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The variables by name."""
        lines = (line.partition("=") for line in self.variables.splitlines())
        return {name: value for name, _, value in lines}

    @property
    def clients(self) -> list[Login]:
        """The logins, taken apart."""
        return [Login(*login.split()) for login in self.logins]

    @property
    def line_of_documentation(self) -> str:
        """The row of the table in docs/docker.md."""
        result = "starts"
        if self.warnings:
            result = f"starts, with a warning: {'; '.join(self.warnings)}"
        if self.refusal:
            result = f"does not start: {self.refusal}. {self.change}"
        return f"| {self.source}: `{self.service}` | {self.image} | {self.what} | {result} |"


class Files:
    """The key stores, passwords and the JAAS file that a row needs, in directories of the test."""

    def __init__(self, row: Published, directory: Path) -> None:
        self.secrets = directory / "etc-kafka" / "secrets"
        self.bitnami = directory / "bitnami"
        for path in (self.secrets, self.bitnami / "certs"):
            path.mkdir(parents=True)
        self.authority = Authority()
        self.broker = self.authority.issue("broker")
        variables = row.environment
        for name, value in variables.items():
            if name.endswith("_CREDENTIALS"):
                (self.secrets / value).write_text(f"{PASSWORD}\n")
        trusted = jks([jks_trusted(self.authority.certificate)], PASSWORD)
        keys, trust = (
            variables.get(f"KAFKA_SSL_{kind}_FILENAME") for kind in ("KEYSTORE", "TRUSTSTORE")
        )
        if trust is not None and trust != keys:
            (self.secrets / trust).write_bytes(trusted)
        if keys is not None and variables.get("KAFKA_SSL_KEYSTORE_TYPE") == "PKCS12":
            self.broker.write_pkcs12(self.secrets / keys, PASSWORD)
        elif keys is not None:
            self.broker.write_jks(self.secrets / keys, PASSWORD)
        if "KAFKA_CERTIFICATE_PASSWORD" in variables:
            self.broker.write_jks(self.bitnami / "certs" / "kafka.keystore.jks", PASSWORD)
            (self.bitnami / "certs" / "kafka.truststore.jks").write_bytes(trusted)


def jaas_path(environment: Mapping[str, str]) -> str | None:
    """Return the path of the JAAS file that KAFKA_OPTS names."""
    options = environment.get("KAFKA_OPTS", "").split()
    named = [option.partition("=")[2] for option in options if "login.config" in option]
    return named[0] if named else None


def _rows() -> list[Published]:
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["row"]
    for row in rows:
        row.update({name: tuple(one) for name, one in row.items() if isinstance(one, list)})
    return [Published(**row) for row in rows]


ROWS = _rows()
