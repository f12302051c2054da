"""The table of the operations that each API checks."""

from __future__ import annotations

import re

import pytest

from coordinator_server.security.acl import SUPPORTED_OPERATIONS
from coordinator_server.security.checks.page import page
from coordinator_server.security.checks.table import TABLE
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
"""APIs of delegation tokens: a token names its owner and renewers, so Kafka does not ask the
authorizer."""


def test_every_api_has_a_row() -> None:
    """The table has a row for each API of the broker, and no other."""
    assert TABLE.keys() == {spec.name for spec in SPECS}


@pytest.mark.parametrize(
    "spec",
    [spec for spec in SPECS if spec.name not in (*FOR_EVERYBODY, *FOR_OWNERS)],
    ids=lambda spec: spec.name,
)
def test_every_api_is_checked(spec: ApiSpec) -> None:
    """Each API is checked by its row, for supported operations."""
    row = TABLE[spec.name]
    assert row.wholes or row.serve is not None
    assert row.all_checks
    for check in row.all_checks:
        supported = SUPPORTED_OPERATIONS[check.resource_type]
        # Kafka checks DELETE on the cluster, although the cluster does not support that operation.
        assert check.operation in supported or check.resource == "kafka-cluster"
    fields = {field.name for field in spec.request_type.FIELDS}
    assert {whole.field for whole in row.wholes if whole.field is not None} <= fields


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.name)
def test_a_handler_that_asks_for_rights_has_a_check_that_sets_them(spec: ApiSpec) -> None:
    """A handler that uses `rights` has a check that sets them.

    Without the check the handler would allow everything.
    """
    module = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", spec.name).lower()
    path = ROOT / "coordinator_server" / "apis" / f"{module}.py"
    asks = path.exists() and re.search(r"\brights\b", path.read_text(encoding="utf-8"))
    assert not asks or TABLE[spec.name].serve is not None


def test_the_documentation_has_the_table() -> None:
    """docs/authorizer.md ends with the table that `security.checks.page` prints."""
    assert (ROOT / "docs" / "authorizer.md").read_text(encoding="utf-8").endswith(page())
