"""The vocabulary of the log: every event with its level and its fields.

An event name is a noun and a participle: the past participle for past events (`member.expired`),
the present participle for a beginning (`group.rebalancing`). Events have no other fields than in
this table; a field that does not apply is left out or null. tests/unit/events/test_vocabulary.py
checks every log call against the table, and vice versa.
"""

from __future__ import annotations

from typing import NamedTuple

DEBUG, INFO, WARNING, ERROR = 10, 20, 30, 40
LEVELS = {"debug": DEBUG, "info": INFO, "warning": WARNING, "error": ERROR}


class EventType(NamedTuple):
    """The level of an event and its fields.

    `most_in_period` limits events of one kind in ten seconds, 0 for no limit (see repeats.py). Such
    an event has the additional field `left_out` in the log if events of its kind were left out
    before. `kind` names the fields that define a kind; empty means all fields.
    """

    level: int
    fields: tuple[str, ...] = ()
    most_in_period: int = 0
    kind: tuple[str, ...] = ()


_OF_GROUP = 50  # the limit for events of groups: a healthy group emits fewer events per period

VOCABULARY: dict[str, EventType] = {
    # the process
    "broker.stopping": EventType(INFO, ("reason",)),
    "broker.stopped": EventType(INFO),
    "broker.listening": EventType(INFO, ("broker", "address")),
    "broker.removed": EventType(INFO, ("broker", "partitions_moved")),
    "broker.returned": EventType(INFO, ("broker", "partitions_moved")),
    "cluster.reset": EventType(INFO, ("topics", "groups", "connections", "user", "remote")),
    "cluster.restored": EventType(INFO, ("directory", "duration_ms", "user", "remote")),
    "control.listening": EventType(INFO, ("address",)),
    "control.failed": EventType(ERROR, ("method", "path")),
    "control_task.failed": EventType(ERROR, ("task",)),
    "registry.failed": EventType(WARNING, ("url", "reason"), most_in_period=1, kind=("url",)),
    "tracing.failed": EventType(WARNING, ("signal", "reason"), most_in_period=1, kind=("signal",)),
    "settings.ignored": EventType(WARNING, ("settings",)),
    "settings.doubted": EventType(WARNING, ("settings",)),
    "settings.unrecognized": EventType(WARNING, ("settings",)),
    "address.doubted": EventType(WARNING, ("listener", "remote", "address", "reason")),
    "address.unresolved": EventType(WARNING, ("address", "reason")),
    # connections and requests
    "connection.opened": EventType(DEBUG, ("remote",)),
    "connection.ended": EventType(DEBUG, ("remote",)),
    "connection.closed": EventType(WARNING, ("remote", "reason", "api", "version", "unreported")),
    "connection.refused": EventType(WARNING, ("remote", "reason", "api", "version", "unreported")),
    "connection.delayed": EventType(
        WARNING,
        ("remote", "listener", "reason"),
        most_in_period=10,
        kind=("listener", "reason"),
    ),
    # A refused client reconnects immediately, again and again.
    "handshake.failed": EventType(
        WARNING,
        ("remote", "listener", "reason"),
        most_in_period=10,
        kind=("listener", "reason"),
    ),
    "connection.failed": EventType(WARNING, ("reason",)),
    "certificates.reloaded": EventType(INFO, ("listener", "valid_until")),
    "certificates.expired": EventType(WARNING, ("listener", "reason")),
    "certificates.refused": EventType(WARNING, ("listener", "reason")),
    "client.authenticated": EventType(DEBUG, ("remote", "listener", "principal")),
    "connection.authenticated": EventType(DEBUG, ("remote", "listener", "mechanism", "user")),
    "authentication.failed": EventType(
        WARNING,
        ("remote", "listener", "mechanism", "user", "reason"),
        most_in_period=50,
        kind=("listener", "mechanism"),
    ),
    "authenticator.failed": EventType(
        ERROR,
        ("remote", "listener", "mechanism"),
        most_in_period=10,
        kind=("listener", "mechanism"),
    ),
    "jwks.failed": EventType(WARNING, ("url", "reason"), most_in_period=10, kind=("url",)),
    "connections.closed": EventType(WARNING, ("unreported",)),
    "request.failed": EventType(ERROR, ("remote", "api", "version", "correlation_id")),
    # faults on demand
    "fault.added": EventType(INFO, ("rule", "fault")),
    "fault.removed": EventType(INFO, ("rule", "injected")),
    "fault.injected": EventType(
        INFO,
        ("rule", "action", "api", "remote", "client_id", "correlation_id"),
        most_in_period=20,
        kind=("rule",),
    ),
    # security
    # Denied clients retry, and a subscription may contain many topics.
    "access.denied": EventType(
        INFO,
        ("principal", "host", "operation", "resource_type", "resource", "api"),
        most_in_period=20,
        kind=("principal", "operation", "resource_type"),
    ),
    "acls.created": EventType(INFO, ("remote", "acls")),
    "acls.deleted": EventType(INFO, ("remote", "acls")),
    "token.created": EventType(INFO, ("remote", "token")),
    "token.renewed": EventType(INFO, ("remote", "token")),
    "token.ended": EventType(INFO, ("remote", "token")),
    "token.expiry_changed": EventType(INFO, ("remote", "token")),
    "tokens.expired": EventType(INFO, ("tokens",)),
    "tokens.failed": EventType(ERROR, ("reason",)),
    # After a crash, a change that was not acknowledged may be incomplete.
    "security_state.truncated": EventType(WARNING, ("file", "bytes")),
    "security_state.failed": EventType(ERROR, ("reason",), most_in_period=1),
    # transactions
    "transaction.ended": EventType(
        DEBUG,
        ("transactional_id", "producer_id", "state", "partitions", "elapsed_ms"),
    ),
    "transaction.expired": EventType(INFO, ("transactional_id", "producer_id", "timeout_ms")),
    "transactional_id.expired": EventType(DEBUG, ("transactional_id",)),
    "marker.failed": EventType(
        ERROR,
        ("topic", "partition", "producer_id", "error", "reason"),
        most_in_period=_OF_GROUP,
        kind=("topic", "partition", "error"),
    ),
    # groups
    "group.created": EventType(DEBUG, ("group",)),
    "group.rebalancing": EventType(
        INFO,
        ("group", "generation", "state", "trigger", "member", "reason"),
        most_in_period=_OF_GROUP,
        kind=("group",),
    ),
    "group.rebalanced": EventType(
        INFO,
        (
            "group",
            "type",
            "generation",
            "outcome",
            "trigger",
            "member",
            "instance",
            "client_host",
            "reason",
            "error",
            "members_before",
            "rejoined",
            "joined",
            "dropped",
            "moved",
            "initial_delay_ms",
            "join_ms",
            "sync_ms",
            "assign_ms",
            "reconcile_ms",
        ),
        most_in_period=_OF_GROUP,
        kind=("group",),
    ),
    "group.deleted": EventType(INFO, ("group", "offsets")),
    "groups.configured": EventType(INFO, ("groups",)),
    "telemetry.configured": EventType(INFO, ("subscriptions",)),
    "brokers.configured": EventType(INFO, ("brokers",)),
    "group.expired": EventType(INFO, ("group",)),
    "group.upgraded": EventType(INFO, ("group", "members")),
    "group.downgraded": EventType(INFO, ("group", "generation", "members")),
    "group.unloaded": EventType(DEBUG, ("group",)),
    "share_state.refused": EventType(
        ERROR, ("group", "error"), most_in_period=_OF_GROUP, kind=("group", "error")
    ),
    "group.failed": EventType(ERROR, ("group",)),
    "generation.started": EventType(
        INFO,
        ("group", "generation", "members", "leader"),
        most_in_period=_OF_GROUP,
        kind=("group",),
    ),
    "member.joined": EventType(DEBUG, ("group", "member", "client_host", "reason")),
    "member.left": EventType(INFO, ("group", "member", "reason")),
    "member.expired": EventType(INFO, ("group", "member", "client_host", "session_timeout_ms")),
    "member.dropped": EventType(INFO, ("group", "member", "reason")),
    "member.replaced": EventType(INFO, ("group", "member", "replaced", "instance")),
    "revocation.expired": EventType(INFO, ("group", "member", "rebalance_timeout_ms")),
    "member_id.expired": EventType(INFO, ("group", "member")),
    "offsets.committed": EventType(DEBUG, ("group", "member", "partitions")),
    "offsets.expired": EventType(INFO, ("group", "partitions")),
    "offsets.deleted": EventType(INFO, ("group", "partitions")),
    "coordinator.loaded": EventType(
        INFO,
        ("topic", "partition", "groups", "transactional_ids", "share_partitions", "elapsed_ms"),
    ),
    "records.skipped": EventType(WARNING, ("topic", "partition", "records", "reason")),
    "records.dropped": EventType(WARNING, ("topic", "records")),
    "letters.failed": EventType(
        ERROR,
        ("group", "topic", "partition", "offset", "last_offset", "queue", "reason"),
        most_in_period=_OF_GROUP,
        kind=("group",),
    ),
    "letters.uncopied": EventType(
        WARNING,
        ("group", "topic", "partition", "offset", "last_offset", "reason"),
        most_in_period=_OF_GROUP,
        kind=("group",),
    ),
    "write.failed": EventType(ERROR, ("error",), most_in_period=1),
    # topics and logs
    "topics.truncated": EventType(WARNING, ("file", "bytes")),
    "topic.created": EventType(INFO, ("topic", "partitions")),
    "topic.deleted": EventType(INFO, ("topic",)),
    "topic.configured": EventType(INFO, ("topic", "configs")),
    "partitions.created": EventType(INFO, ("topic", "partitions")),
    "leader.elected": EventType(DEBUG, ("topic", "partition", "leader", "before")),
    "listener.added": EventType(INFO, ("listener", "address")),
    "listener.failed": EventType(ERROR, ("listener", "reason")),
    "listener.removed": EventType(INFO, ("listener",)),
    "log.recovered": EventType(
        WARNING, ("topic", "partition", "offset", "bytes_cut", "reason", "file")
    ),
    "log.compacted": EventType(
        DEBUG, ("topic", "partition", "first_dirty_offset", "bytes_before", "bytes_after")
    ),
    "log.failed": EventType(ERROR, ("topic", "partition", "error", "reason"), most_in_period=1),
    "batch.refused": EventType(
        WARNING,
        ("topic", "partition", "client_id", "reason"),
        most_in_period=1,
        kind=("topic", "partition"),
    ),
    "segment.deleted": EventType(
        DEBUG, ("topic", "partition", "base_offset", "size_bytes", "reason")
    ),
}
"""Name -> level and fields. An event of level ERROR can also have a traceback (`exc_info=True`)."""
