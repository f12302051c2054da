"""AlterUserScramCredentials: set and delete SCRAM credentials of users (KIP-554)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.security.sasl.users import UserResult
from coordinator_server.security.security import log_unwritten
from protocol.apis.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    AlterUserScramCredentialsResponse,
    AlterUserScramCredentialsResult,
)
from protocol.errors import ErrorCode
from storage.errors import StorageError

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call
    from coordinator_server.steps import Steps

_RESULTS_PER_STEP = 500


def handle(broker: Broker, call: Call, request: AlterUserScramCredentialsRequest) -> Steps:
    """Respond with one result per user."""
    try:
        results = yield from broker.security.users.alter(request)
    except StorageError as error:
        log_unwritten(error)
        names = dict.fromkeys(deletion.name for deletion in request.deletions)
        names |= dict.fromkeys(upsertion.name for upsertion in request.upsertions)
        text = str(error)
        results = [UserResult(name, ErrorCode.KAFKA_STORAGE_ERROR, text) for name in names]
    response = AlterUserScramCredentialsResponse()
    for count, result in enumerate(results):
        response.results.append(
            AlterUserScramCredentialsResult(
                user=result.user, error_code=result.error, error_message=result.message
            )
        )
        if count % _RESULTS_PER_STEP == 0:
            yield
    call.reply(response)
