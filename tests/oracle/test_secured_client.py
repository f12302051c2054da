"""Our tools and `doctor` against a Kafka with TLS and SASL."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests import secured_clients
from tests.oracle.secured_kafka import SecuredKafka
from tests.secured_clients import PAUSES_SECONDS, WAYS, Way, name_of

pytestmark = pytest.mark.nightly


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SecuredKafka]:
    """One Kafka with a listener for everything."""
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
    """Topics, records, groups and settings; nothing is left of the doctor's group."""
    secured_clients.play_tools(kafka, way)
    secured_clients.play_doctor(kafka, way, capsys)


@pytest.mark.parametrize("pause_s", PAUSES_SECONDS)
def test_a_session_is_renewed(kafka: SecuredKafka, pause_s: float) -> None:
    """KIP-368: by the first request after most of its time, and after all of it as well."""
    secured_clients.play_session(kafka, pause_s)


def test_what_doctor_says_of_kafkas_refusals(
    kafka: SecuredKafka, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each mistake of a client, at each listener."""
    secured_clients.play_refusals(kafka, capsys)
