"""The options of `serve` for OpenTelemetry. Imports nothing of OpenTelemetry."""

from __future__ import annotations

from importlib.util import find_spec
from typing import NamedTuple
from urllib.parse import urlsplit

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
    has_user = "@" in url
    shown = "the address with a user" if has_user else ascii(url[:200])[1:-1]
    try:
        split = urlsplit(url)
        is_usable = split.scheme in ("http", "https") and split.hostname and split.port != 0
    except ValueError as error:
        reason = "" if has_user else f": {error}"
        raise ValueError(f"{shown} is not a URL{reason}") from None
    if not is_usable or split.query or split.fragment or not url.isprintable() or " " in url:
        raise ValueError(f"{shown} is not a URL such as http://127.0.0.1:4318")
    return TracingOptions(url.rstrip("/"), ratio)


def missing_packages() -> list[str]:
    """Return the packages of the extra `otel` that are not installed."""
    missing = []
    for module, package in _PACKAGES.items():
        try:
            spec = find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            missing.append(package)
    return missing
