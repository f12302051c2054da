"""Variables of published compose files, and the expected behaviour of our broker.

The rows are in published.toml. The test (tests/e2e/test_published_variables.py) replaces files,
hosts and ports by its own, and compares the rows with the table in docs/docker.md.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tests.certificates import Authority, jks, jks_trusted

PASSWORD = "certificatePassword123"
"""The password of all key stores; it appears in the variables of one row."""

TABLE = Path(__file__).with_suffix(".toml")


class Login(NamedTuple):
    """A client's login at a listener; the listener's protocol decides whether TLS is used."""

    listener: str
    mechanism: str = ""
    user: str = ""
    password: str = ""


class Published(NamedTuple):
    """A service of a published file; the fields are explained in published.toml."""

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
        """Return the variables by name."""
        lines = (line.partition("=") for line in self.variables.splitlines())
        return {name: value for name, _, value in lines}

    @property
    def clients(self) -> list[Login]:
        """Return the parsed logins."""
        return [Login(*login.split()) for login in self.logins]

    @property
    def line_of_documentation(self) -> str:
        """Return the row of the table in docs/docker.md."""
        result = "starts"
        if self.warnings:
            result = f"starts, with a warning: {'; '.join(self.warnings)}"
        if self.refusal:
            result = f"does not start: {self.refusal}. {self.change}"
        return f"| {self.source}: `{self.service}` | {self.image} | {self.what} | {result} |"


class Files:
    """The key stores, passwords and JAAS file of a row, in the test's directories."""

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
    """Return the path of the JAAS file named in KAFKA_OPTS."""
    options = environment.get("KAFKA_OPTS", "").split()
    named = [option.partition("=")[2] for option in options if "login.config" in option]
    return named[0] if named else None


def _rows() -> list[Published]:
    rows: list[dict[str, Any]] = tomllib.loads(TABLE.read_text())["row"]
    for row in rows:
        row.update({name: tuple(one) for name, one in row.items() if isinstance(one, list)})
    return [Published(**row) for row in rows]


ROWS = _rows()
