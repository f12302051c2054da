"""A SASL/PLAIN connection of a user, with requests and responses as JSON."""

from __future__ import annotations

import socket
from base64 import b64encode
from typing import Any

from protocol.codec import decoder
from protocol.json_form import from_json, to_json
from protocol.registry import SPEC_BY_NAME, ApiSpec
from tests.conformance.access.case import Fields
from tests.faults.client import frame_of
from tests.support import API_VERSIONS_REQUEST, Wire

PASSWORD = "secret"
CLOSED, SILENT = "closed", "silent"
_WITHOUT_ANSWER = {"acks": 0}
"""Fields of a Produce without a response."""
SECONDS = 30.0


class Connection:
    """A connection that sends one request at a time."""

    def __init__(self, address: tuple[str, int], user: str, host: str = "127.0.0.1") -> None:
        self._wire = Wire(socket.create_connection(address, SECONDS, (host, 0)))
        self.is_open = True
        self.must("SaslHandshake", 1, {"mechanism": "PLAIN"})
        token = to_text(f"\0{user}\0{PASSWORD}".encode())
        answer = self.must("SaslAuthenticate", 2, {"authBytes": token})
        assert not answer["errorCode"], (user, answer)

    def close(self) -> None:
        """Close the connection."""
        self.is_open = False
        self._wire.socket.close()

    def ask(self, api: str, version: int, fields: Fields) -> Any:
        """Return the response as JSON; SILENT or CLOSED if the broker sent none."""
        spec = SPEC_BY_NAME[api]
        try:
            self._wire.send(frame_of(from_json(spec.request_type, fields), version))
            if fields.items() >= _WITHOUT_ANSWER.items():
                # Produce with acks=0 has no response, so the next response must be to this
                # ApiVersions request.
                self._wire.send(API_VERSIONS_REQUEST)
            answer = self._wire.receive()
        except TimeoutError:
            self.close()
            return SILENT
        except ConnectionError:
            answer = None
        if answer is None:
            self.close()
            return CLOSED
        if fields.items() >= _WITHOUT_ANSWER.items():
            return SILENT
        return _decoded(spec, version, answer)

    def must(self, api: str, version: int, fields: Fields) -> Any:
        """Return the response as JSON; fail if the broker sent none."""
        answer = self.ask(api, version, fields)
        assert isinstance(answer, dict), (api, version, fields, answer)
        return answer


def to_text(data: bytes) -> str:
    """Return bytes in JSON form."""
    return b64encode(data).decode()


def _decoded(spec: ApiSpec, version: int, answer: bytes) -> Fields:
    position = 4 + spec.response_header_version(version)
    response, end = decoder(spec.response_type, version)(answer, position)
    assert end == len(answer), (spec, version)
    return to_json(response, version)
