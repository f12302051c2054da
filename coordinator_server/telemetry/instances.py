"""The client instances of one broker: their subscriptions, and limits for gets and pushes.

Source: ClientMetricsManager and ClientMetricsInstance.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from coordinator_server.config.client_metrics import ALL_METRICS, DEFAULT_INTERVAL_MS, Subscription
from protocol.crc32c import crc32c
from protocol.errors import ErrorCode
from protocol.hashing import java_bucket, java_table_size

if TYPE_CHECKING:
    from coordinator_server.config.client_metrics import ClientMetricsConfigs
    from coordinator_server.steps import Computation

MOST_INSTANCES = 16_384
"""Limit of instances per broker; above it the least recently used instance is dropped."""

NO_ID = bytes(16)
RESERVED_IDS = (NO_ID, bytes(15) + b"\1")

_LEAST_LIFE_MS = 60_000
_LIFE_INTERVALS = 3
_METRICS_PER_STEP = 500
_MASK_32 = 0xFFFF_FFFF
_MAY_ASK_AT_ONCE = (ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE)
_COMPRESSIONS = range(5)

Attributes = Mapping[str, str | None]
"""The attributes of a client by name, which patterns of subscriptions match."""


class Push(NamedTuple):
    """The fields of a PushTelemetry request, with the size of the metrics, but not the metrics."""

    instance_id: bytes
    subscription_id: int
    is_terminating: bool
    compression: int
    size_bytes: int


class ClientInstance:
    """One client instance, removed when `connection`, the connection that created it, ends."""

    __slots__ = (
        "attributes",
        "connection",
        "expires_ms",
        "interval_ms",
        "is_terminating",
        "last_error",
        "last_get_ms",
        "last_push_ms",
        "metrics",
        "subscription_id",
        "version",
    )

    def __init__(
        self,
        instance_id: bytes,
        attributes: Attributes,
        connection: object,
        subscribed: tuple[list[str], int],
        version: int,
    ) -> None:
        self.attributes = attributes
        self.connection = connection
        self.version = version
        self.metrics, self.interval_ms = subscribed
        self.subscription_id = subscription_id(self.metrics, self.interval_ms, instance_id)
        self.is_terminating = False
        self.last_error = ErrorCode.NONE
        self.last_get_ms = self.last_push_ms = 0
        self.expires_ms = 0

    def may_get(self, now_ms: int) -> bool:
        """Return whether the instance may get its subscription now; record the time if so.

        A get is always allowed after an unknown subscription id or unsupported compression.
        """
        if now_ms - max(self.last_get_ms, self.last_push_ms) >= self.interval_ms:
            self.last_get_ms = now_ms
            return True
        return self.last_error in _MAY_ASK_AT_ONCE

    def may_push(self, now_ms: int) -> bool:
        """Return whether the instance may push now; record the time if so.

        The first push after a get is always allowed, because clients vary the interval.
        """
        is_due = self.last_get_ms > self.last_push_ms
        if is_due or now_ms - self.last_push_ms >= self.interval_ms:
            self.last_push_ms = now_ms
            return True
        return False


class ClientInstances:
    """The client instances of a broker; `new_id` creates instance ids."""

    def __init__(
        self, configs: ClientMetricsConfigs, max_bytes: int, new_id: Callable[[], bytes]
    ) -> None:
        self._configs = configs
        self._max_bytes = max_bytes
        self._new_id = new_id
        self._instances: OrderedDict[bytes, ClientInstance] = OrderedDict()
        self._by_connection: dict[object, bytes] = {}

    def __len__(self) -> int:
        return len(self._instances)

    def get(
        self, instance_id: bytes, attributes: Attributes, connection: object, now_ms: int
    ) -> Computation[tuple[ErrorCode, bytes, ClientInstance]]:
        """Handle a get; return the error or NONE, the instance id, and the instance."""
        if instance_id == NO_ID:
            instance_id = self._new_id()
        instance = yield from self._instance(instance_id, attributes, connection, now_ms)
        if not instance.may_get(now_ms):
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED, instance_id, instance
        instance.last_error = ErrorCode.NONE
        return ErrorCode.NONE, instance_id, instance

    def push(
        self, push: Push, attributes: Attributes, connection: object, now_ms: int
    ) -> Computation[tuple[ErrorCode, ClientInstance | None]]:
        """Check a push; return the error or NONE, and the instance, None for a reserved id."""
        if push.instance_id in RESERVED_IDS:
            return ErrorCode.INVALID_REQUEST, None
        instance = yield from self._instance(push.instance_id, attributes, connection, now_ms)
        error = instance.last_error = self._error(push, instance, now_ms)
        instance.is_terminating = push.is_terminating
        return error, instance

    def disconnected(self, connection: object) -> None:
        """Remove the last instance that a connection created."""
        instance_id = self._by_connection.pop(connection, None)
        if instance_id is not None:
            self._instances.pop(instance_id, None)

    def clear(self) -> None:
        """Remove all instances."""
        self._instances.clear()
        self._by_connection.clear()

    def _error(self, push: Push, instance: ClientInstance, now_ms: int) -> ErrorCode:
        if instance.is_terminating:
            return ErrorCode.INVALID_REQUEST
        if not instance.may_push(now_ms) and not push.is_terminating:
            return ErrorCode.THROTTLING_QUOTA_EXCEEDED
        if push.subscription_id != instance.subscription_id:
            return ErrorCode.UNKNOWN_SUBSCRIPTION_ID
        if push.compression not in _COMPRESSIONS:
            return ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
        if push.size_bytes > self._max_bytes:
            return ErrorCode.TELEMETRY_TOO_LARGE
        return ErrorCode.NONE

    def _instance(
        self, instance_id: bytes, attributes: Attributes, connection: object, now_ms: int
    ) -> Computation[ClientInstance]:
        """Return an instance; create it if unknown, expired, or if subscriptions have changed."""
        instance = self._instances.get(instance_id)
        if instance is not None and instance.expires_ms <= now_ms:
            self._forget(instance_id)
            instance = None
        version = self._configs.version
        if instance is None or instance.version < version:
            if instance is None:
                attributes = {**attributes, "client_instance_id": _text(instance_id)}
            else:
                attributes = instance.attributes
            subscribed = yield from _subscribed(attributes, self._configs.subscriptions())
            # Another request may have created the instance in the meantime.
            instance = self._instances.get(instance_id)
            if instance is None or instance.version < version:
                instance = ClientInstance(instance_id, attributes, connection, subscribed, version)
                self._instances[instance_id] = instance
                self._by_connection[connection] = instance_id
                self._drop_oldest(now_ms)
        self._instances.move_to_end(instance_id)
        life_ms = max(_LEAST_LIFE_MS, _LIFE_INTERVALS * instance.interval_ms)
        instance.expires_ms = now_ms + life_ms
        return instance

    def _drop_oldest(self, now_ms: int) -> None:
        """Remove expired instances, and the least recently used ones above MOST_INSTANCES."""
        while True:
            instance_id, oldest = next(iter(self._instances.items()))
            is_kept = oldest.expires_ms > now_ms or oldest.expires_ms == 0
            if is_kept and len(self._instances) <= MOST_INSTANCES:
                return
            self._forget(instance_id)

    def _forget(self, instance_id: bytes) -> None:
        instance = self._instances.pop(instance_id)
        if self._by_connection.get(instance.connection) == instance_id:
            del self._by_connection[instance.connection]


def subscription_id(metrics: Iterable[str], interval_ms: int, instance_id: bytes) -> int:
    """Return the id of a subscription: its CRC-32C, XORed with the hash of the instance id."""
    crc = crc32c(f"[{', '.join(metrics)}]{interval_ms}".encode(errors="replace"))
    for start in range(0, 16, 4):  # like Java's Uuid.hashCode
        crc ^= int.from_bytes(instance_id[start : start + 4], "big")
    crc &= _MASK_32
    return crc - (1 << 32) if crc >> 31 else crc


def _subscribed(
    attributes: Attributes, subscriptions: Iterable[Subscription]
) -> Computation[tuple[list[str], int]]:
    """Return the metrics in the order of Kafka's HashSet, and the shortest interval in ms."""
    metrics: dict[str, None] = {}
    interval_ms = DEFAULT_INTERVAL_MS
    for subscription in subscriptions:
        if subscription.matches(attributes):
            metrics.update(dict.fromkeys(subscription.metrics))
            interval_ms = min(interval_ms, subscription.interval_ms)
        yield
    if ALL_METRICS in metrics:
        return [ALL_METRICS], interval_ms
    size = java_table_size(len(metrics))
    by_bucket: list[tuple[int, int, str]] = []
    for number, metric in enumerate(metrics):
        by_bucket.append((java_bucket(metric, size), number, metric))
        if number % _METRICS_PER_STEP == _METRICS_PER_STEP - 1:
            yield
    by_bucket.sort()
    return [metric for _, _, metric in by_bucket], interval_ms


def _text(instance_id: bytes) -> str:
    from protocol.json_form import uuid_to_text

    return uuid_to_text(instance_id)
