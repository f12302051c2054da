"""The harness reports what goes wrong: exceptions of handlers, and misspelt attributes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import pytest

from coordinator_server.apis import metadata
from protocol.apis.metadata import MetadataRequest
from tests.conformance.commands import Scope, Vocabulary
from tests.conftest import pytest_runtest_call
from tests.harness.broker import UNRAISED, MemoryBroker


def test_an_exception_after_the_last_call_fails_the_test(monkeypatch: pytest.MonkeyPatch) -> None:
    """If a step raises after the test's last call of the broker, the end of the test raises."""
    monkeypatch.setattr(metadata, "handle", lambda *_: failing_steps())
    broker = MemoryBroker()
    _, steps = broker.begin(MetadataRequest(), 12)
    test = pytest_runtest_call()
    next(test)
    list(steps)  # the dispatcher catches the exception
    with pytest.raises(ZeroDivisionError):
        next(test)
    assert UNRAISED == []


def test_an_exception_that_was_raised_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """A test passes if it expects the exception of the handler that it calls."""
    monkeypatch.setattr(metadata, "handle", lambda *_: 1 / 0)
    broker = MemoryBroker()
    with pytest.raises(ZeroDivisionError):
        broker.send(MetadataRequest(), 12)
    assert UNRAISED == []


def failing_steps() -> Iterator[None]:
    """Raise an error in the second step."""
    yield
    raise ZeroDivisionError


def test_a_scenario_sets_only_attributes_that_exist() -> None:
    """`A set` with a misspelt name is an error, and the line is named."""

    class Actor:
        generation = 1

    scope = Scope(cast(Any, None), Vocabulary([]))
    scope.actors["A"] = Actor()
    scope.run("A set generation=5")
    assert scope.actors["A"].generation == 5
    with pytest.raises(ValueError, match="A set generatoin=6: A has no attribute generatoin"):
        scope.run("A set generatoin=6")
