"""Partitions that open transactions hold back, and the reasons that a user sees."""

from __future__ import annotations

from typing import Any

from coordinator_server.control import transactions
from coordinator_server.control.request import ControlRequest
from coordinator_server.control.routes import ROUTES
from tests.harness.transactions import TransactionBroker

(ROUTE,) = (route for route in ROUTES if route.verb == "transactions list")


class Blind(ControlRequest):
    """A request of a user who may see topics but no transactional ids."""

    def allows(self, operation: str, resource_type: str, name: str) -> bool:
        """Return False for transactional ids."""
        return resource_type != "TRANSACTIONAL_ID"


async def held_back(broker: TransactionBroker, kind: type[ControlRequest]) -> dict[str, Any]:
    """Return the entry of the only partition that is held back."""
    request = kind(broker.cluster, {}, {}, b"", values=ROUTE.values({}), route=ROUTE)
    answer = await transactions.transactions(request)
    (entry,) = answer["held_back"]
    found: dict[str, Any] = entry
    return found


async def test_a_hidden_transactional_id_is_left_out_of_the_reason() -> None:
    """A user without rights on the id learns only that a transaction is open, and since when."""
    broker = TransactionBroker()
    producer = broker.init("secret")
    assert not broker.add(producer, 0, transactional_id="secret")
    assert not broker.produce(producer, b"x", transactional_id="secret")
    seen = await held_back(broker, ControlRequest)
    assert "transaction secret of producer" in seen["reason"]
    hidden = await held_back(broker, Blind)
    assert hidden["transactional_id"] is None
    assert hidden["reason"] == seen["reason"].replace("transaction secret", "a transaction")
    assert hidden == {**seen, "transactional_id": None, "reason": hidden["reason"]}
