"""Finds a client's limit: the most specific one for user and client id. No I/O.

Source: ClientQuotaManager and its DefaultQuotaCallback.
"""

from __future__ import annotations

from typing import NamedTuple

from coordinator_server.security.quotas.rates import UNLIMITED


class Default:
    """The type of `DEFAULT`, the name of a type's default entity."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "DEFAULT"


DEFAULT = Default()

Part = str | Default | None
"""The user or client id of an entity; None if the entity has none."""

_CLIENT_ID, _USER, _USER_CLIENT_ID = 1, 2, 4


class Tags(NamedTuple):
    """The clients that share a sensor; "" if a part is irrelevant.

    `client_id` is None for requests without a client id, which no client-id quota matches, not even
    a default.
    """

    user: str
    client_id: str | None


class Limits:
    """The limits of one kind of quota, by (user, client id)."""

    __slots__ = ("_limits", "_types")

    def __init__(self) -> None:
        self._limits: dict[tuple[Part, Part], float] = {}
        self._types = 0

    def __bool__(self) -> bool:
        return bool(self._limits)

    def put(self, user: Part, client_id: Part, limit: float) -> None:
        """Set the limit of an entity."""
        self._limits[user, client_id] = limit
        if user is None:
            self._types |= _CLIENT_ID
        else:
            self._types |= _USER if client_id is None else _USER_CLIENT_ID

    def tags(self, user: str, client_id: str | None) -> Tags:
        """Return the tags under which a client's requests are counted."""
        types = self._types
        if types == _CLIENT_ID:
            return Tags("", client_id)
        if types == _USER:
            return Tags(user, "")
        if types == _USER_CLIENT_ID:
            return Tags(user, client_id)
        limits = self._limits
        name: Part = DEFAULT if client_id is None else client_id
        for owner in (user, DEFAULT):
            if (owner, name) in limits or (owner, DEFAULT) in limits:
                return Tags(user, client_id)
            if (owner, None) in limits:
                return Tags(user, "")
        return Tags("", client_id)

    def limit(self, tags: Tags) -> float:
        """Return the limit of the clients with these tags."""
        user, client_id = tags
        if client_id is None:
            return UNLIMITED
        limits = self._limits
        owners: tuple[Part, ...] = (user, DEFAULT) if user else (None,)
        names: tuple[Part, ...] = (client_id, DEFAULT) if client_id else (None,)
        if not user and not client_id:
            return UNLIMITED
        for owner in owners:
            for name in names:
                if (owner, name) in limits:
                    return limits[owner, name]
        return UNLIMITED
