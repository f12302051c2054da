"""The options of `serve` for OpenTelemetry. Imports nothing of OpenTelemetry."""

from __future__ import annotations

from typing import NamedTuple

from coordinator_server.config.extras import checked_url, missing_of

_PACKAGES = {
    "opentelemetry.sdk": "opentelemetry-sdk",
    "opentelemetry.exporter.otlp.proto.http": "opentelemetry-exporter-otlp-proto-http",
}


class TracingOptions(NamedTuple):
    """The URL of an OTLP receiver, and the part of requests that are traced, 0 to 1.

    Without a URL the variables of OpenTelemetry apply, such as OTEL_EXPORTER_OTLP_ENDPOINT.
    """

    url: str | None
    ratio: float


def read_options(url: str, ratio: float) -> TracingOptions:
    """Return the options, or raise ValueError if the URL or the ratio is invalid."""
    if not 0 <= ratio <= 1:
        raise ValueError(f"the ratio {ratio} is not between 0 and 1")
    if not url:
        return TracingOptions(None, ratio)
    return TracingOptions(checked_url(url, "http://127.0.0.1:4318"), ratio)


def missing_packages() -> list[str]:
    """Return the packages of the extra `otel` that are not installed."""
    return missing_of(_PACKAGES)
