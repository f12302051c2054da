"""The record types of Kafka's offsets topic and their numbers (Kafka: CoordinatorRecordType)."""

from __future__ import annotations

COMMIT = "offset_commit"
CLASSIC = "group_metadata"
EPOCH = "consumer_group_metadata"
MEMBER = "consumer_group_member_metadata"
TARGET = "consumer_group_target_assignment_metadata"
ASSIGNMENT = "consumer_group_current_member_assignment"
EXPRESSION = "consumer_group_regular_expression"
"""The kinds of records from which tables are made."""

_MODERN = ("consumer", "share", "streams")
EPOCHS = tuple(f"{group_type}_group_metadata" for group_type in _MODERN)
MEMBERS = tuple(f"{group_type}_group_member_metadata" for group_type in _MODERN)
TARGETS = tuple(f"{group_type}_group_target_assignment_metadata" for group_type in _MODERN)
ASSIGNMENTS = tuple(f"{group_type}_group_current_member_assignment" for group_type in _MODERN)
"""The kinds of records of all groups with epochs: KIP-848, share and streams groups."""

COMMIT_TYPES = (0, 1)
GROUP_METADATA_TYPE = 2
EPOCH_TYPES = (3, 11, 17)
"""The record types whose value has the group epoch."""

KINDS = {
    0: COMMIT,
    1: COMMIT,
    2: CLASSIC,
    3: EPOCH,
    4: "consumer_group_partition_metadata",
    5: MEMBER,
    6: TARGET,
    7: "consumer_group_target_assignment_member",
    8: ASSIGNMENT,
    10: "share_group_member_metadata",
    11: "share_group_metadata",
    12: "share_group_target_assignment_metadata",
    13: "share_group_target_assignment_member",
    14: "share_group_current_member_assignment",
    15: "share_group_state_partition_metadata",
    16: EXPRESSION,
    17: "streams_group_metadata",
    19: "streams_group_member_metadata",
    20: "streams_group_target_assignment_metadata",
    21: "streams_group_target_assignment_member",
    22: "streams_group_current_member_assignment",
    23: "streams_group_topology",
}
UNKNOWN = "unknown"
