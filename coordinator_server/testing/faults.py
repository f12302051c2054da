"""Faults on demand: a test makes the broker answer errors, wait, or drop connections.

with broker.faults.error("OffsetCommit", "NOT_COORDINATOR", times=3):
    consumer.commit()    # the client must find the coordinator again

broker.faults.delay("Fetch", 500, client_id="slow")    # until the broker is reset
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

from coordinator_server.testing.api import ControlApi

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from coordinator_server.control.shapes.faults import ActiveFault, FaultRule
    from coordinator_server.testing.control import Control


class Fault:
    """A rule of a running broker. The end of a `with` block removes the rule."""

    def __init__(self, api: ControlApi, number: int) -> None:
        self._api = api
        self.id = number
        """The number of the rule, which the broker's log shows."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._state() is not None:  # a reset removes all rules
            self.remove()

    @property
    def injected(self) -> int:
        """How often the rule has taken effect. Raises LookupError after the rule was removed."""
        state = self._state()
        if state is None:
            raise LookupError(f"the fault rule {self.id} was removed")
        return state["injected"]

    def remove(self) -> None:
        """Remove the rule. Raises BrokerError if the rule was removed before."""
        self._api.faults_remove(self.id)

    def _state(self) -> ActiveFault | None:
        rules = self._api.faults_list()["faults"]
        return next((rule for rule in rules if rule["id"] == self.id), None)


class Faults:
    """The fault rules of a broker; available as `broker.faults`.

    All methods take the fields of a rule as keywords, such as `group`, `topic`, `times`, `seed`
    (docs/faults.md), and raise BrokerError for a rule that is invalid or impossible.
    """

    def __init__(self, control: Control) -> None:
        self._api = ControlApi(control)

    def add(self, **rule: Any) -> Fault:
        """Add a rule from its fields."""
        texts = {name: str(rule[name]) for name in ("version", "error") if name in rule}
        return Fault(self._api, self._api.faults_add(cast("FaultRule", rule | texts))["id"])

    def error(self, api: str, error: str, **rule: Any) -> Fault:
        """Answer requests of an API with an error code, such as NOT_COORDINATOR."""
        return self.add(api=api, error=error, **rule)

    def delay(self, api: str, delay_ms: int, **rule: Any) -> Fault:
        """Wait before requests of an API are served."""
        return self.add(api=api, delay_ms=delay_ms, **rule)

    def late(self, api: str, late_ms: int, **rule: Any) -> Fault:
        """Serve requests of an API at once, and send their responses late."""
        return self.add(api=api, late_ms=late_ms, **rule)

    def throttle(self, api: str, throttle_ms: int, **rule: Any) -> Fault:
        """Throttle the clients that send requests of an API."""
        return self.add(api=api, throttle_ms=throttle_ms, **rule)

    def drop(self, api: str, when: str = "before", **rule: Any) -> Fault:
        """Close the connection "before" the request is served, or "after" it."""
        return self.add(api=api, drop=when, **rule)

    def cut(self, api: str, **rule: Any) -> Fault:
        """Send half of the response, then close the connection."""
        return self.add(api=api, cut=True, **rule)

    def corrupt(self, **rule: Any) -> Fault:
        """Give fetched batches a wrong CRC, in the responses only."""
        return self.add(api="Fetch", corrupt=True, **rule)

    def rules(self) -> list[ActiveFault]:
        """Return all rules with the number of their faults."""
        return self._api.faults_list()["faults"]

    def clear(self) -> None:
        """Remove all rules."""
        self._api.faults_clear()
