"""An OTLP receiver for tests, which keeps the spans and the log records that it gets."""

from __future__ import annotations

import zlib
from http.server import BaseHTTPRequestHandler
from typing import Any, NamedTuple

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.loopback_http import LoopbackServer


class Received(NamedTuple):
    """A span or a log record: its name, its attributes, and for spans its ids and links.

    `links` are pairs of a span id and attributes. `start_ns` and `end_ns` are the times of a span.
    """

    name: str
    attributes: dict[str, Any]
    trace_id: str = ""
    span_id: str = ""
    links: tuple[tuple[str, dict[str, Any]], ...] = ()
    status: int = 0
    start_ns: int = 0
    end_ns: int = 0


class OtlpReceiver(LoopbackServer):
    """An OTLP receiver on a free port of loopback, as a context manager."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.logs: list[Received] = []
        self.resources: list[dict[str, Any]] = []
        super().__init__()

    def named(self, name: str, **attributes: object) -> list[Received]:
        """Return the spans with a name and with these attributes (`__` for a dot)."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        return [
            span
            for span in list(self.spans)
            if span.name == name and wanted.items() <= span.attributes.items()
        ]

    def handle(self, request: BaseHTTPRequestHandler) -> None:
        """Keep the spans or log records of a request."""
        body = request.rfile.read(int(request.headers["Content-Length"]))
        if request.headers.get("Content-Encoding") == "gzip":
            body = zlib.decompress(body, 31)
        self._receive(request.path, body)
        request.send_response(200)
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _receive(self, path: str, body: bytes) -> None:
        if path == "/v1/traces":
            for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                self.resources.append(_attributes(resource.resource.attributes))
                for scope in resource.scope_spans:
                    self.spans += map(_span, scope.spans)
        elif path == "/v1/logs":
            for resource in ExportLogsServiceRequest.FromString(body).resource_logs:
                for scope in resource.scope_logs:
                    self.logs += [
                        Received(one.body.string_value, _attributes(one.attributes))
                        for one in scope.log_records
                    ]


def _span(span: Any) -> Received:
    links = tuple((link.span_id.hex(), _attributes(link.attributes)) for link in span.links)
    return Received(
        span.name,
        _attributes(span.attributes),
        span.trace_id.hex(),
        span.span_id.hex(),
        links,
        span.status.code,
        span.start_time_unix_nano,
        span.end_time_unix_nano,
    )


def _attributes(pairs: Any) -> dict[str, Any]:
    attributes: dict[str, Any] = {}
    for pair in pairs:
        kind = pair.value.WhichOneof("value")
        value = getattr(pair.value, kind)
        if kind == "array_value":
            value = [one.string_value for one in value.values]
        attributes[pair.key] = value
    return attributes
