"""The control server as a client sees it."""

from __future__ import annotations

import http.client
import json
from typing import Any


class Control:
    """A client of the control server."""

    def __init__(self, address: tuple[str, int]) -> None:
        self.address = address

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, body: bytes = b""
    ) -> tuple[int, Any]:
        """Return the status and the answer of one request."""
        connection = http.client.HTTPConnection(*self.address, timeout=10)
        try:
            connection.request(method, path, body, headers or {})
            response = connection.getresponse()
            assert response.headers["Content-Type"] == "application/json"
            return response.status, json.loads(response.read())
        finally:
            connection.close()

    def brokers(self) -> dict[int, dict[str, Any]]:
        """Return GET /brokers by broker id."""
        status, answer = self.ask("GET", "/brokers")
        assert status == 200
        return {one["id"]: one for one in answer["brokers"]}
