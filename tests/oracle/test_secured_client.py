"""Our tools and `doctor` with a Kafka over TLS and SASL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import secured_clients
from tests.oracle.secured_kafka import SecuredKafka
from tests.secured_clients import PAUSES_SECONDS, WAYS, Way, name_of

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """A Kafka with a listener for each security protocol."""
    kafka = SecuredKafka(tmp_path_factory.mktemp("secured"))
    try:
        kafka.start()
        yield kafka
    finally:
        kafka.end()


@pytest.mark.parametrize("way", WAYS, ids=name_of)
def test_tools_and_doctor_work_by_every_way_in(
    kafka: SecuredKafka, way: Way, capsys: pytest.CaptureFixture[str]
) -> None:
    """The tools work and doctor succeeds for each `way` to connect; doctor's group is removed."""
    secured_clients.play_tools(kafka, way)
    secured_clients.play_doctor(kafka, way, capsys)


@pytest.mark.parametrize("pause_s", PAUSES_SECONDS)
def test_a_session_is_renewed(kafka: SecuredKafka, pause_s: float) -> None:
    """A client reauthenticates (KIP-368) both before and after its session expires."""
    secured_clients.play_session(kafka, pause_s)


def test_what_doctor_says_of_kafkas_refusals(
    kafka: SecuredKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    """doctor explains each client mistake at each listener."""
    secured_clients.play_refusals(kafka, capsys)
