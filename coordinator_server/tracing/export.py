"""Exports spans and logs by OTLP over HTTP, from threads of OpenTelemetry's SDK.

The queues are bounded: while the receiver is down, new spans are dropped, and no request waits.
"""

from __future__ import annotations

import logging
import time
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import SpanLimits, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.sampling import ALWAYS_ON, TraceIdRatioBased

from coordinator_server.events.vocabulary import DEBUG, ERROR, INFO, WARNING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coordinator_server.tracing.options import TracingOptions

QUEUE_SIZE = 8192
"""Limit of spans that wait for their export, and of events of the log."""

MOST_CHARACTERS = 256
"""Limit of an attribute of a span: clients choose ids and reasons."""

MOST_LOG_CHARACTERS = 4096
"""Limit of an attribute of the log, such as a stack trace."""

DELAY_MS = 1000
TIMEOUT_SECONDS = 5.0
STOP_SECONDS = 2.0
"""How long the stop of the process waits for the last export."""

_SEVERITIES = {
    DEBUG: SeverityNumber.DEBUG,
    INFO: SeverityNumber.INFO,
    WARNING: SeverityNumber.WARN,
    ERROR: SeverityNumber.ERROR,
}
_SCOPE = "coordinator_server"


class Export:
    """The tracers and the logger. `requests` samples spans by the ratio, `always` keeps all.

    `on_error` gets the signal, traces or logs, and the reason of a failed export, in a thread of
    the SDK.
    """

    def __init__(
        self, options: TracingOptions, version: str, on_error: Callable[[str, str], None]
    ) -> None:
        url = options.url
        resource = Resource.create(
            {"service.name": "coordinator-server", "service.version": version}
        )
        self._logging = logging.getLogger("opentelemetry")
        self._logging.handlers[:] = [_Handler(on_error)]
        self._logging.propagate = False
        self._spans = BatchSpanProcessor(
            OTLPSpanExporter(url and f"{url}/v1/traces", timeout=TIMEOUT_SECONDS),
            max_queue_size=QUEUE_SIZE,
            schedule_delay_millis=DELAY_MS,
        )
        self._logs = BatchLogRecordProcessor(
            OTLPLogExporter(url and f"{url}/v1/logs", timeout=TIMEOUT_SECONDS),
            max_queue_size=QUEUE_SIZE,
            schedule_delay_millis=DELAY_MS,
        )
        tracers = []
        limits = SpanLimits(
            max_attribute_length=MOST_CHARACTERS, max_span_attribute_length=MOST_CHARACTERS
        )
        for sampler in (TraceIdRatioBased(options.ratio), ALWAYS_ON):
            provider = TracerProvider(sampler, resource, shutdown_on_exit=False, span_limits=limits)
            provider.add_span_processor(self._spans)
            tracers.append(provider.get_tracer(_SCOPE, version))
        self.requests, self.always = tracers
        loggers = LoggerProvider(resource, shutdown_on_exit=False)
        loggers.add_log_record_processor(self._logs)
        self._logger: Any = loggers.get_logger(_SCOPE, version)

    def log(self, level: int, event: str, attributes: Mapping[str, Any]) -> None:
        """Send an event of the log."""
        severity, now_ns = _SEVERITIES[level], time.time_ns()
        record = LogRecord(
            timestamp=now_ns,
            observed_timestamp=now_ns,
            severity_number=severity,
            severity_text=severity.name,
            body=event,
            attributes={
                name: value[:MOST_LOG_CHARACTERS] if isinstance(value, str) else value
                for name, value in attributes.items()
            },
        )
        self._logger.emit(record)

    def stop(self) -> Event:
        """Begin to export what waits, in a thread that ends with the process.

        Return an event that is set after the export.
        """
        done = Event()

        def shut_down() -> None:
            self._spans.shutdown()
            self._logs.shutdown()
            done.set()

        Thread(target=shut_down, name="otel-stop", daemon=True).start()
        return done


class _Handler(logging.Handler):
    """Passes warnings of the SDK on."""

    def __init__(self, on_error: Callable[[str, str], None]) -> None:
        super().__init__(logging.WARNING)
        self._on_error = on_error

    def emit(self, record: logging.LogRecord) -> None:
        """Pass the message on."""
        signal = "logs" if "_log" in record.name else "traces"
        self._on_error(signal, record.getMessage())
