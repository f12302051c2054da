"""Record each new combination of test, client, API and version that a broker receives.

Python imports this module at the start of each process that has this folder in PYTHONPATH. Brokers
append lines "test, client name, client version, API key, version" (with tabs) to the file API_USES.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Container
from contextlib import suppress
from typing import Any

_BEFORE_AUTHENTICATION = (17, 18, 36)  # SaslHandshake, ApiVersions, SaslAuthenticate


def watch() -> None:
    """Patch the broker so that it records the frames of clients."""
    from coordinator_server.net.dispatch import Dispatcher
    from coordinator_server.security.sasl.authenticator import SaslAuthenticator
    from protocol.codec import decoder
    from protocol.headers import decode_request_header
    from protocol.registry import API_VERSIONS_KEY, SPEC_BY_KEY

    clients: dict[str, tuple[str, str]] = {}  # client name and version by remote address
    seen: set[tuple[object, ...]] = set()
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]

    def note(connection: Any, frame: bytes | bytearray, keys: Container[int]) -> None:
        header, start = decode_request_header(frame, 4)
        if header.api_key not in keys:
            return
        if header.api_key == API_VERSIONS_KEY and 3 <= header.api_version <= 5:
            request_type = SPEC_BY_KEY[API_VERSIONS_KEY].request_type
            request: Any
            request, _ = decoder(request_type, header.api_version)(frame, start)
            name = request.client_software_name, request.client_software_version
            clients[connection.remote] = name
        client = clients.get(connection.remote, (header.client_id or "", ""))
        use = test, *client, header.api_key, header.api_version
        if use not in seen:
            seen.add(use)
            with open(os.environ["API_USES"], "a") as uses:
                uses.write("\t".join(str(part).replace("\t", " ") for part in use) + "\n")

    def watching(method: Callable[..., None], keys: Container[int]) -> Callable[..., None]:
        def watched(self: Any, connection: Any, frame: bytes | bytearray) -> None:
            # Ignore errors, because some tests send bytes that are not requests.
            with suppress(Exception):
                note(connection, frame, keys)
            method(self, connection, frame)

        return watched

    dispatch = watching(Dispatcher.dispatch, SPEC_BY_KEY)
    Dispatcher.dispatch = dispatch  # type: ignore[method-assign]  # records requests

    # Frames of unauthenticated clients, and SASL tokens, are handled by the authenticator.
    take = watching(SaslAuthenticator.take, _BEFORE_AUTHENTICATION)
    SaslAuthenticator.take = take  # type: ignore[method-assign]  # records requests


if "API_USES" in os.environ and any("coordinator_server" in word for word in sys.orig_argv):
    watch()
