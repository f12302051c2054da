"""Errors about unknown, contradictory and missing names."""

from __future__ import annotations

import difflib

import pytest

from coordinator_server.control.errors import ControlError, proposal, refuse_both
from coordinator_server.control.routes import ROUTES


def test_a_similar_name_is_proposed() -> None:
    """For an unknown name of at most 40 characters a similar known name is proposed.

    Longer names get no proposal.
    """
    assert proposal("ordres", ["payments", "orders"]) == "; did you mean orders?"
    assert proposal("ordres", ["payments"]) == ""
    assert proposal("o" * 40, ["o" * 41]) == f"; did you mean {'o' * 41}?"
    assert proposal("o" * 41, ["o" * 40]) == ""
    assert proposal("group-1", ["group-2", "group-10"]) == ""
    assert proposal("order", ["orders1"]) == "; did you mean orders1?"


def test_a_name_is_not_both_set_and_unset() -> None:
    """A change that sets and unsets the same name is refused with the name."""
    with pytest.raises(ControlError, match="'a' is in both set and unset"):
        refuse_both({"a": "1", "b": "2"}, ["c", "a"])
    refuse_both({"a": "1"}, ["b"])


def test_a_missing_parameter_is_not_looked_for_in_the_body() -> None:
    """The error for a missing query parameter says that a field of the body is not read."""
    (route,) = (route for route in ROUTES if route.verb == "clock advance")
    text = "the query parameter seconds=N is missing: how far to advance the clock"
    with pytest.raises(ControlError, match=text) as refused:
        route.values({})
    assert "a field of the body is not read" in str(refused.value)


def test_few_names_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    """A proposal compares at most 50 known names of at most 43 characters."""
    compared: list[str] = []

    def matches(_: str, names: list[str], **_options: object) -> list[str]:
        compared.extend(names)
        return []

    monkeypatch.setattr(difflib, "get_close_matches", matches)
    assert proposal("a" * 40, ("a" * (number % 60) for number in range(10_000))) == ""
    assert len(compared) == 50
    assert max(map(len, compared)) == 43
