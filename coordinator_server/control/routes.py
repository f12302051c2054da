"""The table of routes of the control server.

The JSON API, its OpenAPI document, the Python client in `coordinator_server.testing`, `ctl` and the
table in docs/control-api.md come from this table. Handlers and shapes are named by text and
imported when they are needed, so that `--http` adds little to the start, and `ctl` can use the
table without the broker. GET routes also answer HEAD.
"""

from __future__ import annotations

from coordinator_server.control.route import BODY_BYTES, ControlRoute, Parameter

PATH_PARAMETERS = {
    "TOPIC": ("string", "name of a topic"),
    "INDEX": ("integer", "number of a partition"),
    "OFFSET": ("integer", "offset of a record"),
    "GROUP": ("string", "group id"),
    "ID": ("integer", "node id of a broker, or number of a connection or fault rule"),
    "FILE": ("string", "name of a file of the page"),
    "CLIENT": ("string", "client instance id or client id"),
    "TRANSACTION": ("string", "transactional id"),
}
"""Type and meaning of the parameters in paths."""

DEFAULT_LIMIT, MOST_AT_ONCE = 1_000, 10_000
"""Number of entries on a page by default and at most."""

RECORDS_BODY_BYTES, OFFSETS_BODY_BYTES = 16 * 1024 * 1024, 1024 * 1024
ACLS_BODY_BYTES = 256 * 1024
"""Size limits of bodies with records, offsets and ACLs."""

MOST_RECORDS, DEFAULT_CONTENT_BYTES, MOST_CONTENT_BYTES = 1_000, 4_096, 16 * 1024 * 1024
"""Limit of records on a page, and limits of the bytes that are shown of a key or value."""

GROUP_STATES = (
    "Empty",
    "PreparingRebalance",
    "CompletingRebalance",
    "Assigning",
    "Reconciling",
    "NotReady",
    "Stable",
    "Dead",
)
EVENT_TYPES = (
    "reset",
    "group",
    "rebalance",
    "topic",
    "transaction",
    "broker",
    "clock",
    "connection",
    "fault",
)
"""Kafka's names of the states of groups of all types, and the types of events."""

_PAGE = (
    Parameter(
        "limit", "integer", "entries on a page", DEFAULT_LIMIT, minimum=1, maximum=MOST_AT_ONCE
    ),
    Parameter("after", "text", "`next` of the previous page"),
)
_FILTER = Parameter("filter", "text", "only names that contain this text")
_FORMAT = Parameter(
    "format",
    "text",
    "how contents are shown; `auto` is json for objects and arrays, text for printable UTF-8, "
    "otherwise hex",
    "auto",
    choices=("auto", "text", "json", "hex", "base64"),
)
_TO = Parameter("to", "broker", "the broker to move to", metavar="ID", is_required=True)
_MAX_BYTES = Parameter(
    "max_bytes",
    "integer",
    "shown bytes of each key, value and header",
    DEFAULT_CONTENT_BYTES,
    maximum=MOST_CONTENT_BYTES,
)

_DESCRIBE_CLUSTER, _ALTER_CLUSTER = ("DESCRIBE", "CLUSTER"), ("ALTER", "CLUSTER")
_DESCRIBE_TOPIC, _DESCRIBE_GROUP = ("DESCRIBE", "TOPIC"), ("DESCRIBE", "GROUP")
_READ_TOPIC, _READ_GROUP = ("READ", "TOPIC"), ("READ", "GROUP")
_DESCRIBE_CONFIGS, _ALTER_CONFIGS = ("DESCRIBE_CONFIGS", "CLUSTER"), ("ALTER_CONFIGS", "CLUSTER")


def _row(
    request_line: str,
    verb: str,
    answer: str,
    response: str,
    meaning: str,
    needs: tuple[str, str] | None,
    query: tuple[Parameter, ...] = (),
    *,
    body: str = "",
    content_type: str = "application/json",
    is_public: bool = False,
    body_bytes: int = BODY_BYTES,
) -> ControlRoute:
    """Return a route; `request_line` is its method and path."""
    method, _, path = request_line.partition(" ")
    return ControlRoute(
        method,
        path,
        answer,
        query,
        verb,
        meaning,
        response,
        body,
        needs,
        content_type,
        is_public,
        body_bytes,
    )


# fmt: off
_CLUSTER = (
    _row("GET /cluster", "cluster show", "brokers:cluster", "cluster:Cluster",
         "describe the cluster: versions, counts, security", None),
    _row("GET /brokers", "brokers list", "brokers:brokers", "cluster:Brokers",
         "list the brokers: state, listeners, number of led partitions, groups, connections",
         _DESCRIBE_CLUSTER),
    _row("POST /brokers/ID/stop", "brokers stop", "brokers:stop", "cluster:Brokers",
         "stop a broker as in a controlled shutdown; it stays stopped", _ALTER_CLUSTER),
    _row("POST /brokers/ID/start", "brokers start", "brokers:start", "cluster:Brokers",
         "start a stopped broker on its previous ports", _ALTER_CLUSTER),
    _row("POST /partitions/TOPIC/INDEX/move", "partitions move", "brokers:move", "cluster:Moved",
         "make a running broker the leader of a partition", _ALTER_CLUSTER, (_TO,)),
    _row("POST /groups/GROUP/move", "groups move", "brokers:move_group", "cluster:GroupMoved",
         "move a group to another coordinator, with all groups of its partition of "
         "`__consumer_offsets`", _ALTER_CLUSTER, (_TO,)),
)

_TOPICS = (
    _row("GET /topics", "topics list", "topics:topics", "topics:Topics",
         "list topics with configs and offsets", _DESCRIBE_TOPIC, (*_PAGE, _FILTER,
         Parameter("internal", "boolean", "whether internal topics are included", True))),
    _row("GET /topics/TOPIC", "topics show", "topics:topic", "topics:Topic",
         "describe a topic: configs, and the start and end offset of each partition",
         _DESCRIBE_TOPIC),
    _row("POST /topics/TOPIC", "topics create", "topics:create", "topics:Topic", "create a topic",
         ("CREATE", "TOPIC"), body="topics:NewTopic"),
    _row("DELETE /topics/TOPIC", "topics delete", "topics:delete", "topics:Deleted",
         "delete a topic", ("DELETE", "TOPIC")),
    _row("POST /topics/TOPIC/partitions", "topics grow", "topics:grow", "topics:Topic",
         "add partitions to a topic", ("ALTER", "TOPIC"), body="topics:PartitionCount"),
    _row("GET /topics/TOPIC/partitions", "topics partitions", "topics:partitions",
         "topics:Partitions", "describe the partitions of a topic: leader, offsets, size",
         _DESCRIBE_TOPIC, _PAGE),
    _row("GET /partitions", "partitions list", "topics:all_partitions", "topics:Partitions",
         "describe the partitions of all topics", _DESCRIBE_TOPIC, _PAGE),
    _row("GET /topics/TOPIC/configs", "topics configs", "settings:topic_configs",
         "topics:Configs", "describe the configs of a topic with their sources",
         ("DESCRIBE_CONFIGS", "TOPIC")),
    _row("PATCH /topics/TOPIC/configs", "topics alter", "settings:alter_topic_configs",
         "topics:Configs", "change configs of a topic", ("ALTER_CONFIGS", "TOPIC"),
         body="topics:ConfigChange"),
)

_RECORDS = (
    _row("POST /topics/TOPIC/records", "records produce", "records:produce",
         "records:WrittenRecords",
         "write records; a missing topic is created if auto.create.topics.enable is on",
         ("WRITE", "TOPIC"), body="records:NewRecords", body_bytes=RECORDS_BODY_BYTES),
    _row("GET /topics/TOPIC/records", "records list", "records:browse", "records:Records",
         "read records of a topic, from any offset or time, with filters", _READ_TOPIC,
         (Parameter("partition", "integer", "only this partition"), Parameter("position", "text",
         "where to start without offset and timestamp_ms; `last` is `limit` records before "
         "the end of each partition", "earliest", choices=("earliest", "latest", "last")),
         Parameter("offset", "integer", "offset to start at, in each partition"),
         Parameter("timestamp_ms", "integer", "start at the first record of this time or later"),
         Parameter("key", "text", "only records whose key contains this text"), Parameter("value",
         "text", "only records whose value contains this text"), Parameter("header", "text",
         "only records with a header of this name"), Parameter("limit", "integer",
         "records on a page", 100, minimum=1, maximum=MOST_RECORDS), Parameter("after", "text",
         "`next` or `tail` of the previous page"), _FORMAT, _MAX_BYTES)),
    _row("GET /partitions/TOPIC/INDEX/records", "records fetch", "records:records",
         "records:EncodedRecords",
         "read records of a partition from an offset, with base64 contents", _READ_TOPIC,
         (Parameter("offset", "integer", "offset to start at", 0), Parameter("count", "integer",
         "number of records", 100, maximum=MOST_AT_ONCE))),
    _row("GET /partitions/TOPIC/INDEX/records/OFFSET", "records show", "records:record",
         "records:Record", "read one record", _READ_TOPIC, (_FORMAT, Parameter("max_bytes",
         "integer", "shown bytes of each key, value and header", 16777216,
         maximum=MOST_CONTENT_BYTES))),
    _row("DELETE /partitions/TOPIC/INDEX/records", "records delete", "topics:delete_records",
         "records:RecordsDeleted", "delete the records of a partition before an offset",
         ("DELETE", "TOPIC"), (Parameter("before", "integer",
         "offset before which records are deleted; -1 is the high watermark", metavar="OFFSET",
         is_required=True, minimum=-1),)),
)

_GROUPS = (
    _row("GET /groups", "groups list", "groups:groups", "groups:Groups",
         "list groups of all four types", _DESCRIBE_GROUP, (*_PAGE, _FILTER, Parameter("type",
         "text", "only groups of this type", choices=("classic", "consumer", "share", "streams")),
         Parameter("state", "text", "only groups in this state", choices=GROUP_STATES),
         Parameter("times", "boolean", "whether `time_lag_ms` is filled in", False))),
    _row("GET /groups/GROUP", "groups show", "groups:group", "groups:Group",
         "describe a group: members, assignments now and target, offsets, the last rebalance",
         _DESCRIBE_GROUP),
    _row("DELETE /groups/GROUP", "groups delete", "offsets:delete_group", "topics:Deleted",
         "delete a group without members", ("DELETE", "GROUP")),
    _row("GET /groups/GROUP/lag", "groups lag", "group_lag:lag", "groups:GroupLag",
         "lag of a group in records and in time, by partition", _DESCRIBE_GROUP),
    _row("GET /groups/GROUP/lag/history", "groups lag-history", "group_lag:history",
         "groups:LagHistory",
         "lag of a group over time: samples since the start of the control server, at most 720 "
         "changes", _DESCRIBE_GROUP, (Parameter("since_ms", "integer",
         "only the sample at this time and later ones", 0),)),
    _row("PUT /groups/GROUP/offsets", "offsets set", "offsets:set_offsets",
         "groups:OffsetChanges", "commit offsets for a group without members", _READ_GROUP,
         body="groups:OffsetsToSet", body_bytes=OFFSETS_BODY_BYTES),
    _row("POST /groups/GROUP/offsets/reset", "offsets reset", "offsets:reset_offsets",
         "groups:OffsetChanges", "reset the offsets of a group without members; with topics, a "
         "group that does not exist is created", _READ_GROUP,
         body="groups:OffsetReset"),
    _row("DELETE /groups/GROUP/offsets", "offsets delete", "offsets:delete_offsets",
         "groups:OffsetChanges",
         "delete committed offsets of a topic that no member is subscribed to",
         ("DELETE", "GROUP"), (Parameter("topic", "text", "topic", is_required=True),
         Parameter("partition", "integer", "only this partition of the topic"))),
    _row("GET /groups/GROUP/rebalances", "groups rebalances", "rebalances:rebalances",
         "groups:Rebalances", "list the rebalances of a group with their records, the latest first",
         _DESCRIBE_GROUP, (Parameter("limit", "integer", "rebalances on a page", 50, minimum=1,
         maximum=500), Parameter("after", "text", "`next` of the previous page"),
         Parameter("since_ms", "integer", "only rebalances that ended at this time or later"),
         Parameter("until_ms", "integer", "only rebalances that ended before this time"))),
    _row("GET /groups/GROUP/in-flight", "groups in-flight", "groups:in_flight",
         "share:InFlightRecords",
         "list in-flight records of a share group: state, delivery count, member, lock",
         _DESCRIBE_GROUP, _PAGE),
)

_TRANSACTIONS = (
    _row("GET /transactions", "transactions list", "transactions:transactions",
         "transactions:Transactions",
         "list transactional ids, and partitions where open transactions block read_committed",
         ("DESCRIBE", "TRANSACTIONAL_ID"), (*_PAGE, _FILTER)),
    _row("GET /transactions/TRANSACTION", "transactions show", "transactions:transaction",
         "transactions:TransactionDetails",
         "describe a transaction, what it holds back, and the groups that wait for its end",
         ("DESCRIBE", "TRANSACTIONAL_ID")),
    _row("POST /transactions/TRANSACTION/abort", "transactions abort", "transactions:abort",
         "transactions:TransactionEnded", "abort an open transaction by fencing its producer",
         ("WRITE", "TRANSACTIONAL_ID")),
)

_CONNECTIONS = (
    _row("GET /connections", "connections list", "connections:connections",
         "connections:Connections",
         "list client connections: software, principal, APIs, bytes, errors, topics",
         _DESCRIBE_CLUSTER, (*_PAGE, Parameter("broker", "broker",
         "only connections of this broker"), Parameter("filter", "text",
         "only if client id, address or principal has this text"), Parameter("topic", "text",
         "only clients that wrote or read this topic"), Parameter("closed", "boolean",
         "whether recently closed connections that used a topic are included: the last 100 of "
         "each broker", False))),
    _row("DELETE /connections/ID", "connections close", "connections:close",
         "connections:ConnectionClosed", "close a client connection", _ALTER_CLUSTER),
)

_SECURITY = (
    _row("GET /quotas", "quotas list", "security:quotas", "security:Quotas", "list quotas",
         _DESCRIBE_CONFIGS),
    _row("PATCH /quotas", "quotas alter", "security:alter_quotas", "security:Quotas",
         "change the quotas of an entity", _ALTER_CONFIGS, body="security:QuotaChange"),
    _row("GET /acls", "acls list", "security:acls", "security:Acls", "list ACLs",
         _DESCRIBE_CLUSTER),
    _row("POST /acls", "acls create", "security:create_acls", "security:Acls", "create ACLs",
         _ALTER_CLUSTER, body="security:Acls", body_bytes=ACLS_BODY_BYTES),
    _row("POST /acls/delete", "acls delete", "security:delete_acls", "security:Acls",
         "delete the ACLs that match a filter, and return them", _ALTER_CLUSTER,
         body="security:AclFilter"),
    _row("POST /login", "login", "security:login", "security:Session",
         "log in as a user of the broker (`--http-login`)", None, body="security:Login",
         is_public=True),
    _row("GET /settings", "settings list", "settings:settings", "topics:Configs",
         "list the broker's settings with their sources", _DESCRIBE_CONFIGS, (_FILTER,
         Parameter("broker", "broker", "node id; by default the first broker"))),
    _row("GET /permissions", "permissions", "security:permissions", "security:Permissions",
         "list the operations that the user of the request may do", None, (
         Parameter("topic", "text", "a topic, which need not exist"),
         Parameter("group", "text", "a group, which need not exist"),
         Parameter("transactional_id", "text", "a transactional id, which need not exist"))),
    _row("PATCH /settings", "settings alter", "settings:alter_settings", "topics:Configs",
         "change settings at run time, see dynamic-configs.md", _ALTER_CONFIGS,
         (Parameter("broker", "broker",
         "node id; by default the setting applies to all brokers"),), body="topics:ConfigChange"),
)

_OTHERS = (
    _row("GET /telemetry", "telemetry list", "telemetry:telemetry", "telemetry:MetricsClients",
         "list subscriptions to client metrics, and clients that have pushed metrics",
         _DESCRIBE_CLUSTER),
    _row("GET /telemetry/CLIENT", "telemetry show", "telemetry:client_metrics",
         "telemetry:ClientMetrics", "show the metrics that a client has pushed last",
         _DESCRIBE_CLUSTER),
    _row("GET /clock", "clock show", "clock:state", "cluster:Clock", "show the broker's time",
         _DESCRIBE_CLUSTER),
    _row("POST /clock/advance", "clock advance", "clock:advance", "cluster:Clock",
         "advance the broker's time and do all work that becomes due", _ALTER_CLUSTER,
         (Parameter("seconds", "number", "how far to advance the clock", metavar="N",
         is_required=True),)),
    _row("POST /clock/freeze", "clock freeze", "clock:freeze", "cluster:Clock", "stop the time",
         _ALTER_CLUSTER),
    _row("POST /clock/resume", "clock resume", "clock:resume", "cluster:Clock",
         "let the time run", _ALTER_CLUSTER),
    _row("GET /faults", "faults list", "faults:faults", "faults:ActiveFaults",
         "list fault rules and how often they took effect", _DESCRIBE_CLUSTER),
    _row("POST /faults", "faults add", "faults:add", "faults:ActiveFault",
         "add a fault rule: errors, delays, dropped connections", _ALTER_CLUSTER,
         body="faults:FaultRule"),
    _row("DELETE /faults", "faults clear", "faults:clear", "faults:ActiveFaults",
         "remove all fault rules and return them", _ALTER_CLUSTER),
    _row("DELETE /faults/ID", "faults remove", "faults:remove", "faults:ActiveFault",
         "remove a fault rule and return it", _ALTER_CLUSTER),
    _row("POST /snapshot", "snapshot", "snapshots:snapshot", "cluster:Snapshot",
         "copy the data directory, consistently", _ALTER_CLUSTER, body="cluster:NewSnapshot"),
    _row("POST /restore", "restore", "snapshots:restore", "cluster:Restored",
         "put the running broker back to a snapshot, on the same ports", _ALTER_CLUSTER,
         body="cluster:SnapshotToRestore"),
    _row("POST /reset", "reset", "brokers:reset", "cluster:ResetDone",
         "remove all topics, groups and connections, as after the first start", _ALTER_CLUSTER,
         (Parameter("move", "boolean", "whether the brokers move to other ports", False),)),
    _row("GET /events", "events", "events:events", "events:Event",
         "follow changes as server-sent events; the header Last-Event-ID resumes",
         None, (Parameter("types", "text",
         "types of events, separated by commas; by default all", choices=EVENT_TYPES,
         is_list=True), Parameter("group", "text",
         "only events of this group, for types group and rebalance"), Parameter("last_event_id",
         "integer", "resume after this event, as Last-Event-ID")),
         content_type="text/event-stream"),
    _row("GET /metrics", "", "metrics:metrics", "",
         "metrics for Prometheus; a user needs Describe on all topics and groups",
         _DESCRIBE_CLUSTER, content_type="text/plain"),
    _row("GET /openapi.json", "openapi", "openapi:document", "",
         "the OpenAPI 3.1 document of this API", None),
    _row("GET /", "", "static:index", "", "the page for browsers", None,
         content_type="text/html", is_public=True),
    *(_row(f"GET {path}", "", "static:file", "", "a file of the page", None,
           content_type="text/javascript", is_public=True)
      for path in ("/page/FILE", "/page/views/FILE")),
)

# fmt: on

ROUTES: tuple[ControlRoute, ...] = (
    *_CLUSTER,
    *_TOPICS,
    *_RECORDS,
    *_GROUPS,
    *_TRANSACTIONS,
    *_CONNECTIONS,
    *_SECURITY,
    *_OTHERS,
)
"""All routes of the control server."""
