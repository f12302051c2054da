"""The accounts of a group as records and in words."""

from __future__ import annotations

import json
from typing import Any

from coordinator_server.rebalances.record import encode_record, record_of
from coordinator_server.rebalances.story import details, sentence
from tests.sim.broker import GROUP, OneGroupBroker
from tests.unit.rebalances.schema import faults


def records(broker: OneGroupBroker) -> list[dict[str, Any]]:
    """The records since the last look, as a reader gets them."""
    found = [json.loads(encode_record(record_of(GROUP, one))) for one in broker.explained]
    broker.explained.clear()
    assert [fault for record in found for fault in faults(record)] == []
    return found


def stories(broker: OneGroupBroker) -> list[list[str]]:
    """Each record since the last look in words, a line each."""
    return [[sentence(record), *details(record)] for record in records(broker)]
