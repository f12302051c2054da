"""Finds the handler of an API and, with an authorizer, wraps it in access checks."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.dispatch import Handler
    from coordinator_server.security.authorizer import Authorizer
    from protocol.registry import ApiSpec


def handler_of(spec: ApiSpec, authorizer: Authorizer | None = None) -> Handler[Broker]:
    """Return the handler of an API. Its module is imported on first use."""
    handle: Handler[Broker] = import_module(f"{__package__}.{spec.stem}").handle
    if authorizer is None:
        return handle
    from coordinator_server.security.checks.guard import guarded

    return guarded(authorizer, spec, handle)
