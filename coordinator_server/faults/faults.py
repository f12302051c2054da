"""The fault rules of a process.

Every broker imports this module; the other modules of the package are imported only for a rule.
The Dispatcher calls `wrapped` when it binds an API to its handler, and binds all APIs again when
the rules change. Requests of an API without a rule therefore take no additional time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol
from weakref import WeakSet

from coordinator_server.events.log import LOG

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from coordinator_server.clock.broker_clock import BrokerClock
    from coordinator_server.faults.rule import FaultRule, TakenFault
    from coordinator_server.net.call import Call
    from coordinator_server.net.dispatch import Handler
    from protocol.registry import ApiSpec

MOST_RULES = 100


class Follower(Protocol):
    """Binds the APIs of one broker to their handlers."""

    def bind_anew(self) -> None:
        """Bind every API again when it is next used."""


class Faults:
    """The rules that all brokers of a process follow, in the order in which they were added.

    `clock` measures the delays and lifetimes of the rules. When the rules change, the `followers`
    bind their APIs again. The functions in `on_taken` are called for each injected fault. `reset`
    restores the `initial` rules. Raises FaultError.
    """

    def __init__(self, clock: BrokerClock, initial: Sequence[Mapping[str, Any]] = ()) -> None:
        self.clock = clock
        self._initial = initial
        self.followers: WeakSet[Follower] = WeakSet()
        self.on_taken: list[Callable[[TakenFault], None]] = []
        self._rules: dict[int, FaultRule] = {}
        self._last_number = 0
        self.reset()

    def __len__(self) -> int:
        return len(self._rules)

    def __iter__(self) -> Iterator[FaultRule]:
        return iter(tuple(self._rules.values()))

    def add(self, document: Mapping[str, Any]) -> FaultRule:
        """Add a rule (see `rule.FIELDS`) and return it. Raises FaultError."""
        from coordinator_server.faults.rule import FaultError, FaultRule

        if len(self._rules) >= MOST_RULES:
            raise FaultError(f"there are {MOST_RULES} rules already")
        rule = FaultRule(self._last_number + 1, document, self.clock.now_ms())
        self._last_number += 1
        self._rules[rule.number] = rule
        LOG.emit("fault.added", rule=rule.number, fault=str(rule.document))
        self.changed()
        return rule

    def remove(self, number: int) -> FaultRule | None:
        """Remove a rule and return it; None if there is no such rule."""
        rule = self._rules.pop(number, None)
        if rule is not None:
            rule.is_over = True
            LOG.emit("fault.removed", rule=number, injected=rule.taken)
            self.changed()
        return rule

    def clear(self) -> None:
        """Remove all rules. Requests that a rule is already delaying keep their full delay."""
        for rule in self:
            self.remove(rule.number)

    def reset(self) -> None:
        """Replace all rules by the rules of the start."""
        self.clear()
        for document in self._initial:
            self.add(document)

    def changed(self) -> None:
        """Rebind the APIs of all brokers. Call this when a rule is added, removed or over."""
        for follower in tuple(self.followers):
            follower.bind_anew()

    def wrapped(
        self, spec: ApiSpec, version: int, handle: Handler[Any], new_call: Callable[..., Call]
    ) -> tuple[Handler[Any], Callable[..., Call]]:
        """Return a handler and a call factory that apply the rules for an API.

        Without a rule for the API, both are returned unchanged.
        """
        now_ms = self.clock.now_ms()
        rules = [
            rule for rule in self if not rule.has_ended(now_ms) and rule.applies_to(spec, version)
        ]
        if not rules:
            return handle, new_call
        from coordinator_server.faults.faulty_call import faulty

        return faulty(self, rules, handle, new_call)
