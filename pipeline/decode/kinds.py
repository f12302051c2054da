"""The record types of Kafka's offsets topic by their numbers (class CoordinatorRecordType)."""

from __future__ import annotations

from typing import NamedTuple


class Kind(NamedTuple):
    """A record type: its name, and whether its key names a member behind the group."""

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
    0: Kind(COMMIT),
    1: Kind(COMMIT),
    2: Kind(CLASSIC),
    3: Kind(EPOCH),
    4: Kind("consumer_group_partition_metadata"),
    5: Kind(MEMBER, True),
    6: Kind(TARGET),
    7: Kind("consumer_group_target_assignment_member", True),
    8: Kind(ASSIGNMENT, True),
    10: Kind("share_group_member_metadata", True),
    11: Kind("share_group_metadata"),
    12: Kind("share_group_target_assignment_metadata"),
    13: Kind("share_group_target_assignment_member", True),
    14: Kind("share_group_current_member_assignment", True),
    15: Kind("share_group_state_partition_metadata"),
    16: Kind(EXPRESSION),
    17: Kind("streams_group_metadata"),
    19: Kind("streams_group_member_metadata", True),
    20: Kind("streams_group_target_assignment_metadata"),
    21: Kind("streams_group_target_assignment_member", True),
    22: Kind("streams_group_current_member_assignment", True),
    23: Kind("streams_group_topology"),
}
UNKNOWN = "unknown"
