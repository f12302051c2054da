"""What a client may call itself in ApiVersions (KIP-511)."""

from __future__ import annotations

import re

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

FIRST_VERSION = 3
"""From this version of ApiVersions on a client says what it is."""


def is_valid(name: str, version: str) -> bool:
    """Whether the name and the version of a client may be such."""
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))
