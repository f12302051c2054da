"""The principal of a client. Source: KafkaPrincipal."""

from __future__ import annotations

from typing import NamedTuple

USER_TYPE = "User"


class Principal(NamedTuple):
    """A principal: a type and a name that is unique within the type."""

    principal_type: str
    name: str

    def __str__(self) -> str:
        return f"{self.principal_type}:{self.name}"


ANONYMOUS = Principal(USER_TYPE, "ANONYMOUS")
"""The principal of an unauthenticated client."""


def user(name: str) -> Principal:
    """Return the principal of a user."""
    return Principal(USER_TYPE, name)
