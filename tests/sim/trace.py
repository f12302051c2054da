"""Messages as a reader wants them in a trace: without what has its default value."""

from __future__ import annotations

from protocol.schema import Message


def show(value: object) -> str:
    """`JoinGroupRequest(member_id='c-1', protocols=[...])`, short."""
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
