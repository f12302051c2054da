"""Delegation tokens: Kafka and our broker give the same answers and HMACs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.oracle import token_cases
from tests.oracle.token_brokers import AUTHORIZED, KEY, Brokers, Ours, Settings, Theirs
from tests.oracle.token_cases import SCENARIOS, Asked, asked

pytestmark = pytest.mark.nightly

Pair = tuple[Brokers, Brokers]


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """A Kafka and our broker, with an authorizer and the same secret key."""
    yield from _pair(tmp_path_factory.mktemp("tokens"), AUTHORIZED)


def _pair(directory: Path, more: dict[str, str]) -> Iterator[Pair]:
    settings = Settings(directory, more)
    with Theirs(directory, settings) as theirs, Ours(settings) as ours:
        yield theirs, ours


def differences(pair: Pair, scenario: Callable[[Asked], None]) -> str:
    """Return the differences between Kafka's and our broker's answers."""
    told = []
    for brokers in pair:
        with asked(brokers) as one:
            scenario(one)
            told.append(one.told)
    theirs, ours = told
    assert [what for what, _ in theirs] == [what for what, _ in ours]
    return "\n".join(
        f"{what}\n  {expected}\n  {actual}"
        for (what, expected), (_, actual) in zip(theirs, ours, strict=True)
        if expected != actual
    )


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_both_answer_alike(pair: Pair, scenario: Callable[[Asked], None]) -> None:
    """Error codes, fields, lifetimes and HMACs are equal at all versions."""
    assert not differences(pair, scenario)


def test_without_a_key(tmp_path: Path) -> None:
    """Without a secret key, each request gets Kafka's error."""
    for pair in _pair(tmp_path, {}):
        assert not differences(pair, token_cases.disabled)


@pytest.mark.real_time
def test_without_an_authorizer(tmp_path: Path) -> None:
    """Without an authorizer every user may handle all tokens, and expired tokens are removed."""
    settings = {
        "delegation.token.secret.key": KEY,
        "delegation.token.expiry.check.interval.ms": "300",
    }
    for pair in _pair(tmp_path, settings):
        assert not differences(pair, token_cases.unauthorized)
