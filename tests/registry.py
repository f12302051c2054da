"""A schema registry for tests, with the schemas that confluent-kafka registered (see `RECORDED`).

It answers as the documented REST API of Confluent's registry, or hostile, see `misbehave`.
"""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from coordinator_server.testing.api import ControlApi
from tests.e2e.control_api import CheckedControl, http_address
from tests.loopback_http import LoopbackServer
from tests.support import Serve

RECORDED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "data" / "registry" / "confluent.json").read_text()
)
"""Schemas as registered by the serializers of confluent-kafka, the values that these wrote (hex),
and the values as JSON. `serialized` is the form in which the Python client registers Protobuf."""

Misbehave = Callable[[BaseHTTPRequestHandler], None]


def framed(schema_id: int, body: bytes) -> bytes:
    """Return a value in Confluent's wire format."""
    return b"\0" + schema_id.to_bytes(4, "big") + body


class RegistryServer(LoopbackServer):
    """A registry on a free port of loopback, as a context manager.

    `schemas` has responses by schema id, `subjects` by subject (version 1). `login` is the required
    "USER:PASSWORD". `misbehave` answers requests in place of the registry. `requests` has the paths
    of all requests.
    """

    def __init__(self, login: str | None = None) -> None:
        self.login = login
        self.misbehave: Misbehave | None = None
        self.requests: list[str] = []
        self.schemas: dict[int, dict[str, Any]] = {}
        self.subjects: dict[str, dict[str, Any]] = {}
        for subject, entry in RECORDED["subjects"].items():
            self.add(
                subject, entry["id"], entry["schema"], entry["schemaType"], entry["references"]
            )
        super().__init__()

    def add(
        self,
        subject: str,
        schema_id: int,
        schema: str,
        kind: str = "AVRO",
        references: list[dict[str, Any]] | None = None,
    ) -> None:
        """Register a schema. As in Confluent's registry, AVRO and no references are left out."""
        answer: dict[str, Any] = {"schema": schema}
        if kind != "AVRO":
            answer["schemaType"] = kind
        if references:
            answer["references"] = references
        self.schemas[schema_id] = answer
        self.subjects[subject] = {"subject": subject, "version": 1, "id": schema_id, **answer}

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        """Send the response to a request, or misbehave."""
        if self.misbehave is not None:
            self.requests.append(request.path)
            self.misbehave(request)
            request.close_connection = True
            return
        status, answer = self.answer(request.path, request.headers["Authorization"])
        send(request, status, json.dumps(answer).encode())

    def answer(self, path: str, authorization: str | None) -> tuple[int, dict[str, Any]]:
        """Return status and body of a response."""
        self.requests.append(path)
        if self.login is not None:
            expected = f"Basic {b64encode(self.login.encode()).decode()}"
            if authorization != expected:
                return 401, {"error_code": 401, "message": "Unauthorized"}
        words = [unquote(word) for word in path.strip("/").split("/")]
        found = None
        if words[:2] == ["schemas", "ids"]:
            found = self.schemas.get(int(words[2]))
        elif words[0] == "subjects" and words[2:] == ["versions", "1"]:
            found = self.subjects.get(words[1])
        return (
            (404, {"error_code": 40403, "message": "Schema not found"})
            if found is None
            else (
                200,
                found,
            )
        )


def send(handler: BaseHTTPRequestHandler, status: int, body: bytes) -> None:
    """Send a response."""
    handler.send_response(status)
    handler.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
    handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


def serve_with(registry: RegistryServer, *arguments: str) -> Serve:
    """Return a broker with this registry."""
    http = ("--http", "127.0.0.1:0", "--http-registry", registry.url)
    return Serve("--ephemeral", *http, *arguments)


def control_of(serve: Serve) -> ControlApi:
    """Return a client that checks each response."""
    return ControlApi(CheckedControl(http_address(serve)))


def produce(api: ControlApi, *values: bytes, topic: str = "t") -> None:
    """Write records."""
    records: list[Any] = [{"value": value.hex()} for value in values]
    api.records_produce(topic, {"records": records, "format": "hex"})
