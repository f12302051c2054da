"""A run whose cluster no longer answers ends with an error."""

from __future__ import annotations

import signal
import socket
import threading
from typing import Any

import pytest

from pipeline.liveness import while_it_answers
from pipeline.sources.source import InputError


def silent_cluster() -> None:
    """Raise the error of a cluster that does not answer."""
    raise InputError("--bootstrap-server b:1: no answer")


@pytest.mark.real_time
@pytest.mark.parametrize("disposition", [signal.SIG_IGN, signal.default_int_handler])
def test_a_blocked_call_is_interrupted(disposition: Any, request: pytest.FixtureRequest) -> None:
    """A blocked call ends with the cluster's error, even if SIGINT was ignored before."""
    before = signal.signal(signal.SIGINT, disposition)
    request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    ours, theirs = socket.socketpair()
    ours.settimeout(60)
    with ours, theirs, pytest.raises(InputError, match="no answer"):  # noqa: SIM117
        with while_it_answers(silent_cluster, 0.01, 2):
            ours.recv(1)
    assert signal.getsignal(signal.SIGINT) == disposition


@pytest.mark.real_time
def test_a_cluster_that_answers_again_is_not_lost() -> None:
    """Only failures in a row count."""
    asked: list[int] = []
    enough = threading.Event()

    def ask() -> None:
        asked.append(len(asked))
        if len(asked) == 6:
            enough.set()
        if len(asked) % 2:
            silent_cluster()

    with while_it_answers(ask, 0.001, 2):
        assert enough.wait(60)


def test_the_users_own_interrupt_stays_one() -> None:
    """Ctrl-C raises KeyboardInterrupt, not the error of a lost cluster."""
    with pytest.raises(KeyboardInterrupt), while_it_answers(silent_cluster, 60):
        raise KeyboardInterrupt
