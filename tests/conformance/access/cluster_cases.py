"""Cases of APIs that are about the cluster, its users, quotas and ACLs."""

from __future__ import annotations

from tests.conformance.access.case import Case

CASES = [
    Case("DescribeCluster", lambda cell, world: {"includeClusterAuthorizedOperations": True}),
]
