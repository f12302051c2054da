"""Names of topics."""

import pytest

from coordinator_server.topics.names import collision_key, is_internal, name_error

CHARACTERS = "contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"


@pytest.mark.parametrize("name", ["a", "A-b_c.9", "x" * 249, "...", "__consumer_offsets"])
def test_a_legal_name_has_no_error(name: str) -> None:
    """A topic name has up to 249 ASCII letters, digits, dots, underscores and dashes."""
    assert name_error(name) is None


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("", "the empty string is not allowed"),
        (".", "'.' is not allowed"),
        ("..", "'..' is not allowed"),
        ("x" * 250, f"the length of '{'x' * 250}' is longer than the max allowed length 249"),
        (
            "a b",
            f"'a b' {CHARACTERS}",
        ),
        (
            "é",
            f"'é' {CHARACTERS}",
        ),
        (
            "a\n",
            f"'a\n' {CHARACTERS}",
        ),
    ],
)
def test_an_illegal_name_is_refused_in_kafkas_words(name: str, text: str) -> None:
    """The error for an invalid name has Kafka's text."""
    assert name_error(name) == f"Topic name is invalid: {text}"


def test_dot_and_underscore_are_the_same_for_collisions() -> None:
    """Names that differ only in `.` and `_` have the same collision key."""
    assert collision_key("a.b_c") == collision_key("a_b.c")
    assert collision_key("a.b") != collision_key("a-b")


def test_internal_topics_are_the_brokers_own() -> None:
    """The offsets and transaction topics are internal; topics with similar names are not."""
    assert is_internal("__consumer_offsets")
    assert is_internal("__transaction_state")
    assert not is_internal("__mine")
