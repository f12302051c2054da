"""Lists, sets and deletes SCRAM credentials in a cluster (KIP-554).

A password never leaves this process: the broker gets the salt and the SaltedPassword of RFC 5802.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from coordinator_server.client.client import Client
from coordinator_server.client.errors import check
from coordinator_server.security.credentials.scram_mechanisms import SCRAM_BY_NAME, SCRAM_BY_TYPE
from protocol.errors import ErrorCode

MIN_ITERATIONS = 4_096
"""Kafka's default, which is also the minimum of both mechanisms."""


class Credential(NamedTuple):
    """A user's new password for a mechanism."""

    user: str
    mechanism: str
    password: str
    iterations: int = MIN_ITERATIONS


class ScramUser(NamedTuple):
    """A user and the iteration count of each mechanism.

    The mechanism UNKNOWN stands for mechanisms that this client does not know.
    """

    name: str
    iterations: dict[str, int]


def alter_scram_users(
    client: Client, credentials: Iterable[Credential], removed: Iterable[tuple[str, str]]
) -> None:
    """Set credentials, and delete the removed (user, mechanism) pairs. Raises ClientError."""
    from protocol.apis.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        ScramCredentialDeletion,
        ScramCredentialUpsertion,
    )

    upsertions = []
    for credential in credentials:
        mechanism = SCRAM_BY_NAME[credential.mechanism]
        salt = os.urandom(32)
        upsertions.append(
            ScramCredentialUpsertion(
                name=credential.user,
                mechanism=mechanism.type_id,
                iterations=credential.iterations,
                salt=salt,
                salted_password=mechanism.salted_password(
                    credential.password, salt, credential.iterations
                ),
            )
        )
    deletions = [
        ScramCredentialDeletion(name=user, mechanism=SCRAM_BY_NAME[name].type_id)
        for user, name in removed
    ]
    request = AlterUserScramCredentialsRequest(deletions=deletions, upsertions=upsertions)
    answer = client.ask_controller("alterUserScramCredentials", request)
    for result in answer.results:
        check(result.error_code, result.error_message)


def _name(type_id: int) -> str:
    mechanism = SCRAM_BY_TYPE.get(type_id)
    return "UNKNOWN" if mechanism is None else mechanism.name


def list_scram_users(client: Client, names: Sequence[str] = ()) -> list[ScramUser]:
    """Return the users in `names`, or all users, sorted by name.

    Users without credentials are left out. Raises ClientError.
    """
    from protocol.apis.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        ScramUserName,
    )

    request = DescribeUserScramCredentialsRequest(
        users=[ScramUserName(name=name) for name in names]
    )
    answer = client.call("describeUserScramCredentials", lambda: client.ask(request))
    check(answer.error_code, answer.error_message)
    users = []
    for result in sorted(answer.results, key=lambda result: result.user):
        if result.error_code == ErrorCode.RESOURCE_NOT_FOUND:
            continue
        check(result.error_code, result.error_message)
        infos = result.credential_infos
        iterations = {_name(info.mechanism): info.iterations for info in infos}
        users.append(ScramUser(result.user, iterations))
    return users
