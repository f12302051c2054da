"""A client of the control API that checks every answer against the OpenAPI document."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any

from jsonschema import Draft202012Validator

from coordinator_server.control.openapi import openapi
from coordinator_server.control.route import ControlRoute
from coordinator_server.control.routes import ROUTES
from coordinator_server.testing import BrokerError
from coordinator_server.testing.control import Control

SEEN: set[str] = set()
"""Verbs whose answers were checked in this process."""


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


class CheckedControl(Control):
    """A Control whose answers, errors included, have the shapes of the OpenAPI document."""

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
        except BrokerError as error:
            _validator(shown, method, "default").validate({"error": str(error)})
            raise
        _validator(shown, method, "200").validate(answer)
        SEEN.add(route.verb)
        return answer
