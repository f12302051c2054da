"""The definition of a setting (name, type, default, limits, meaning) and the parser of values.

This is Kafka's ConfigDef. It belongs to storage because topic settings are parsed there; the
broker's settings follow the same rules. An invalid value raises an `InvalidValueError` with the
violated rule; callers add a message: Kafka's message for clients, or this project's message for
operators. Settings are tuples, because the tables are built at every start.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from math import isinf
from typing import NamedTuple

SHORT_MAX = 2**15 - 1
INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1

Value = bool | int | float | str | tuple[str, ...] | None
"""A parsed value. Lists are tuples; None is Kafka's null."""


class Kind(IntEnum):
    """The type of a setting; the value is the config_type of DescribeConfigs (KIP-569)."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    """The name of a Java class."""
    PASSWORD = 9
    """A string that is never shown."""


_MAX_OF_KIND = {Kind.SHORT: SHORT_MAX, Kind.INT: INT_MAX, Kind.LONG: LONG_MAX}

# Unlike Python's parsers, Java's parsers accept no underscores and no "inf".
_WHOLE = frozenset("+-0123456789")
_DECIMAL = _WHOLE | frozenset(".eE")


class Setting(NamedTuple):
    """One setting.

    `least` and `most` are inclusive limits; `besides` is one more valid number outside the limits.
    `choices` limits a string, or each item of a list. A list without `may_be_empty` needs an item;
    a list with `may_be_empty` and without choices accepts any items, even blank items. `internal`
    settings are not described to clients.
    """

    name: str
    kind: Kind
    default: Value
    meaning: str
    least: float | None = None
    most: float | None = None
    choices: tuple[str, ...] = ()
    besides: int | None = None
    may_be_empty: bool = False
    internal: bool = False


class Problem(Enum):
    """The rule that an invalid value violates."""

    NOT_A_BOOLEAN = 1
    NOT_A_NUMBER = 2
    BELOW_KIND = 3
    """Below the smallest number of the type; ABOVE_KIND is above the largest."""
    ABOVE_KIND = 4
    BELOW = 5
    ABOVE = 6
    OUTSIDE = 7
    """Neither within the limits nor `besides`."""
    NOT_A_CHOICE = 8
    BLANK_ITEM = 9
    NO_ITEM = 10


class InvalidValueError(ValueError):
    """An invalid value of a setting: the `problem`, and the `text` or list item that causes it."""

    def __init__(self, setting: Setting, problem: Problem, text: str) -> None:
        super().__init__(f"{setting.name}: {text!r}: {problem.name}")
        self.setting = setting
        self.problem = problem
        self.text = text

    def worded(self, words: dict[Problem, str]) -> str:
        """Return the message for the problem from `words`, filled in with name, text and limits."""
        setting = self.setting
        kind_most = _MAX_OF_KIND.get(setting.kind, 0)
        return words[self.problem].format(
            name=setting.name,
            text=self.text,
            kind=setting.kind.name.lower(),
            KIND=setting.kind.name,
            kind_least=-kind_most - 1,
            kind_most=kind_most,
            least=setting.least,
            most=setting.most,
            besides=setting.besides,
            choices=", ".join(setting.choices),
        )


def parse(setting: Setting, text: str) -> Value:
    """Parse a value, ignoring white space around the text (Kafka's ConfigDef.parseType).

    Duplicate list items are dropped, as in Kafka 4 (KIP-1161). Raises InvalidValueError.
    """
    text = text.strip()
    if setting.kind in (Kind.STRING, Kind.PASSWORD, Kind.CLASS):
        if setting.choices and text not in setting.choices:
            raise InvalidValueError(setting, Problem.NOT_A_CHOICE, text)
        return text
    if setting.kind is Kind.LIST:
        return _parse_list(setting, text)
    if setting.kind is Kind.BOOLEAN:
        if text.lower() not in ("true", "false"):
            raise InvalidValueError(setting, Problem.NOT_A_BOOLEAN, text)
        return text.lower() == "true"
    return _parse_number(setting, text)


def _parse_list(setting: Setting, text: str) -> tuple[str, ...]:
    items = tuple(dict.fromkeys(item.strip() for item in text.split(","))) if text else ()
    if not items and not setting.may_be_empty:
        raise InvalidValueError(setting, Problem.NO_ITEM, text)
    anything = setting.may_be_empty and not setting.choices
    for item in items:
        if not item and not anything:
            raise InvalidValueError(setting, Problem.BLANK_ITEM, text)
        if setting.choices and item not in setting.choices:
            raise InvalidValueError(setting, Problem.NOT_A_CHOICE, item)
    return items


def _parse_number(setting: Setting, text: str) -> int | float:
    number = _read_number(text, setting.kind)
    if number is None:
        raise InvalidValueError(setting, Problem.NOT_A_NUMBER, text)
    most = _MAX_OF_KIND.get(setting.kind)
    if most is not None and number > most:
        raise InvalidValueError(setting, Problem.ABOVE_KIND, text)
    if most is not None and number < -most - 1:
        raise InvalidValueError(setting, Problem.BELOW_KIND, text)
    if number == setting.besides:
        return number
    text = render(number) or text
    below = setting.least is not None and number < setting.least
    above = setting.most is not None and number > setting.most
    if (below or above) and setting.besides is not None:
        raise InvalidValueError(setting, Problem.OUTSIDE, text)
    if below:
        raise InvalidValueError(setting, Problem.BELOW, text)
    if above:
        raise InvalidValueError(setting, Problem.ABOVE, text)
    return number


def _read_number(text: str, kind: Kind) -> int | float | None:
    """Return the number in a text; None if Java does not accept the text, and for NaN."""
    if not set(text) <= (_DECIMAL if kind is Kind.DOUBLE else _WHOLE):
        return None
    try:
        return float(text) if kind is Kind.DOUBLE else int(text)
    except ValueError:  # `int` also refuses thousands of digits
        return None


def render(value: Value) -> str | None:
    """Return a value as text, as in Kafka's DescribeConfigs; None stays None."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, tuple):
        return ",".join(value)
    if isinstance(value, float):
        return _render_double(value)
    return str(value)


def _render_double(value: float) -> str:
    """Return a number as Java's Double.toString does, with an exponent from 1e7 on."""
    if isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    text = repr(value)
    mantissa, _, exponent = text.partition("e")
    if not exponent:
        if not value or 1e-3 <= abs(value) < 1e7:
            return text
        exponent = f"{value:e}".partition("e")[2]
        mantissa = f"{text}e{-int(exponent)}"
    return f"{float(mantissa)}E{int(exponent)}"
