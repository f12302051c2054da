"""Our tools and `doctor` work with our broker over TLS and SASL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import secured_clients
from tests.secured import SecuredBroker
from tests.secured_clients import PAUSES_SECONDS, WAYS, Way, name_of

QUICKLY: list[Way] = [("MUTUAL", None), ("SASLTLS", "SCRAM-SHA-256")]
"""The combinations for the tools, which start five processes each; doctor runs with all."""

TOOLS_WAYS = [
    pytest.param(way, marks=() if way in QUICKLY else pytest.mark.nightly, id=name_of(way))
    for way in WAYS
]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredBroker]:
    """A broker with a listener per combination, which checks that no handler failed."""
    broker = SecuredBroker(tmp_path_factory.mktemp("secured"))
    try:
        broker.start()
        yield broker
        assert not broker.serve.log_lines("[error"), broker.serve.log
        assert broker.password not in broker.serve.log
    finally:
        broker.end()


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_doctor_is_content_by_every_way_in(
    broker: SecuredBroker, way: Way, capsys: pytest.CaptureFixture[str]
) -> None:
    """doctor succeeds with TLS, mutual TLS, and each SASL mechanism with and without TLS."""
    secured_clients.play_doctor(broker, way, capsys)


@pytest.mark.parametrize("way", TOOLS_WAYS)
def test_tools_work_by_every_way_in(broker: SecuredBroker, way: Way) -> None:
    """The tools manage topics, records, groups and settings."""
    secured_clients.play_tools(broker, way)


@pytest.mark.nightly
@pytest.mark.parametrize("pause_s", PAUSES_SECONDS)
def test_a_session_is_renewed(broker: SecuredBroker, pause_s: float) -> None:
    """A client reauthenticates (KIP-368) both before and after its session expires."""
    secured_clients.play_session(broker, pause_s)


def test_what_doctor_says_of_refusals(
    broker: SecuredBroker, capsys: pytest.CaptureFixture[str]
) -> None:
    """doctor gives the same diagnosis for each client mistake as with Kafka."""
    secured_clients.play_refusals(broker, capsys)
