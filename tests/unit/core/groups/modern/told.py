"""The rebalance records of a group, as data and as text."""

from __future__ import annotations

import json
from typing import Any

from coordinator_server.rebalances.record import encode_record, record_of
from coordinator_server.rebalances.story import details, sentence
from tests.harness.one_group import GROUP, OneGroupBroker
from tests.unit.rebalances.schema import faults


def records(broker: OneGroupBroker) -> list[dict[str, Any]]:
    """Return the new records as a reader gets them."""
    found = [json.loads(encode_record(record_of(GROUP, one))) for one in broker.explained]
    broker.explained.clear()
    assert [fault for record in found for fault in faults(record)] == []
    return found


def stories(broker: OneGroupBroker) -> list[list[str]]:
    """Return each new record as lines of text."""
    return [[sentence(record), *details(record)] for record in records(broker)]
