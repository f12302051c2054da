"""Checks a record against the documented schema."""

from __future__ import annotations

from typing import Any

from coordinator_server.rebalances.schema import OBJECTS

_PLAIN: dict[str, type] = {"string": str, "integer": int, "boolean": bool}


def faults(value: Any, kind: str = "record", place: str = "record") -> list[str]:
    """Return the differences between a value and its documented type."""
    if kind.endswith("?"):
        return [] if value is None else faults(value, kind[:-1], place)
    if kind.endswith("[]"):
        if type(value) is not list:
            return [f"{place}: {value!r} is no list"]
        return [
            fault
            for index, one in enumerate(value)
            for fault in faults(one, kind[:-2], f"{place}[{index}]")
        ]
    if kind == "partitions":
        if type(value) is not dict:
            return [f"{place}: {value!r} is no object"]
        return [
            fault
            for topic, indexes in value.items()
            for fault in faults(indexes, "integer[]", f"{place}[{topic!r}]")
        ]
    if kind in _PLAIN:
        return [] if type(value) is _PLAIN[kind] else [f"{place}: {value!r} is no {kind}"]
    fields = OBJECTS[kind]
    if type(value) is not dict or list(value) != [one.name for one in fields]:
        return [f"{place}: {value!r} has not the fields of {kind}"]
    return [
        fault
        for one in fields
        for fault in faults(value[one.name], one.kind, f"{place}.{one.name}")
    ]
