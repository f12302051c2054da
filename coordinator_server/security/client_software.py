"""What a client says of itself in ApiVersions, and of the broker that it means to reach."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from protocol.apis.api_versions import ApiVersionsRequest

_SOFTWARE = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

UNKNOWN_SOFTWARE = ("unknown", "unknown")
"""Name and version of a client that has not given its own (Kafka's ClientInformation.EMPTY)."""

FIRST_VERSION = 3
"""From this version of ApiVersions on a client says what it is."""


def is_valid(name: str, version: str) -> bool:
    """Whether the name and the version of a client may be such."""
    return bool(_SOFTWARE.fullmatch(name) and _SOFTWARE.fullmatch(version))


def is_valid_request(request: ApiVersionsRequest, version: int) -> bool:
    """Return whether the client has a name, and names a cluster and a node or neither of them.

    Source: ApiVersionsRequest.isValid.
    """
    if version < FIRST_VERSION:
        return True
    return is_valid(request.client_software_name, request.client_software_version) and (
        (request.cluster_id is None) == (request.node_id == -1)
    )
