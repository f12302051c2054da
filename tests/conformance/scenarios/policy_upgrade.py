"""Conversions with `group.consumer.migration.policy=upgrade`."""

from __future__ import annotations

from tests.conformance.conversion_policies import scenarios_of

AREA = scenarios_of("policy_upgrade", "e")
