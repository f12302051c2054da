"""Proposals in errors about unknown names."""

from __future__ import annotations

import difflib

import pytest

from coordinator_server.control.errors import proposal


def test_a_similar_name_is_proposed() -> None:
    """For an unknown name of at most 40 characters a similar known name is proposed.

    Longer names get no proposal.
    """
    assert proposal("ordres", ["payments", "orders"]) == "; did you mean orders?"
    assert proposal("ordres", ["payments"]) == ""
    assert proposal("o" * 40, ["o" * 41]) == f"; did you mean {'o' * 41}?"
    assert proposal("o" * 41, ["o" * 40]) == ""


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
