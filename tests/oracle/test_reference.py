"""Our messages, settings, error codes and APIs equal those of the reference version."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from protocol.apis.heartbeat import HeartbeatRequest
from tests.conformance.kafka_cluster import NODES, KafkaCluster
from tests.oracle.kafka_process import Kafka, jars
from tests.reference import tables
from tests.reference.__main__ import recorded
from tests.reference.definitions import declarations, differences, read_definitions
from tests.reference.report import Recording, Report
from tests.support import Broker

pytestmark = pytest.mark.nightly


def test_messages() -> None:
    """Each declaration has Kafka's fields, types, defaults and tags at each version."""
    theirs, ours = read_definitions(jars()), declarations()
    assert ours.keys() <= theirs.keys()
    found = {name: list(differences(theirs[name], one)) for name, one in ours.items()}
    assert {name: lines for name, lines in found.items() if lines} == {}
    served = {name for name, one in theirs.items() if one["isServed"]}
    assert served <= ours.keys()


def test_a_declaration_that_differs_is_named() -> None:
    """The comparison reports different versions, and the first field that differs."""
    theirs = read_definitions(jars())["OffsetCommitRequest"]
    assert list(differences(theirs, HeartbeatRequest))[:2] == [
        "versions 2-10, ours 0-4",
        "v2: generation_id_or_member_epoch: INT32 default -1, ours generation_id: INT32 default 0",
    ]


def test_settings_and_errors() -> None:
    """The recorded settings and our error codes and texts are equal to those in the jars."""
    theirs = tables.described()
    assert list(tables.setting_differences(theirs)) == []
    assert list(tables.error_differences(theirs)) == []


def test_apis_and_features(tmp_path: Path) -> None:
    """ApiVersions returns the same versions for each API key."""
    kafka = Kafka(tmp_path, {}, takes_telemetry=True)
    try:
        kafka.start()
        with Broker() as ours:
            found = list(tables.api_differences(kafka.bootstrap_servers, ours.bootstrap_servers))
    finally:
        kafka.end()
    assert found == []


def test_a_cluster_makes_its_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """KafkaCluster creates its directory, which need not exist."""
    for name in ("_launch", "_wait_until_whole"):
        monkeypatch.setattr(KafkaCluster, name, lambda *_: None)
    monkeypatch.setattr(subprocess, "run", lambda *_, **__: None)
    directory = tmp_path / "kafka" / "cluster"
    KafkaCluster(directory).start_all()
    assert sorted(one.name for one in directory.iterdir()) == [
        f"node-{node}.properties" for node in NODES
    ]


def test_a_suite_that_fails_does_not_end_the_others(tmp_path: Path) -> None:
    """A failed suite is reported among the decisions, and the others still run."""

    def failing(_: Path, __: Path) -> Recording:
        raise ValueError("no broker")

    report = recorded(failing, tmp_path, tmp_path)
    assert report == Report(1, ["not recorded: ValueError('no broker')"], [])
    report = recorded(lambda *_: Recording({"x": 1}, {"x": 2}), tmp_path, tmp_path)
    assert report == Report(1, ["1 x 2, was 1: x"], [])


def test_what_changed_is_named() -> None:
    """New, removed and changed entries are reported."""
    assert list(tables.changed("x", {"a": 1, "b": 1, "c": 1}, {"b": 1, "c": 2, "d": 3})) == [
        "x a is not there, ours: 1",
        "x c: 2, ours 1",
        "x d is new: 3",
    ]
