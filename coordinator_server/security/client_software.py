"""Validates the client software and the expected broker in ApiVersions requests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.apis.api_versions import ApiVersionsRequest

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

UNKNOWN_SOFTWARE = ("unknown", "unknown")
"""Name and version of a client that sent none (Kafka's ClientInformation.EMPTY)."""

FIRST_VERSION = 3
"""First ApiVersions version with the client software name and version."""


def is_valid(name: str, version: str) -> bool:
    """Return whether client software name and version are well-formed."""
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))


def is_valid_request(request: ApiVersionsRequest, version: int) -> bool:
    """Return whether the software name is valid and cluster and node are both given or both absent.

    Source: ApiVersionsRequest.isValid.
    """
    if version < FIRST_VERSION:
        return True
    return is_valid(request.client_software_name, request.client_software_version) and (
        (request.cluster_id is None) == (request.node_id == -1)
    )
