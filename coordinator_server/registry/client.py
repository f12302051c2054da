"""Reads schemas from a registry by Confluent's REST API. Runs in the worker process."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

if TYPE_CHECKING:
    from coordinator_server.registry.address import RegistryAddress

MOST_BYTES = 1024 * 1024
"""Limit of one response."""

MOST_REFERENCES = 100
TIMEOUT_SECONDS = 2.0
"""How long reading a schema with all its references may take."""

_ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
_REFUSED = (401, 403)
_PART_BYTES = 64 * 1024
_SHOWN_CHARACTERS = 200


class RegistryError(Exception):
    """The schema or the value cannot be read; the message is for people."""


class UnavailableError(RegistryError):
    """The registry cannot be reached, does not answer in time, or refuses the broker's login."""


class Reference(NamedTuple):
    """A reference: the name that the schema uses, and where the registry has the schema."""

    name: str
    subject: str
    version: int


class Schema(NamedTuple):
    """A schema: AVRO, PROTOBUF or JSON, its text, and the schemas that it references.

    `imports` are pairs of a name and a text, each after the schemas that it references itself.
    """

    kind: str
    text: str
    imports: tuple[tuple[str, str], ...]


class _Answer(NamedTuple):
    kind: str
    text: str
    references: tuple[Reference, ...]


class RegistryClient:
    """Reads schemas of one registry."""

    def __init__(self, address: RegistryAddress) -> None:
        split = urlsplit(address.url)
        assert split.hostname is not None
        self._connection = HTTPSConnection if split.scheme == "https" else HTTPConnection
        # Without a port, http.client would take the last group of an IPv6 address for one.
        port = split.port or self._connection.default_port
        self._host, self._port, self._path = split.hostname, port, split.path
        self._headers = {"Accept": _ACCEPT, "Connection": "close"}
        if address.login:
            login = b64encode(address.login.encode()).decode()
            self._headers["Authorization"] = f"Basic {login}"

    def schema(self, schema_id: int) -> Schema:
        """Return a schema and all schemas that it references. Raises RegistryError."""
        deadline_s = time.monotonic() + TIMEOUT_SECONDS
        answer = self._read(f"/schemas/ids/{schema_id}", deadline_s)
        imports: dict[str, str] = {}
        self._follow(answer, {}, imports, deadline_s)
        return Schema(answer.kind, answer.text, tuple(imports.items()))

    def _follow(
        self,
        answer: _Answer,
        seen: dict[str, Reference],
        imports: dict[str, str],
        deadline_s: float,
    ) -> None:
        """Add the schemas that a schema references to `imports`. Raises RegistryError."""
        for reference in answer.references:
            if reference.name in seen:
                continue
            if len(seen) == MOST_REFERENCES:
                raise RegistryError(f"the schema references more than {MOST_REFERENCES} schemas")
            seen[reference.name] = reference
            subject = quote(reference.subject, safe="")
            path = f"/subjects/{subject}/versions/{reference.version}"
            referenced = self._read(path, deadline_s)
            self._follow(referenced, seen, imports, deadline_s)
            imports[reference.name] = referenced.text

    def _read(self, path: str, deadline_s: float) -> _Answer:
        try:
            status, body = self._get(path, deadline_s)
        except TimeoutError:
            raise UnavailableError(_late(path)) from None
        except (OSError, HTTPException) as error:
            raise UnavailableError(f"the registry cannot be read: {_shown(error)}") from error
        value = _json(body)
        if status != 200:
            message = value.get("message") if isinstance(value, dict) else None
            reason = f": {_shown(message)}" if isinstance(message, str) else ""
            kind = UnavailableError if status in _REFUSED or status >= 500 else RegistryError
            raise kind(f"the registry answers {path} with HTTP status {status}{reason}")
        answer = _answer(value)
        if answer is None:
            raise RegistryError(f"the registry answers {path} with something else than a schema")
        return answer

    def _get(self, path: str, deadline_s: float) -> tuple[int, bytes]:
        """Return status and body of a response. Raises RegistryError, OSError, HTTPException."""
        timeout = deadline_s - time.monotonic()
        if timeout <= 0:
            raise TimeoutError
        connection = self._connection(self._host, self._port, timeout=timeout)
        try:
            connection.request("GET", self._path + path, headers=self._headers)
            response = connection.getresponse()
            return response.status, _body(response, path, deadline_s)
        finally:
            connection.close()


def _body(response: HTTPResponse, path: str, deadline_s: float) -> bytes:
    body = bytearray()
    while part := response.read1(_PART_BYTES):
        body += part
        if len(body) > MOST_BYTES:
            text = f"the registry answers {path} with more than {MOST_BYTES} bytes"
            raise RegistryError(text)
        if time.monotonic() > deadline_s:
            raise TimeoutError
    return bytes(body)


def _late(path: str) -> str:
    return f"the registry did not answer {path} within {TIMEOUT_SECONDS:g} s"


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def _answer(value: Any) -> _Answer | None:
    """Return the schema in a response, None for another response."""
    if not isinstance(value, dict):
        return None
    text, kind = value.get("schema"), value.get("schemaType") or "AVRO"
    listed = value.get("references") or []
    if not (isinstance(text, str) and isinstance(kind, str) and isinstance(listed, list)):
        return None
    references = []
    for item in listed:
        if not isinstance(item, dict):
            return None
        name, subject, version = (item.get(key) for key in ("name", "subject", "version"))
        if not (isinstance(name, str) and isinstance(subject, str) and isinstance(version, int)):
            return None
        references.append(Reference(name, subject, version))
    return _Answer(kind, text, tuple(references))


def _shown(text: object) -> str:
    """Return the printable start of a text that the registry has chosen."""
    start = str(text)[:_SHOWN_CHARACTERS]
    return "".join(character if character.isprintable() else " " for character in start)
