"""Requests about quotas that are sent to a Kafka and to our broker in this order."""

from __future__ import annotations

from math import inf, nan
from typing import NamedTuple

from protocol.apis.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlteredQuotaEntity,
    AlterQuotaEntry,
    QuotaOperation,
)
from protocol.apis.describe_client_quotas import DescribeClientQuotasRequest, QuotaFilterComponent

KEYS = (
    "producer_byte_rate",
    "consumer_byte_rate",
    "request_percentage",
    "controller_mutation_rate",
    "connection_creation_rate",
)
Names = list[tuple[str, str | None]]
Operations = list[tuple[str, float | None]]
Request = AlterClientQuotasRequest | DescribeClientQuotasRequest


class Case(NamedTuple):
    """A request, and whether its change must be visible to the next requests."""

    request: Request
    version: int


def alter(
    *entries: tuple[Names, Operations], validate_only: bool = False, version: int = 1
) -> Case:
    """Return a request that changes the quotas of entities; None removes a quota."""
    request = AlterClientQuotasRequest(
        entries=[
            AlterQuotaEntry(
                entity=[
                    AlteredQuotaEntity(entity_type=kind, entity_name=name) for kind, name in names
                ],
                ops=[
                    QuotaOperation(
                        key=key, value=0.0 if value is None else value, remove=value is None
                    )
                    for key, value in operations
                ],
            )
            for names, operations in entries
        ],
        validate_only=validate_only,
    )
    return Case(request, version)


def describe(
    *components: tuple[str, int, str | None], strict: bool = False, version: int = 1
) -> Case:
    """Return a request that describes matching quotas."""
    request = DescribeClientQuotasRequest(
        components=[
            QuotaFilterComponent(entity_type=kind, match_type=match_type, match=match)
            for kind, match_type, match in components
        ],
        strict=strict,
    )
    return Case(request, version)


USER, CLIENT, IP = "user", "client-id", "ip"
RATE: Operations = [("producer_byte_rate", 1000.0)]

_ENTITIES: list[Names] = [
    [(USER, "alice")],
    [(USER, None)],
    [(CLIENT, "c")],
    [(CLIENT, None)],
    [(USER, "alice"), (CLIENT, "c")],
    [(CLIENT, "d"), (USER, "alice")],
    [(USER, "alice"), (CLIENT, None)],
    [(USER, None), (CLIENT, "c")],
    [(USER, None), (CLIENT, None)],
    [(USER, "bob@EXAMPLE/x y")],
    [(USER, "é")],
]

_CHANGES = [
    *(alter((names, [(KEYS[0], 1000.0 + number)])) for number, names in enumerate(_ENTITIES)),
    *(alter(([(USER, "keys")], [(key, 7.0)])) for key in KEYS),
    *(alter(([(CLIENT, "keys")], [(key, 7.5)])) for key in KEYS),
    *(alter(([(IP, "127.0.0.1")], [(key, 7.0)])) for key in KEYS),
    alter(([(IP, None)], [("connection_creation_rate", 5.0)])),
    alter(([(IP, "127.0.0.9")], [("connection_creation_rate", 5.5)])),
    alter(([(IP, "::1")], [("connection_creation_rate", 5.0)])),
    alter(([(IP, "localhost")], [("connection_creation_rate", 5.0)])),
    alter(([(IP, "no.such.host.invalid")], [("connection_creation_rate", 5.0)])),
    alter(([(IP, "1.2.3")], [("connection_creation_rate", 5.0)])),
    alter(([(IP, "")], [("connection_creation_rate", 5.0)])),
    alter(([(IP, "127.0.0.1"), (USER, "alice")], [("connection_creation_rate", 5.0)])),
    alter(([(IP, "127.0.0.1"), (CLIENT, "c")], RATE)),
    alter(([(IP, "127.0.0.1"), (CLIENT, "c"), (USER, "u")], RATE)),
    alter(([], RATE)),
    alter(([("topic", "t")], RATE)),
    alter(([("", "t")], RATE)),
    alter(([("User", "t")], RATE)),
    alter(([(USER, "alice"), ("topic", "t")], RATE)),
    alter(([("topic", "t"), (USER, "alice")], RATE)),
    alter(([(USER, "")], RATE)),
    alter(([(CLIENT, "")], RATE)),
    alter(([(USER, "a"), (CLIENT, "")], RATE)),
    alter(([(USER, "first"), (USER, "second")], RATE)),
    alter(([(USER, "values")], [("unknown", 1.0)])),
    alter(([(USER, "values")], [("", 1.0)])),
    alter(([(USER, "values")], [("unknown", None)])),
    *(
        alter(([(USER, f"value{number}")], [(key, value)]))
        for key in ("producer_byte_rate", "request_percentage")
        for number, value in enumerate(
            (0.0, -1.0, -0.5, 0.5, 1e-7, 1.0000001, 1.00001, 2.0**53, 1e19, -1e19, inf, -inf, nan)
        )
    ),
    *(
        alter(([(IP, f"127.0.1.{number}")], [("connection_creation_rate", value)]))
        for number, value in enumerate((0.0, -1.0, 0.5, 2.0**31, 1e19))
    ),
    alter(([(USER, "two")], [(KEYS[0], 1.0), (KEYS[1], 2.0)])),
    alter(([(USER, "two")], [(KEYS[0], 1.0), ("unknown", 2.0)])),
    alter(([(USER, "good-bad")], [(KEYS[0], 1.0), (KEYS[1], 0.5), (KEYS[2], 3.0)])),
    alter(([(USER, "two")], [(KEYS[0], 5.0), (KEYS[0], 6.0)])),
    alter(([(USER, "two")], [(KEYS[0], 5.0), (KEYS[0], None)])),
    alter(([(USER, "two")], [(KEYS[0], None), (KEYS[1], 3.0)])),
    alter(([(USER, "two")], [(KEYS[1], None)])),
    alter(([(USER, "two")], [(KEYS[1], None)])),
    alter(([(USER, "none")], [])),
    alter(([(USER, "twice")], RATE), ([(USER, "twice")], [(KEYS[1], 3.0)])),
    alter(([(USER, "thrice")], RATE), ([(USER, "thrice")], RATE), ([(USER, "thrice")], RATE)),
    alter(([(USER, "x"), (CLIENT, "y")], RATE), ([(CLIENT, "y"), (USER, "x")], RATE)),
    alter(([(USER, "one-bad")], RATE), ([(USER, "")], RATE), ([], RATE)),
    alter(([(USER, "checked")], RATE, ), validate_only=True),
    alter(([(USER, "checked")], [("unknown", 1.0)]), validate_only=True),
    alter(([(USER, "alice")], [(KEYS[0], None)]), validate_only=True),
    alter(([(USER, None)], [("unknown", 1.0)])),
    alter(([(USER, None), (CLIENT, None)], [(KEYS[0], 1.0), (KEYS[0], 1.0)])),
    alter(([(USER, "version0")], RATE), version=0),
    alter(([(USER, "version0")], [("unknown", 1.0)]), version=0),
    alter(),
    alter(validate_only=True),
]  # fmt: skip

_FILTERS: list[tuple[tuple[str, int, str | None], ...]] = [
    (),
    ((USER, 0, "alice"),),
    ((USER, 0, "nobody"),),
    ((USER, 0, ""),),
    ((USER, 0, None),),
    ((USER, 1, None),),
    ((USER, 1, "x"),),
    ((USER, 2, None),),
    ((USER, 2, "x"),),
    ((USER, 3, None),),
    ((USER, -1, None),),
    ((CLIENT, 0, "c"),),
    ((CLIENT, 1, None),),
    ((CLIENT, 2, None),),
    ((IP, 0, "127.0.0.1"),),
    ((IP, 1, None),),
    ((IP, 2, None),),
    ((USER, 0, "alice"), (CLIENT, 0, "c")),
    ((CLIENT, 0, "c"), (USER, 0, "alice")),
    ((USER, 0, "alice"), (CLIENT, 1, None)),
    ((USER, 0, "alice"), (CLIENT, 2, None)),
    ((USER, 1, None), (CLIENT, 2, None)),
    ((USER, 2, None), (CLIENT, 2, None)),
    ((USER, 2, None), (CLIENT, 0, "c")),
    ((USER, 2, None), (USER, 2, None)),
    ((USER, 0, "a"), (USER, 1, None)),
    ((IP, 2, None), (USER, 2, None)),
    ((CLIENT, 2, None), (IP, 2, None)),
    (("topic", 0, "t"),),
    (("", 0, "t"),),
    (("", 9, None),),
    (("topic", 9, None),),
    ((USER, 2, None), ("topic", 2, None)),
    ((USER, 9, None), (USER, 9, None)),
]

CASES: list[Case] = [
    *_CHANGES,
    *(describe(*one, strict=strict) for one in _FILTERS for strict in (False, True)),
    describe((USER, 0, "alice"), version=0),
    describe(("topic", 0, "alice"), version=0),
]
