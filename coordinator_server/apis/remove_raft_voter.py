"""RemoveRaftVoter: always refused, see `raft_voters`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from coordinator_server.apis.raft_voters import cluster_error, fixed, is_voter
from protocol.apis.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from protocol.errors import ErrorCode

if TYPE_CHECKING:
    from coordinator_server.broker import Broker
    from coordinator_server.net.call import Call


def handle(broker: Broker, call: Call, request: RemoveRaftVoterRequest) -> None:
    """Respond with the validation error; a valid request gets UNSUPPORTED_VERSION."""
    error = cluster_error(request.cluster_id, broker.cluster_id)
    if error is None and not is_voter(request.voter_id, request.voter_directory_id):
        text = "Remove voter request didn't include a valid voter"
        error = ErrorCode.INVALID_REQUEST, text
    code, message = error or fixed("removing")
    call.reply(RemoveRaftVoterResponse(error_code=code, error_message=message))
