"""Tracks the usage of one quota type and computes throttle times. No I/O.

Source: ClientQuotaManager, ClientRequestQuotaManager, ControllerMutationQuotaManager.
"""

from __future__ import annotations

from coordinator_server.security.quotas.limits import Limits, Tags
from coordinator_server.security.quotas.rates import (
    UNLIMITED,
    Rate,
    Sensor,
    Sensors,
    TokenBucket,
    Windows,
    as_int,
)


class QuotaManager:
    """One quota type. `max_throttle_ms`, if given, limits throttle times."""

    def __init__(
        self,
        windows: Windows,
        *,
        max_throttle_ms: int | None = None,
        new_sensor: type[Rate | TokenBucket] = Rate,
    ) -> None:
        self.limits = Limits()
        self._windows = windows
        self._max_throttle_ms = max_throttle_ms
        self._new_sensor = new_sensor
        self._sensors: Sensors[Tags, Sensor] = Sensors()

    @property
    def is_enabled(self) -> bool:
        """Whether any quota of this type is set."""
        return bool(self.limits)

    def change(self, limits: Limits) -> None:
        """Set new limits; recorded usage is kept."""
        self.limits = limits
        for tags, sensor in self._sensors.items():
            sensor.limit = limits.limit(tags)

    def record(self, user: str, client_id: str | None, value: float, now_ms: int) -> int:
        """Record usage; return the throttle time in ms, 0 if the client is within its quota."""
        sensor = self._sensor(user, client_id, now_ms)
        sensor.record(value, now_ms)
        return self._throttle_ms(sensor, now_ms)

    def take(self, user: str, client_id: str | None, value: float, now_ms: int) -> int | None:
        """Record usage and return None; if over quota, return the throttle time in ms.

        Nothing is recorded for a client that is over quota.
        """
        sensor = self._sensor(user, client_id, now_ms)
        violation = sensor.violation(now_ms)
        if violation is not None:
            return sensor.throttle_ms(violation, now_ms)
        sensor.record(value, now_ms)
        return None

    def note(self, user: str, client_id: str | None, value: float, now_ms: int) -> None:
        """Record usage without throttling; a negative value reverts usage."""
        self._sensor(user, client_id, now_ms).record(value, now_ms)

    def most_in_windows(self, user: str, client_id: str | None) -> float:
        """Return the largest usage that is not throttled for a client without previous usage."""
        limits = self.limits
        limit = limits.limit(limits.tags(user, client_id))
        if limit == UNLIMITED:
            return UNLIMITED
        return limit * (self._windows.samples - 1) * (self._windows.size_ms // 1000)

    def _throttle_ms(self, sensor: Sensor, now_ms: int) -> int:
        violation = sensor.violation(now_ms)
        if violation is None:
            return 0
        throttle_ms = sensor.throttle_ms(violation, now_ms)
        if self._max_throttle_ms is not None:
            throttle_ms = min(throttle_ms, self._max_throttle_ms)
        return max(as_int(throttle_ms), 0)

    def _sensor(self, user: str, client_id: str | None, now_ms: int) -> Sensor:
        tags = self.limits.tags(user, client_id)
        return self._sensors.of(
            tags, now_ms, lambda: self._new_sensor(self._windows, self.limits.limit(tags))
        )


class MutationQuota:
    """The usage of the topic change quota by one request (ControllerMutationQuota).

    A strict quota refuses changes once the quota is used up. A permissive quota, for versions
    without THROTTLING_QUOTA_EXCEEDED, only throttles the client.
    """

    __slots__ = (
        "_client_id",
        "_is_strict",
        "_manager",
        "_throttle_ms",
        "_throttled_at_ms",
        "_user",
    )

    def __init__(
        self, manager: QuotaManager, user: str, client_id: str | None, *, is_strict: bool
    ) -> None:
        self._manager = manager
        self._user = user
        self._client_id = client_id
        self._is_strict = is_strict
        self._throttle_ms = self._throttled_at_ms = 0

    def take(self, partitions: int, now_ms: int) -> bool:
        """Charge the creation or deletion of partitions; return False if refused."""
        if self._is_strict:
            over_ms = self._manager.take(self._user, self._client_id, partitions, now_ms)
            is_refused = over_ms is not None
        else:
            over_ms = self._manager.record(self._user, self._client_id, partitions, now_ms)
            is_refused = False
        if over_ms:
            self._throttle_ms, self._throttled_at_ms = over_ms, now_ms
        return not is_refused

    def throttle_ms(self, now_ms: int) -> int:
        """Return the remaining throttle time in ms."""
        if not self._throttle_ms:
            return 0
        return max(as_int(self._throttle_ms - (now_ms - self._throttled_at_ms)), 0)
