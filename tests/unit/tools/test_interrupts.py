"""Ctrl-C while records are copied to another cluster."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from coordinator_server.tools.cluster import Interrupts


@pytest.fixture
def interrupts() -> Iterator[Interrupts]:
    """Return the handler of SIGINT."""
    made = Interrupts()
    yield made
    made.close()


def test_it_waits_until_a_record_is_handed_over(interrupts: Interrupts) -> None:
    """An interrupt waits for the end of the protected block."""
    done = []

    def hand_over() -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            done.append("record")

    with pytest.raises(KeyboardInterrupt):
        hand_over()
    assert done == ["record"]


def test_elsewhere_it_comes_at_once(interrupts: Interrupts) -> None:
    """Outside of a protected block an interrupt is raised at once.

    A read from an unresponsive cluster can thus be interrupted.
    """
    with interrupts.held():
        pass
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(signal.SIGINT)


def test_an_error_in_what_is_held_is_not_hidden(interrupts: Interrupts) -> None:
    """An exception in the protected block takes precedence over the interrupt."""

    def hand_over() -> None:
        with interrupts.held():
            signal.raise_signal(signal.SIGINT)
            raise ValueError("refused")

    with pytest.raises(ValueError, match="refused"):
        hand_over()


def test_the_handler_of_before_is_back_in_the_end() -> None:
    """The previous handler of SIGINT is restored at the end."""
    before = signal.getsignal(signal.SIGINT)
    made = Interrupts()
    assert signal.getsignal(signal.SIGINT) != before
    made.close()
    assert signal.getsignal(signal.SIGINT) == before
