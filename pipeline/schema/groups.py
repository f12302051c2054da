"""Schemas of the tables about groups: generations, members, rebalances, status."""

from __future__ import annotations

from pipeline.schema.table import DAY, GTP, LOG_PLACE, PARTITIONS, Column, Table

GROUP_GENERATIONS = Table(
    "group_generations",
    "Every generation of a group that the log holds, tombstones included. KIP-848 groups: epochs.",
    ("group", "log_partition", "log_offset"),
    (
        Column("group", "string", "Group id."),
        Column("group_type", "string", "`classic`, `consumer`, `share`, `streams`."),
        Column("event", "string", "`generation`, `empty` (no members), `tombstone`."),
        Column("generation", "int", "Generation, or epoch; null for a tombstone."),
        Column("protocol_type", "string", "`consumer`, or what else."),
        Column("protocol", "string", "Assignor."),
        Column("leader", "string", "Member id of the leader."),
        Column("members", "int", "How many."),
        Column("partitions", "int", "Partitions assigned in all; null if they cannot be read."),
        Column("state_timestamp_ms", "bigint", "When the group came into this state."),
        Column(
            "assigned_ms",
            "bigint",
            "KIP-848 groups: when the epoch's assignment was computed (KIP-1263); null: it was "
            "not, or the broker was older than Kafka 4.3.",
        ),
        *LOG_PLACE,
        DAY,
    ),
    ("day",),
)

GROUP_MEMBERS = Table(
    "group_members",
    "Every member of every generation, with what it subscribed to and was given.",
    ("group", "log_partition", "log_offset", "member_id"),
    (
        Column("group", "string", "Group id."),
        Column("generation", "int", "Generation, or epoch."),
        Column("member_id", "string", "Member id."),
        Column("group_instance_id", "string", "Static member: its instance id."),
        Column("client_id", "string", "Client id."),
        Column("client_host", "string", "Where it connected from."),
        Column("is_leader", "boolean", "Whether it made the assignment."),
        Column("session_timeout_ms", "int", "Session timeout."),
        Column("rebalance_timeout_ms", "int", "Rebalance timeout."),
        Column("subscribed_topics", "array<string>", "Topics it asked for; null: cannot be read."),
        Column("assigned", PARTITIONS, "Partitions it was given; null: cannot be read."),
        Column("assigned_count", "int", "How many."),
        Column(
            "assignment_epochs",
            "array<struct<topic: string, epochs: array<int>>>",
            "KIP-848 groups: the epochs at which the partitions of `assigned` were assigned, in "
            "their order (KIP-1251); null: the record has none (before Kafka 4.3).",
        ),
        Column("log_partition", "int", "As in `group_generations`."),
        Column("log_offset", "bigint", "As in `group_generations`."),
        Column("problem", "string", "Why something could not be read."),
    ),
)

REBALANCES = Table(
    "rebalances",
    "From one generation of a group to the next: who came, who went, what moved, and why.",
    ("group", "log_partition", "log_offset"),
    (
        Column("group", "string", "Group id."),
        Column("generation", "int", "The generation that was made."),
        Column("generation_before", "int", "The one before; null: the first that is known."),
        Column("at_ms", "bigint", "When its record was written."),
        Column("members_before", "int", "Members before."),
        Column("members", "int", "Members now."),
        Column("joined", "array<string>", "Who came: instance id, else member id."),
        Column("left", "array<string>", "Who went."),
        Column(
            "restarted",
            "array<string>",
            "Who came back: a static member with a new member id, or "
            "a dynamic one gone and come with the same client id and host.",
        ),
        Column("partitions", "int", "Partitions assigned before or now: P."),
        Column("moved", "int", "Those whose owner changed (a restarted member is the same owner)."),
        Column("moved_share", "double", "moved / P; null if P is 0 or unknown."),
        Column("stickiness", "double", "|A n A'| / |A u A'| over pairs of owner and partition."),
        Column("leader_changed", "boolean", "Whether another member leads."),
        Column("protocol_changed", "boolean", "Whether the assignor is another one."),
        Column("storm", "boolean", "Whether it is one of five or more within five minutes."),
        Column("per_hour", "double", "Generations of the group in the hour up to this one."),
        Column("trigger", "string", "What set it off, from `__group_events`; null elsewhere."),
        Column("reason", "string", "The client's reason (KIP-800), from there."),
        Column("duration_ms", "bigint", "How long it took, from there."),
        *LOG_PLACE[:2],
        DAY,
    ),
    ("day",),
)

STATUS = Table(
    "status",
    "Verdict on each group and partition by Burrow's rules with repairs: a window of time, lag "
    "replayed from the data log, live members looked at. The row of a group has a null topic; it "
    "is as bad as its worst partition.",
    ("group", "topic", "partition"),
    (
        *GTP,
        Column(
            "status",
            "string",
            "`OK`, `WARN`, `STALL`, `REWIND`, `STOP`; of a group: `OK`, `WARN`, `ERR`.",
        ),
        Column("rule", "string", "The rule that decided, in words."),
        Column("lag", "bigint", "Lag at the instant."),
        Column("allowed_lag", "bigint", "Lag that is fine."),
        Column("window_ms", "bigint", "Length of the window."),
        Column("commits", "bigint", "Commits in the window."),
        Column("complete", "double", "Part of the window that the commits span."),
        Column("first_commit_ms", "bigint", "First commit in the window."),
        Column("last_commit_ms", "bigint", "Last commit."),
        Column("first_lag", "bigint", "Lag at the first commit in the window."),
        Column("min_lag", "bigint", "Least lag at any commit in the window."),
        Column("max_lag", "bigint", "Most."),
        Column("produced_since_commit", "bigint", "Rise of the log end since the last commit."),
        Column("members", "int", "Live members of the group."),
        Column("evidence_offset", "bigint", "log_offset of the commit that shows it."),
    ),
)

MEMBER_SKEW = Table(
    "member_skew",
    "How evenly the work is spread over the members of the current generation.",
    ("group", "member_id"),
    (
        Column("group", "string", "Group id."),
        Column("member_id", "string", "Member id."),
        Column("client_id", "string", "Client id."),
        Column("client_host", "string", "Host."),
        Column("partitions", "int", "Partitions it has: n."),
        Column("load_per_second", "double", "Records produced to them by the second."),
        Column("lag", "bigint", "Their lag."),
        Column("consumed_per_second", "double", "Records committed on them by the second."),
        Column("group_members", "int", "Members of the group."),
        Column("group_idle_members", "int", "Members without a partition."),
        Column("partitions_cv", "double", "Of the group: deviation / mean of n."),
        Column("load_cv", "double", "Of the group: the same of the load."),
        Column("load_max_over_mean", "double", "Of the group: greatest load / mean load."),
        Column("lag_gini", "double", "Of the group: Gini coefficient of the members' lag."),
        Column(
            "verdicts",
            "array<string>",
            "Of `assignment_skew`, `key_skew`, `slow_member`, "
            "`too_many_members`, `idle`; empty: fine.",
        ),
    ),
)

ABANDONED_GROUPS = Table(
    "abandoned_groups",
    "Groups that seem not to be needed, and why; nothing is hidden because of it.",
    ("group",),
    (
        Column("group", "string", "Group id."),
        Column(
            "reasons",
            "array<string>",
            "Of `empty_and_silent`, `topic_gone`, `lag_grows_without_members`, `litter_name`.",
        ),
        Column(
            "litter_family", "string", "What litter names have in common, as `console-consumer-*`."
        ),
        Column("members", "int", "Members at the instant."),
        Column("last_commit_ms", "bigint", "Last commit."),
        Column("empty_since_ms", "bigint", "When it became empty."),
        Column("silent_ms", "bigint", "Time since the last commit or change of state."),
        Column("last_client_id", "string", "Client id of its last leader."),
        Column("last_client_host", "string", "Host of its last leader."),
        Column("partitions", "int", "Partitions with a committed offset."),
        Column("lag", "bigint", "Lag in all."),
        Column("log_bytes", "bigint", "Bytes of key and value that it keeps in the offsets log."),
    ),
)

DEAD_LETTERS = Table(
    "dead_letters",
    "Records that could not be decoded: hex and reason.",
    ("log_partition", "log_offset"),
    (
        *LOG_PLACE,
        Column("record_type", "int", "The number that the key begins with, if it can be read."),
        Column("reason", "string", "Why."),
        Column("key_hex", "string", "Key in hex."),
        Column("value_hex", "string", "Value in hex; null for a tombstone."),
    ),
)
