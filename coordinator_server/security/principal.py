"""Who a client is. Source: KafkaPrincipal."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class Principal(NamedTuple):
    """A principal: its type, and a name that is unique among those of the type."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""Whoever did not authenticate."""


def user(name: str) -> Principal:
    """The principal of a user."""
    return Principal(USER_TYPE, name)
