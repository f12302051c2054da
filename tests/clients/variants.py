"""The client libraries and assignors with which the tests of groups run."""

from collections.abc import Callable
from typing import Any

import kafka
import pytest

from tests.clients.support import Group
from tests.clients.worker import CONFLUENT_KAFKA_CONSUMER
from tests.support import wait_for

_CLASSIC = [
    ("kafka-python", "range"),
    pytest.param("kafka-python", "cooperative-sticky", marks=pytest.mark.nightly),
    pytest.param("confluent-kafka", "range", marks=pytest.mark.nightly),
    ("confluent-kafka", "cooperative-sticky"),
    ("aiokafka", "range"),
]


_CONSUMER = [(CONFLUENT_KAFKA_CONSUMER, "uniform")]


CLASSIC_CLIENTS = pytest.mark.parametrize(("client", "assignor"), _CLASSIC)


CLIENTS = pytest.mark.parametrize(("client", "assignor"), [*_CLASSIC, *_CONSUMER])


LIBRARIES = ("kafka-python", "confluent-kafka", "aiokafka")


StartGroup = Callable[..., Group]


def committed_offsets(bootstrap: str, group: str) -> dict[tuple[str, int], int]:
    """Return the group's committed offsets."""
    admin = kafka.KafkaAdminClient(bootstrap_servers=bootstrap)

    def loaded() -> dict[Any, Any]:
        # A broker that has just started may still be loading its groups.
        try:
            return dict(admin.list_group_offsets(group)[group])
        except kafka.errors.RetriableError:
            return {}

    try:
        offsets = wait_for(loaded, "committed offsets")
    finally:
        admin.close()
    return {(place.topic, place.partition): found.offset for place, found in offsets.items()}
