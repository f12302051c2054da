"""Removes values that differ between brokers from responses: ids, times, ports, sizes."""

from __future__ import annotations

import re
from typing import Any

from tests.conformance.access.case import Cell, Fields
from tests.conformance.access.world import World

_DROPPED = frozenset({"throttleTimeMs", "finalizedFeaturesEpoch", "clusterId"})
_IDS = frozenset({"topicId", "directoryId", "replicaDirectoryId", "id"})
_MEMBERS = frozenset({"memberId", "leader"})
_TIMES = (
    *("issueTimestampMs", "expiryTimestampMs", "maxTimestampMs"),
    *("issueTimestamp", "expiryTimestamp", "maxTimestamp"),
)
_ANY_IF_POSITIVE = frozenset(
    {
        "producerId",
        "port",
        "sessionId",
        "partitionSize",
        "totalBytes",
        "usableBytes",
        "brokerEpoch",
        *_TIMES,
    }
)
_ANY_IF_NOT_NEGATIVE = frozenset({"baseOffset", "logAppendTimeMs", "transactionStartTimeMs"})
_ANY_IF_THERE = frozenset({"records", "logDir", "authBytes", "tokenId", "hmac"})
_ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
ANY = "*"
_NEEDS = re.compile(r"^Request .* needs ", re.DOTALL)
"""In this text Kafka prints its request object, with processor and connection."""


class Normal:
    """Makes the responses of different brokers comparable."""

    def __init__(self, world: World) -> None:
        self._names = {topic_id: f"id of {name}" for name, topic_id in world.topic_ids.items()}

    def answer(self, cell: Cell, answer: Any) -> Any:
        """Return the response to a cell's request without values that differ between brokers."""
        if not isinstance(answer, dict):
            return answer
        for field, name in cell.case.shown:
            self._only(answer, field, name, cell)
        return self._fields(answer)

    def _only(self, answer: Fields, field: str, name: str, cell: Cell) -> None:
        """Remove list entries of resources that the cell's request does not use; sort the list."""
        names = {*cell.topics, *cell.groups, *cell.transactional_ids}
        kept = [one for one in answer.get(field) or () if one[name] in names]
        answer[field] = sorted(kept, key=lambda one: str(one[name]))

    def _fields(self, message: Fields) -> Fields:
        return {
            name: self._value(name, value)
            for name, value in message.items()
            if name not in _DROPPED
        }

    def _value(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):
            return self._fields(value)
        if isinstance(value, list):
            return [self._value(name, one) for one in value]
        if name in _IDS and isinstance(value, str):
            return None if value == _ZERO else self._names.get(value, ANY)
        if name == "key" and isinstance(value, str) and value.count(":") == 2:
            group, topic_id, partition = value.split(":")  # the key of a share partition
            return f"{group}:{self._names.get(topic_id, ANY)}:{partition}"
        if name == "errorMessage" and value is not None:
            return _NEEDS.sub("Request * needs ", value)
        if name in _MEMBERS and isinstance(value, str):
            return ANY if _is_random(value) else value
        is_any = (
            (name in _ANY_IF_POSITIVE and value > 0)
            or (name in _ANY_IF_NOT_NEGATIVE and value >= 0)
            or (name in _ANY_IF_THERE and value)
        )
        return ANY if is_any else value


def _is_random(member: str) -> bool:
    return len(member) >= 22 and not member.startswith("member-of-")
