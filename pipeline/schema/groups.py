"""Schemas of the tables about groups: generations, members, rebalances, status."""

from __future__ import annotations

from pipeline.schema.table import DAY, GTP, LOG_PLACE, PARTITIONS, Column, Table

GROUP_GENERATIONS = Table(
    "group_generations",
    "Every generation of a group in the log, including tombstones. KIP-848 groups: epochs.",
    ("group", "log_partition", "log_offset"),
    (
        Column("group", "string", "Group id."),
        Column("group_type", "string", "`classic`, `consumer`, `share`, `streams`."),
        Column("event", "string", "`generation`, `empty` (no members), `tombstone`."),
        Column("generation", "int", "Generation, or epoch; null for a tombstone."),
        Column("protocol_type", "string", "Protocol type: `consumer` for consumers."),
        Column("protocol", "string", "Assignor."),
        Column("leader", "string", "Member id of the leader."),
        Column("members", "int", "Number of members."),
        Column(
            "partitions",
            "int",
            "Number of assigned partitions; null if the assignment cannot be decoded.",
        ),
        Column("state_timestamp_ms", "bigint", "Time at which the group entered this state."),
        Column(
            "assigned_ms",
            "bigint",
            "KIP-848 groups: time at which the assignment of the epoch was computed "
            "(KIP-1263); null if none was computed, or if the broker was older than "
            "Kafka 4.3.",
        ),
        *LOG_PLACE,
        DAY,
    ),
    ("day",),
)

GROUP_MEMBERS = Table(
    "group_members",
    "Every member of every generation, with its subscription and its assignment.",
    ("group", "log_partition", "log_offset", "member_id"),
    (
        Column("group", "string", "Group id."),
        Column("generation", "int", "Generation, or epoch."),
        Column("member_id", "string", "Member id."),
        Column("group_instance_id", "string", "Group instance id of a static member."),
        Column("client_id", "string", "Client id."),
        Column("client_host", "string", "Host from which the client connected."),
        Column("is_leader", "boolean", "Whether the member computed the assignment."),
        Column("session_timeout_ms", "int", "Session timeout."),
        Column("rebalance_timeout_ms", "int", "Rebalance timeout."),
        Column(
            "subscribed_topics",
            "array<string>",
            "Subscribed topics; null if the subscription cannot be decoded.",
        ),
        Column(
            "assigned", PARTITIONS, "Assigned partitions; null if the assignment cannot be decoded."
        ),
        Column("assigned_count", "int", "Number of assigned partitions."),
        Column(
            "assignment_epochs",
            "array<struct<topic: string, epochs: array<int>>>",
            "KIP-848 groups: the epochs at which the partitions of `assigned` were "
            "assigned, in the same order (KIP-1251); null if the record has none "
            "(before Kafka 4.3).",
        ),
        Column("log_partition", "int", "Same as in `group_generations`."),
        Column("log_offset", "bigint", "Same as in `group_generations`."),
        Column("problem", "string", "Why the subscription or the assignment could not be decoded."),
    ),
)

REBALANCES = Table(
    "rebalances",
    "Changes from one generation of a group to the next: members that joined and "
    "left, partitions that moved, and the cause.",
    ("group", "log_partition", "log_offset"),
    (
        Column("group", "string", "Group id."),
        Column("generation", "int", "The new generation."),
        Column("generation_before", "int", "The previous generation; null if none is known."),
        Column("at_ms", "bigint", "Timestamp of the record of the new generation."),
        Column("members_before", "int", "Members of the previous generation."),
        Column("members", "int", "Members of the new generation."),
        Column("joined", "array<string>", "Members that joined, by instance id or else member id."),
        Column("left", "array<string>", "Members that left."),
        Column(
            "restarted",
            "array<string>",
            "Members that restarted: a static member with a new member id, or a "
            "dynamic member that left and joined with the same client id and host.",
        ),
        Column("partitions", "int", "Partitions assigned in either generation: P."),
        Column(
            "moved",
            "int",
            "Partitions whose owner changed; a restarted member counts as the same owner.",
        ),
        Column("moved_share", "double", "moved / P; null if P is 0 or unknown."),
        Column("stickiness", "double", "|A n A'| / |A u A'| over pairs of owner and partition."),
        Column("leader_changed", "boolean", "Whether the leader changed."),
        Column("protocol_changed", "boolean", "Whether the assignor changed."),
        Column(
            "storm", "boolean", "Whether the rebalance is one of five or more within five minutes."
        ),
        Column(
            "per_hour",
            "double",
            "Generations of the group in the hour before this one, including it.",
        ),
        Column(
            "trigger",
            "string",
            "Cause of the rebalance, from `__group_events`; null for other brokers.",
        ),
        Column("reason", "string", "Reason that the client sent (KIP-800), from `__group_events`."),
        Column("duration_ms", "bigint", "Duration of the rebalance, from `__group_events`."),
        *LOG_PLACE[:2],
        DAY,
    ),
    ("day",),
)

STATUS = Table(
    "status",
    "Verdict on each group and partition by a changed form of Burrow's rules: the "
    "window is a time span, the lag is computed from the data log, and members are considered. The "
    "row of a group has a null topic and the worst status of its partitions.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column(
            "status",
            "string",
            "`OK`, `WARN`, `STALL`, `REWIND`, `STOP`; of a group: `OK`, `WARN`, `ERR`.",
        ),
        Column("rule", "string", "The rule that decided."),
        Column("lag", "bigint", "Lag at `at_ms`."),
        Column("allowed_lag", "bigint", "Lag up to which the status is OK."),
        Column("window_ms", "bigint", "Length of the window."),
        Column("commits", "bigint", "Commits in the window."),
        Column("complete", "double", "Share of the window between the first and the last commit."),
        Column("first_commit_ms", "bigint", "Time of the first commit in the window."),
        Column("last_commit_ms", "bigint", "Time of the last commit."),
        Column("first_lag", "bigint", "Lag at the first commit in the window."),
        Column("min_lag", "bigint", "Lowest lag at any commit in the window."),
        Column("max_lag", "bigint", "Highest lag at any commit in the window."),
        Column(
            "produced_since_commit",
            "bigint",
            "Increase of the log end offset since the last commit.",
        ),
        Column("members", "int", "Live members of the group."),
        Column(
            "evidence_offset", "bigint", "log_offset of the commit on which the verdict is based."
        ),
    ),
)

MEMBER_SKEW = Table(
    "member_skew",
    "Distribution of partitions and load over the members of the current generation.",
    ("group", "member_id"),
    (
        Column("group", "string", "Group id."),
        Column("member_id", "string", "Member id."),
        Column("client_id", "string", "Client id."),
        Column("client_host", "string", "Host."),
        Column("partitions", "int", "Partitions of the member: n."),
        Column(
            "load_per_second", "double", "Records per second that are produced to these partitions."
        ),
        Column("lag", "bigint", "Total lag of these partitions."),
        Column(
            "consumed_per_second",
            "double",
            "Records per second that are committed for these partitions.",
        ),
        Column("group_members", "int", "Members of the group."),
        Column("group_idle_members", "int", "Members without a partition."),
        Column("partitions_cv", "double", "For the group: standard deviation / mean of n."),
        Column("load_cv", "double", "For the group: standard deviation / mean of the load."),
        Column("load_max_over_mean", "double", "For the group: highest load / mean load."),
        Column("lag_gini", "double", "For the group: Gini coefficient of the members' lag."),
        Column(
            "verdicts",
            "array<string>",
            "Any of `assignment_skew`, `key_skew`, `slow_member`, "
            "`too_many_members`, `idle`; empty if there is no problem.",
        ),
    ),
)

ABANDONED_GROUPS = Table(
    "abandoned_groups",
    "Groups that seem to be unused, with the reasons. They are not removed from other tables.",
    ("group",),
    (
        Column("group", "string", "Group id."),
        Column(
            "reasons",
            "array<string>",
            "Any of `empty_and_silent`, `topic_gone`, `lag_grows_without_members`, `litter_name`.",
        ),
        Column(
            "litter_family",
            "string",
            "Pattern of a temporary group name, such as `console-consumer-*`.",
        ),
        Column("members", "int", "Members at the requested time."),
        Column("last_commit_ms", "bigint", "Time of the last commit."),
        Column("empty_since_ms", "bigint", "Time at which the group became empty."),
        Column("silent_ms", "bigint", "Time since the last commit or change of state."),
        Column("last_client_id", "string", "Client id of the last leader."),
        Column("last_client_host", "string", "Host of the last leader."),
        Column("partitions", "int", "Partitions with a committed offset."),
        Column("lag", "bigint", "Total lag."),
        Column(
            "log_bytes",
            "bigint",
            "Bytes of keys and values of the group in the compacted offsets log.",
        ),
    ),
)

DEAD_LETTERS = Table(
    "dead_letters",
    "Records that could not be decoded, in hex, with the reason.",
    ("log_partition", "log_offset"),
    (
        *LOG_PLACE,
        Column("record_type", "int", "Type number at the start of the key, if the key has one."),
        Column("reason", "string", "Why the record could not be decoded."),
        Column("key_hex", "string", "Key in hex."),
        Column("value_hex", "string", "Value in hex; null for a tombstone."),
    ),
)
