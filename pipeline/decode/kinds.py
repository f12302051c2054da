"""The record types of Kafka's offsets topic by their numbers (class CoordinatorRecordType)."""

from __future__ import annotations

from typing import NamedTuple


class RecordKind(NamedTuple):
    """A record type: its name, and whether its key names a member after the group."""

    name: str
    has_member: bool = False


COMMIT = "offset_commit"
CLASSIC = "group_metadata"
EPOCH = "consumer_group_metadata"
MEMBER = "consumer_group_member_metadata"
TARGET = "consumer_group_target_assignment_metadata"
ASSIGNMENT = "consumer_group_current_member_assignment"
EXPRESSION = "consumer_group_regular_expression"
"""The kinds that tables are made from."""

COMMIT_TYPES = (0, 1)
GROUP_METADATA_TYPE = 2
DECODED_TYPES = frozenset((2, 3, 4, 5, 6, 7, 8, 16))
"""Those whose key and value `protocol` reads; of the rest below only the key is known."""

KINDS = {
    0: RecordKind(COMMIT),
    1: RecordKind(COMMIT),
    2: RecordKind(CLASSIC),
    3: RecordKind(EPOCH),
    4: RecordKind("consumer_group_partition_metadata"),
    5: RecordKind(MEMBER, True),
    6: RecordKind(TARGET),
    7: RecordKind("consumer_group_target_assignment_member", True),
    8: RecordKind(ASSIGNMENT, True),
    10: RecordKind("share_group_member_metadata", True),
    11: RecordKind("share_group_metadata"),
    12: RecordKind("share_group_target_assignment_metadata"),
    13: RecordKind("share_group_target_assignment_member", True),
    14: RecordKind("share_group_current_member_assignment", True),
    15: RecordKind("share_group_state_partition_metadata"),
    16: RecordKind(EXPRESSION),
    17: RecordKind("streams_group_metadata"),
    19: RecordKind("streams_group_member_metadata", True),
    20: RecordKind("streams_group_target_assignment_metadata"),
    21: RecordKind("streams_group_target_assignment_member", True),
    22: RecordKind("streams_group_current_member_assignment", True),
    23: RecordKind("streams_group_topology"),
}
UNKNOWN = "unknown"
