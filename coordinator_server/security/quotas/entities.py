"""Quotas by entity: validation of changes, and filters. No I/O.

Source: ClientQuotaControlManager, ClientQuotasImage.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from math import isfinite
from typing import NamedTuple

from protocol.errors import ErrorCode
from protocol.hashing import java_bucket

USER, CLIENT_ID, IP = "user", "client-id", "ip"

PRODUCER_BYTE_RATE = "producer_byte_rate"
CONSUMER_BYTE_RATE = "consumer_byte_rate"
REQUEST_PERCENTAGE = "request_percentage"
CONTROLLER_MUTATION_RATE = "controller_mutation_rate"
CONNECTION_CREATION_RATE = "connection_creation_rate"


class _Whole(NamedTuple):
    """An integer type: Java's name and the maximum."""

    name: str
    most: int


_LONG, _INT = _Whole("a LONG", 2**63 - 1), _Whole("an INT", 2**31 - 1)

_CLIENT_KEYS = {
    PRODUCER_BYTE_RATE: _LONG,
    CONSUMER_BYTE_RATE: _LONG,
    REQUEST_PERCENTAGE: None,
    CONTROLLER_MUTATION_RATE: None,
}
"""The quota keys of users and client ids, with their integer type if any."""

_KEYS: Mapping[tuple[str, ...], Mapping[str, _Whole | None]] = {
    (CLIENT_ID, USER): _CLIENT_KEYS,
    (USER,): _CLIENT_KEYS,
    (CLIENT_ID,): _CLIENT_KEYS,
    (IP,): {CONNECTION_CREATION_RATE: _INT},
}
_TYPES = (CLIENT_ID, USER, IP)
_COMBINATION = (
    "Invalid quota entity combination, IP entity shouldnot be combined with User or ClientId"
)
_EPSILON = 1e-6
_DEFAULT_TABLE_SIZE, _TABLE_SIZES = 16, (2, 4, 8)
"""Table sizes of Java's HashMap: the default, and the sizes for its first 6 entries."""
_EXACT, _DEFAULT, _SPECIFIED = 0, 1, 2

Entity = tuple[tuple[str, str | None], ...]
"""(type, name) pairs in the order of `_TYPES`, which is the order in Kafka's responses; name None
is the default entity."""

Quotas = dict[str, float]
Error = tuple[ErrorCode, str | None]

NO_ERROR: Error = (ErrorCode.NONE, None)


class Change(NamedTuple):
    """A requested change of one entity: values by key, in order; None removes the key."""

    entity: Mapping[str, str | None]
    operations: Sequence[tuple[str, float | None]]


class Component(NamedTuple):
    """One condition of a filter."""

    entity_type: str
    match_type: int
    match: str | None


class FilterError(Exception):
    """An invalid filter; `code` and the message are for the client."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def entity_of(names: Mapping[str, str | None]) -> Entity:
    """Return an entity from names by type, in canonical order; unknown types come last."""
    known = [kind for kind in _TYPES if kind in names]
    others = [kind for kind in names if kind not in _TYPES]
    return tuple((kind, names[kind]) for kind in known + others)


MOST_CHANGES = 10_000
"""Maximum number of values changed by one request (Kafka's MAX_RECORDS_PER_USER_OP)."""


class TooManyChangesError(Exception):
    """A request changes more than MOST_CHANGES values."""


Wanted = dict[str, float | None]
"""Values to set by key; None removes a key."""

Altered = tuple[dict[Entity, Wanted], dict[Entity, Error]]
"""The accepted changes, and the results of all entities."""


def alter(
    current: Mapping[Entity, Quotas], changes: Iterable[Change], is_host: Callable[[str], bool]
) -> Generator[None, None, Altered]:
    """Validate quota changes, in steps.

    `is_host` tells whether a text is an address or a known host name. If a request names an entity
    twice, its result is an error, but the first change is applied. Raises TooManyChangesError.
    """
    accepted: dict[Entity, Wanted] = {}
    results: dict[Entity, Error] = {}
    count = 0
    for change in changes:
        yield
        entity = entity_of(change.entity)
        wanted: Wanted = {}
        is_twice = entity in results
        for key, value in change.operations:
            is_twice = is_twice or key in wanted
            wanted.setdefault(key, value)
        if is_twice:
            text = f"Ignoring duplicate entity {_text(entity)}"
            results[entity] = ErrorCode.INVALID_REQUEST, text
        else:
            results[entity] = _error(entity, wanted, is_host)
            if results[entity] == NO_ERROR:
                accepted[entity] = wanted
                before = current.get(entity, {})
                count += len(changed(before, wanted).items() ^ before.items())
                if count > MOST_CHANGES:
                    raise TooManyChangesError
    return accepted, results


def changed(before: Quotas, wanted: Wanted) -> Quotas:
    """Return the quotas of one entity after a change, in Kafka's order of description.

    Kafka builds a new HashMap with each change: first the remaining quotas, then new quotas in the
    order of the change's HashMap. Source: ClientQuotaDelta.apply.
    """
    keys = [key for key in before if wanted.get(key, before[key]) is not None]
    new = [key for key, value in wanted.items() if value is not None and key not in before]
    keys += sorted(new, key=lambda key: java_bucket(key, _DEFAULT_TABLE_SIZE))
    size = next(size for size in _TABLE_SIZES if len(keys) <= 0.75 * size)
    keys.sort(key=lambda key: java_bucket(key, size))
    merged = {**before, **wanted}
    return {key: value for key in keys if (value := merged[key]) is not None}


def _error(entity: Entity, wanted: Wanted, is_host: Callable[[str], bool]) -> Error:
    """Return the error if an entity cannot have these quotas, or NO_ERROR."""
    message = _entity_error(entity)
    if message is not None:
        return ErrorCode.INVALID_REQUEST, message
    keys = _KEYS.get(tuple(kind for kind, _ in entity))
    if keys is None:
        return ErrorCode.INVALID_REQUEST, _COMBINATION
    kind, name = entity[0]
    if kind == IP and name is not None and not is_host(name):
        return ErrorCode.INVALID_REQUEST, f"{name} is not a valid IP or resolvable host."
    for key, value in wanted.items():
        message = None if value is None else _value_error(keys, key, value)
        if message is not None:
            return ErrorCode.INVALID_REQUEST, message
    return NO_ERROR


def _entity_error(entity: Entity) -> str | None:
    if not entity:
        return "Invalid empty client quota entity"
    for kind, name in entity:
        if kind not in _TYPES:
            return f"Unhandled client quota entity type: {kind}"
        if name == "":
            return f"Empty {kind} not supported"
    return None


def _value_error(keys: Mapping[str, _Whole | None], key: str, value: float) -> str | None:
    """Return why a quota cannot have a value, or None."""
    if key not in keys:
        return f"Invalid configuration key {key}"
    if not isfinite(value):
        return f"Quota {key} must be a finite number"
    if value <= 0:
        return f"Quota {key} must be greater than 0"
    whole = keys[key]
    if whole is None:
        return None
    if value > whole.most:
        return f"Proposed value for {key} is too large for {whole.name}."
    if abs(int(value + _EPSILON) - value) > _EPSILON:
        return f"{key} cannot be a fractional value."
    return None


def _text(entity: Entity) -> str:
    """Return an entity in Kafka's notation."""
    names = ", ".join(f"{kind}={'null' if name is None else name}" for kind, name in entity)
    return f"ClientQuotaEntity(entries={{{names}}})"


def describe(
    quotas: Mapping[Entity, Quotas], components: Iterable[Component], *, strict: bool
) -> Generator[None, None, list[tuple[Entity, Quotas]]]:
    """Return the entities that match all components, in steps.

    `strict` leaves out entities with types that no component names.

    Raises FilterError.
    """
    conditions: dict[str, Component] = {}
    for component in components:
        _check(component, conditions)
        conditions[component.entity_type] = component
        yield
    if IP in conditions and len(conditions) > 1:
        raise FilterError(
            ErrorCode.INVALID_REQUEST,
            "Invalid entity filter component combination. IP filter component should not be used"
            " with user or clientId filter component.",
        )
    if strict and not conditions:
        return []
    described = []
    for entity, values in quotas.items():
        yield
        names = dict(entity)
        if strict and len(names) != len(conditions):
            continue
        if all(_matches(names, condition) for condition in conditions.values()):
            described.append((entity, values))
    return described


def _matches(names: Mapping[str, str | None], component: Component) -> bool:
    kind, match_type, match = component
    return kind in names and (match_type == _SPECIFIED or names[kind] == match)


def _check(component: Component, before: Mapping[str, Component]) -> None:
    kind, match_type, match = component
    error = ErrorCode.INVALID_REQUEST
    if not kind:
        raise FilterError(error, "Invalid empty entity type.")
    if kind in before:
        message = f"Entity type {kind} cannot appear more than once in the filter."
        raise FilterError(error, message)
    if kind not in _TYPES:
        raise FilterError(ErrorCode.UNSUPPORTED_VERSION, f"Unsupported entity type {kind}")
    name = {_EXACT: "EXACT", _DEFAULT: "DEFAULT", _SPECIFIED: "SPECIFIED"}.get(match_type)
    if name is None:
        raise FilterError(error, f"Unknown match type {match_type}")
    if match_type == _EXACT and match is None:
        message = "Request specified MATCH_TYPE_EXACT, but set match string to null."
        raise FilterError(error, message)
    if match_type != _EXACT and match is not None:
        message = f"Request specified MATCH_TYPE_{name}, but also specified a match string."
        raise FilterError(error, message)
