"""Answers of a cluster of which a part is not well, without a cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]  # no stubs

from pipeline import schema
from pipeline.sources.admin import ClusterAdmin, ClusterError, TopicFacts
from pipeline.sources.kafka import BrokerSource
from pipeline.sources.logdir import OFFSETS_TOPIC
from pipeline.sources.sampling import Found, Place
from pipeline.sources.source import InputError, is_outage

PLACES = [("t", 0), ("t", 1), ("gone", 0)]


def _failed(kind: str) -> Py4JJavaError:
    cause = MagicMock()
    cause.getCause.return_value = None
    cause.getClass.return_value.getSimpleName.return_value = kind
    cause.getMessage.return_value = "no answer"
    return Py4JJavaError("", cause)


def _admin(answers: Mapping[Place, int | str]) -> ClusterAdmin:
    """Return an admin client whose cluster has these offsets, or errors, of partitions."""

    def result(place: Place) -> MagicMock:
        answer = answers[place]
        future = MagicMock()
        if isinstance(answer, str):
            future.get.side_effect = _failed(answer)
        future.get.return_value.offset.return_value = answer
        future.get.return_value.timestamp.return_value = 1
        return future

    java = MagicMock()
    java.org.apache.kafka.common.TopicPartition.side_effect = lambda *place: place
    client = java.org.apache.kafka.clients.admin.Admin.create.return_value
    client.listOffsets.return_value.partitionResult.side_effect = result
    client.listOffsets.return_value.all.return_value.get.side_effect = _failed("TimeoutException")
    return ClusterAdmin(java, {"bootstrap.servers": "b:1"})


def test_a_partition_without_a_leader_does_not_hide_the_others() -> None:
    """A partition without a leader, or that was deleted, has no offsets; a note names the first."""
    gone = "UnknownTopicOrPartitionException"
    admin = _admin({("t", 0): 7, ("t", 1): "TimeoutException", ("gone", 0): gone})
    assert admin.offsets(PLACES, "latest") == {("t", 0): 7}
    assert admin.notes == ["t-1: the log end is not known: TimeoutException: no answer"]
    with pytest.raises(ClusterError, match="no answer"):
        _admin({("t", 0): "TimeoutException"}).offsets(PLACES[:1], "latest")
    with pytest.raises(ClusterError, match="no answer"):
        _admin({("t", 0): 7, ("t", 1): "TopicAuthorizationException"}).offsets(PLACES[:2], "latest")


class _HalfAdmin:
    """An admin client of a topic whose partition 1 has no leader."""

    notes: Sequence[str] = ()

    def topics(self) -> dict[str, TopicFacts]:
        return {"t": TopicFacts(2, "T-ID"), OFFSETS_TOPIC: TopicFacts(1, None)}

    def cluster_id(self) -> str:
        return "A"

    def retentions(self, _: Sequence[str]) -> dict[str, int]:
        return {}

    def offsets(self, places: Sequence[Place], which: str, **_: bool) -> dict[Place, int]:
        return {place: 9 if which == "latest" else 2 for place in places if place[1] == 0}

    def holders(self, places: Sequence[Place]) -> dict[Place, Any]:
        assert not places
        return {}


class _HalfSource(BrokerSource):
    def _admin(self, timeout_ms: int = 0) -> Any:
        return nullcontext(_HalfAdmin())


def test_a_partition_without_a_leader_has_no_log_end_and_is_not_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its row has no offsets; the connector, which would wait for a leader, does not read it."""
    monkeypatch.setattr(schema.Table, "spark", lambda _: None)  # needs a session
    spark: Any = SimpleNamespace(conf=MagicMock(), createDataFrame=lambda rows, _: rows)
    source = _HalfSource(spark, "b:1")
    rows: Any = source.partition_ends(["t"])
    assert [(row[1], row[2], row[3], row[9]) for row in rows] == [
        (0, 2, 9, 9),
        (1, None, None, None),
    ]
    assert json.loads(source._assigned(["t", OFFSETS_TOPIC])) == {"t": [0], OFFSETS_TOPIC: [0]}


@pytest.mark.parametrize(
    ("error", "outage"),
    [
        (ClusterError("b:1", "ConfigException", "No resolvable bootstrap urls given in x"), True),
        (ClusterError("b:1", "ConfigException", "Invalid value many"), False),
        (ClusterError("b:1", "TimeoutException", "timed out"), True),
        (InputError("no such input"), False),
    ],
)
def test_names_that_do_not_resolve_are_an_outage(error: Exception, outage: bool) -> None:
    """A stream goes on after an outage of DNS, as after one of the brokers."""
    assert is_outage(error) is outage


def test_the_first_record_since_a_time() -> None:
    """A partition whose records are all older has None; one without a leader has no answer."""
    admin = _admin({("t", 0): 7, ("t", 1): "TimeoutException", ("gone", 0): -1})
    found = admin.since(dict.fromkeys(PLACES, 5))
    assert found == {("t", 0): Found(7, 1), ("gone", 0): None}
