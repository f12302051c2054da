"""A fault rule: the requests that it matches, how often it takes effect, and its actions."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

from coordinator_server.faults.elements import (
    GROUP,
    KINDS,
    MEMBER,
    PARTITION,
    TOPIC,
    TRANSACTION,
    element_kinds,
    matches,
    pattern,
)
from coordinator_server.faults.possible_errors import possible_errors
from protocol.errors import ErrorCode
from protocol.registry import SPEC_BY_NAME
from storage.config_def import INT_MAX

if TYPE_CHECKING:
    from coordinator_server.net.call import Call
    from protocol.registry import ApiSpec

BEFORE, AFTER = "before", "after"
MOST_MS = 24 * 3600 * 1000
_MOST_TEXT, _MOST_MESSAGE = 250, 1_000
"""Limits of the characters of patterns and of error messages."""

_CALLER_FIELDS = ("client_id", "principal", "listener")
ACTIONS = ("error", "delay_ms", "late_ms", "throttle_ms", "drop", "cut", "corrupt")


class FaultError(ValueError):
    """A rule is invalid; the text names the field and the value."""


class TakenFault(NamedTuple):
    """A fault that a request met: the rule's number, its action, and the request."""

    rule: int
    action: str
    api: str
    remote: str
    client_id: str | None
    correlation_id: int


class FaultRule:
    """One rule. `document` is the rule as it was given, `taken` counts its faults.

    `is_over` is set when the rule has taken effect `times` times or `for_ms` has passed.
    """

    def __init__(self, number: int, document: Mapping[str, Any], now_ms: int) -> None:
        """Check a rule that begins at `now_ms`. Raises FaultError."""
        self.number = number
        self.document = dict(document)
        values = _parsed(document)
        self.apis: frozenset[str] = values.get("api", frozenset())
        self.versions: range | None = values.get("version")
        self.callers = {name: values[name] for name in _CALLER_FIELDS if name in values}
        self.selection = {kind: values[kind] for kind in KINDS if kind in values}
        self.error: ErrorCode | None = values.get("error")
        self.message: str | None = values.get("message")
        self.delay_ms: int = values.get("delay_ms", 0)
        self.late_ms: int = values.get("late_ms", 0)
        self.throttle_ms: int = values.get("throttle_ms", 0)
        self.drop: str | None = values.get("drop")
        self.is_cut: bool = values.get("cut", False)
        self.corrupts: bool = values.get("corrupt", False)
        self.taken = 0
        self.is_over = False
        self._jitter_ms: int = values.get("jitter_ms", 0)
        self._times: int | None = values.get("times")
        self._skip: int = values.get("skip", 0)
        self._probability: float = values.get("probability", 1.0)
        self._random = Random(values.get("seed"))
        life_ms = values.get("for_ms")
        self._ends_ms = None if life_ms is None else now_ms + life_ms
        _check_together(self, values)

    @property
    def changes_fetched(self) -> bool:
        """Whether the rule changes single partitions of Fetch responses."""
        return self.corrupts or (self.error is not None and TOPIC in self.selection)

    def has_ended(self, now_ms: int) -> bool:
        """Return whether the rule has no further effect."""
        if self._ends_ms is not None and now_ms >= self._ends_ms:
            self.is_over = True
        return self.is_over

    def applies_to(self, spec: ApiSpec, version: int) -> bool:
        """Return whether the rule can match requests of an API at a version."""
        if self.apis and spec.name not in self.apis:
            return False
        if self.versions is not None and version not in self.versions:
            return False
        if spec.name == "Fetch" and TOPIC in self.selection and not self.changes_fetched:
            return False
        return element_kinds(spec).issuperset(self.selection)

    def matches_caller(self, call: Call) -> bool:
        """Return whether the rule matches the client of a request."""
        connection = call.connection
        values = {
            "client_id": call.client_id or "",
            "principal": str(connection.principal),
            "listener": connection.listener_name,
        }
        return all(matches(wanted, values[name]) for name, wanted in self.callers.items())

    def is_due(self, now_ms: int) -> bool:
        """Return whether a matching request meets the fault, and count the request."""
        if self.has_ended(now_ms):
            return False
        if self._skip:
            self._skip -= 1
            return False
        return self._probability >= 1 or self._random.random() < self._probability

    def count(self) -> None:
        """Count a fault, and end the rule after the last one."""
        self.taken += 1
        if self._times is not None and self.taken >= self._times:
            self.is_over = True

    def with_jitter(self, wait_ms: int) -> int:
        """Return a wait with its random addition, in ms."""
        return wait_ms + self._random.randint(0, self._jitter_ms)


def _parsed(document: Mapping[str, Any]) -> dict[str, Any]:
    values = {}
    for name, value in document.items():
        if name not in FIELDS:
            similar = get_close_matches(str(name), FIELDS, 1)
            hint = f"did you mean {similar[0]}?" if similar else f"a rule has {', '.join(FIELDS)}"
            raise FaultError(f"a fault rule has no field {name!r}: {hint}")
        values[name] = FIELDS[name](name, value)
    return values


def _text(name: str, value: object, most: int = _MOST_TEXT) -> str:
    if not isinstance(value, str) or not value:
        raise FaultError(f"{name}={str(value)[:_MOST_TEXT]!r} is not a text")
    if len(value) > most:
        raise FaultError(f"{name} has {len(value)} characters, the limit is {most}")
    return value


def _message(name: str, value: object) -> str:
    return _text(name, value, _MOST_MESSAGE)


def _pattern(name: str, value: object) -> re.Pattern[str]:
    return pattern(_text(name, value))


def _number(name: str, value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise FaultError(f"{name}={value!r} is not a whole number from 0 on")
    if name.endswith("_ms") and value > MOST_MS:
        raise FaultError(f"{name}={value} is more than a day ({MOST_MS})")
    if name in ("times", "for_ms") and not value:
        raise FaultError(f"{name}=0: the rule would never take effect")
    if name == PARTITION and value > INT_MAX:
        raise FaultError(f"{name}={value} is more than {INT_MAX}")
    return value


def _chance(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 1:
        raise FaultError(f"{name}={value!r} is not a number above 0, at most 1")
    return float(value)


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise FaultError(f"{name}={value!r} is neither true nor false")
    return value


def _apis(name: str, value: object) -> frozenset[str]:
    names = str(value).split(",") if isinstance(value, str) else [value]
    for api in names:
        if not isinstance(api, str) or api not in SPEC_BY_NAME:
            similar = get_close_matches(str(api), SPEC_BY_NAME, 1)
            hint = f", did you mean {similar[0]}?" if similar else ""
            raise FaultError(f"there is no API {str(api)[:_MOST_TEXT]!r}{hint}")
        if api.startswith("Sasl"):
            raise FaultError(f"{name}={api}: clients log in before rules apply")
    return frozenset(map(str, names))


def _versions(name: str, value: object) -> range:
    parts = re.fullmatch(r"([0-9]{1,4})(?:-([0-9]{1,4}))?", str(value))
    if parts is None or isinstance(value, bool):
        text = str(value)[:_MOST_TEXT]
        raise FaultError(f"{name}={text!r} is neither a version nor a range such as 0-9")
    first, last = int(parts[1]), int(parts[2] or parts[1])
    if last < first:
        raise FaultError(f"{name}={value} has no version, because {last} is less than {first}")
    return range(first, last + 1)


def _error(name: str, value: object) -> ErrorCode:
    by_name = ErrorCode.__members__
    text = "" if isinstance(value, bool) else str(value)[:_MOST_TEXT]
    codes = (code for code in ErrorCode if text in (code.name, str(int(code))))
    known = next(codes, None)
    if known is None:
        similar = get_close_matches(str(value), by_name, 1)
        hint = f", did you mean {similar[0]}?" if similar else ""
        raise FaultError(f"{name}={value!r}: Kafka has no such error code{hint}")
    if not known:
        raise FaultError(f"{name}=NONE is not an error")
    return known


def _drop(name: str, value: object) -> str:
    if value not in (BEFORE, AFTER):
        raise FaultError(f"{name}={value!r} is neither {BEFORE} nor {AFTER}")
    return str(value)


FIELDS: Mapping[str, Callable[[str, object], Any]] = {
    "api": _apis,
    "version": _versions,
    **dict.fromkeys((*_CALLER_FIELDS, GROUP, MEMBER, TRANSACTION, TOPIC), _pattern),
    "message": _message,
    **dict.fromkeys((PARTITION, "times", "skip", "seed", "for_ms"), _number),
    **dict.fromkeys(("delay_ms", "late_ms", "jitter_ms", "throttle_ms"), _number),
    "probability": _chance,
    "error": _error,
    "drop": _drop,
    **dict.fromkeys(("cut", "corrupt", "force"), _flag),
}
"""The fields of a rule, and the function that checks and converts a value.

`control.shapes.faults` has their meanings.
"""


def _check_fetch(rule: FaultRule, values: Mapping[str, Any]) -> None:
    """Refuse what no Fetch response can show. Raises FaultError."""
    if rule.corrupts and rule.apis != {"Fetch"}:
        raise FaultError("corrupt: true needs api: Fetch, whose responses have record batches")
    if "Fetch" in rule.apis and (rule.corrupts or TOPIC in rule.selection):
        actions = [name for name in ACTIONS if values.get(name)]
        if actions not in (["error"], ["corrupt"]):
            raise FaultError(
                "a Fetch rule with topic, or with corrupt, has one action, error or corrupt: "
                "the requests of a fetch session do not name their topics"
            )


def _check_together(rule: FaultRule, values: Mapping[str, Any]) -> None:
    """Refuse a rule that can never take effect. Raises FaultError."""
    if not any(values.get(name) for name in ACTIONS):
        raise FaultError(f"a fault rule needs an action: {', '.join(ACTIONS)}")
    for name, partners in (
        ("message", ("error",)),
        ("jitter_ms", ("delay_ms", "late_ms")),
        ("force", ("error",)),
    ):
        if name in values and not any(values.get(partner) for partner in partners):
            raise FaultError(f"{name} has no effect without {' or '.join(partners)}")
    if PARTITION in rule.selection and "topic" not in rule.selection:
        raise FaultError(f"partition={values[PARTITION]} has no effect without topic")
    _check_fetch(rule, values)
    if rule.versions is not None and all(
        rule.versions.start > spec.max_version for spec in SPEC_BY_NAME.values()
    ):
        raise FaultError(f"version={rule.document['version']}: no API has such a version")
    for api in sorted(rule.apis):
        spec = SPEC_BY_NAME[api]
        if missing := set(rule.selection) - element_kinds(spec):
            has = ", ".join(sorted(element_kinds(spec))) or "none of these"
            raise FaultError(f"{api} requests have no {min(missing)}; they have: {has}")
        if rule.versions is not None and (
            rule.versions.start > spec.max_version or rule.versions.stop <= spec.min_version
        ):
            served = f"{spec.min_version}-{spec.max_version}"
            raise FaultError(f"version={rule.document['version']}: {api} is served at {served}")
        if rule.error is not None and not values.get("force"):
            allowed = possible_errors(api)
            if rule.error.name not in allowed:
                raise FaultError(
                    f"Kafka never returns {rule.error.name} for {api}, but: {', '.join(allowed)} "
                    "(force: true allows any error code)"
                )
