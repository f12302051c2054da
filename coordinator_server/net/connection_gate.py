"""The connection creation rate limits of a broker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.config.hosts import without_mapping
from coordinator_server.net.connection_slots import protected_listener
from storage.config_def import INT_MAX

if TYPE_CHECKING:
    from coordinator_server.clock.broker_clock import Clock
    from coordinator_server.config.config import Config
    from coordinator_server.security.quotas.connection_rates import Admission, ConnectionRates
    from coordinator_server.security.security import Security


class ConnectionGate:
    """Delays new connections of a broker. Acceptors call `admit` while `is_enabled`."""

    def __init__(self, config: Config, security: Security, clock: Clock) -> None:
        self._config = config
        self._clock = clock
        self._security = security
        self._rates: ConnectionRates | None = None
        security.quotas.followers.add(self)
        self.settings_changed()

    def settings_changed(self) -> None:
        """Apply the current rate limits and quotas."""
        config = self._config
        self._protected = protected_listener(config)
        self._limit = config.integer("max.connection.creation.rate")
        self._listener_limits = {
            listener.name: config.of_listener(listener.name).integer("max.connection.creation.rate")
            for listener in config.listeners()
        }
        if self._rates is not None:
            self._rates.limit(self._limit, self._listener_limits, self._protected)
        elif {self._limit, *self._listener_limits.values()} != {INT_MAX}:
            self._rates = self._new_rates()
        self.quotas_changed()

    def quotas_changed(self) -> None:
        """Apply the current quotas of addresses."""
        limits = self._security.quotas.of_addresses()
        if limits and self._rates is None:
            self._rates = self._new_rates()
        if self._rates is not None:
            self._rates.change(limits)

    def _new_rates(self) -> ConnectionRates:
        from coordinator_server.security.quotas.connection_rates import ConnectionRates

        windows = self._security.quota_windows
        return ConnectionRates(windows, self._limit, self._listener_limits, self._protected)

    @property
    def is_enabled(self) -> bool:
        """Whether any rate is limited."""
        return self._rates is not None and self._rates.is_enabled

    def admit(self, listener: str, host: str) -> Admission:
        """Count a new connection of a listener and return its delays. Only call this if enabled."""
        assert self._rates is not None
        return self._rates.admit(listener, without_mapping(host), self._clock.now_ms())
