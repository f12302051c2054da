"""Records the quota usage of clients.

Source: Kafka's QuotaFactory.QuotaManagers, RequestHandlerHelper. APIs without an applicable quota
have no overhead: the Dispatcher calls `meters` when it binds an API, and rebinds all APIs when
quotas change.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.net.call import Call
    from coordinator_server.security.quotas.manager import QuotaManager
    from coordinator_server.security.security import Security
    from protocol.registry import ApiSpec

_FETCHES = frozenset(("Fetch", "ShareFetch"))
STRICT_SINCE = {"CreateTopics": 6, "DeleteTopics": 5, "CreatePartitions": 3}
"""First version in which a client understands THROTTLING_QUOTA_EXCEEDED (KIP-599)."""

_CHANGES = frozenset((*STRICT_SINCE, "Metadata", "StreamsGroupHeartbeat"))
_EXEMPT = frozenset(("WriteTxnMarkers",))
"""APIs that only brokers send."""


def _nothing() -> None:
    """Do nothing: no callback is set."""


class Metering:
    """Quota usage on one broker; `changes`, the usage of topic changes, is shared by the cluster.

    The managers are created when the first quota is set. `on_changed` is called after quotas have
    changed, when other APIs may be metered.
    """

    produce: QuotaManager
    fetch: QuotaManager
    request: QuotaManager
    changes: QuotaManager

    def __init__(self, security: Security, clock: Clock) -> None:
        self.now_ms = clock.now_ms
        self.on_changed: Callable[[], None] = _nothing
        self._security = security
        self._has_managers = False
        security.quotas.followers.add(self)
        self._take()

    def quotas_changed(self) -> None:
        """Apply the new quotas, also to open connections."""
        self._take()
        self.on_changed()

    def _take(self) -> None:
        quotas = self._security.quotas
        if not quotas and not self._has_managers:
            return
        if not self._has_managers:
            self._make_managers()
        self.produce.change(quotas.limits("producer_byte_rate"))
        self.fetch.change(quotas.limits("consumer_byte_rate"))
        self.request.change(quotas.limits("request_percentage"))
        self.changes.change(quotas.limits("controller_mutation_rate"))

    def _make_managers(self) -> None:
        from coordinator_server.security.quotas.manager import QuotaManager

        windows = self._security.quota_windows
        self.produce = QuotaManager(windows)
        self.fetch = QuotaManager(windows)
        self.request = QuotaManager(windows, max_throttle_ms=windows.size_ms)
        self.changes = self._security.partition_changes
        self._has_managers = True

    def meters(self, spec: ApiSpec) -> bool:
        """Return whether any quota applies to an API."""
        if not self._has_managers:
            return False
        name = spec.name
        return (
            (self.request.is_enabled and name not in _EXEMPT)
            or (self.produce.is_enabled and name == "Produce")
            or (self.fetch.is_enabled and name in _FETCHES)
            or (self.changes.is_enabled and name in _CHANGES)
        )

    def metered(self, handle: Callable[..., Any]) -> tuple[Any, Callable[..., Call]]:
        """Return the metered handler of an API and the factory of its calls."""
        from coordinator_server.net.metered_call import MeteredCall, measured

        return measured(handle), partial(MeteredCall, self)
