"""What is compared of an answer: not what a Kafka leaves to the order of its hash tables."""

from __future__ import annotations

import json
import re
from typing import Any

from protocol.registry import SPEC_BY_KEY
from tests.conformance.access.case import Fields

HASHED: dict[str, frozenset[str]] = {}
"""The lists of an API's answer whose order follows hash codes in a Kafka."""

_NOT_COMPARED_CONFIGS = frozenset({"min.insync.replicas"})
"""A Kafka that is formatted by its tool has it as a dynamic config (KIP-966)."""

_WORDS = re.compile(r"[^ ,.]+")
"""Of a text that lists topics in the order of their hash codes."""


def comparable(case: str, answer: Any) -> Any:
    """An answer to a case, of a Kafka or of ours, as it is compared."""
    if not isinstance(answer, dict):
        return answer
    api = case.partition(".")[0]
    if api == "ApiVersions":
        return _of_served_apis(answer)
    return _value(answer, HASHED.get(api, frozenset()))


def _of_served_apis(answer: Fields) -> Fields:
    """The APIs alone that our broker serves, by key."""
    served = (one for one in answer["apiKeys"] if one["apiKey"] in SPEC_BY_KEY)
    keys = sorted(served, key=lambda one: int(one["apiKey"]))
    return {"errorCode": answer["errorCode"], "apiKeys": keys}


def _value(value: Any, hashed: frozenset[str]) -> Any:
    if isinstance(value, list):
        return [_value(one, hashed) for one in value]
    if not isinstance(value, dict):
        return value
    fields = {name: _value(one, hashed) for name, one in value.items()}
    for name, one in fields.items():
        if name == "statusDetail" and one:
            fields[name] = sorted(_WORDS.findall(one))
        elif name == "configs" and one:
            fields[name] = [
                config for config in one if config.get("name") not in _NOT_COMPARED_CONFIGS
            ]
        if name in hashed and isinstance(one, list):
            fields[name] = sorted(fields[name], key=_text)
    return fields


def _text(value: Any) -> str:
    return json.dumps(value, sort_keys=True)
