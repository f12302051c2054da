"""The text form of a share partition, which locates its coordinator (Kafka's SharePartitionKey)."""

from __future__ import annotations

import re

from coordinator_server.core.share_partitions.persister import SharePartitionKey
from protocol.json_form import uuid_from_text, uuid_to_text

_PARTITION = re.compile(r"[+-]?\d+", re.ASCII)
_UUID = re.compile("[A-Za-z0-9_-]{22}(==)?")
_BLANK = "".join(map(chr, range(33)))
"""The characters that Java's `String.trim` removes."""


def coordinator_key(key: SharePartitionKey) -> str:
    """Return `groupId:topicId:partition`; its hash selects the `__share_group_state` partition."""
    return f"{key.group_id}:{uuid_to_text(key.topic_id)}:{key.partition}"


def share_partition_key(text: str) -> SharePartitionKey | None:
    """Parse a client's key; return None if it is invalid. The group id may contain colons."""
    *group, topic, number = [""] * 3 + text.rstrip(":").split(":")
    group_id = ":".join(group[3:])
    if not (group_id.strip(_BLANK) and _UUID.fullmatch(topic) and _PARTITION.fullmatch(number)):
        return None
    partition = int(number)
    if not -(2**31) <= partition < 2**31:
        return None
    return SharePartitionKey(group_id, uuid_from_text(topic[:22]), partition)
