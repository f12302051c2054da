"""An OTLP receiver for tests, which keeps the spans and the log records that it gets."""

from __future__ import annotations

import threading
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple, Self

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


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


class OtlpReceiver:
    """An OTLP receiver on a free port of loopback, as a context manager."""

    def __init__(self) -> None:
        self.spans: list[Received] = []
        self.logs: list[Received] = []
        self.resources: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True

    @property
    def url(self) -> str:
        """The URL of the receiver."""
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def named(self, name: str, **attributes: object) -> list[Received]:
        """Return the spans with a name and with these attributes (`__` for a dot)."""
        wanted = {key.replace("__", "."): value for key, value in attributes.items()}
        return [
            span
            for span in list(self.spans)
            if span.name == name and wanted.items() <= span.attributes.items()
        ]

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

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if self.headers.get("Content-Encoding") == "gzip":
                    body = zlib.decompress(body, 31)
                receiver._receive(self.path, body)
                self.send_response(200)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        return Handler


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
