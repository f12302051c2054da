"""The table of what each API asks the authorizer."""

from __future__ import annotations

import pytest

from coordinator_server.apis.checks.page import page
from coordinator_server.apis.checks.table import TABLE
from coordinator_server.security.acl import SUPPORTED_OPERATIONS
from protocol.registry import SPECS, ApiSpec
from tests.support import ROOT

FOR_EVERYBODY = (
    "ApiVersions",
    "SaslHandshake",
    "SaslAuthenticate",
    "GetTelemetrySubscriptions",
    "PushTelemetry",
)
FOR_OWNERS = ("RenewDelegationToken", "ExpireDelegationToken")
"""A token names who may; Kafka does not ask the authorizer."""


def test_every_api_has_a_row() -> None:
    """Each one that is served, and no other."""
    assert TABLE.keys() == {spec.name for spec in SPECS}


@pytest.mark.parametrize(
    "spec",
    [spec for spec in SPECS if spec.name not in (*FOR_EVERYBODY, *FOR_OWNERS)],
    ids=lambda spec: spec.name,
)
def test_every_api_is_checked(spec: ApiSpec) -> None:
    """By a guard or by the handler."""
    row = TABLE[spec.name]
    assert row.wholes or row.serve is not None or row.in_handler
    assert row.all_checks
    for check in row.all_checks:
        supported = SUPPORTED_OPERATIONS[check.resource_type]
        # Kafka asks for DELETE of the cluster, which is no operation of it.
        assert check.operation in supported or check.resource == "kafka-cluster"
    fields = {field.name for field in spec.request_type.FIELDS}
    assert {whole.field for whole in row.wholes if whole.field is not None} <= fields


def test_the_documentation_has_the_table() -> None:
    """As `python -m coordinator_server.apis.checks.page` prints it."""
    assert (ROOT / "docs" / "authorizer.md").read_text(encoding="utf-8").endswith(page())
