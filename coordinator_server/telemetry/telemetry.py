"""The client telemetry of the cluster: subscriptions, and the last push of each client instance.

Pushes are stored, as compressed by the client, only if a control server can show them.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from coordinator_server.config.client_metrics import ClientMetricsConfigs

if TYPE_CHECKING:
    from coordinator_server.telemetry.payload import KeptPush
    from storage.topic_catalogue import TopicCatalogue

MOST_PUSHES = 1_000
MOST_PUSHED_BYTES = 64 << 20
"""Limits of stored pushes and of their total size; the oldest pushes are dropped first."""


class Telemetry:
    """Client telemetry of the cluster."""

    def __init__(self, catalogue: TopicCatalogue, *, keeps_pushes: bool) -> None:
        self.configs = ClientMetricsConfigs(catalogue)
        self.pushes: OrderedDict[str, KeptPush] = OrderedDict()
        self._keeps_pushes = keeps_pushes
        self._pushed_bytes = 0

    def keep(self, push: KeptPush) -> None:
        """Store the last push of a client instance, if a control server can show pushes."""
        if not self._keeps_pushes:
            return
        instance_id = push.attributes["client_instance_id"]
        assert instance_id is not None
        before = self.pushes.pop(instance_id, None)
        if before is not None:
            self._pushed_bytes -= len(before.metrics)
            push = push._replace(number=before.number + 1)
        self.pushes[instance_id] = push
        self._pushed_bytes += len(push.metrics)
        while len(self.pushes) > MOST_PUSHES or self._pushed_bytes > MOST_PUSHED_BYTES:
            _, oldest = self.pushes.popitem(last=False)
            self._pushed_bytes -= len(oldest.metrics)

    def clear(self) -> None:
        """Delete all subscriptions and stored pushes. Raises StorageError."""
        self.configs.clear()
        self.pushes.clear()
        self._pushed_bytes = 0
