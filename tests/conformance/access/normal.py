"""Answers without what differs from one broker to the next: ids, times, ports, sizes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from protocol.registry import SPEC_BY_KEY
from tests.conformance.access.case import Cell, Fields
from tests.conformance.access.world import World

_DROPPED = frozenset({"throttleTimeMs", "finalizedFeaturesEpoch", "clusterId"})
_IDS = frozenset({"topicId", "directoryId", "replicaDirectoryId", "id"})
_MEMBERS = frozenset({"memberId", "leader"})
_ANY_IF_POSITIVE = frozenset(
    {"producerId", "port", "sessionId", "partitionSize", "totalBytes", "usableBytes", "brokerEpoch"}
)
_ANY_IF_NOT_NEGATIVE = frozenset({"baseOffset", "logAppendTimeMs", "transactionStartTimeMs"})
_ANY_IF_THERE = frozenset({"records", "logDir", "authBytes"})
_ZERO = "AAAAAAAAAAAAAAAAAAAAAA"
ANY = "*"


class Normal:
    """Makes answers of a world comparable with those of another one."""

    def __init__(self, world: World) -> None:
        self._names = {topic_id: f"id of {name}" for name, topic_id in world.topic_ids.items()}

    def answer(self, cell: Cell, answer: Any) -> Any:
        """An answer to a cell."""
        if not isinstance(answer, dict):
            return answer
        normal = self._fields(answer)
        for field, name in cell.case.shown:
            self._only(normal, field, name, cell)
        return normal

    def _only(self, answer: Fields, field: str, name: str, cell: Cell) -> None:
        """Only what the cell names, of a list of everything."""
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


def of_served_apis(answer: Any) -> Any:
    """An answer of ApiVersions with the APIs alone that our broker serves, by key."""
    if isinstance(answer, dict) and "apiKeys" in answer:
        served: Iterable[Fields] = (
            one for one in answer["apiKeys"] if one["apiKey"] in SPEC_BY_KEY
        )
        keys = sorted(served, key=lambda one: int(one["apiKey"]))
        return {"errorCode": answer["errorCode"], "apiKeys": keys}
    return answer
