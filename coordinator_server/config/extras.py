"""Checks of the options of `serve` that need an extra: its packages, and the URL of a server."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_CHARACTERS = 200


def missing_of(packages: Mapping[str, str]) -> list[str]:
    """Return the packages, given by a module of each, that are not installed."""
    return [package for module, package in packages.items() if not _is_installed(module)]


def _is_installed(module: str) -> bool:
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def checked_url(url: str, example: str) -> str:
    """Return a URL of HTTP or HTTPS without a slash at its end.

    Raises ValueError with the example; the message does not contain a user and password.
    """
    has_user = "@" in url
    shown = "the address with a user" if has_user else ascii(url[:_MOST_CHARACTERS])[1:-1]
    try:
        split = urlsplit(url)
        is_usable = split.scheme in ("http", "https") and split.hostname and split.port != 0
    except ValueError as error:
        reason = "" if has_user else f": {error}"
        raise ValueError(f"{shown} is not a URL{reason}") from None
    is_plain = url.isascii() and url.isprintable() and " " not in url
    if not is_usable or not is_plain or split.query or split.fragment:
        raise ValueError(f"{shown} is not a URL such as {example}")
    return url.rstrip("/")
