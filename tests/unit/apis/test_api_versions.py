"""ApiVersions: the APIs, versions and features that each client is offered."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from coordinator_server.apis.api_versions import handle
from coordinator_server.net.call import Call
from coordinator_server.security.client_software import UNKNOWN_SOFTWARE
from protocol.apis.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.registry import SPECS

if TYPE_CHECKING:
    from coordinator_server.broker import Broker


def ask(
    version: int,
    name: str = "conform",
    software_version: str = "1.0",
    *,
    is_unauthenticated: bool = False,
    **fields: Any,
) -> ApiVersionsResponse:
    """Return the response of node 1 of cluster "c" to one request."""
    answers: list[Any] = []

    class OneCall:
        api_version = version
        reply = staticmethod(answers.append)
        connection = SimpleNamespace(is_unauthenticated=is_unauthenticated)

    request = ApiVersionsRequest(
        client_software_name=name, client_software_version=software_version, **fields
    )
    broker = cast("Broker", SimpleNamespace(cluster_id="c", node_id=1))
    handle(broker, cast(Call, OneCall()), request)
    (answer,) = answers
    assert isinstance(answer, ApiVersionsResponse)
    return answer


@pytest.mark.parametrize(
    ("version", "name", "software"),
    [
        (0, "conform", ("unknown", "unknown")),
        (3, "conform", ("conform", "1.0")),
        (5, "-", ("unknown", "unknown")),
    ],
)
def test_the_connection_knows_the_software_of_its_client(
    version: int, name: str, software: tuple[str, str]
) -> None:
    """The connection records the client's software name; an invalid name is not recorded."""
    connection = SimpleNamespace(is_unauthenticated=False, software=UNKNOWN_SOFTWARE)
    request = ApiVersionsRequest(client_software_name=name, client_software_version="1.0")
    call = SimpleNamespace(api_version=version, reply=lambda answer: None, connection=connection)
    broker = cast("Broker", SimpleNamespace(cluster_id="c", node_id=1))
    handle(broker, cast(Call, call), request)
    assert connection.software == software


@pytest.mark.parametrize("version", range(6))
def test_what_is_offered_is_what_is_served(version: int) -> None:
    """ApiVersions lists every API of the registry with its versions, in order of the API key.

    Produce is listed from version 0 on (KIP-896).
    """
    answer = ask(version)
    assert answer.error_code == 0
    offered = {one.api_key: (one.min_version, one.max_version) for one in answer.api_keys}
    assert list(offered) == sorted(offered)
    assert offered.pop(0) == (0, 13)
    assert offered == {s.key: (s.min_version, s.max_version) for s in SPECS if s.key != 0}


@pytest.mark.parametrize(
    ("name", "software_version"),
    [("", "1"), ("x", ""), ("-x", "1"), ("a b", "1"), ("x", "1."), ("x\n", "1")],
)
def test_a_client_has_to_name_itself(name: str, software_version: str) -> None:
    """Since version 3 a software name or version outside KIP-511's pattern gets INVALID_REQUEST."""
    answer = ask(3, name, software_version)
    assert answer.error_code == 42
    assert answer.api_keys == []
    assert ask(2, name, software_version).error_code == 0


@pytest.mark.parametrize(
    ("cluster_id", "node_id", "error"),
    [
        (None, -1, 0),
        ("c", 1, 0),
        ("c", 2, 129),
        ("d", 1, 129),
        ("", 1, 129),
        (None, 1, 42),
        ("c", -1, 42),
        ("d", -1, 42),
    ],
)
def test_a_client_that_means_another_broker(
    cluster_id: str | None, node_id: int, error: int
) -> None:
    """A wrong cluster or node id gets REBOOTSTRAP_REQUIRED; a request needs both ids or neither."""
    answer = ask(5, cluster_id=cluster_id, node_id=node_id)
    assert answer.error_code == error
    assert bool(answer.api_keys) == (error == 0)


def test_before_authentication_the_cluster_does_not_count() -> None:
    """A client that has not yet authenticated with SASL may name any cluster."""
    assert ask(5, cluster_id="d", node_id=1, is_unauthenticated=True).error_code == 0


def test_features_from_level_0_need_version_4() -> None:
    """Features with a lowest level of 0 are left out below version 4 (KAFKA-17011)."""
    assert [one.name for one in ask(3).supported_features] == ["metadata.version"]
    names = [one.name for one in ask(4).supported_features]
    assert names == [
        "group.version",
        "kraft.version",
        "metadata.version",
        "share.version",
        "streams.version",
        "transaction.version",
        "eligible.leader.replicas.version",
    ]


def test_the_final_levels_are_those_of_a_new_cluster() -> None:
    """The finalized features have the levels of a new Kafka 4.4 cluster (4.4-IV2)."""
    levels = {one.name: one.max_version_level for one in ask(3).finalized_features}
    assert levels == {
        "group.version": 1,
        "metadata.version": 33,
        "share.version": 2,
        "streams.version": 1,
        "transaction.version": 2,
        "eligible.leader.replicas.version": 1,
    }


def test_the_epoch_of_the_features_grows_with_the_levels() -> None:
    """The features epoch rises with the levels, as the Java client ignores lower epochs."""
    answer = ask(3)
    levels = [one.max_version_level for one in answer.finalized_features]
    assert answer.finalized_features_epoch == sum(levels)
