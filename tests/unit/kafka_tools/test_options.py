"""Options are parsed and refused as by joptsimple, and the usage lists all of them."""

from __future__ import annotations

import pytest

from coordinator_server.kafka_tools.options import (
    Option,
    OptionsError,
    UsageError,
    convert,
    parse_options,
    usage,
)

DECLARED = (
    Option("topic", "The topic.", argument="topic"),
    Option("count", "How many.", argument="# of them", kind="int", default="7"),
    Option("list", "All of them."),
    Option("property", "One more.", argument="prop", is_argument_optional=True),
)


def test_an_option_takes_the_next_word_or_what_is_after_the_equals_sign() -> None:
    """A value is the next word or follows an equals sign; one hyphen equals two.

    Words that are not options are kept separately.
    """
    words = ["--topic", "a", "x", "--topic=b=c", "-topic", "d", "--list", "--", "--list"]
    options = parse_options(DECLARED, words)
    assert options.values("topic") == ["a", "b=c", "d"]
    assert options.has("list")
    assert options.others == ["x", "--list"]
    assert options.order == ["topic", "topic", "topic", "list"]
    assert options.arguments == words


def test_a_value_may_begin_with_a_hyphen_but_not_be_an_option() -> None:
    """A value may start with a hyphen, but not be an option: `--topic --list` lacks a value."""
    assert parse_options(DECLARED, ["--topic", "-1"]).value("topic") == "-1"
    with pytest.raises(OptionsError, match=r"^Option topic requires an argument$"):
        parse_options(DECLARED, ["--topic", "--list"])


def test_an_optional_argument_may_be_left_out() -> None:
    """An option with an optional argument may be given without a value."""
    options = parse_options(DECLARED, ["--property", "--list"])
    assert options.has("property")
    assert options.values("property") == []


@pytest.mark.parametrize(("word", "name"), [("--top", "top"), ("--", ""), ("-xyz", "x")])
def test_what_is_no_option_is_named(word: str, name: str) -> None:
    """The error names an unknown option, or the first letter of a cluster of options.

    Abbreviated options are unknown.
    """
    if not name:
        assert parse_options(DECLARED, [word]).others == []
        return
    with pytest.raises(OptionsError, match=f"^{name} is not a recognized option$") as raised:
        parse_options(DECLARED, [word])
    assert raised.value.java_class == "joptsimple.UnrecognizedOptionException"


def test_a_default_counts_until_the_option_is_given() -> None:
    """The default applies until the option is given; a bad number is refused when it is read."""
    assert parse_options(DECLARED, []).integer("count") == 7
    assert parse_options(DECLARED, ["--count", "-3"]).integer("count") == -3
    assert parse_options(DECLARED, []).value("topic") is None
    for text in ("x", "1.0", "2147483648", ""):
        with pytest.raises(OptionsError, match=f"^Cannot parse argument '{text}' of option count$"):
            parse_options(DECLARED, ["--count", text]).integer("count")
    assert convert(DECLARED[1]._replace(kind="long"), "2147483648") == 1 << 31


def test_a_repeated_option_has_no_single_value() -> None:
    """A repeated option is refused when its single value is read."""
    options = parse_options(DECLARED, ["--topic", "a", "--topic", "b"])
    message = "^Found multiple arguments for option topic, but you asked for only one$"
    with pytest.raises(OptionsError, match=message):
        options.value("topic")


def test_required_and_excluded_options_are_named() -> None:
    """Errors for missing and excluded options have Kafka's text, with the option in brackets."""
    options = parse_options(DECLARED, ["--list", "--topic", "a"])
    options.required("list", "topic")
    options.excludes("count", "list")
    with pytest.raises(UsageError, match=r'^Missing required argument "\[count\]"$'):
        options.required("count")
    message = r'^Option "\[list\]" can\'t be used with option "\[topic\]"$'
    with pytest.raises(UsageError, match=message):
        options.excludes("list", "topic")


def test_the_usage_has_two_columns_within_80() -> None:
    """The usage has two columns within 80 characters: options, and help with defaults."""
    lines = usage(DECLARED).splitlines()
    assert lines[0].split() == ["Option", "Description"]
    assert max(map(len, lines)) <= 80
    text = " ".join(" ".join(line.split()) for line in lines)
    assert text.index("--count") < text.index("--list") < text.index("--topic <String: topic>")
    assert "--count <Integer: # of them> How many. (default: 7)" in text
    assert "--property [String: prop]" in text
