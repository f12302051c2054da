"""The quotas of a cluster, stored in its data directory.

Modules that use quotas are imported when the first quota is set, so a broker without quotas does
not load them.
"""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING, Protocol
from weakref import WeakSet

from storage.errors import StorageError
from storage.security_state import kept

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Mapping
    from typing import Any

    from coordinator_server.security.quotas.entities import (
        Change,
        Component,
        Entity,
        Error,
        Quotas,
        Wanted,
    )
    from coordinator_server.security.quotas.limits import Limits, Part
    from storage.security_state import Kept, SecurityState

_SECTION = "quotas"
_TRIES = 3
"""Attempts to apply a change in steps, if other changes interfere."""
_IP, _CONNECTIONS = "ip", "connection_creation_rate"


class Follower(Protocol):
    """A listener for quota changes."""

    def quotas_changed(self) -> None:
        """Handle a change of quotas."""


class ClientQuotas:
    """The configured quotas, by entity.

    `followers`, which are weakly referenced, are notified of each change. Raises StorageError if a
    stored quota is corrupt.
    """

    def __init__(self, state: SecurityState) -> None:
        self.followers: WeakSet[Follower] = WeakSet()
        self._state = state
        self._quotas: dict[Entity, Quotas] = {}
        # host with a quota -> its address when the quota was set
        self._addresses: dict[str, str] = {}
        for entry in state.section(_SECTION):
            try:
                self._load(entry)
            except (LookupError, TypeError, ValueError, AttributeError, OverflowError) as error:
                raise StorageError(f"a quota in the data directory is damaged ({error})") from error

    def __bool__(self) -> bool:
        return bool(self._quotas)

    def alter(
        self, changes: Iterable[Change], addresses: Mapping[str, str], *, validate_only: bool
    ) -> Generator[None, None, dict[Entity, Error]]:
        """Validate changes and, unless `validate_only`, apply them; return results by entity.

        Runs in steps. `addresses` maps the host names in the changes to addresses; other names are
        invalid hosts. Raises StorageError or TooManyChangesError without changing anything.
        """
        from coordinator_server.security.quotas.entities import alter

        accepted, results = yield from alter(self._quotas, changes, addresses.__contains__)
        if not validate_only:
            for _ in range(_TRIES):
                if (yield from self._change(accepted, addresses)):
                    return results
            for _ in self._change(accepted, addresses):
                # The last try: run all steps without a `yield`, so that no other change can come
                # in between.
                pass
        return results

    def describe(
        self, components: Iterable[Component], *, strict: bool
    ) -> Generator[None, None, list[tuple[Entity, Quotas]]]:
        """Return the matching entities with their quotas, in steps. Raises FilterError."""
        from coordinator_server.security.quotas.entities import describe

        return describe(self._quotas, components, strict=strict)

    def clear(self) -> None:
        """Remove all quotas."""
        if self._quotas:
            self._state.clear(_SECTION)
            self._quotas, self._addresses = {}, {}
            self._tell()

    def limits(self, key: str) -> Limits:
        """Return the limits of users and client ids for one quota key."""
        from coordinator_server.security.quotas.limits import Limits

        limits = Limits()
        for entity, quotas in self._quotas.items():
            names = dict(entity)
            if key in quotas and _IP not in names:
                limits.put(_part(names, "user"), _part(names, "client-id"), quotas[key])
        return limits

    def of_addresses(self) -> dict[str | None, float]:
        """Return the connection rate per second by address; None is the default."""
        limits: dict[str | None, float] = {}
        for entity, quotas in self._quotas.items():
            kind, name = entity[0]
            if kind == _IP and _CONNECTIONS in quotas:
                address = None if name is None else self._addresses[name]
                limits[address] = quotas[_CONNECTIONS]
        return limits

    def _load(self, kept: Mapping[str, Any]) -> None:
        """Load a stored quota. Raises various value errors if it is corrupt."""
        from coordinator_server.security.quotas.entities import entity_of

        names = kept["entity"]
        host = names.get(_IP)
        texts = [*names, *(name for name in names.values() if name is not None)]
        if not (names and all(isinstance(text, str) for text in texts)):
            raise TypeError("an entity has a name that is no text, or none")
        if host is not None:
            address = kept["address"]
            if not isinstance(address, str):
                raise TypeError("an address is no text")
            self._addresses[host] = address
        quotas = {key: float(limit) for key, limit in kept["quotas"].items()}
        self._quotas[entity_of(names)] = quotas

    def _change(
        self, accepted: Mapping[Entity, Wanted], addresses: Mapping[str, str]
    ) -> Generator[None, None, bool]:
        """Apply changes, in steps; return False without effect if other changes interfered."""
        from coordinator_server.security.quotas.entities import changed

        before = self._quotas
        quotas, kept_addresses = dict(before), dict(self._addresses)
        put: list[Kept] = []
        drop: list[Kept] = []
        for entity, wanted in accepted.items():
            kind, host = entity[0]
            entry: dict[str, Any] = {"entity": dict(entity)}
            new = changed(before.get(entity, {}), wanted)
            if new and new != before.get(entity):
                quotas[entity] = entry["quotas"] = new
                if kind == _IP and host is not None:
                    entry["address"] = kept_addresses[host] = addresses[host]
                put.append(kept(_SECTION, entry))
            elif not new and entity in quotas:
                del quotas[entity]
                if kind == _IP:
                    kept_addresses.pop(str(host), None)
                drop.append(kept(_SECTION, entry))
            yield
        if self._quotas is not before:
            return False
        if put or drop:
            self._state.change_kept(_SECTION, put=put, drop=drop)
            self._quotas, self._addresses = quotas, kept_addresses
            self._tell()
        return True

    def _tell(self) -> None:
        for follower in tuple(self.followers):
            follower.quotas_changed()


def address_of(host: str) -> str | None:
    """Return the address of a host name or address, or None if it cannot be resolved."""
    try:
        addresses = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    return str(addresses[0][4][0])


def _part(names: Mapping[str, str | None], kind: str) -> Part:
    from coordinator_server.security.quotas.limits import DEFAULT

    if kind not in names:
        return None
    name = names[kind]
    return DEFAULT if name is None else name
