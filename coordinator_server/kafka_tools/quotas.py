"""`kafka-configs.sh` for users, clients and addresses: quotas, and SCRAM credentials of users.

A broker that does not support the requests reports an error. Entities are printed in sorted order;
Kafka prints them in hash table order.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from coordinator_server.client import Client, check
from coordinator_server.client.scram_users import (
    MIN_ITERATIONS,
    Credential,
    alter_scram_users,
    list_scram_users,
)
from coordinator_server.kafka_tools.frame import illegal_argument, invalid_config
from coordinator_server.kafka_tools.java import double_text
from coordinator_server.security.credentials.scram_mechanisms import SCRAM_BY_NAME

ENTITIES = {"users": "user", "clients": "client-id", "ips": "ip"}
"""The tool's entity types, with their names in the protocol."""

_LABELS = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
_CLIENT_QUOTAS = (
    "consumer_byte_rate",
    "controller_mutation_rate",
    "producer_byte_rate",
    "request_percentage",
)
_IP_QUOTAS = ("connection_creation_rate",)
_EXACT, _DEFAULT, _ANY = 0, 1, 2

Changes = tuple[Mapping[str, str], Sequence[str]]
"""The settings to add, by name, and the names of the settings to delete."""


def alter(client: Client, types: list[str], names: list[str], changes: Changes) -> None:
    """Change quotas or credentials. Raises ClientError, ToolError."""
    added, deleted = changes
    kind = types[0]
    if kind == "ips":
        _check_ip_settings([*added, *deleted])
    elif kind == "clients" or len(types) == 2:
        _refuse("Only quota configs can be", "clients", _CLIENT_QUOTAS, changes)
    else:
        known = (*_CLIENT_QUOTAS, *SCRAM_BY_NAME)
        _refuse("Only quota and SCRAM credential configs can be", "users", known, changes)
        if any(name in SCRAM_BY_NAME for name in (*added, *deleted)):
            _alter_credentials(client, names[0], changes)
            return
    _alter_quotas(client, types, names, changes)


def describe(client: Client, types: list[str], names: list[str]) -> None:
    """Print quotas and the credentials of users. Raises ClientError, ToolError."""
    for entity, values in sorted(_read(client, types, names), key=_entity_order):
        label = ", ".join(
            f"the default {_LABELS[key]}" if name is None else f"{_LABELS[key]} '{name}'"
            for key, name in sorted(entity.items(), key=lambda item: list(_LABELS).index(item[0]))
        )
        quotas = ", ".join(f"{key}={double_text(value)}" for key, value in sorted(values.items()))
        print(f"Quota configs for {label} are {quotas}")
    if types == ["users"] and "" not in names:
        _describe_credentials(client, names)


def _entity_order(entry: tuple[dict[str, str | None], Any]) -> list[tuple[str, str]]:
    return sorted((key, name or "") for key, name in entry[0].items())


def _check_ip_settings(names: Sequence[str]) -> None:
    unknown = [name for name in names if name not in _IP_QUOTAS]
    if unknown:
        illegal_argument(
            "Only connection quota configs can be added for 'ips' using --bootstrap-server."
            f" Unexpected config names: {','.join(unknown)}"
        )


def _refuse(only: str, kind: str, known: Sequence[str], changes: Changes) -> None:
    """Reject unknown names with Kafka's message."""
    added, deleted = changes
    end = f"for '{kind}' using --bootstrap-server. Unexpected config names:"
    unknown = sorted(name for name in added if name not in known)
    if unknown:
        illegal_argument(f"{only} added {end} {','.join(unknown)}")
    unknown = [name for name in deleted if name not in known]
    if unknown:
        illegal_argument(f"{only} deleted {end} {','.join(unknown)}")


def _read(
    client: Client, types: list[str], names: list[str]
) -> list[tuple[dict[str, str | None], dict[str, float]]]:
    """Return the quotas of matching entities.

    An entity maps types to names; None is the default.
    """
    from protocol.apis.describe_client_quotas import (
        DescribeClientQuotasRequest,
        QuotaFilterComponent,
    )

    if len(names) > len(types):
        illegal_argument("More entity names specified than entity types")
    components = []
    for index, kind in enumerate(types):
        name = names[index] if index < len(names) else None
        match = _ANY if name is None else _EXACT if name else _DEFAULT
        components.append(
            QuotaFilterComponent(
                entity_type=ENTITIES[kind], match_type=match, match=name if name else None
            )
        )
    request = DescribeClientQuotasRequest(components=components, strict=True)
    answer = client.call("describeClientQuotas", lambda: client.ask(request))
    check(answer.error_code, answer.error_message)
    return [
        (
            {part.entity_type: part.entity_name for part in entry.entity},
            {value.key: value.value for value in entry.values},
        )
        for entry in answer.entries or ()
    ]


def _alter_quotas(client: Client, types: list[str], names: list[str], changes: Changes) -> None:
    from protocol.apis.alter_client_quotas import (
        AlterClientQuotasRequest,
        AlteredQuotaEntity,
        AlterQuotaEntry,
        QuotaOperation,
    )

    added, deleted = changes
    present = _read(client, types, names)
    values = present[0][1] if present else {}
    missing = [name for name in deleted if name not in values]
    if missing:
        invalid_config(f"Invalid config(s): {','.join(missing)}")
    operations = [QuotaOperation(key=key, remove=True) for key in deleted]
    for key, text in added.items():
        try:
            value = float(text)
        except ValueError:
            illegal_argument(f"Cannot parse quota configuration value for {key}: {text}")
        operations.append(QuotaOperation(key=key, value=value))
    entity = [
        AlteredQuotaEntity(entity_type=ENTITIES[kind], entity_name=name or None)
        for kind, name in zip(types, names, strict=True)
    ]
    request = AlterClientQuotasRequest(entries=[AlterQuotaEntry(entity=entity, ops=operations)])
    answer = client.ask_controller("alterClientQuotas", request)
    check(answer.entries[0].error_code, answer.entries[0].error_message)


def _alter_credentials(client: Client, user: str, changes: Changes) -> None:
    added, deleted = changes
    if not user:
        illegal_argument(
            "The use of --entity-default or --user-defaults is not allowed with User SCRAM"
            " Credentials using --bootstrap-server."
        )
    if any(name in _CLIENT_QUOTAS for name in (*added, *deleted)):
        illegal_argument(
            "Cannot alter both quota and SCRAM credential configs simultaneously for 'users' using"
            " --bootstrap-server."
        )
    credentials = []
    for name, text in added.items():
        iterations, password = _credential(name, text)
        credentials.append(Credential(user, name, password, iterations))
    alter_scram_users(client, credentials, [(user, name) for name in deleted])


def _credential(name: str, text: str) -> tuple[int, str]:
    """Parse `[iterations=N,]password=...` into iterations and password. Raises ToolError."""
    match = re.fullmatch(r"(?:iterations=(-?[0-9]*),)?password=(.*)", text, re.DOTALL)
    if match is None:
        # Kafka prints the name of its enum constant, with underscores.
        illegal_argument(f"Invalid credential property {name.replace('-', '_')}={text}")
    given = match[1]
    iterations = int(given) if given not in (None, "", "-1") else MIN_ITERATIONS
    if iterations < MIN_ITERATIONS:
        illegal_argument(
            f"Iterations {iterations} is less than the minimum {MIN_ITERATIONS} required for {name}"
        )
    return iterations, match[2]


def _describe_credentials(client: Client, names: list[str]) -> None:
    for user in list_scram_users(client, names):
        infos = ", ".join(f"{name}=iterations={n}" for name, n in user.iterations.items())
        print(f"SCRAM credential configs for user-principal '{user.name}' are {infos}")
