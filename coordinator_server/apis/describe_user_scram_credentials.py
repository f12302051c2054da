"""DescribeUserScramCredentials: list users with SCRAM credentials and iterations (KIP-554).

Source: ScramImage.describe.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from coordinator_server.security.credentials.scram_mechanisms import SCRAM_BY_NAME
from protocol.apis.describe_user_scram_credentials import (
    CredentialInfo,
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
    DescribeUserScramCredentialsResult,
)
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.security.sasl.users import ScramUsers
    from coordinator_server.steps import Steps

_USERS_PER_STEP = 500


def handle(broker: Broker, call: Call, request: DescribeUserScramCredentialsRequest) -> Steps:
    """Respond with one result per requested user, or with all users."""
    users = broker.security.users
    asked = Counter(user.name for user in request.users or ()) or dict.fromkeys(users.users(), 1)
    response = DescribeUserScramCredentialsResponse()
    for count, (user, times) in enumerate(asked.items(), 1):
        response.results.append(_result(users, user, times))
        if count % _USERS_PER_STEP == 0:
            yield
    call.reply(response)


def _result(users: ScramUsers, user: str, times: int) -> DescribeUserScramCredentialsResult:
    result = DescribeUserScramCredentialsResult(user=user)
    if times > 1:
        result.error_code = ErrorCode.DUPLICATE_RESOURCE
        result.error_message = (
            f"Cannot describe SCRAM credentials for the same user twice in a single request: {user}"
        )
        return result
    of_user = users.of_user(user)
    result.credential_infos = [
        CredentialInfo(mechanism=SCRAM_BY_NAME[name].type_id, iterations=credential.iterations)
        for name, credential in sorted(of_user.items())
    ]
    if not of_user:
        result.error_code = ErrorCode.RESOURCE_NOT_FOUND
        result.error_message = f"Attempt to describe a user credential that does not exist: {user}"
    return result
