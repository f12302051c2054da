"""The dynamic settings, which can change at run time, and the scope of each.

Source: Kafka's DynamicBrokerConfig. A name may have the prefix listener.name.NAME.
"""

from __future__ import annotations

import re

from coordinator_server.config.inert_settings import INERT_SETTINGS, REPLICATION_QUOTAS
from coordinator_server.config.settings import SETTINGS
from storage.config_def import INT_MAX, Setting
from storage.topic_settings import TOPIC_SETTINGS

MIN_IN_SYNC = "min.insync.replicas"
"""Always a cluster-wide dynamic config, as with eligible leader replicas (KIP-966)."""

SECURITY = frozenset(
    {
        "ssl.key.password",
        "ssl.keystore.certificate.chain",
        "ssl.keystore.key",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.type",
        "ssl.truststore.certificates",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.type",
    }
)
"""Key stores and trust stores, which only a listener can change (DYNAMIC_SECURITY_CONFIGS)."""

CLUSTER_LEVEL_LISTENER = frozenset(
    {"max.connection.creation.rate", "max.connections", "num.network.threads"}
)
"""Listener settings that can be set cluster-wide (CLUSTER_LEVEL_LISTENER_CONFIGS)."""

_LISTENER = frozenset(
    {
        "listener.security.protocol.map",
        "listeners",
        "principal.builder.class",
        "sasl.enabled.mechanisms",
        "sasl.jaas.config",
        "ssl.cipher.suites",
        "ssl.client.auth",
        "ssl.enabled.protocols",
        "ssl.protocol",
        *SECURITY,
        *(setting.name for setting in INERT_SETTINGS if setting.name.startswith(("sasl.", "ssl."))),
    }
)

ONLY_PER_BROKER = _LISTENER | {"cordoned.log.dirs"}
"""Settings that cannot be set cluster-wide (PER_BROKER_CONFIGS)."""

RECONFIGURED_LISTENER = (_LISTENER | CLUSTER_LEVEL_LISTENER) - {
    "ssl.keystore.key",
    "ssl.keystore.certificate.chain",
    "ssl.truststore.certificates",
}
"""Settings whose change is checked against every listener (DynamicListenerConfig)."""

LOG_SETTINGS = frozenset(row.sources[0].name for row in TOPIC_SETTINGS.values() if row.sources)
"""Defaults of topic configs. Of several units only the finest can change at run time."""

THREADS = (
    "background.threads",
    "num.io.threads",
    "num.recovery.threads.per.data.dir",
    "num.replica.fetchers",
    "remote.log.manager.copier.thread.pool.size",
    "remote.log.manager.expiration.thread.pool.size",
    "remote.log.manager.follower.thread.pool.size",
    "remote.log.reader.threads",
)
"""Sizes of thread pools, which can at most double or halve in one change."""

DYNAMIC = (
    ONLY_PER_BROKER
    | CLUSTER_LEVEL_LISTENER
    | LOG_SETTINGS
    | {setting.name for setting in INERT_SETTINGS}
    | REPLICATION_QUOTAS.keys()
    | {
        "errors.deadletterqueue.auto.create.topics.enable",
        "errors.deadletterqueue.topic.name.prefix",
        "group.consumer.assignment.interval.ms",
        "group.consumer.assignor.offload.enable",
        "group.coordinator.cached.buffer.max.bytes",
        "group.share.assignment.interval.ms",
        "group.share.assignor.offload.enable",
        "group.streams.assignment.interval.ms",
        "group.streams.assignor.offload.enable",
        "log.cleaner.backoff.ms",
        "max.connections.per.ip",
        "max.connections.per.ip.overrides",
        "producer.id.expiration.ms",
        "share.coordinator.cached.buffer.max.bytes",
        "transaction.partition.verification.enable",
    }
)
"""All dynamic settings (ALL_DYNAMIC_CONFIGS)."""

# Kafka does not apply the limits of the topic configs to these four settings; it only checks them
# together with other settings.
_WITHOUT_LEAST = ("log.retention.ms", "log.flush.interval.ms", "log.roll.ms", "log.roll.jitter.ms")

_CUSTOM = ("super.users", "allow.everyone.if.no.acl.found")
"""Authorizer settings, which are custom configs to Kafka's broker."""

_LISTENER_NAME = re.compile(r"listener\.name\.([^.]*)\.(.*)", re.DOTALL)
_OF_MECHANISM = (
    "connections.max.reauth.ms",
    "sasl.jaas.config",
    "sasl.login.callback.handler.class",
    "sasl.login.class",
    "sasl.server.callback.handler.class",
)
_UNITS = (
    ("log.roll.ms", "log.roll.hours"),
    ("log.roll.jitter.ms", "log.roll.jitter.hours"),
    ("log.flush.interval.ms", "log.flush.scheduler.interval.ms"),
    ("log.retention.ms", "log.retention.minutes", "log.retention.hours"),
)
_UNITS_OF = {name: units for units in _UNITS for name in units}


def java_integer(text: str) -> int | None:
    """Parse an integer like Java's Integer.parseInt; return None if invalid."""
    if not re.fullmatch(r"[+-]?[0-9]{1,20}", text):
        return None
    number = int(text)
    return number if -INT_MAX - 1 <= number <= INT_MAX else None


def split_listener(name: str) -> tuple[str | None, str]:
    """Return the listener in a config's name (None without one) and the name of the setting."""
    match = _LISTENER_NAME.fullmatch(name) if name.startswith("listener.name.") else None
    return (None, name) if match is None else (match[1], match[2])


def setting_of(name: str) -> Setting | None:
    """Return the setting of a config, whose name may have a listener prefix; None if custom."""
    if name in _CUSTOM:
        return None
    listener, _ = split_listener(name)
    stem = name if listener is None else synonyms_of(name)[-1]
    setting = SETTINGS.get(stem) or REPLICATION_QUOTAS.get(name)
    if setting is not None and name in _WITHOUT_LEAST:
        return setting._replace(least=None)
    return setting


def synonyms_of(name: str) -> tuple[str, ...]:
    """Return the names that can set a config's value, highest precedence first.

    Source: DynamicBrokerConfig.brokerConfigSynonyms.
    """
    if name in _UNITS_OF:
        return _UNITS_OF[name]
    listener, stem = split_listener(name)
    if listener is None:
        return (name,)
    return name, next((suffix for suffix in _OF_MECHANISM if stem.endswith(suffix)), stem)
