"""A client of the control API that checks every answer against the OpenAPI document."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Self

import pytest
from jsonschema import Draft202012Validator

from coordinator_server.control import static
from coordinator_server.control.openapi import openapi
from coordinator_server.control.route import ControlRoute
from coordinator_server.control.routes import ROUTES
from coordinator_server.testing import BrokerError
from coordinator_server.testing.control import Control
from tests.support import Serve, address_of

PAGE = Path(static.__file__).parent / "page"
PAGE_FILES = [path.relative_to(PAGE).as_posix() for path in PAGE.rglob("*") if path.is_file()]
"""The files of the page, relative to its folder."""

SEEN: set[str] = set()
"""Verbs whose answers were checked in this process."""


def http_address(serve: Serve) -> tuple[str, int]:
    """Return the address of the control server of a process."""
    (line,) = serve.log_lines("control.listening")
    return address_of(re.findall(r"address=(\S+)", line)[0])


@cache
def _content_type(path: str, method: str, status: str) -> str:
    """Return the content type of a response in the document."""
    responses = openapi()["paths"][path][method.lower()]["responses"]
    (content_type,) = responses[status]["content"]
    return str(content_type)


@cache
def _validator(path: str, method: str, status: str) -> Draft202012Validator:
    document = openapi()
    answer = document["paths"][path][method.lower()]["responses"][status]
    ((_, content),) = answer["content"].items()
    schema = {**content["schema"], "components": document["components"]}
    return Draft202012Validator(schema)


def route_of(path: str, method: str) -> tuple[ControlRoute, str]:
    """Return the route of a request, and its path in the OpenAPI document."""
    words = path.strip("/").split("/")
    for route in ROUTES:
        own = route.path.strip("/").split("/")
        if route.method == method and len(own) == len(words):
            pairs = list(zip(own, words, strict=True))
            if all(one == word or one.isupper() for one, word in pairs):
                shown = [f"{{{one.lower()}}}" if one.isupper() else one for one in own]
                return route, "/" + "/".join(shown)
    raise AssertionError(f"{method} {path} has no route")


def check_answer(method: str, path: str, answer: object) -> None:
    """Check an answer against the OpenAPI document."""
    _, shown = route_of(path, method)
    _validator(shown, method, "200").validate(answer)


class RecordedSocket:
    """A connection that keeps the bytes that it receives."""

    def __init__(self, connection: socket.socket, received: bytearray) -> None:
        self._connection = connection
        self._received = received

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.close()

    def sendall(self, data: bytes) -> None:
        """Send bytes."""
        self._connection.sendall(data)

    def recv(self, size_bytes: int) -> bytes:
        """Receive bytes."""
        part = self._connection.recv(size_bytes)
        self._received += part
        return part


class CheckedControl(Control):
    """A Control whose answers, errors included, have the shapes of the OpenAPI document.

    The bytes of the response are checked, not the client's parsed result.
    """

    def __init__(
        self,
        address: tuple[str, int],
        token: str | None = None,
        *,
        login: tuple[str, str] | None = None,
    ) -> None:
        super().__init__(address, token, login=login)
        self._last = threading.local()

    def _connect(self, request: str, timeout: float) -> Any:
        self._last.received = bytearray()
        return RecordedSocket(super()._connect(request, timeout), self._last.received)

    def _check(self, path: str, method: str) -> None:
        """Check status, content type and body of the response that was received last."""
        head, _, body = bytes(self._last.received).partition(b"\r\n\r\n")
        status_line, *lines = head.decode().split("\r\n")
        headers = dict(line.lower().split(": ", 1) for line in lines)
        status = "200" if status_line.split(" ")[1] == "200" else "default"
        assert headers["content-type"] == _content_type(path, method, status)
        assert int(headers["content-length"]) == len(body)
        _validator(path, method, status).validate(json.loads(body))

    def call(
        self,
        method: str,
        path: str,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, object] | None = None,
        *,
        timeout: float = 30.0,
    ) -> dict[str, Any]:
        """Send a request, check the answer, and return the answer."""
        route, shown = route_of(path, method)
        try:
            answer = super().call(method, path, query, body, timeout=timeout)
        finally:
            if self._last.received:
                self._check(shown, method)
        SEEN.add(route.verb)
        return answer


def refused(call: Any, *arguments: Any, **named: Any) -> tuple[int, str]:
    """Return status and message of a request that fails."""
    with pytest.raises(BrokerError) as raised:
        call(*arguments, **named)
    return raised.value.status, str(raised.value)
