"""The diagnosis of `doctor` for an unreachable advertised address."""

from __future__ import annotations

import pytest

from coordinator_server.client import Address
from coordinator_server.tools.doctor_network import change_of_advertised


@pytest.mark.parametrize(
    ("bootstrap", "advertised", "expected"),
    [
        ("broker", "localhost", "which is each client's own machine"),
        ("broker", "127.0.0.1", "which is each client's own machine"),
        ("broker", "localhost.localdomain", "which is each client's own machine"),
        ("localhost", "Localhost.localdomain", "which is not the one that is published"),
        ("broker", "broker", "which is not the one that is published"),
        ("localhost", "kafka-1", "a name or address of the broker's own network"),
    ],
)
def test_why_an_advertised_address_is_not_reached(
    bootstrap: str, advertised: str, expected: str
) -> None:
    """The diagnosis says why a client cannot reach the advertised address.

    An address like localhost means the client's own machine.
    """
    change = change_of_advertised(Address(bootstrap, 9092), Address(advertised, 9093))
    assert expected in " ".join(change)
