"""AlterClientQuotas and DescribeClientQuotas over the wire."""

from __future__ import annotations

import asyncio
from io import StringIO

import pytest

from coordinator_server.apis import alter_client_quotas, describe_client_quotas
from coordinator_server.events.log import LOG
from coordinator_server.security.quotas import entities
from coordinator_server.security.quotas.client_quotas import ClientQuotas
from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    AlterQuotaEntry,
    QuotaOperation,
)
from protocol.apis.describe_client_quotas import DescribeClientQuotasRequest, QuotaFilterComponent
from protocol.errors import ErrorCode
from storage.security_state import SecurityState
from tests.harness.broker import DATA, MemoryBroker


def change(kind: str, name: str | None, key: str, value: float) -> AlterClientQuotasRequest:
    """Return a request for one quota of one entity."""
    return AlterClientQuotasRequest(
        entries=[
            AlterQuotaEntry(
                entity=[AlteredQuotaEntity(entity_type=kind, entity_name=name)],
                ops=[QuotaOperation(key=key, value=value)],
            )
        ]
    )


def test_what_is_set_is_described() -> None:
    """A quota for an IP address is described, and setting it needs no name lookup."""
    broker = MemoryBroker()
    answer = broker.ask(change("ip", "10.0.0.1", "connection_creation_rate", 5))
    (entry,) = answer.entries
    assert (entry.error_code, entry.error_message) == (0, None)
    assert [(part.entity_type, part.entity_name) for part in entry.entity] == [("ip", "10.0.0.1")]
    component = QuotaFilterComponent(entity_type="ip", match_type=2, match=None)
    answer = broker.ask(DescribeClientQuotasRequest(components=[component]))
    (found,) = answer.entries
    assert (answer.error_code, answer.error_message) == (0, "")
    assert [(value.key, value.value) for value in found.values] == [
        ("connection_creation_rate", 5.0)
    ]


async def test_names_of_hosts_are_looked_up_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Host names are looked up without blocking the event loop."""
    known = {"here.example": "10.0.0.1"}
    monkeypatch.setattr(alter_client_quotas, "address_of", known.get)
    broker = MemoryBroker()
    for host, error in (("here.example", 0), ("gone.example", ErrorCode.INVALID_REQUEST)):
        call = broker.send(change("ip", host, "connection_creation_rate", 5))
        assert call.replies == []
        while not call.replies:
            await asyncio.sleep(0)
        assert call.replies[0].entries[0].error_code == error
    assert broker.security.quotas.of_addresses() == {"10.0.0.1": 5.0}


@pytest.mark.parametrize(
    ("name", "address"), [("2001:DB8:0::1", "2001:db8::1"), ("::ffff:10.0.0.7", "10.0.0.7")]
)
def test_an_address_may_be_written_in_many_ways(name: str, address: str) -> None:
    """An IP quota applies to the address that sockets show, also after a restart."""
    broker = MemoryBroker()
    broker.ask(change("ip", name, "connection_creation_rate", 5))
    assert broker.security.quotas.of_addresses() == {address: 5.0}
    again = ClientQuotas(SecurityState(broker.disk, DATA))
    assert again.of_addresses() == {address: 5.0}


def test_a_filter_that_cannot_be_is_refused() -> None:
    """A filter with an invalid entity type is refused, and the response has null entries."""
    component = QuotaFilterComponent(entity_type="topic", match_type=2, match=None)
    request = DescribeClientQuotasRequest(components=[component])
    answer = MemoryBroker().ask(request)
    assert answer.error_code == ErrorCode.UNSUPPORTED_VERSION
    assert answer.error_message == "Unsupported entity type topic"
    assert answer.entries is None
    assert describe_client_quotas.__doc__


def test_a_full_disk_is_told() -> None:
    """A write error is returned to the client and logged, and nothing is changed."""
    log = StringIO()
    LOG.configure(stream=log)
    broker = MemoryBroker()
    broker.disk.fail_at(1)
    answer = broker.ask(change("user", None, "producer_byte_rate", 5))
    assert answer.entries[0].error_code == ErrorCode.KAFKA_STORAGE_ERROR
    assert "security_state.failed" in log.getvalue()
    assert "security.changes cannot be written" in log.getvalue()
    answer = broker.ask(DescribeClientQuotasRequest())
    assert answer.entries == []


def test_too_many_changes_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in Kafka, a request with too many changes is refused entirely."""
    monkeypatch.setattr(entities, "MOST_CHANGES", 0)
    request = change("user", None, "producer_byte_rate", 5)
    answer = MemoryBroker().ask(request)
    assert answer.entries[0].error_code == ErrorCode.POLICY_VIOLATION
