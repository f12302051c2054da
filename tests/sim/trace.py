"""Short forms of messages for traces, without fields that have their default value."""

from __future__ import annotations

from protocol.schema import Message


def show(value: object) -> str:
    """Return a short form such as `JoinGroupRequest(member_id='c-1', protocols=[...])`."""
    if isinstance(value, Message):
        said = [
            f"{one.name}={show(getattr(value, one.name))}"
            for one in value.FIELDS
            if one.name != "group_id" and getattr(value, one.name) != one.default_value()
        ]
        return f"{type(value).__name__}({', '.join(said)})"
    if isinstance(value, list):
        return f"[{', '.join(show(one) for one in value)}]"
    return value.name if hasattr(value, "name") else repr(value)
