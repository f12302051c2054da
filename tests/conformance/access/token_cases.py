"""Cases of delegation tokens."""

from __future__ import annotations

from collections.abc import Sequence

from tests.conformance.access.case import Case, Cell, Fields
from tests.conformance.access.connection import to_text
from tests.conformance.access.world import World

_OWNERS = ("owner-2", "owner-3")


def _create(cell: Cell, world: World) -> Fields:
    return {"ownerPrincipalType": None, "ownerPrincipalName": None, "maxLifetimeMs": -1}


def _create_for(owner: str) -> Fields:
    return {"ownerPrincipalType": "User", "ownerPrincipalName": owner, "maxLifetimeMs": -1}


def _create_of_other(cell: Cell, world: World) -> Fields:
    return _create_for("owner-1")


def _renew(cell: Cell, world: World) -> Fields:
    return {"hmac": to_text(b"no token"), "renewPeriodMs": -1, "expiryTimePeriodMs": -1}


def _describe(cell: Cell, world: World) -> Fields:
    return {"owners": [{"principalType": "User", "principalName": one} for one in _OWNERS]}


def _tokens(world: World, cells: Sequence[Cell]) -> None:
    """Create a delegation token for each owner."""
    for owner in _OWNERS:
        answer = world.admin.must("CreateDelegationToken", 3, _create_for(owner))
        assert not answer["errorCode"], answer


CASES = [
    Case("CreateDelegationToken", _create),
    Case("CreateDelegationToken.other", _create_of_other, users=("User:owner-1",), versions=(3,)),
    Case("RenewDelegationToken", _renew),
    Case("ExpireDelegationToken", _renew),
    Case(
        "DescribeDelegationToken",
        _describe,
        users=tuple(f"User:{one}" for one in _OWNERS),
        tokens=("*",),
        prepare=(_tokens,),
    ),
]
