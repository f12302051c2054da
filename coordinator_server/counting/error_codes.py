"""Counts the error codes of a response (Kafka: AbstractResponse.errorCounts).

The fields that hold error codes are found once per API and version, from the schema.
"""

from __future__ import annotations

from itertools import islice, repeat
from typing import TYPE_CHECKING, Any

from protocol.schema import ArrayType, Columns, Message

if TYPE_CHECKING:
    from coordinator_server.steps import Computation

_NAMES = ("error_code", "partition_error_code")
_STEP_ITEMS = 1000


class ErrorCodes:
    """The fields with error codes in one message type at one version.

    `own` is the name of the message's own error code field, or None. `arrays` are the arrays of
    messages with error codes.
    """

    __slots__ = ("arrays", "own")

    def __init__(self, message_type: type[Message], version: int) -> None:
        self.own: str | None = None
        self.arrays: list[tuple[str, ErrorCodes]] = []
        for field in message_type.FIELDS:
            if not field.in_version(version):
                continue
            if field.name in _NAMES:
                self.own = field.name
            elif isinstance(field.type, ArrayType) and isinstance(field.type.element, type):
                inside = ErrorCodes(field.type.element, version)
                if inside.own or inside.arrays:
                    self.arrays.append((field.name, inside))

    def count(self, message: Any, errors: dict[int, int]) -> int:
        """Add the codes other than NONE to `errors`; return the number of all codes.

        Each counted code is moved to the end of `errors`, so the last key is the code counted last.
        """
        number = 0
        if self.own is not None:
            number = 1
            code = getattr(message, self.own)
            if code:
                errors[code] = errors.pop(code, 0) + 1
        for name, inside in self.arrays:
            items = getattr(message, name)
            if not items:
                continue
            if isinstance(items, Columns):
                number += _count_column(items, inside, errors)
            elif inside.own == "error_code" and not inside.arrays:
                number += len(items)
                for item in items:
                    if item.error_code:
                        errors[item.error_code] = errors.pop(item.error_code, 0) + 1
            else:
                for item in items:
                    number += inside.count(item, errors)
        return number

    def count_in_steps(self, message: Any, errors: dict[int, int]) -> Computation[int]:
        """Like `count`, in steps, for a response that may have millions of codes."""
        number = 0
        if self.own is not None:
            number = 1
            code = getattr(message, self.own)
            if code:
                errors[code] = errors.pop(code, 0) + 1
        for name, inside in self.arrays:
            items = getattr(message, name)
            if isinstance(items, Columns):
                number += _count_column(items, inside, errors)
                continue
            for position, item in enumerate(items or ()):
                if inside.arrays:
                    number += yield from inside.count_in_steps(item, errors)
                else:
                    number += inside.count(item, errors)
                if not position % _STEP_ITEMS:
                    yield
        return number


def _count_column(items: Columns[Any], inside: ErrorCodes, errors: dict[int, int]) -> int:
    """Count the codes of an array that is stored by columns."""
    assert inside.own is not None
    column = items.columns.get(inside.own, ())
    if isinstance(column, repeat):
        code = next(column)
        if code:
            errors[code] = errors.pop(code, 0) + len(items)
    else:
        for code in islice(column, len(items)):
            if code:
                errors[code] = errors.pop(code, 0) + 1
    return len(items)
