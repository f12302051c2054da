"""Make Kafka's and our answers comparable by removing the order of Kafka's hash tables."""

from __future__ import annotations

import json
import re
from itertools import groupby
from typing import Any

from protocol.registry import SPEC_BY_KEY
from tests.conformance.access.case import Fields

HASHED: dict[str, frozenset[str]] = {
    "Produce": frozenset({"responses"}),
    "ListOffsets": frozenset({"topics", "partitions"}),
    "Metadata": frozenset({"topics"}),
    "OffsetForLeaderEpoch": frozenset({"topics", "partitions"}),
    "CreateTopics": frozenset({"topics", "configs"}),
    "DeleteTopics": frozenset({"responses"}),
    "DescribeLogDirs": frozenset({"topics", "partitions"}),
    "AlterReplicaLogDirs": frozenset({"results", "partitions"}),
    "DeleteRecords": frozenset({"topics", "partitions"}),
    "CreatePartitions": frozenset({"results"}),
    "OffsetFetch.all": frozenset({"topics"}),
    "ConsumerGroupHeartbeat": frozenset({"topicPartitions"}),
    "ShareAcknowledge": frozenset({"responses"}),
    "DescribeDelegationToken": frozenset({"tokens"}),
    "AlterUserScramCredentials": frozenset({"results"}),
    "DescribeUserScramCredentials": frozenset({"results"}),
}
"""Lists of an API's or a case's answers that in Kafka have a random or hash code order."""

SERVED_HASHED: dict[str, frozenset[str]] = {
    "DescribeGroups": frozenset({"groups"}),
    "DeleteGroups": frozenset({"results"}),
    "ConsumerGroupDescribe": frozenset({"groups"}),
    "ShareGroupDescribe": frozenset({"groups"}),
    "StreamsGroupDescribe": frozenset({"groups"}),
    "DescribeShareGroupOffsets": frozenset({"topics"}),
}
"""Lists with such an order, except that refused entries come first or last."""

_TOPIC_REFUSED, _GROUP_REFUSED = 29, 30

_NOT_COMPARED_CONFIGS = frozenset({"min.insync.replicas"})
"""Kafka's storage tool sets it as a dynamic config (KIP-966)."""

_WORDS = re.compile(r"[^ ,.]+")
"""Words of a text that lists topics in the order of their hash codes."""


def comparable(case: str, answer: Any) -> Any:
    """Return the comparable form of an answer, Kafka's or ours."""
    if not isinstance(answer, dict):
        return answer
    api = case.partition(".")[0]
    if api == "ApiVersions":
        return _of_served_apis(answer)
    hashed = HASHED.get(case, HASHED.get(api, frozenset()))
    return _value(answer, hashed, SERVED_HASHED.get(api, frozenset()))


def _of_served_apis(answer: Fields) -> Fields:
    """Return the APIs that our broker supports, sorted by key."""
    served = (one for one in answer["apiKeys"] if one["apiKey"] in SPEC_BY_KEY)
    keys = sorted(served, key=lambda one: int(one["apiKey"]))
    return {"errorCode": answer["errorCode"], "apiKeys": keys}


def _value(value: Any, hashed: frozenset[str], served: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_value(one, hashed, served) for one in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _value(one, hashed, served) for name, one in value.items()}
    for name, one in fields.items():
        if name == "statusDetail" and one:
            fields[name] = sorted(_WORDS.findall(one))
        elif name == "configs" and one:
            fields[name] = [
                config for config in one if config.get("name") not in _NOT_COMPARED_CONFIGS
            ]
        if name in hashed and isinstance(one, list):
            fields[name] = sorted(fields[name], key=_text)
        if name in served and isinstance(one, list):
            fields[name] = _with_served_sorted(one)
    return fields


def _with_served_sorted(entries: list[Fields]) -> list[Fields]:
    """Sort each run of entries that were not refused; refused entries keep their places."""
    arranged: list[Fields] = []
    for is_refused, run in groupby(entries, _is_refused):
        some = list(run)
        arranged += some if is_refused else sorted(some, key=_text)
    return arranged


def _is_refused(entry: Fields) -> bool:
    if "partitions" in entry:
        return any(one["errorCode"] == _TOPIC_REFUSED for one in entry["partitions"])
    return bool(entry["errorCode"] == _GROUP_REFUSED)


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
