"""The parser of settings: valid values per type, and the rule that a value breaks."""

from __future__ import annotations

import pytest

from storage.config_def import (
    InvalidValueError,
    Kind,
    Problem,
    Setting,
    Value,
    parse,
    render,
)


def setting(kind: Kind, **limits: object) -> Setting:
    """Return a setting named `a` without a default."""
    row = Setting("a", kind, None, "Meaning.")
    return row._replace(**limits)  # type: ignore[arg-type]  # keyword options


NAMES = setting(Kind.LIST)
POLICIES = setting(Kind.LIST, choices=("compact", "delete"), may_be_empty=True)
LEVEL = setting(Kind.INT, least=1, most=9, besides=-1)
RATIO = setting(Kind.DOUBLE, least=0, most=1)


@pytest.mark.parametrize(
    ("row", "text", "value"),
    [
        (setting(Kind.BOOLEAN), " TRUE ", True),
        (setting(Kind.STRING), " x y ", "x y"),
        (setting(Kind.LONG), " +5 ", 5),
        (setting(Kind.LONG), str(-(2**63)), -(2**63)),
        (LEVEL, "-1", -1),
        (RATIO, "1e-1", 0.1),
        (RATIO, ".5", 0.5),
        (NAMES, " b , a,b", ("b", "a")),
        (POLICIES, "", ()),
        (setting(Kind.LIST, may_be_empty=True), "0:1,", ("0:1", "")),
    ],
)
def test_values(row: Setting, text: str, value: Value) -> None:
    """White space around a value is ignored; a repeated list item is used once."""
    assert parse(row, text) == value


@pytest.mark.parametrize(
    ("row", "text", "problem", "culprit"),
    [
        (setting(Kind.BOOLEAN), "yes", Problem.NOT_A_BOOLEAN, "yes"),
        (setting(Kind.INT), "", Problem.NOT_A_NUMBER, ""),
        (setting(Kind.INT), "1_000", Problem.NOT_A_NUMBER, "1_000"),
        (setting(Kind.INT), "1.0", Problem.NOT_A_NUMBER, "1.0"),
        (setting(Kind.INT), "٣", Problem.NOT_A_NUMBER, "٣"),
        (setting(Kind.SHORT), "32768", Problem.ABOVE_KIND, "32768"),
        (setting(Kind.INT), str(-(2**31) - 1), Problem.BELOW_KIND, str(-(2**31) - 1)),
        (setting(Kind.LONG), "9" * 5000, Problem.NOT_A_NUMBER, "9" * 5000),
        (setting(Kind.INT), "5-", Problem.NOT_A_NUMBER, "5-"),
        (RATIO, "e", Problem.NOT_A_NUMBER, "e"),
        (RATIO, "nan", Problem.NOT_A_NUMBER, "nan"),
        (RATIO, "inf", Problem.NOT_A_NUMBER, "inf"),
        (RATIO, "-0.1", Problem.BELOW, "-0.1"),
        (RATIO, "1.5", Problem.ABOVE, "1.5"),
        (RATIO, "1e999", Problem.ABOVE, "Infinity"),
        (RATIO, "-1e999", Problem.BELOW, "-Infinity"),
        (LEVEL, "0", Problem.OUTSIDE, "0"),
        (LEVEL, "10", Problem.OUTSIDE, "10"),
        (setting(Kind.STRING, choices=("x",)), "X", Problem.NOT_A_CHOICE, "X"),
        (POLICIES, "compact, shred", Problem.NOT_A_CHOICE, "shred"),
        (POLICIES, "compact,", Problem.BLANK_ITEM, "compact,"),
        (NAMES, "a,,b", Problem.BLANK_ITEM, "a,,b"),
        (NAMES, " ", Problem.NO_ITEM, ""),
    ],
)
def test_invalid_values(row: Setting, text: str, problem: Problem, culprit: str) -> None:
    """The error for an invalid setting has the broken rule and the value or item that breaks it."""
    with pytest.raises(InvalidValueError) as caught:
        parse(row, text)
    assert (caught.value.problem, caught.value.text) == (problem, culprit)


def test_a_caller_words_the_error() -> None:
    """The caller's error text may contain the value, the setting, its type and its limits."""
    with pytest.raises(InvalidValueError) as caught:
        parse(LEVEL, "10")
    words = {Problem.OUTSIDE: "{name} {text} {KIND} {kind} {kind_most} {least} {most} {besides}"}
    assert caught.value.worded(words) == "a 10 INT int 2147483647 1 9 -1"


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, None), (True, "true"), (False, "false"), (("a", "b"), "a,b"), (0.5, "0.5"), (7, "7")],
)
def test_values_are_rendered_as_kafka_does(value: Value, text: str | None) -> None:
    """Values are formatted as in DescribeConfigs: lists with commas, lower-case booleans."""
    assert render(value) == text
